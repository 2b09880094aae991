/* Convert: converts dense elements from one dtype to another.
 *
 * The wide types are bool, integers, f32 and f64; there is a loop for each pair of them.  Small floats (f16, bf16,
 * f8) are first converted to f32, which is exact, and then to the target.  Conversions to a small float have a loop
 * from f32 and one from f64.  Integers are converted to f64 first; 64-bit integers that f64 cannot represent are
 * rounded to odd.  Complex numbers are pairs of their component type. */
#include "copy/number.h"

#define BATCH     64   /* elements per batch: with a fixed count the compiler vectorizes the loop */
#define HUB_BYTES 4096 /* bytes of a tile of the intermediate type */

typedef void convert_fn(const void *restrict src, void *restrict dst, size_t n);

/* ---- loops ---- */

#define ELEMENT(from_type, to_type, expression)                                                                        \
    {                                                                                                                  \
        from_type x;                                                                                                   \
        memcpy(&x, s + i * sizeof x, sizeof x);                                                                        \
        to_type y = (to_type)(expression);                                                                             \
        memcpy(d + i * sizeof y, &y, sizeof y);                                                                        \
    }

#define LOOP(target, name, from_type, to_type, expression)                                                             \
    target static void name(const void *restrict src, void *restrict dst, size_t n) {                                  \
        const char *restrict s = src;                                                                                  \
        char *restrict d = dst;                                                                                        \
        int64_t ahead = rshi_ahead(n * sizeof(from_type));                                                             \
        for (; n >= BATCH; n -= BATCH, s += BATCH * sizeof(from_type), d += BATCH * sizeof(to_type)) {                 \
            rshi_prefetch(s, ahead, BATCH * sizeof(from_type));                                                        \
            for (size_t i = 0; i < BATCH; i++) ELEMENT(from_type, to_type, expression)                                 \
        }                                                                                                              \
        for (size_t i = 0; i < n; i++) ELEMENT(from_type, to_type, expression)                                         \
    }

/* The pairs that training and inference use most are compiled once per level. */
#if RSHI_X86
#define FAST_LOOP(name, from_type, to_type, expression)                                                                \
    LOOP(, name##_generic, from_type, to_type, expression)                                                             \
    LOOP(RSHI_AVX2, name##_avx2, from_type, to_type, expression)                                                       \
    LOOP(RSHI_AVX512, name##_avx512, from_type, to_type, expression)
#else
#define FAST_LOOP(name, from_type, to_type, expression) LOOP(, name##_generic, from_type, to_type, expression)
#endif

#define FAST_MAP(X)                                                                                                    \
    X(BF16, F32, uint16_t, float, f32_from_bf16(x))                                                                    \
    X(F32, BF16, float, uint16_t, bf16_from_f32(x))                                                                    \
    X(F64, F16, double, uint16_t, f16_from_f64(x))                                                                     \
    X(F64, BF16, double, uint16_t, bf16_from_f64(x))                                                                   \
    X(F64, F8E4M3, double, uint8_t, f8e4m3_from_f64(x))                                                                \
    X(F64, F8E5M2, double, uint8_t, f8e5m2_from_f64(x))                                                                \
    X(F32, F64, float, double, x)                                                                                      \
    X(F64, F32, double, float, x)
#define FAST_DEFINE(from, to, from_type, to_type, expression) FAST_LOOP(from##_to_##to, from_type, to_type, expression)
FAST_MAP(FAST_DEFINE)

/* f16 has special instructions, which give the same bits. */
LOOP(, F16_to_F32_generic, uint16_t, float, f32_from_f16(x))
LOOP(, F32_to_F16_generic, float, uint16_t, f16_from_f32(x))
#if RSHI_X86
#define F16_LOOP(target, name, from_size, to_size, count, tail, step)                                                  \
    target static void name(const void *restrict src, void *restrict dst, size_t n) {                                  \
        const char *s = src;                                                                                           \
        char *d = dst;                                                                                                 \
        int64_t ahead = rshi_ahead(n * (from_size));                                                                   \
        for (; n >= (count); n -= (count), s += (count) * (from_size), d += (count) * (to_size)) {                     \
            rshi_prefetch(s, ahead, (count) * (from_size));                                                            \
            step;                                                                                                      \
        }                                                                                                              \
        tail(s, d, n);                                                                                                 \
    }
#define NEAREST _MM_FROUND_TO_NEAREST_INT
F16_LOOP(RSHI_AVX2, F16_to_F32_avx2, 2, 4, 8, F16_to_F32_generic,
         _mm256_storeu_ps((float *)(void *)d, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)s))))
F16_LOOP(RSHI_AVX2, F32_to_F16_avx2, 4, 2, 8, F32_to_F16_generic,
         _mm_storeu_si128((__m128i *)(void *)d,
                          _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(const void *)s), NEAREST)))
F16_LOOP(RSHI_AVX512, F16_to_F32_avx512, 2, 4, 16, F16_to_F32_generic,
         _mm512_storeu_ps(d, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)s))))
F16_LOOP(RSHI_AVX512, F32_to_F16_avx512, 4, 2, 16, F32_to_F16_generic,
         _mm256_storeu_si256((__m256i *)(void *)d, _mm512_cvtps_ph(_mm512_loadu_ps(s), NEAREST)))
#endif

/* ---- f8: written with vector instructions, because compilers make these loops four times slower than memory ---- */

#define F8_MAP(X)                                                                                                      \
    X(F8E4M3, F32, uint8_t, float, f32_from_f8e4m3(x))                                                                 \
    X(F8E5M2, F32, uint8_t, float, f32_from_f8e5m2(x))                                                                 \
    X(F32, F8E4M3, float, uint8_t, f8e4m3_from_f32(x))                                                                 \
    X(F32, F8E5M2, float, uint8_t, f8e5m2_from_f32(x))
#define F8_GENERIC(from, to, from_type, to_type, expression)                                                           \
    LOOP(, from##_to_##to##_generic, from_type, to_type, expression)
F8_MAP(F8_GENERIC)

#if RSHI_X86
#define I32(x) _mm256_set1_epi32((int)(x))

/* Computes 8 codes in 8 words.  Adding a power of two whose last place is that of the result makes the processor round:
 * the low bits of the sum are the mantissa with its leading one.  The position of the last place depends on the
 * exponent, but is fixed below the smallest normal number.  Values that are too large are limited first and become
 * `top`; NaNs of f8e4m3 become `top` too. */
RSHI_AVX2 RSHI_INLINE __m256i f8_codes(const char *s, int ebits, int mbits, int top) {
    const int bias = (1 << (ebits - 1)) - 1, cut = 23 - mbits;
    const __m256i least = I32((128 - bias) << 23), inf = I32(0x7f800000);
    __m256i all = _mm256_loadu_si256((const __m256i *)(const void *)s), a = _mm256_and_si256(all, I32(0x7fffffff));
    __m256i capped = _mm256_min_epi32(a, I32((127 + bias + 2) << 23));
    __m256i scale = _mm256_max_epi32(_mm256_and_si256(capped, inf), least);
    __m256i place = _mm256_add_epi32(scale, I32(cut << 23));
    __m256i sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(capped), _mm256_castsi256_ps(place)));
    __m256i code = _mm256_add_epi32(_mm256_sub_epi32(sum, place),
                                    _mm256_srli_epi32(_mm256_sub_epi32(scale, least), cut));
    code = _mm256_min_epi32(code, I32(top));
    if (ebits == 5) {
        __m256i payload = _mm256_and_si256(_mm256_srli_epi32(a, cut), I32(3));
        code = _mm256_blendv_epi8(code, _mm256_or_si256(payload, I32(top | 2)), _mm256_cmpgt_epi32(a, inf));
    }
    return _mm256_or_si256(code, _mm256_and_si256(_mm256_srli_epi32(all, 24), I32(0x80)));
}

/* Packs 32 codes.  The pack instructions work within halves of registers, so the words are reordered afterwards. */
RSHI_AVX2 RSHI_INLINE void f8_put(char *d, const char *s, int ebits, int mbits, int top) {
    __m256i low = _mm256_packus_epi32(f8_codes(s, ebits, mbits, top), f8_codes(s + 32, ebits, mbits, top));
    __m256i high = _mm256_packus_epi32(f8_codes(s + 64, ebits, mbits, top), f8_codes(s + 96, ebits, mbits, top));
    __m256i bytes = _mm256_packus_epi16(low, high);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)d, bytes);
}

/* Converts 8 values.  Values with exponent 0 come from a table: k / 512. */
RSHI_AVX2 RSHI_INLINE void f8e4m3_take(float *d, const char *s) {
    const __m256 small = _mm256_setr_ps(0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f);
    __m256i h = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)s));
    __m256i a = _mm256_and_si256(h, I32(0x7f));
    __m256i code = _mm256_add_epi32(_mm256_slli_epi32(a, 20), I32(120 << 23));
    __m256i tiny = _mm256_castps_si256(_mm256_permutevar8x32_ps(small, a));
    code = _mm256_blendv_epi8(code, tiny, _mm256_cmpgt_epi32(I32(8), a));
    code = _mm256_blendv_epi8(code, I32(0x7fc00000), _mm256_cmpeq_epi32(a, I32(0x7f)));
    code = _mm256_or_si256(code, _mm256_slli_epi32(_mm256_srli_epi32(h, 7), 31));
    _mm256_storeu_si256((__m256i *)(void *)d, code);
}

/* f8e5m2 is the upper half of f16. */
RSHI_AVX2 RSHI_INLINE void f8e5m2_take(float *d, const char *s) {
    __m128i h = _mm_unpacklo_epi8(_mm_setzero_si128(), _mm_loadl_epi64((const __m128i *)(const void *)s));
    _mm256_storeu_ps(d, _mm256_cvtph_ps(h));
}

F16_LOOP(RSHI_AVX2, F32_to_F8E4M3_avx2, 4, 1, 32, F32_to_F8E4M3_generic, f8_put(d, s, 4, 3, F8E4M3_TOP))
F16_LOOP(RSHI_AVX2, F32_to_F8E5M2_avx2, 4, 1, 32, F32_to_F8E5M2_generic, f8_put(d, s, 5, 2, F8E5M2_TOP))
F16_LOOP(RSHI_AVX2, F8E4M3_to_F32_avx2, 1, 4, 8, F8E4M3_to_F32_generic, f8e4m3_take((float *)(void *)d, s))
F16_LOOP(RSHI_AVX2, F8E5M2_to_F32_avx2, 1, 4, 8, F8E5M2_to_F32_generic, f8e5m2_take((float *)(void *)d, s))

/* The same code with 16 values at a time. */
#define W32(x) _mm512_set1_epi32((int)(x))
RSHI_AVX512 RSHI_INLINE void f8_put_16(char *d, const char *s, int ebits, int mbits, int top) {
    const int bias = (1 << (ebits - 1)) - 1, cut = 23 - mbits;
    const __m512i least = W32((128 - bias) << 23), inf = W32(0x7f800000);
    __m512i all = _mm512_loadu_si512(s), a = _mm512_and_si512(all, W32(0x7fffffff));
    __m512i capped = _mm512_min_epi32(a, W32((127 + bias + 2) << 23));
    __m512i scale = _mm512_max_epi32(_mm512_and_si512(capped, inf), least);
    __m512i place = _mm512_add_epi32(scale, W32(cut << 23));
    __m512i sum = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(capped), _mm512_castsi512_ps(place)));
    __m512i code = _mm512_add_epi32(_mm512_sub_epi32(sum, place),
                                    _mm512_srli_epi32(_mm512_sub_epi32(scale, least), (unsigned)cut));
    code = _mm512_min_epi32(code, W32(top));
    if (ebits == 5) {
        __m512i payload = _mm512_and_si512(_mm512_srli_epi32(a, (unsigned)cut), W32(3));
        code = _mm512_mask_or_epi32(code, _mm512_cmpgt_epi32_mask(a, inf), payload, W32(top | 2));
    }
    code = _mm512_or_si512(code, _mm512_and_si512(_mm512_srli_epi32(all, 24), W32(0x80)));
    _mm_storeu_si128((__m128i *)(void *)d, _mm512_cvtepi32_epi8(code));
}
RSHI_AVX512 RSHI_INLINE void f8_put_64(char *d, const char *s, int ebits, int mbits, int top) {
    for (int i = 0; i < 4; i++) f8_put_16(d + 16 * i, s + 64 * i, ebits, mbits, top);
}

RSHI_AVX512 RSHI_INLINE void f8e4m3_take_16(char *d, const char *s) {
    const __m512 small = _mm512_setr_ps(0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f, 0, 0, 0, 0, 0,
                                        0, 0, 0);
    __m512i h = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s));
    __m512i a = _mm512_and_si512(h, W32(0x7f));
    __m512i code = _mm512_add_epi32(_mm512_slli_epi32(a, 20), W32(120 << 23));
    code = _mm512_castps_si512(
        _mm512_mask_permutexvar_ps(_mm512_castsi512_ps(code), _mm512_cmplt_epi32_mask(a, W32(8)), a, small));
    code = _mm512_mask_mov_epi32(code, _mm512_cmpeq_epi32_mask(a, W32(0x7f)), W32(0x7fc00000));
    code = _mm512_or_si512(code, _mm512_slli_epi32(_mm512_srli_epi32(h, 7), 31));
    _mm512_storeu_si512(d, code);
}
RSHI_AVX512 RSHI_INLINE void f8e5m2_take_16(char *d, const char *s) {
    __m256i h = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)s));
    _mm512_storeu_ps(d, _mm512_cvtph_ps(_mm256_slli_epi16(h, 8)));
}

F16_LOOP(RSHI_AVX512, F32_to_F8E4M3_avx512, 4, 1, 64, F32_to_F8E4M3_generic, f8_put_64(d, s, 4, 3, F8E4M3_TOP))
F16_LOOP(RSHI_AVX512, F32_to_F8E5M2_avx512, 4, 1, 64, F32_to_F8E5M2_generic, f8_put_64(d, s, 5, 2, F8E5M2_TOP))
F16_LOOP(RSHI_AVX512, F8E4M3_to_F32_avx512, 1, 4, 16, F8E4M3_to_F32_generic, f8e4m3_take_16(d, s))
F16_LOOP(RSHI_AVX512, F8E5M2_to_F32_avx512, 1, 4, 16, F8E5M2_to_F32_generic, f8e5m2_take_16(d, s))
#endif

/* Conversion of a wide value: integers wrap, reals saturate. */
#define INTEGER(x, type, saturate) _Generic((x), float : saturate, double : saturate, default : type##_wrap)(x)
#define WRAP(type)                                                                                                     \
    RSHI_INLINE type type##_wrap(uint64_t x) { return (type)x; }
WRAP(uint8_t)
WRAP(int8_t)
WRAP(uint16_t)
WRAP(int16_t)
WRAP(uint32_t)
WRAP(int32_t)
WRAP(uint64_t)
WRAP(int64_t)

/* A row of the table of wide pairs: `value` is the element x read as a number. */
#define WIDE_ROW(from, type, value)                                                                                    \
    LOOP(, from##_to_BOOL, type, uint8_t, (value) != 0)                                                                \
    LOOP(, from##_to_U8, type, uint8_t, INTEGER(value, uint8_t, u8_from_real))                                         \
    LOOP(, from##_to_I8, type, int8_t, INTEGER(value, int8_t, i8_from_real))                                           \
    LOOP(, from##_to_U16, type, uint16_t, INTEGER(value, uint16_t, u16_from_real))                                     \
    LOOP(, from##_to_I16, type, int16_t, INTEGER(value, int16_t, i16_from_real))                                       \
    LOOP(, from##_to_U32, type, uint32_t, INTEGER(value, uint32_t, u32_from_real))                                     \
    LOOP(, from##_to_I32, type, int32_t, INTEGER(value, int32_t, i32_from_real))                                       \
    LOOP(, from##_to_U64, type, uint64_t, INTEGER(value, uint64_t, u64_from_real))                                     \
    LOOP(, from##_to_I64, type, int64_t, INTEGER(value, int64_t, i64_from_real))
#define INTEGER_ROW(from, type, value)                                                                                 \
    WIDE_ROW(from, type, value)                                                                                        \
    LOOP(, from##_to_F32, type, float, value)                                                                          \
    LOOP(, from##_to_F64, type, double, value)

INTEGER_ROW(BOOL, uint8_t, x != 0)
INTEGER_ROW(U8, uint8_t, x)
INTEGER_ROW(I8, int8_t, x)
INTEGER_ROW(U16, uint16_t, x)
INTEGER_ROW(I16, int16_t, x)
INTEGER_ROW(U32, uint32_t, x)
INTEGER_ROW(I32, int32_t, x)
INTEGER_ROW(U64, uint64_t, x)
INTEGER_ROW(I64, int64_t, x)
WIDE_ROW(F32, float, x)
WIDE_ROW(F64, double, x)
LOOP(, U64_to_odd, uint64_t, double, odd_from_u64(x))
LOOP(, I64_to_odd, int64_t, double, odd_from_i64(x))

/* ---- choosing the loops ---- */

#define WIDE_ENTRIES(from)                                                                                             \
    [RSH_BOOL] = from##_to_BOOL, [RSH_U8] = from##_to_U8, [RSH_I8] = from##_to_I8, [RSH_U16] = from##_to_U16,          \
    [RSH_I16] = from##_to_I16, [RSH_U32] = from##_to_U32, [RSH_I32] = from##_to_I32, [RSH_U64] = from##_to_U64,        \
    [RSH_I64] = from##_to_I64
#define INTEGER_ENTRIES(from) [RSH_##from] = {WIDE_ENTRIES(from), [RSH_F32] = from##_to_F32, [RSH_F64] = from##_to_F64}

static convert_fn *const wide[RSH_NDTYPES][RSH_NDTYPES] = {
    INTEGER_ENTRIES(BOOL),
    INTEGER_ENTRIES(U8),
    INTEGER_ENTRIES(I8),
    INTEGER_ENTRIES(U16),
    INTEGER_ENTRIES(I16),
    INTEGER_ENTRIES(U32),
    INTEGER_ENTRIES(I32),
    INTEGER_ENTRIES(U64),
    INTEGER_ENTRIES(I64),
    [RSH_F32] = {WIDE_ENTRIES(F32)},
    [RSH_F64] = {WIDE_ENTRIES(F64)},
};

static convert_fn *const fast[RSH_NDTYPES][RSH_NDTYPES][RSHI_SIMD_COUNT] = {
#define FAST_ENTRY(from, to, from_type, to_type, expression) [RSH_##from][RSH_##to] = RSHI_PER_LEVEL(from##_to_##to),
    FAST_MAP(FAST_ENTRY) F8_MAP(FAST_ENTRY)[RSH_F16][RSH_F32] = RSHI_PER_LEVEL(F16_to_F32),
    [RSH_F32][RSH_F16] = RSHI_PER_LEVEL(F32_to_F16),
#undef FAST_ENTRY
};

static convert_fn *direct(rsh_dtype from, rsh_dtype to) {
    convert_fn *f = fast[from][to][rshi_simd_level()];
    return f ? f : wide[from][to];
}

static bool is_small_float(rsh_dtype t) { return t == RSH_F16 || t == RSH_BF16 || t == RSH_F8E4M3 || t == RSH_F8E5M2; }

/* The first step of a conversion that has no direct loop. */
static convert_fn *to_hub(rsh_dtype from, rsh_dtype hub) {
    if (hub == RSH_F64 && from == RSH_U64) return U64_to_odd;
    if (hub == RSH_F64 && from == RSH_I64) return I64_to_odd;
    return direct(from, hub);
}

static void convert_by_hub(rsh_dtype from, const char *src, rsh_dtype to, char *dst, size_t n) {
    rsh_dtype hub = is_small_float(from) ? RSH_F32 : RSH_F64;
    convert_fn *in = to_hub(from, hub), *out = direct(hub, to);
    size_t a = rsh_dtype_size(from), b = rsh_dtype_size(to), step = HUB_BYTES / rsh_dtype_size(hub);
    _Alignas(RSHI_PAGE) char tile[HUB_BYTES];
    for (size_t i = 0; i < n; i += step) {
        size_t count = n - i < step ? n - i : step;
        in(src + i * a, tile, count);
        out(tile, dst + i * b, count);
    }
}

static void convert_real(rsh_dtype from, const char *src, rsh_dtype to, char *dst, size_t n) {
    convert_fn *f = direct(from, to);
    if (from == to)
        memcpy(dst, src, n * rsh_dtype_size(to));
    else if (f)
        f(src, dst, n);
    else
        convert_by_hub(from, src, to, dst, n);
}

static rsh_dtype component(rsh_dtype t) { return t == RSH_C64 ? RSH_F32 : t == RSH_C128 ? RSH_F64 : t; }

/* Real to complex: each real part is followed by a zero. */
static void convert_to_complex(rsh_dtype from, const char *src, rsh_dtype part, char *dst, size_t n) {
    size_t a = rsh_dtype_size(from), b = rsh_dtype_size(part), step = HUB_BYTES / b;
    _Alignas(RSHI_PAGE) char tile[HUB_BYTES];
    for (size_t i = 0; i < n; i += step) {
        size_t count = n - i < step ? n - i : step;
        convert_real(from, src + i * a, part, tile, count);
        memset(dst + i * 2 * b, 0, count * 2 * b);
        rshi_strided_copy(b, 1, (int64_t)count, dst + i * 2 * b, 0, (int64_t)(2 * b), tile, 0, (int64_t)b);
    }
}

/* Complex to bool: true if either part is not 0. */
static void convert_to_bool(rsh_dtype part, const char *src, char *dst, size_t n) {
    size_t a = rsh_dtype_size(part), step = HUB_BYTES / 2;
    char tile[HUB_BYTES];
    for (size_t i = 0; i < n; i += step) {
        size_t count = n - i < step ? n - i : step;
        convert_real(part, src + i * 2 * a, RSH_BOOL, tile, 2 * count);
        for (size_t k = 0; k < count; k++) dst[i + k] = (char)(tile[2 * k] | tile[2 * k + 1]);
    }
}

void rshi_convert(rsh_dtype from, const void *src, rsh_dtype to, void *dst, size_t n) {
    rsh_dtype a = component(from), b = component(to);
    if (a != from && to == RSH_BOOL)
        convert_to_bool(a, src, dst, n);
    else if (a != from)
        convert_real(a, src, b, dst, 2 * n);
    else if (b != to)
        convert_to_complex(from, src, b, dst, n);
    else
        convert_real(from, src, to, dst, n);
}

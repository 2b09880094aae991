/* Random: counter-based random numbers, uniform and normal.
 *
 * Word i of a stream is splitmix64's output function of key + (i + 1) * 0x9e3779b97f4a7c15; the key is that function of
 * the seed mixed with the stream number.  So any element can be computed without those before it.  The element at
 * position i uses words 4i to 4i+3: two for the real part, two for the imaginary part.
 *
 * Uniform numbers use as many leading bits of a word as the dtype's significand has, so that no value rounds up to 1.
 * A normal number is the first of Box-Muller's two. */
#include "math/impl.h"

#include <math.h>
#include <string.h>

#define GAMMA 0x9e3779b97f4a7c15u
#define BLOCK 256 /* elements converted at once */

static uint64_t splitmix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int significand_bits(rsh_dtype dtype) {
    switch (dtype) {
    case RSH_F16: return 11;
    case RSH_BF16: return 8;
    case RSH_F8E4M3: return 4;
    case RSH_F8E5M2: return 3;
    case RSH_F32: case RSH_C64: return 24;
    default: return 53;
    }
}

/* unit is 2^-bits, so the product is exact. */
static double uniform_of(uint64_t word, int bits, double unit) { return (double)(word >> (64 - bits)) * unit; }

/* 1 - u is in (0, 1], where the logarithm is finite. */
static double normal_of(uint64_t a, uint64_t b) {
    double radius = sqrt(-2 * log(1 - uniform_of(a, 53, 0x1p-53)));
    return radius * cos(2 * 3.14159265358979323846 * uniform_of(b, 53, 0x1p-53));
}


/* Parameters of the numbers of one call. */
typedef struct drawing {
    rsh_dtype dtype;
    bool normal;
    int bits, each; /* bits of a random number, and random numbers per element */
    double unit;    /* 2^-bits */
    uint64_t key;
    double scale, shift;
} drawing;

static drawing drawing_of(rsh_dtype dtype, bool normal, const rsh_random *from, double scale, double shift) {
    bool complex = rshi_is_complex(dtype);
    return (drawing){.dtype = dtype,
                     .normal = normal,
                     .bits = significand_bits(dtype),
                     .unit = ldexp(1, -significand_bits(dtype)),
                     .each = complex ? 2 : 1,
                     .key = splitmix(from->seed + GAMMA * from->stream),
                     /* complex numbers have half the variance in each component */
                     .scale = scale * (complex && normal ? sqrt(0.5) : 1),
                     .shift = shift};
}

static double draw_number(const drawing *w, uint64_t word) {
    uint64_t a = splitmix(w->key + (word + 1) * GAMMA);
    return w->normal ? normal_of(a, splitmix(w->key + (word + 2) * GAMMA)) : uniform_of(a, w->bits, w->unit);
}

/* Fills n <= BLOCK elements, `step` bytes apart; their positions begin at `at` and are `pitch` apart. */
static void draw_block(const drawing *w, char *data, int64_t step, int64_t n, uint64_t at, int64_t pitch) {
    double numbers[2 * BLOCK];
    char room[16 * BLOCK];
    size_t item = rsh_dtype_size(w->dtype);
    bool dense = step == (int64_t)item;
    for (int64_t i = 0; i < n * w->each; i++) {
        uint64_t position = at + (uint64_t)(i / w->each) * (uint64_t)pitch;
        double drawn = draw_number(w, 4 * position + 2 * (uint64_t)(i % w->each));
        numbers[i] = w->shift + w->scale * drawn;
    }
    rshi_convert(w->each == 2 ? RSH_C128 : RSH_F64, numbers, w->dtype, dense ? data : room, (size_t)n);
    for (int64_t i = 0; !dense && i < n; i++) memcpy(data + i * step, room + (size_t)i * item, item);
}

static void draw_row(const drawing *w, char *data, int64_t step, int64_t n, uint64_t at, int64_t pitch) {
    for (int64_t i = 0; i < n; i += BLOCK)
        draw_block(w, data + i * step, step, rshi_min(BLOCK, n - i), at + (uint64_t)i * (uint64_t)pitch, pitch);
}

/* Draws all elements.  It iterates over rows dim by dim, because positions need not be consecutive from one row to the
 * next. */
static void draw_all(const drawing *w, const rsh_tensor *t, uint64_t first, const int64_t *pitch) {
    int last = rsh_tensor_ndim(t) - 1;
    rshi_rows rows = {.nd = last, .n = rsh_tensor_shape(t)[last], .t = t};
    do {
        int64_t step;
        uint64_t at = first;
        char *data = rshi_row_in(&rows, t, &step);
        for (int d = 0; d < last; d++) at += (uint64_t)rows.index[d] * (uint64_t)pitch[d];
        draw_row(w, data, step, rows.n, at, pitch[last]);
    } while (rshi_rows_next(&rows));
}

rsh_status rshi_math_draw(const rsh_tensor *t, bool normal, const rsh_random *from, double scale, double shift) {
    RSH_REQUIRE(t && from, RSH_EVALUE, t ? "random: rsh_random is NULL" : "random: tensor is NULL");
    RSH_REQUIRE(!rshi_is_integer(rsh_tensor_dtype(t)), RSH_ETYPE, "random: dtype must be a float or complex, got %s",
                rsh_dtype_name(rsh_tensor_dtype(t)));
    int64_t pitch[RSH_MAX_NDIM];
    drawing w = drawing_of(rsh_tensor_dtype(t), normal, from, scale, shift);
    rshi_dense_strides(rsh_tensor_ndim(t), rsh_tensor_shape(t), NULL, pitch);
    if (!from->pitch && rsh_tensor_dense(t))
        draw_row(&w, rsh_tensor_data(t), (int64_t)rshi_item(t), rsh_tensor_count(t), from->first, 1);
    else if (!rsh_tensor_ndim(t))
        draw_row(&w, rsh_tensor_data(t), 0, 1, from->first, 1);
    else if (rsh_tensor_count(t))
        draw_all(&w, t, from->first, from->pitch ? from->pitch : pitch);
    rsh_tensor_bump_version(t);
    return RSH_OK;
}

rsh_status rsh_math_uniform(const rsh_tensor *t, const rsh_random *from) {
    return rshi_math_draw(t, false, from, 1, 0);
}

rsh_status rsh_math_normal(const rsh_tensor *t, const rsh_random *from) { return rshi_math_draw(t, true, from, 1, 0); }

/* Fastest: measures the fastest simple pass over memory on this machine.
 *
 * A pass reads n streams and writes their sum; with one stream it is a copy.  One thread per core, pinned to it,
 * processes a slice.  Which loop is fastest depends on the processor, so all are tried. */
#include "comparison.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86 1
#else
#define X86 0
#endif

#define LINE  64
#define AHEAD 512 /* bytes between prefetch and use */
#define TRIES 5   /* runs of each loop */
#define INLINE static inline __attribute__((always_inline))

typedef void pass_fn(char *to, const char *const *from, int n, size_t bytes);

/* ---- loops ---- */

static void pass_memcpy(char *to, const char *const *from, int n, size_t bytes) {
    (void)n;
    memcpy(to, from[0], bytes);
}

#if X86
static void pass_movsb(char *to, const char *const *from, int n, size_t bytes) {
    const char *source = from[0];
    (void)n;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(source), "+c"(bytes)::"memory");
}

/* The body is inlined with constant n and ahead. */
#define LOOP(level, isa, vec, load, store, add)                                                                     \
    __attribute__((target(isa))) INLINE void body_##level(char *to, const char *const *from, int n, size_t bytes,   \
                                                             size_t ahead) {                                           \
        for (size_t i = 0; i < bytes; i += LINE) {                                                                     \
            for (int k = 0; k < n && ahead; k++) _mm_prefetch(from[k] + i + ahead, _MM_HINT_T0);                       \
            for (size_t j = i; j < i + LINE; j += sizeof(vec)) {                                                       \
                vec v = load((const void *)(from[0] + j));                                                             \
                for (int k = 1; k < n; k++) v = add(v, load((const void *)(from[k] + j)));                             \
                store((void *)(to + j), v);                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    __attribute__((target(isa))) INLINE void streams_##level(char *to, const char *const *from, int n,              \
                                                                size_t bytes, size_t ahead) {                          \
        switch (n) {                                                                                                   \
        case 1: body_##level(to, from, 1, bytes, ahead); break;                                                        \
        case 2: body_##level(to, from, 2, bytes, ahead); break;                                                        \
        case 4: body_##level(to, from, 4, bytes, ahead); break;                                                        \
        case 8: body_##level(to, from, 8, bytes, ahead); break;                                                        \
        default: body_##level(to, from, n, bytes, ahead);                                                              \
        }                                                                                                              \
        _mm_sfence();                                                                                                  \
    }                                                                                                                  \
    __attribute__((target(isa))) static void pass_##level(char *to, const char *const *from, int n, size_t bytes) { \
        streams_##level(to, from, n, bytes, 0);                                                                        \
    }                                                                                                                  \
    __attribute__((target(isa))) static void ahead_##level(char *to, const char *const *from, int n,                \
                                                              size_t bytes) {                                          \
        streams_##level(to, from, n, bytes, AHEAD);                                                                    \
    }
LOOP(sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128, _mm_add_epi32)
LOOP(avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256, _mm256_add_epi32)
LOOP(avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512, _mm512_add_epi32)
LOOP(plain, "avx2", __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi32)

static bool always(void) { return true; }
static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }
static bool has_avx512(void) { return __builtin_cpu_supports("avx512f"); }
#else
static bool always(void) { return true; }
#endif

struct pass_loop {
    const char *name;
    bool (*is_there)(void);
    bool sums; /* the loop supports more than one stream */
    pass_fn *pass;
};

static const struct pass_loop loops[] = {
    {"memcpy", always, false, pass_memcpy},
#if X86
    {"rep movsb", always, false, pass_movsb},
    {"SSE2, streaming", always, true, pass_sse2},
    {"SSE2, streaming, prefetch", always, true, ahead_sse2},
    {"AVX2, streaming", has_avx2, true, pass_avx2},
    {"AVX2, streaming, prefetch", has_avx2, true, ahead_avx2},
    {"AVX2, plain stores", has_avx2, true, pass_plain},
    {"AVX2, plain stores, prefetch", has_avx2, true, ahead_plain},
    {"AVX-512, streaming", has_avx512, true, pass_avx512},
    {"AVX-512, streaming, prefetch", has_avx512, true, ahead_avx512},
#endif
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* ---- a pass by all threads ---- */

/* Pins this thread to the i-th core that it may use. */
static void pin_thread(int64_t i, const cpu_set_t *all) {
    cpu_set_t one;
    int64_t at = i % CPU_COUNT(all);
    CPU_ZERO(&one);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, all) && at-- == 0) CPU_SET(c, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void pass_slice(void *ctx, int64_t i, int worker) {
    const fastest *f = ctx;
    int64_t lines = (int64_t)(f->bytes / LINE), threads = rsh_pool_size(f->pool);
    size_t start = (size_t)(lines * i / threads) * LINE, bytes = (size_t)(lines * (i + 1) / threads) * LINE - start;
    const char *from[FASTEST_STREAMS];
    cpu_set_t all;
    bool known = !sched_getaffinity(0, sizeof all, &all);
    (void)worker;
    if (known) pin_thread(i, &all);
    for (int k = 0; k < f->n; k++) from[k] = f->from[k] + start;
    for (int64_t b = 0; b < f->batch; b++) {
        f->loop->pass(f->to + start, from, f->n, bytes);
        __asm__ volatile("" ::: "memory"); /* keep the compiler from removing repeated passes */
    }
    if (known) sched_setaffinity(0, sizeof all, &all);
}

double fastest_sample(fastest *f, int64_t batch) {
    f->batch = batch;
    double start = clock_seconds();
    rsh_pool_run(f->pool, rsh_pool_size(f->pool), pass_slice, f);
    return (clock_seconds() - start) / (double)batch;
}

double fastest_bytes(const fastest *f) { return (double)(f->n + 1) * (double)f->bytes; }

const char *fastest_name(const fastest *f) { return f->loop->name; }

/* ---- choosing ---- */

/* Tries the loops in alternation, since the machine's speed varies; repeats small passes, since the clock is coarse. */
static void choose_loop(fastest *f) {
    double least = INFINITY;
    const struct pass_loop *best = &loops[0];
    double bytes = fastest_bytes(f); /* 0 if the tensor has no elements */
    int64_t batch = 1 + (int64_t)(1e6 / (bytes < 1 ? 1 : bytes));
    for (int i = 0; i < LOOPS * TRIES; i++) {
        f->loop = &loops[i % LOOPS];
        if (!f->loop->is_there() || (f->n > 1 && !f->loop->sums)) continue;
        double seconds = fastest_sample(f, batch);
        if (seconds < least) least = seconds, best = f->loop;
    }
    f->loop = best;
}

/* Allocates the same kind of memory that the move uses, on rank 0. */
static rsh_status reserve_bytes(rsh_comm *comm, size_t bytes, rsh_sharded **out) {
    char text[64];
    rsh_layout *l = NULL;
    snprintf(text, sizeof text, "u8[%zu]", bytes);
    rsh_status st = rsh_layout_parse(text, &l);
    if (!st) st = rsh_sharded_empty(comm, l, out);
    rsh_layout_free(l);
    return st;
}

/* Streams start at different offsets in their pages; equal offsets would evict each other from the caches. */
rsh_status fastest_open(fastest *f, rsh_pool *pool, rsh_comm *comm, int n, size_t bytes) {
    size_t most = ((size_t)1 << 30) / (size_t)n, apart;
    *f = (fastest){.pool = pool, .n = n};
    f->bytes = (bytes < most ? bytes + LINE - 1 : most) / LINE * LINE;
    apart = f->bytes + 13 * LINE;
    rsh_status st = reserve_bytes(comm, apart * (size_t)n + LINE, &f->source);
    if (!st) st = reserve_bytes(comm, f->bytes + LINE, &f->result);
    if (st) return st;
    char *from = rsh_tensor_data(rsh_sharded_part(f->source, 0));
    f->to = rsh_tensor_data(rsh_sharded_part(f->result, 0));
    f->to += -(uintptr_t)f->to % LINE;
    memset(from, 1, apart * (size_t)n + LINE); /* touch all pages */
    memset(f->to, 2, f->bytes);
    for (int k = 0; k < n; k++) f->from[k] = from + apart * (size_t)k;
    choose_loop(f);
    return RSH_OK;
}

void fastest_close(fastest *f) {
    rsh_sharded_free(f->source);
    rsh_sharded_free(f->result);
}

/* base: errors, the allocation door, checked arithmetic, sinks and hashing, for every room. */
#ifndef RESHARD_BASE_BASE_H
#define RESHARD_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reshard/alloc.h>
#include <reshard/dtype.h>
#include <reshard/sink.h>
#include <reshard/status.h>

#include "base/nan.h"

/* ---- errors: who decides that it is an error writes the sentence; callers only forward ---- */

rsh_status rshi_fail(rsh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Put a sentence in place as it is (one that came from another rank). */
void rshi_set_detail(const char *text);
/* How many sentences this thread has had: whether a call of somebody else's left one. */
uint64_t rshi_sentences(void);
/* RSH_ETIMEOUT if the function of rsh_interrupt_set asks the calling thread to give up; `waited` is
 * in seconds. */
rsh_status rshi_interrupt_check(double waited);
#define RSHI_DETAIL_BYTES 1024 /* longest sentence kept, with its NUL */

#define RSH_REQUIRE(condition, status, ...)                                                        \
    do {                                                                                           \
        if (!(condition)) return rshi_fail((status), __VA_ARGS__);                                 \
    } while (0)
/* A pointer that a public function must be given; for those that may refuse alone. */
#define RSH_NEEDS(argument)                                                                        \
    RSH_REQUIRE((argument) != NULL, RSH_EVALUE, "%s: %s is NULL", __func__, #argument)
#define RSH_TRY(call)                                                                              \
    do {                                                                                           \
        rsh_status status_ = (call);                                                               \
        if (status_) return status_;                                                               \
    } while (0)
/* For functions with one label `out:` that releases everything; `st` is the function's status. */
#define RSH_GOTO(call)                                                                             \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st) goto out;                                                                          \
    } while (0)

/* ---- structs with struct_size; <reshard/status.h> has the rule and rsh_options_read ---- */

/* Is the struct_size of a struct that the caller gave a size at all?  `init` names its macro. */
rsh_status rshi_struct_check(const void *given, size_t size, const char *init);
#define RSHI_CHECK_RESULT(out, init) RSH_TRY(rshi_struct_check((out), sizeof *(out), #init))
/* Writes a result of `size` bytes to a struct that passed the check, as much as it has room for. */
void rshi_result_write(const void *made, size_t size, void *out);
/* Reads options into a variable that starts from `init`. */
#define RSHI_READ_OPTIONS(given, init, options)                                                    \
    rsh_options_read((given), sizeof *(options), #init, (options))

/* ---- allocation: the only door to malloc and mmap ---- */

/* NULL and a sentence when there is no memory; n*size overflow counts as no memory; zero bytes give
 * a valid pointer. */
void *rshi_alloc(size_t n, size_t size);
void *rshi_calloc(size_t n, size_t size);
void *rshi_realloc(void *p, size_t n, size_t size);
void rshi_free(void *p);
#define RSHI_NEW(type) ((type *)rshi_calloc(1, sizeof(type)))
rsh_status rshi_nomem_for(size_t bytes); /* RSH_ENOMEM, with a sentence */
rsh_status rshi_nomem(void); /* RSH_ENOMEM, forwarding the sentence of the allocation that failed */

/* Blocks of bytes: 64-byte aligned, huge pages from 2 MiB on, not zeroed unless asked.  Blocks of
 * RSHI_RECYCLE_FROM bytes and more are recycled. */
void *rshi_alloc_data(size_t bytes, bool zero);
void rshi_free_data(void *p, size_t bytes);
/* The same for staging buffers, counted as scratch. */
void *rshi_alloc_scratch(size_t bytes);
void rshi_free_scratch(void *p, size_t bytes);
/* For scratch that lies where another door gave it (in memory that ranks share): taken, or with a
 * minus given back. */
void rshi_count_scratch(int64_t bytes);

/* ---- element memory: counted for the rank that asked for it ---- */

/* Bytes of one rank; see account.c.  Holding, dropping and counting are no-ops for NULL, and right
 * from any thread. */
typedef struct rshi_account rshi_account;
rshi_account *rshi_account_mine(void); /* this thread's, with a reference for the caller; NULL and a
                                          sentence without memory */
rshi_account *rshi_account_hold(rshi_account *a);
void rshi_account_drop(rshi_account *a);
void rshi_account_live(rshi_account *a, int64_t bytes);
void rshi_account_cached(rshi_account *a, int64_t bytes);
void rshi_account_read(rsh_alloc_stats *stats); /* of this thread's account */

/* A block as rshi_alloc_data gives it, counted as live for this thread.  `owner` gets a reference
 * that rshi_free_elements, on any thread, takes back. */
void *rshi_alloc_elements(size_t bytes, bool zero, rshi_account **owner);
void rshi_free_elements(void *p, size_t bytes, rshi_account *owner);

/* ---- blocks that are kept for the next request of their size; see blocks.c ---- */

#define RSHI_RECYCLE_FROM ((size_t)64 << 10) /* bytes: below it see small.c */

/* Memory that blocks come from and go back to, when it is not the process's own.  `release` is
 * called with the recycler locked: it must not allocate. */
typedef struct rshi_home {
    void (*release)(struct rshi_home *home, void *p, size_t block);
} rshi_home;

/* What a request of that many bytes takes: the size of its class.  SIZE_MAX: too many. */
size_t rshi_block_bytes(size_t bytes);
/* Keep a block of that size for later; false: it is too small or too large, the caller gives it
 * back.  home NULL: private memory.  `owner` may be NULL. */
bool rshi_block_keep(rshi_home *home, void *p, size_t block, rshi_account *owner);
/* A block of exactly that size that was kept, with whatever it holds; NULL: none. */
void *rshi_block_take(const rshi_home *home, size_t block);
/* The home is going, with its blocks. */
void rshi_blocks_forget(const rshi_home *home);
/* Give back every block; was there any?  Whoever is about to say RSH_ENOMEM calls this first and
 * tries again, holding no lock of a home. */
bool rshi_blocks_empty(void);
void rshi_block_unmap(void *p, size_t block); /* private memory, to the system */
/* Is the cap above 0?  A look at memory. */
bool rshi_blocks_on(void);

/* ---- smaller blocks, which the thread that frees them keeps; see small.c ---- */

size_t rshi_small_bytes(size_t bytes); /* what a request takes; bytes < RSHI_RECYCLE_FROM */
void rshi_count_new_block(void);       /* a block for elements is asked of the system */
void *rshi_small_take(size_t block);   /* kept or new, 64-byte aligned; NULL: no memory */
void rshi_small_give(void *p, size_t block);
bool rshi_small_empty(void); /* give back all that this thread keeps; was there any? */

/* ---- lists ---- */

/* Makes room for n items of `size` bytes in a list that now has room for *room of them.  The room
 * at least doubles when it grows.  RSH_ENOMEM: the list is unchanged. */
rsh_status rshi_grow(void **list, int64_t n, int64_t *room, size_t size);
#define RSHI_GROW(list, n, room)                                                                   \
    ((n) <= *(room) ? RSH_OK : rshi_grow((void **)&(list), (n), (room), sizeof *(list)))
/* The index of `key` among n items of `size` bytes, or -1.  Each item starts with its int64_t key,
 * and the keys ascend. */
int64_t rshi_find(const void *list, int64_t n, size_t size, int64_t key);

/* ---- settings: environment variables that are read once, where nothing can fail ---- */

typedef enum rshi_simd {
    RSHI_SIMD_GENERIC,
    RSHI_SIMD_AVX2,
    RSHI_SIMD_AVX512,
    RSHI_SIMD_COUNT
} rshi_simd;
extern const char *const rshi_simd_names[RSHI_SIMD_COUNT];

/* RESHARD_CACHE_BYTES and RESHARD_SIMD; the result is unchanged if the variable is not set or
 * wrong.  RSH_EVALUE if it is wrong. */
rsh_status rshi_setting_cache_bytes(uint64_t *bytes);
rsh_status rshi_setting_simd(rshi_simd *level);
/* RSH_EVALUE and the sentence if one of them is wrong.  What makes a tensor or a comm calls this,
 * so that a typing error is not taken for the default. */
rsh_status rshi_settings_check(void);

/* ---- arithmetic: false on overflow ---- */

static inline bool rshi_mul(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool rshi_add(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline int64_t rshi_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rshi_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t rshi_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
} /* a >= 0, b > 0 */
int64_t rshi_gcd(int64_t a, int64_t b);
/* Product of n sizes; false on overflow, with zero winning over overflow only if no partial product
 * overflows. */
bool rshi_product(int n, const int64_t *sizes, int64_t *out);
int rshi_compare_int64(const void *a, const void *b); /* for qsort and bsearch */
/* Dense strides of `shape` stored with dims in `order` from slowest to fastest (NULL: row-major).
 */
void rshi_dense_strides(int ndim, const int64_t *shape, const int *order, int64_t *strides);

/* ---- text ---- */

/* A growing string; `failed` sticks when memory runs out. */
typedef struct rshi_text {
    char *data; /* NUL-terminated, NULL while empty */
    size_t length, room;
    bool failed;
} rshi_text;
void rshi_text_add(rshi_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rshi_text_free(rshi_text *t);
/* As vsnprintf, snprintf and strtod, with a decimal point whatever the program's locale says.  All
 * that the library says goes through the first. */
int rshi_text_format_list(char *text, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
int rshi_text_format(char *text, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double rshi_text_number(const char *text, char **end);
rsh_status rshi_sink_text(const rsh_sink *sink, const char *text);
rsh_status rshi_sink_format(const rsh_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- hashing ---- */

uint64_t rshi_hash(const void *data, size_t bytes, uint64_t seed);

/* ---- time ---- */

double rshi_seconds(void); /* monotonic clock */

/* Which process is this?  What a thing that other processes or threads take part in remembers when
 * it is made, and the same value for as long as no fork lies between: a child has other threads and
 * no ranks. */
uint32_t rshi_process_new(void);
uint32_t rshi_process(void);

/* How long somebody has waited, counted while the process was awake.  A job may be suspended as a
 * whole, and nobody was late then.  A process that was stopped sees the clock jump between two
 * looks at it, so between two looks only so much counts.  Who waits looks more often than that. */
typedef struct rshi_watch {
    double last;   /* rshi_seconds at the last look; 0: not started */
    double waited; /* seconds */
} rshi_watch;
#define RSHI_WATCH_STEP 0.25 /* seconds that usually count between two looks, at most */
/* Seconds waited so far, of which at most `most` count since the last look; the first look starts
 * the watch and gives 0. */
double rshi_watch_look(rshi_watch *w, double most);

/* RSH_EVALUE: `length` bytes of text are no "dtype" or no "reduction"; the sentence says what may
 * have been meant, and lists them. */
rsh_status rshi_name_fail(const char *noun, const char *text, size_t length);

/* ---- arithmetic ---- */

/* The type in which values of `t` are combined: f32 for the 8- and 16-bit floats. */
rsh_dtype rshi_accumulator(rsh_dtype t);

/* ---- lists of messages: what a rank found when it compared two of an exchange ---- */

enum {
    RSHI_MISMATCH_NONE,
    RSHI_MISMATCH_COUNT,
    RSHI_MISMATCH_BYTES
}; /* nothing; number of messages; size of one */

/* All zero: nothing.  Ranks tell it to one another as it is. */
typedef struct rshi_mismatch {
    int64_t wrong;
    int64_t from, to, message;
    uint64_t sent, expected; /* messages or bytes */
} rshi_mismatch;

/* RSH_EMISMATCH and the sentence. */
rsh_status rshi_mismatch_report(const rshi_mismatch *m);

#endif

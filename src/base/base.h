/* base: errors, allocation, checked arithmetic, sinks and hashing, for all rooms. */
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

/* ---- errors: the function that detects an error sets the message; callers only return the status
 * ---- */

rsh_status rshi_fail(rsh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the error message to a given text, for instance one that came from another rank. */
void rshi_set_detail(const char *text);
/* Returns how many error messages this thread has set so far, so that a caller can tell whether a
 * callback set one. */
uint64_t rshi_sentences(void);
/* Returns RSH_ETIMEOUT if the function of rsh_interrupt_set asks the calling thread to stop;
 * `waited` is in seconds. */
rsh_status rshi_interrupt_check(double waited);
#define RSHI_DETAIL_BYTES 1024 /* longest error message, with its NUL */

#define RSH_REQUIRE(condition, status, ...)                                                        \
    do {                                                                                           \
        if (!(condition)) return rshi_fail((status), __VA_ARGS__);                                 \
    } while (0)
/* Checks that an argument is not NULL.  In collective functions only for arguments whose error need
 * not reach other ranks. */
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

/* Checks that struct_size is plausible.  `init` is the name of the struct's macro. */
rsh_status rshi_struct_check(const void *given, size_t size, const char *init);
#define RSHI_CHECK_RESULT(out, init) RSH_TRY(rshi_struct_check((out), sizeof *(out), #init))
/* Writes a result of `size` bytes to a struct that passed the check, as far as it fits. */
void rshi_result_write(const void *made, size_t size, void *out);
/* Reads options into a variable that starts from `init`. */
#define RSHI_READ_OPTIONS(given, init, options)                                                    \
    rsh_options_read((given), sizeof *(options), #init, (options))

/* ---- allocation: no other code calls malloc or mmap for memory of the library ---- */

/* Return NULL and set the error message if there is no memory or n*size overflows; zero bytes give
 * a valid pointer. */
void *rshi_alloc(size_t n, size_t size);
void *rshi_calloc(size_t n, size_t size);
void *rshi_realloc(void *p, size_t n, size_t size);
void rshi_free(void *p);
#define RSHI_NEW(type) ((type *)rshi_calloc(1, sizeof(type)))
rsh_status rshi_nomem_for(size_t bytes); /* sets the message and returns RSH_ENOMEM */
rsh_status rshi_nomem(void); /* returns RSH_ENOMEM; the failed allocation has set the message */

/* Blocks of bytes: 64-byte aligned, huge pages from 2 MiB on, not zeroed unless asked.  Freed
 * blocks of RSHI_RECYCLE_FROM bytes and more are cached. */
void *rshi_alloc_data(size_t bytes, bool zero);
void rshi_free_data(void *p, size_t bytes);
/* Do the same for staging buffers, which are counted as scratch. */
void *rshi_alloc_scratch(size_t bytes);
void rshi_free_scratch(void *p, size_t bytes);
/* Counts scratch that was not allocated here (in memory that ranks share); negative when it is
 * freed. */
void rshi_count_scratch(int64_t bytes);

/* ---- element memory: counted for the rank that allocates it ---- */

/* Byte counts of one rank; see account.c.  Holding, dropping and counting are no-ops for NULL, and
 * thread-safe. */
typedef struct rshi_account rshi_account;
rshi_account *rshi_account_mine(void); /* this thread's, with a reference for the caller; NULL with
                                          an error message if memory runs out */
rshi_account *rshi_account_hold(rshi_account *a);
void rshi_account_drop(rshi_account *a);
void rshi_account_live(rshi_account *a, int64_t bytes);
void rshi_account_cached(rshi_account *a, int64_t bytes);
void rshi_account_read(rsh_alloc_stats *stats); /* of this thread's account */

/* Allocates a block like rshi_alloc_data, counted as live for this thread.  `owner` gets a
 * reference that rshi_free_elements, on any thread, drops. */
void *rshi_alloc_elements(size_t bytes, bool zero, rshi_account **owner);
void rshi_free_elements(void *p, size_t bytes, rshi_account *owner);

/* ---- cache of freed blocks; see blocks.c ---- */

#define RSHI_RECYCLE_FROM ((size_t)64 << 10) /* bytes; see small.c for smaller blocks */

/* The owner of blocks that are not private memory of the process.  `release` is called with the
 * lock of the cache held, so it must not allocate. */
typedef struct rshi_home {
    void (*release)(struct rshi_home *home, void *p, size_t block);
} rshi_home;

/* Rounds a request up to its size class.  SIZE_MAX: too large. */
size_t rshi_block_bytes(size_t bytes);
/* Caches a freed block of that size; false: it is too small or too large, and the caller must free
 * it.  home NULL: private memory.  `owner` may be NULL. */
bool rshi_block_keep(rshi_home *home, void *p, size_t block, rshi_account *owner);
/* Returns a cached block of exactly that size, with arbitrary contents; NULL: there is none. */
void *rshi_block_take(const rshi_home *home, size_t block);
/* Removes the cached blocks of a home that is about to be freed. */
void rshi_blocks_forget(const rshi_home *home);
/* Frees all cached blocks; returns whether there were any.  Call this before failing with
 * RSH_ENOMEM and try again, holding no lock of a home. */
bool rshi_blocks_empty(void);
void rshi_block_unmap(void *p, size_t block); /* private memory, to the system */
/* Is the cap of the cache above 0?  Takes no lock. */
bool rshi_blocks_on(void);

/* ---- smaller blocks, which are cached by the thread that frees them; see small.c ---- */

size_t rshi_small_bytes(size_t bytes); /* the size class of a request; bytes < RSHI_RECYCLE_FROM */
void rshi_count_new_block(void);       /* counts a block for elements that the system allocated */
void *rshi_small_take(size_t block);   /* cached or new, 64-byte aligned; NULL: no memory */
void rshi_small_give(void *p, size_t block);
bool rshi_small_empty(void); /* frees all cached blocks of this thread; were there any? */

/* ---- lists ---- */

/* Makes room for n items of `size` bytes in a list that now has room for *room of them.  The room
 * at least doubles when it grows.  If it returns RSH_ENOMEM, the list is unchanged. */
rsh_status rshi_grow(void **list, int64_t n, int64_t *room, size_t size);
#define RSHI_GROW(list, n, room)                                                                   \
    ((n) <= *(room) ? RSH_OK : rshi_grow((void **)&(list), (n), (room), sizeof *(list)))
/* Returns the index of `key` among n items of `size` bytes, or -1.  Each item starts with its
 * int64_t key, and the keys ascend. */
int64_t rshi_find(const void *list, int64_t n, size_t size, int64_t key);

/* ---- settings: environment variables that are read once by code that cannot return errors ---- */

typedef enum rshi_simd {
    RSHI_SIMD_GENERIC,
    RSHI_SIMD_AVX2,
    RSHI_SIMD_AVX512,
    RSHI_SIMD_COUNT
} rshi_simd;
extern const char *const rshi_simd_names[RSHI_SIMD_COUNT];

/* Read RESHARD_CACHE_BYTES and RESHARD_SIMD; the result is unchanged if the variable is not set or
 * invalid.  RSH_EVALUE if it is invalid. */
rsh_status rshi_setting_cache_bytes(uint64_t *bytes);
rsh_status rshi_setting_simd(rshi_simd *level);
/* RSH_EVALUE if one of them is invalid.  Called when a tensor or a comm is made, so that a typing
 * error does not silently select the default. */
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
/* Computes the product of n sizes.  Returns false if a partial product overflows, even if a later
 * size is 0. */
bool rshi_product(int n, const int64_t *sizes, int64_t *out);
int rshi_compare_int64(const void *a, const void *b); /* for qsort and bsearch */
/* Computes the dense strides of `shape` if its dims are stored in `order`, from slowest to fastest
 * (NULL: row-major). */
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
/* Like vsnprintf, snprintf and strtod, but always with a decimal point, independent of the locale.
 * All texts of the library are formatted with the first. */
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

/* Return a number that identifies this process.  An object stores it when it is made and compares
 * it later: a forked child has a different number, because its threads are not ranks. */
uint32_t rshi_process_new(void);
uint32_t rshi_process(void);

/* How long a rank has waited, counted while the process was awake.  If a whole job was suspended,
 * no rank was late.  A process that was stopped sees the clock jump between two readings, so only a
 * limited step counts between two readings.  Waiting code must read the watch more often than
 * that. */
typedef struct rshi_watch {
    double last;   /* rshi_seconds at the last reading; 0: not started */
    double waited; /* seconds */
} rshi_watch;
#define RSHI_WATCH_STEP 0.25 /* the usual limit between two readings, in seconds */
/* Returns the seconds waited so far; at most `most` seconds are added since the last reading.  The
 * first call starts the watch and returns 0. */
double rshi_watch_look(rshi_watch *w, double most);

/* Returns RSH_EVALUE because `length` bytes of text are not the name of a `noun` ("dtype" or
 * "reduction").  The message suggests similar names and lists all valid ones. */
rsh_status rshi_name_fail(const char *noun, const char *text, size_t length);

/* ---- arithmetic ---- */

/* The type in which values of `t` are combined: f32 for the 8- and 16-bit floats. */
rsh_dtype rshi_accumulator(rsh_dtype t);

/* ---- mismatch: the difference between the messages of two ranks in an exchange ---- */

enum {
    RSHI_MISMATCH_NONE,
    RSHI_MISMATCH_COUNT,
    RSHI_MISMATCH_BYTES
}; /* no mismatch; different numbers of messages; different sizes of a message */

/* All zero: no mismatch.  Ranks exchange it as plain bytes. */
typedef struct rshi_mismatch {
    int64_t wrong;
    int64_t from, to, message;
    uint64_t sent, expected; /* numbers of messages, or numbers of bytes */
} rshi_mismatch;

/* Sets the error message and returns RSH_EMISMATCH. */
rsh_status rshi_mismatch_report(const rshi_mismatch *m);

#endif

/* Small: freed blocks below RSHI_RECYCLE_FROM that a thread keeps for its own next requests.
 *
 * A training step makes and frees thousands of small tensors.  The system's allocator would search memory for each of
 * them and return pages to the kernel between steps.  Here a freed block is put on the list of its size class, without
 * a lock, and the next request of that class reuses it.  A thread keeps up to a fixed number of bytes until it ends. */
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/poison.h"

#define KEPT_MOST ((size_t)16 << 20) /* bytes that a thread keeps */
/* step between classes up to FINE bytes; above FINE there are eight classes per power of two */
#define STEP      ((size_t)64)
#define FINE_LOG  10
#define FINE      ((size_t)1 << FINE_LOG)
#define BINS      (16 + 6 * 8)

typedef struct shelves {
    void *first[BINS]; /* lists of cached blocks, linked by their first word */
    size_t kept;       /* bytes */
} shelves;

static _Thread_local shelves *mine;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor runs when a thread ends */
static bool has_key;

/* ---- classes ---- */

static int log_of(size_t bytes) { return 63 - __builtin_clzll(bytes); }

size_t rshi_small_bytes(size_t bytes) {
    size_t step = bytes <= FINE ? STEP : ((size_t)1 << log_of(bytes - 1)) / 8;
    size_t rounded = (bytes + step - 1) & ~(step - 1);
    return rounded ? rounded : STEP;
}

/* `block` is the size of a class. */
static int bin_of(size_t block) {
    if (block <= FINE) return (int)(block / STEP) - 1;
    int log = log_of(block - 1);
    return 16 + (log - FINE_LOG) * 8 + (int)((block - 1) >> (log - 3) & 7);
}

/* ---- the cached blocks of a thread ---- */

static void free_cached_blocks(shelves *s) {
    for (int i = 0; i < BINS; i++)
        while (s->first[i]) {
            void *p = s->first[i];
            s->first[i] = *(void **)p;
            free(p);
        }
    s->kept = 0;
}

static void free_cache_of_thread(void *s) {
    mine = NULL;
    free_cached_blocks(s);
    free(s);
}

static void make_key(void) { has_key = !pthread_key_create(&key, free_cache_of_thread); }

/* Without this, a thread that ends after the library was unloaded would call the destructor of the key. */
__attribute__((destructor)) static void delete_key(void) {
    if (has_key) pthread_key_delete(key);
}

/* `mine` stays NULL if memory has run out, and under AddressSanitizer, which detects misuse only if blocks are not
 * reused. */
static void make_cache_of_thread(void) {
    pthread_once(&once, make_key);
    if (!has_key || RSHI_POISONS) return;
    mine = calloc(1, sizeof *mine);
    if (mine) pthread_setspecific(key, mine);
}

void *rshi_small_take(size_t block) {
    if (!mine) make_cache_of_thread();
    void **first = mine ? &mine->first[bin_of(block)] : NULL;
    if (!first || !*first) {
        rshi_count_new_block();
        return aligned_alloc(STEP, block);
    }
    void *p = *first;
    *first = *(void **)p;
    mine->kept -= block;
    return p;
}

void rshi_small_give(void *p, size_t block) {
    if (!mine || mine->kept + block > KEPT_MOST || !rshi_blocks_on()) {
        free(p);
        return;
    }
    void **first = &mine->first[bin_of(block)];
    *(void **)p = *first;
    *first = p;
    mine->kept += block;
}

bool rshi_small_empty(void) {
    if (!mine || !mine->kept) return false;
    free_cached_blocks(mine);
    return true;
}

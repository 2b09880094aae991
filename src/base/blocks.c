/* Blocks: freed blocks of memory, kept for the next request of their size.
 *
 * New memory costs a page fault for every page that is touched, which takes longer than copying the page.  So a freed
 * block stays mapped and resident until a request of its size class reuses it, the cap is exceeded (then the blocks
 * that were freed first are released), or the cache is emptied.  Size classes are 1/32 of a power of two apart, at
 * least a page.
 *
 * The threads of a process share this cache.  One lock guards it.  fork() takes the lock, and a child starts with an
 * empty cache: it frees its copies of private blocks and forgets blocks in memory that it shares with its parent.  The
 * bookkeeping is in a table, never in the block, because other processes map some of the blocks. */
#include "base/base.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/poison.h"

#define DEFAULT_CAP ((size_t)1 << 30)
#define PER_OCTAVE  32 /* classes from one power of two to the next */
#define PAGE        ((size_t)4096)
#define LEAST_LOG   16 /* of RSHI_RECYCLE_FROM */
#define BINS        ((64 - LEAST_LOG) * PER_OCTAVE)
#define SLOTS       4096 /* at most this many blocks are kept */
#define NONE        (-1)

_Static_assert(RSHI_RECYCLE_FROM == (size_t)1 << LEAST_LOG, "the smallest class is the smallest block");

typedef struct slot {
    char *data;
    size_t bytes;        /* size of the block, which is that of its class */
    rshi_home *home;     /* NULL: private memory */
    rshi_account *owner; /* a reference to the account of the thread that requested the block */
    int older, newer;    /* links in the order of freeing; `newer` also links the free slots */
    int next, previous;  /* links in the bin, most recently freed first */
} slot;

static struct {
    pthread_mutex_t lock; /* guards the members below */
    size_t cap, cached;   /* bytes */
    int oldest, newest, unused;
    int bin[BINS]; /* first slot of each class */
    slot slots[SLOTS];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool on; /* true if the cap is above 0 */

/* ---- classes ---- */

static int log_of(size_t bytes) { return 63 - __builtin_clzll(bytes); }

size_t rshi_block_bytes(size_t bytes) {
    if (bytes < RSHI_RECYCLE_FROM) return rshi_small_bytes(bytes);
    size_t step = ((size_t)1 << log_of(bytes)) / PER_OCTAVE;
    if (step < PAGE) step = PAGE;
    size_t rounded = (bytes + step - 1) & ~(step - 1);
    return rounded < bytes ? SIZE_MAX : rounded;
}

static int *bin_of(size_t block) {
    int log = log_of(block);
    return &kept.bin[(log - LEAST_LOG) * PER_OCTAVE + (int)(block >> (log - 5) & (PER_OCTAVE - 1))];
}

/* ---- the table; all functions need the lock ---- */

static void clear_table(void) {
    kept.cached = 0;
    kept.oldest = kept.newest = NONE;
    for (int b = 0; b < BINS; b++) kept.bin[b] = NONE;
    for (int i = 0; i < SLOTS; i++) kept.slots[i].newer = i + 1 < SLOTS ? i + 1 : NONE;
    kept.unused = 0;
}

static void link_slot(int i) {
    slot *s = &kept.slots[i];
    int *bin = bin_of(s->bytes);
    s->newer = NONE, s->older = kept.newest;
    *(kept.newest == NONE ? &kept.oldest : &kept.slots[kept.newest].newer) = i;
    kept.newest = i;
    s->previous = NONE, s->next = *bin;
    if (*bin != NONE) kept.slots[*bin].previous = i;
    *bin = i;
    kept.cached += s->bytes;
    rshi_account_cached(s->owner, (int64_t)s->bytes);
}

/* Removes a slot from both lists, drops its reference to the owner, and returns a copy of it. */
static slot unlink_slot(int i) {
    slot s = kept.slots[i];
    *(s.older == NONE ? &kept.oldest : &kept.slots[s.older].newer) = s.newer;
    *(s.newer == NONE ? &kept.newest : &kept.slots[s.newer].older) = s.older;
    *(s.previous == NONE ? bin_of(s.bytes) : &kept.slots[s.previous].next) = s.next;
    if (s.next != NONE) kept.slots[s.next].previous = s.previous;
    kept.slots[i].newer = kept.unused;
    kept.unused = i;
    kept.cached -= s.bytes;
    rshi_account_cached(s.owner, -(int64_t)s.bytes);
    rshi_account_drop(s.owner);
    rshi_unpoison(s.data, s.bytes);
    return s;
}

/* Returns a block to its origin.  Called with the lock held, so that its home is not freed meanwhile. */
static void release_slot(int i) {
    slot s = unlink_slot(i);
    if (s.home)
        s.home->release(s.home, s.data, s.bytes);
    else
        rshi_block_unmap(s.data, s.bytes);
}

static void release_down_to(size_t cap) {
    while (kept.cached > cap) release_slot(kept.oldest);
}

/* ---- fork ---- */

static void lock_before_fork(void) { pthread_mutex_lock(&kept.lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&kept.lock); }

static void empty_cache_in_child(void) {
    for (int i = kept.oldest, newer; i != NONE; i = newer) {
        newer = kept.slots[i].newer;
        if (kept.slots[i].home)
            unlink_slot(i);
        else
            release_slot(i);
    }
    pthread_mutex_unlock(&kept.lock);
}

/* ---- the cap ---- */

/* RESHARD_CACHE_BYTES, or the default.  rshi_settings_check has rejected invalid values. */
static size_t read_cap(void) {
    uint64_t cap = RSHI_POISONS ? 0 : DEFAULT_CAP; /* AddressSanitizer finds use after free only without reuse */
    rshi_setting_cache_bytes(&cap);
    return (size_t)cap;
}

static void init_cache(void) {
    clear_table();
    kept.cap = read_cap();
    atomic_store(&on, kept.cap > 0);
    pthread_atfork(lock_before_fork, unlock_after_fork, empty_cache_in_child);
}

static void lock_cache(void) {
    pthread_once(&once, init_cache);
    pthread_mutex_lock(&kept.lock);
}

void rsh_alloc_set_cap(uint64_t bytes) {
    lock_cache();
    kept.cap = (size_t)bytes;
    atomic_store(&on, kept.cap > 0);
    release_down_to(kept.cap);
    pthread_mutex_unlock(&kept.lock);
}

bool rshi_blocks_on(void) {
    pthread_once(&once, init_cache);
    return atomic_load_explicit(&on, memory_order_relaxed);
}

uint64_t rsh_alloc_get_cap(void) {
    lock_cache();
    size_t cap = kept.cap;
    pthread_mutex_unlock(&kept.lock);
    return cap;
}

uint64_t rsh_alloc_cached(void) {
    lock_cache();
    size_t cached = kept.cached;
    pthread_mutex_unlock(&kept.lock);
    return cached;
}

/* ---- keeping and taking ---- */

bool rshi_block_keep(rshi_home *home, void *p, size_t block, rshi_account *owner) {
    if (block < RSHI_RECYCLE_FROM) return false;
    lock_cache();
    bool fits = block <= kept.cap;
    if (fits) {
        release_down_to(kept.cap - block);
        if (kept.unused == NONE) release_slot(kept.oldest);
        int i = kept.unused;
        kept.unused = kept.slots[i].newer;
        kept.slots[i] = (slot){.data = p, .bytes = block, .home = home, .owner = rshi_account_hold(owner)};
        link_slot(i);
        rshi_poison(p, block);
    }
    pthread_mutex_unlock(&kept.lock);
    return fits;
}

void *rshi_block_take(const rshi_home *home, size_t block) {
    if (block < RSHI_RECYCLE_FROM) return NULL;
    lock_cache();
    int i = *bin_of(block);
    while (i != NONE && kept.slots[i].home != home) i = kept.slots[i].next;
    void *p = i == NONE ? NULL : unlink_slot(i).data;
    pthread_mutex_unlock(&kept.lock);
    return p;
}

void rshi_blocks_forget(const rshi_home *home) {
    lock_cache();
    for (int i = kept.oldest, newer; i != NONE; i = newer) {
        newer = kept.slots[i].newer;
        if (kept.slots[i].home == home) unlink_slot(i);
    }
    pthread_mutex_unlock(&kept.lock);
}

bool rshi_blocks_empty(void) {
    lock_cache();
    bool any = kept.cached > 0;
    release_down_to(0);
    pthread_mutex_unlock(&kept.lock);
    return rshi_small_empty() || any;
}

void rsh_alloc_trim(void) {
    rshi_blocks_empty();
#ifdef __GLIBC__
    malloc_trim(0); /* blocks below a huge page came from malloc, which caches some of them */
#endif
}

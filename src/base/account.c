/* Account: how many bytes of element memory one rank has live and cached, whichever thread frees them.
 *
 * Every thread that allocates element memory has an account.  A block refers to the account of the thread that
 * allocated it and holds a reference to it, so an account may outlive its thread. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct rshi_account {
    atomic_long refs; /* one for the thread, and one for each live or cached block */
    atomic_llong live, cached; /* bytes */
};

static _Thread_local rshi_account *mine;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor runs when a thread ends */
static bool has_key;

static void drop_account_of_thread(void *account) {
    mine = NULL;
    rshi_account_drop(account);
}

static void make_key(void) { has_key = !pthread_key_create(&key, drop_account_of_thread); }

/* Without this, a thread that ends after the library was unloaded would call the destructor of the key. */
__attribute__((destructor)) static void delete_key(void) {
    if (has_key) pthread_key_delete(key);
}

rshi_account *rshi_account_mine(void) {
    if (!mine) {
        pthread_once(&once, make_key);
        mine = calloc(1, sizeof *mine);
        if (!mine) {
            rshi_nomem_for(sizeof *mine);
            return NULL;
        }
        atomic_init(&mine->refs, 1);
        if (has_key) pthread_setspecific(key, mine);
    }
    return rshi_account_hold(mine);
}

rshi_account *rshi_account_hold(rshi_account *a) {
    if (a) atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void rshi_account_drop(rshi_account *a) {
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1) free(a);
}

void rshi_account_live(rshi_account *a, int64_t bytes) {
    if (a) atomic_fetch_add_explicit(&a->live, bytes, memory_order_relaxed);
}

void rshi_account_cached(rshi_account *a, int64_t bytes) {
    if (a) atomic_fetch_add_explicit(&a->cached, bytes, memory_order_relaxed);
}

void rshi_account_read(rsh_alloc_stats *stats) {
    if (!mine) return;
    stats->data_bytes = (uint64_t)atomic_load_explicit(&mine->live, memory_order_relaxed);
    stats->cached_bytes = (uint64_t)atomic_load_explicit(&mine->cached, memory_order_relaxed);
}

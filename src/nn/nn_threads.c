/* Threads of nn: the pool of each thread that uses nn, and the number of threads that BLAS uses.
 *
 * BLAS has one number of threads for the whole process.  The first user of nn sets it and remembers the old number; the
 * last one restores it.  Only OpenBLAS has a function for this, which is a weak symbol here; other BLAS libraries are
 * not changed. */
#include "nn/impl.h"

#include <pthread.h>

extern void openblas_set_num_threads(int n) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

static struct {
    pthread_mutex_t lock;
    int users;   /* number of threads that have set BLAS threads */
    int before;  /* number of BLAS threads before the first user */
    int chosen;  /* number of BLAS threads that the last user set */
    int serials; /* number of sections in which BLAS has one thread */
} blas = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    int opens;
    bool sets_blas;
    rsh_pool *pool; /* owned */
} mine;

static bool blas_has_threads(void) { return openblas_set_num_threads && openblas_get_num_threads; }

static void blas_join(int threads) {
    pthread_mutex_lock(&blas.lock);
    if (!blas.users++) blas.before = openblas_get_num_threads();
    blas.chosen = threads;
    if (!blas.serials) openblas_set_num_threads(threads);
    pthread_mutex_unlock(&blas.lock);
}

static void blas_leave(void) {
    pthread_mutex_lock(&blas.lock);
    if (!--blas.users) openblas_set_num_threads(blas.before);
    pthread_mutex_unlock(&blas.lock);
}

bool rshn_blas_serial_begin(void) {
    if (!mine.sets_blas || rshn_threads() == 1) return false;
    pthread_mutex_lock(&blas.lock);
    if (!blas.serials++) openblas_set_num_threads(1);
    pthread_mutex_unlock(&blas.lock);
    return true;
}

void rshn_blas_serial_end(bool began) {
    if (!began) return;
    pthread_mutex_lock(&blas.lock);
    if (!--blas.serials) openblas_set_num_threads(blas.chosen);
    pthread_mutex_unlock(&blas.lock);
}

/* Returns the number of ranks that share this machine's cores with the calling one, including itself. */
static int ranks_on_node(const rsh_comm *comm) {
    int n = 0, node = comm ? rsh_comm_node(comm, rsh_comm_rank(comm)) : 0;
    for (int r = 0; comm && r < rsh_comm_size(comm); r++) n += rsh_comm_node(comm, r) == node;
    return n ? n : 1;
}

static int default_threads(const rsh_comm *comm) {
    int share = rsh_usable_cores() / ranks_on_node(comm);
    return share > 1 ? share : 1;
}

rsh_status rsh_nn_open(const rsh_comm *comm, const rsh_nn_opts *opts) {
    rsh_nn_opts o = RSH_NN_OPTS_INIT;
    NN_READ_OPTS(opts, RSH_NN_OPTS_INIT, &o);
    int threads = o.threads;
    if (threads < 0) return rshn_fail(RSH_EVALUE, "rsh_nn_open: threads must be at least 0, got %d", threads);
    if (mine.opens++) return RSH_OK;
    if (!threads) threads = default_threads(comm);
    rsh_status st = threads > 1 ? rsh_pool_new(threads, &mine.pool) : RSH_OK;
    if (st) {
        mine.opens = 0;
        return st;
    }
    mine.sets_blas = blas_has_threads() && !o.keep_blas_threads;
    if (mine.sets_blas) blas_join(threads);
    return RSH_OK;
}

void rsh_nn_close(void) {
    if (!mine.opens || --mine.opens) return;
    if (mine.sets_blas) blas_leave();
    mine.sets_blas = false;
    rsh_pool_free(mine.pool);
    mine.pool = NULL;
}

int rsh_nn_threads(void) { return rshn_threads(); }
int rsh_nn_blas_threads(void) { return blas_has_threads() ? openblas_get_num_threads() : 0; }

int rshn_threads(void) { return mine.pool ? rsh_pool_size(mine.pool) : 1; }

/* ---- ranges ---- */

/* several ranges per thread, so that a thread that starts late does not delay the others */
enum { RANGES_A_THREAD = 4 };

int64_t rshn_ranges(int64_t n, int64_t grain) {
    int64_t most = mine.pool ? (int64_t)rshn_threads() * RANGES_A_THREAD : 1;
    int64_t full = n / (grain > 0 ? grain : 1);
    return full <= 1 ? 1 : full < most ? full : most;
}

static void range_at(int64_t n, int64_t ranges, int64_t i, int64_t *lo, int64_t *hi) {
    int64_t size = n / ranges, more = n % ranges;
    *lo = i * size + (i < more ? i : more);
    *hi = *lo + size + (i < more);
}

typedef struct spreading {
    int64_t n, ranges;
    void (*fn)(void *ctx, int64_t lo, int64_t hi);
    void *ctx;
} spreading;

static void run_range(void *ctx, int64_t i, int worker) {
    const spreading *s = ctx;
    int64_t lo, hi;
    (void)worker;
    range_at(s->n, s->ranges, i, &lo, &hi);
    s->fn(s->ctx, lo, hi);
}

void rshn_spread(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t lo, int64_t hi), void *ctx) {
    int64_t ranges = rshn_ranges(n, grain);
    if (n <= 0) return;
    if (ranges == 1) {
        fn(ctx, 0, n);
        return;
    }
    spreading s = {n, ranges, fn, ctx};
    rsh_pool_run(mine.pool, ranges, run_range, &s);
}

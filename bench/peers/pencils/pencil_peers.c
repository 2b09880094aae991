/* Pencil peers: the transposes of 3-D FFT codes with MPI_Alltoallv, FFTW and reshard, in alternating rounds.
 *
 *   mpirun -n R pencil_peers [N [ROUNDS]]         N x N x N doubles (256), N a multiple of R; ROUNDS: 7
 *
 * There are two moves, on R ranks along one axis.  Pencils: [z, y/p, x] to [z, y, x/p], with the same order of dims.
 * This is 2DECOMP's transpose_x_to_y: pack for each rank, MPI_Alltoallv, unpack.  Slabs: [z/p, y, x] to [y/p, z, x]
 * with y and z swapped in memory, as FFTW's MPI transpose does.  In a round each contestant moves once.  The time runs
 * from a barrier to the end of the last rank, and the shortest of all rounds is printed.  After the last round every
 * element is compared with its global index. */
#include <mpi.h>
#include <reshard.h>
#include <reshard/mpi.h>

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PEERS_FFTW /* declared as in <fftw3.h> and <fftw3-mpi.h> */
typedef struct fftw_plan_s *fftw_plan;
void fftw_mpi_init(void);
fftw_plan fftw_mpi_plan_many_transpose(ptrdiff_t n0, ptrdiff_t n1, ptrdiff_t howmany, ptrdiff_t block0,
                                       ptrdiff_t block1, double *in, double *out, MPI_Comm comm, unsigned flags);
void fftw_execute(const fftw_plan plan);
void fftw_destroy_plan(fftw_plan plan);
enum { FFTW_MEASURE = 0 };
#endif

typedef struct cube {
    int64_t n, share; /* share: n / ranks */
    int rank, ranks;
    bool slabs;
    double *src, *dst, *send, *receive; /* arrays of n * n * share elements */
} cube;

typedef struct contestant {
    const char *name;
    bool ours, slabs_only;
    void (*open)(struct contestant *c, cube *q);
    void (*run)(struct contestant *c, cube *q);
    void (*close)(struct contestant *c);
    rsh_exec *exec;
    rsh_comm *comm;
    void *plan;
    double best;
} contestant;

static void end(const char *sentence) {
    fprintf(stderr, "pencil_peers: %s\n", sentence);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(rsh_status st) {
    if (st) end(rsh_error_detail());
}

static double *alloc(const cube *q) {
    double *p = malloc((size_t)(q->n * q->n * q->share) * sizeof *p);
    if (!p) end("out of memory");
    memset(p, 0, (size_t)(q->n * q->n * q->share) * sizeof *p);
    return p;
}

/* ---- the elements: the value of element (z, y, x) is its global index ---- */

static double index_of(const cube *q, int64_t z, int64_t y, int64_t x) { return (double)((z * q->n + y) * q->n + x); }

static void fill(const cube *q) {
    int64_t first = q->rank * q->share, nz = q->slabs ? q->share : q->n, ny = q->slabs ? q->n : q->share;
    double *at = q->src;
    for (int64_t z = 0; z < nz; z++)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < q->n; x++)
                *at++ = q->slabs ? index_of(q, first + z, y, x) : index_of(q, z, first + y, x);
}

static bool is_right(const cube *q) {
    int64_t first = q->rank * q->share;
    const double *at = q->dst;
    int good = 1;
    for (int64_t i = 0; i < (q->slabs ? q->share : q->n); i++)
        for (int64_t j = 0; j < q->n; j++)
            for (int64_t x = 0; x < (q->slabs ? q->n : q->share); x++)
                good &= *at++ == (q->slabs ? index_of(q, j, first + i, x) : index_of(q, i, j, first + x));
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return good;
}

/* ---- the moves of 2DECOMP ---- */

static void exchange(cube *q) {
    int counts[64], at[64];
    for (int r = 0; r < q->ranks; r++) {
        counts[r] = (int)(q->share * q->share * q->n);
        at[r] = r * counts[r];
    }
    MPI_Alltoallv(q->send, counts, at, MPI_DOUBLE, q->receive, counts, at, MPI_DOUBLE, MPI_COMM_WORLD);
}

/* Sends blocks of [this rank's z][y of rank r][x]. */
static void transpose_slabs(cube *q) {
    int64_t n = q->n, s = q->share;
    double *to = q->send;
    const double *from = q->receive;
    for (int r = 0; r < q->ranks; r++)
        for (int64_t z = 0; z < s; z++, to += s * n)
            memcpy(to, q->src + (z * n + r * s) * n, (size_t)(s * n) * sizeof *to);
    exchange(q);
    for (int r = 0; r < q->ranks; r++)
        for (int64_t z = 0; z < s; z++)
            for (int64_t y = 0; y < s; y++, from += n)
                memcpy(q->dst + (y * n + r * s + z) * n, from, (size_t)n * sizeof *from);
}

/* Sends blocks of [z][this rank's y][x of rank r]. */
static void transpose_pencils(cube *q) {
    int64_t n = q->n, s = q->share;
    double *to = q->send;
    const double *from = q->receive;
    for (int r = 0; r < q->ranks; r++)
        for (int64_t k = 0; k < n * s; k++, to += s) memcpy(to, q->src + k * n + r * s, (size_t)s * sizeof *to);
    exchange(q);
    for (int r = 0; r < q->ranks; r++)
        for (int64_t z = 0; z < n; z++, from += s * s)
            memcpy(q->dst + (z * n + r * s) * s, from, (size_t)(s * s) * sizeof *from);
}

static void run_alltoallv(contestant *c, cube *q) { (void)c, (q->slabs ? transpose_slabs : transpose_pencils)(q); }
static void open_nothing(contestant *c, cube *q) { (void)c, (void)q; }
static void close_nothing(contestant *c) { (void)c; }

/* ---- FFTW's transpose of n x n tuples of n doubles ---- */

#ifdef PEERS_FFTW
static void open_fftw(contestant *c, cube *q) {
    c->plan = fftw_mpi_plan_many_transpose(q->n, q->n, q->n, q->share, q->share, q->src, q->dst, MPI_COMM_WORLD,
                                           FFTW_MEASURE);
    if (!c->plan) end("FFTW cannot plan this transpose");
}
static void run_fftw(contestant *c, cube *q) { (void)q, fftw_execute(c->plan); }
static void close_fftw(contestant *c) { fftw_destroy_plan(c->plan); }
#endif

/* ---- the moves of reshard ---- */

static void open_ours(contestant *c, cube *q) {
    static const char *const forms[2][2] = {{"f64[%d, %d/p, %d] on p=%d", "f64[%d, %d, %d/p] on p=%d"},
                                            {"f64[%d/p, %d, %d] on p=%d", "f64[%d, %d/p, %d] on p=%d order(1,0,2)"}};
    rsh_layout *layout[2];
    rsh_plan *plan;
    int n = (int)q->n;
    for (int s = 0; s < 2; s++) {
        char text[128];
        snprintf(text, sizeof text, forms[q->slabs][s], n, n, n, q->ranks);
        must(rsh_layout_parse(text, &layout[s]));
    }
    must(rsh_comm_mpi(MPI_COMM_WORLD, &c->comm));
    must(rsh_plan_new(layout[0], layout[1], NULL, &plan));
    must(rsh_exec_bind(plan, c->comm, &(rsh_memory){q->src, NULL}, &(rsh_memory){q->dst, NULL}, &c->exec));
    rsh_plan_free(plan);
    rsh_layout_free(layout[0]);
    rsh_layout_free(layout[1]);
}
static void run_ours(contestant *c, cube *q) { (void)q, must(rsh_exec_run(c->exec)); }
static void close_ours(contestant *c) {
    rsh_exec_free(c->exec);
    must(rsh_comm_free(c->comm));
}

static const contestant entries[] = {
    {.name = "pack, MPI_Alltoallv, unpack", .open = open_nothing, .run = run_alltoallv, .close = close_nothing},
#ifdef PEERS_FFTW
    {.name = "FFTW's MPI transpose", .slabs_only = true, .open = open_fftw, .run = run_fftw, .close = close_fftw},
#endif
    {.name = "reshard", .ours = true, .open = open_ours, .run = run_ours, .close = close_ours},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* ---- rounds ---- */

static double time_move(contestant *c, cube *q) {
    MPI_Barrier(MPI_COMM_WORLD);
    double limits[2] = {-MPI_Wtime(), 0};
    c->run(c, q);
    limits[1] = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, limits, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return limits[0] + limits[1];
}

static size_t bytes_of(const cube *q) { return (size_t)(q->n * q->n * q->share) * sizeof(double); }

static void run_rounds(cube *q, int n, contestant *c, int rounds) {
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < n; k++) {
            if (round == rounds - 1) memset(q->dst, 0xa5, bytes_of(q));
            c[k].best = fmin(c[k].best, time_move(&c[k], q));
            if (round == rounds - 1 && !is_right(q)) end(c[k].name);
        }
}

static void print_results(const cube *q, int n, const contestant *c, int rounds) {
    double peer = INFINITY, bytes = (double)bytes_of(q) * q->ranks;
    for (int k = 0; k < n; k++)
        if (!c[k].ours) peer = fmin(peer, c[k].best);
    printf("\n%s, %lld^3 doubles on %d ranks, fastest of %d alternating rounds, every element checked\n",
           q->slabs ? "slabs [z/p, y, x] to [y/p, z, x]" : "pencils [z, y/p, x] to [z, y, x/p]", (long long)q->n,
           q->ranks, rounds);
    printf("%-30s %10s %8s %18s\n", "", "seconds", "GB/s", "speed / best peer");
    for (int k = 0; k < n; k++)
        printf("%-30s %10.6f %8.2f %18.2f\n", c[k].name, c[k].best, bytes / c[k].best / 1e9, peer / c[k].best);
    fflush(stdout);
}

static void compare_contestants(cube *q, int rounds) {
    contestant c[ENTRIES];
    int n = 0;
    for (int k = 0; k < ENTRIES; k++)
        if (q->slabs || !entries[k].slabs_only) c[n++] = entries[k];
    for (int k = 0; k < n; k++) c[k].best = INFINITY, c[k].open(&c[k], q);
    fill(q); /* filled here, because FFTW overwrites the arrays when it measures */
    run_rounds(q, n, c, rounds);
    if (!q->rank) print_results(q, n, c, rounds);
    for (int k = n - 1; k >= 0; k--) c[k].close(&c[k]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    cube q = {.n = argc > 1 ? atoll(argv[1]) : 256};
    MPI_Comm_rank(MPI_COMM_WORLD, &q.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &q.ranks);
    q.share = q.n / q.ranks;
    if (q.ranks > 64 || q.n % q.ranks || q.n > 1024) end("N must be a multiple of the (at most 64) ranks, up to 1024");
#ifdef PEERS_FFTW
    fftw_mpi_init();
#endif
    q.src = alloc(&q), q.dst = alloc(&q), q.send = alloc(&q), q.receive = alloc(&q);
    for (int slabs = 0; slabs < 2; slabs++) {
        q.slabs = slabs;
        compare_contestants(&q, argc > 2 ? atoi(argv[2]) : 7);
    }
    free(q.src), free(q.dst), free(q.send), free(q.receive);
    MPI_Finalize();
    return 0;
}

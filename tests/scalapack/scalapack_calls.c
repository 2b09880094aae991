/* ScaLAPACK calls: random calls of the routines that libreshard-scalapack replaces, compared with ScaLAPACK's own.
 *
 *   mpirun -n 2..8 scalapack_calls LIBRARY COUNT [SEED]      LIBRARY: the file name of ScaLAPACK
 *
 * Every rank draws the same calls.  Both libraries get copies of the same memory, and every byte of the local arrays,
 * including padding, is compared afterwards.  The program uses only ScaLAPACK and the BLACS; it reads the number of
 * moved calls from libreshard-scalapack. */
#include <mpi.h>
#include <reshard/scalapack.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void Cblacs_pinfo(int *rank, int *size);
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridmap(int *context, int *map, int ld, int rows, int columns);
void Cdgesd2d(int context, int m, int n, double *a, int lda, int row, int column);
void Cdgerv2d(int context, int m, int n, double *a, int lda, int row, int column);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);

enum { RANKS = 8, GRIDS = 4, WORLDS = 3, TYPES = 5, DESCRIPTOR = 9 };

static uint64_t state;

static uint64_t draw64(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int below(int n) { return (int)(draw64() % (uint64_t)n); }
static int between(int a, int b) { return a + below(b - a + 1); }
static bool chance(int percent) { return below(100) < percent; }

/* ---- grids ---- */

typedef struct grid {
    int context; /* -1: this rank is not in the grid */
    int P, Q, row, column;
} grid;

typedef struct world {
    grid all, grids[GRIDS];
} world;

static int world_rank, world_size;
static world worlds[WORLDS];

/* Makes a grid of P x Q of the given ranks, in column order, or in random order if `mixed`. */
static grid make_grid(int n, const int *ranks, int P, int Q, bool mixed) {
    int map[RANKS];
    grid g = {.P = P, .Q = Q};
    memcpy(map, ranks, (size_t)n * sizeof *map);
    for (int i = n - 1; i > 0 && mixed; i--) {
        int k = below(i + 1), t = map[i];
        map[i] = map[k], map[k] = t;
    }
    Cblacs_get(0, 0, &g.context);
    Cblacs_gridmap(&g.context, map, P, P, Q);
    int rows, columns;
    if (g.context >= 0) Cblacs_gridinfo(g.context, &rows, &columns, &g.row, &g.column);
    return g;
}

static world make_world(int which) {
    int ranks[RANKS], n = which == 2 && world_size > 2 ? world_size - 1 : world_size;
    for (int r = 0; r < world_size; r++) ranks[r] = which == 2 ? (r + 1) % world_size : r;
    int P = which && n % 2 == 0 ? 2 : 1;
    world w = {.all = make_grid(n, ranks, P, n / P, which > 0)};
    for (int g = 0; g < GRIDS; g++) {
        int p = between(1, n), q = between(1, n / p);
        w.grids[g] = make_grid(n, ranks, p, q, true);
    }
    return w;
}

/* ---- matrices ---- */

static const char type_names[TYPES] = {'i', 's', 'd', 'c', 'z'};
static const size_t type_sizes[TYPES] = {4, 4, 8, 8, 16};

typedef struct matrix {
    const grid *g;
    int desc[DESCRIPTOR]; /* type, context, M, N, MB, NB, RSRC, CSRC, LLD */
    int i, j;             /* counted from 1 */
    size_t bytes;
    char *data;
} matrix;

static int owned(int n, int block, int k, int first, int p) { /* Computes NUMROC by counting one by one. */
    int count = 0;
    for (int x = 0; x < n; x++) count += (x / block + first) % p == k;
    return count;
}

static void fill(char *data, size_t bytes, bool numbers) {
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t bits = (uint32_t)draw64();
        float f = (float)(int32_t)bits / 65536.0f;
        memcpy(data + i, numbers ? (void *)&f : (void *)&bits, 4);
    }
}

static int draw_block(int n) { return chance(15) ? between(1, n + 5) : between(1, 12); }

/* Draws the same matrix on all ranks.  `numbers`: without NaNs. */
static matrix draw_matrix(const grid *g, int m, int n, size_t item, bool numbers) {
    int type = numbers || chance(80) ? 1 : 77; /* p?gemr2d does not check it */
    int i = chance(40) ? 0 : below(25), j = chance(40) ? 0 : below(25);
    int M = i + m + below(6), N = j + n + below(6), mb = draw_block(m), nb = draw_block(n);
    int rsrc = chance(50) ? 0 : below(g->P), csrc = chance(50) ? 0 : below(g->Q), spare = chance(60) ? 0 : below(5);
    uint64_t after = state + 0x1234567;
    matrix x = {g, {type, g->context, M, N, mb, nb, rsrc, csrc, 1}, i + 1, j + 1, 0, NULL};
    if (g->context >= 0) {
        int rows = owned(M, mb, g->row, rsrc, g->P), columns = owned(N, nb, g->column, csrc, g->Q);
        x.desc[8] = rows + spare > 0 ? rows + spare : 1;
        x.bytes = (size_t)x.desc[8] * (size_t)columns * item;
        state += (uint64_t)world_rank * 0x51ed27;
    } else {
        for (int k = 2; k < DESCRIPTOR; k++) x.desc[k] = -77; /* no routine may read these */
        x.i = x.j = -77;
    }
    x.data = malloc(x.bytes + 16);
    fill(x.data, x.bytes, numbers);
    state = after;
    return x;
}

/* ---- calls ---- */

typedef void (*gemr2d_fn)(int *, int *, void *, int *, int *, int *, void *, int *, int *, int *, int *);
typedef void (*c_gemr2d_fn)(int, int, void *, int, int, int *, void *, int, int, int *, int);
typedef void (*trmr2d_fn)(char *, char *, int *, int *, void *, int *, int *, int *, void *, int *, int *, int *, int *,
                          size_t, size_t);
typedef void (*c_trmr2d_fn)(char *, char *, int, int, void *, int, int, int *, void *, int, int, int *, int);
typedef void (*tran_fn)(int *, int *, void *, void *, int *, int *, int *, void *, void *, int *, int *, int *);

/* A routine of one library; `fortran` selects the Fortran name if there are two. */
typedef union routine {
    void *symbol;
    gemr2d_fn gemr2d;
    c_gemr2d_fn c_gemr2d;
    trmr2d_fn trmr2d;
    c_trmr2d_fn c_trmr2d;
    tran_fn tran;
} routine;

static void *reference; /* handle of ScaLAPACK */

static routine find(bool ours, const char *name) {
    routine r = {ours ? dlsym(RTLD_DEFAULT, name) : dlsym(reference, name)};
    if (!r.symbol) fprintf(stderr, "scalapack_calls: no %s: %s\n", name, dlerror()), MPI_Abort(MPI_COMM_WORLD, 2);
    return r;
}

typedef struct call {
    int type, m, n, kind; /* kind: 0 gemr2d, 1 trmr2d, 2 tran */
    bool fortran, conjugate, forwarded;
    char uplo, diag;
    int context;
    matrix a, b;
    double alpha[2], beta[2];
} call;

/* Writes the name of a routine.  The reference is called by its C names, because ScaLAPACK's Fortran routines call its
 * C routines by name and would get ours. */
static void name_of(const call *c, bool fortran, char *out) {
    char t = type_names[c->type];
    const char *base = c->kind ? "trmr2d" : "gemr2d";
    if (c->kind == 2) sprintf(out, "p%ctran%s_", t, t == 's' || t == 'd' ? "" : c->conjugate ? "c" : "u");
    else sprintf(out, "%sp%c%s%s", fortran ? "" : "C", t, base, fortran ? "_" : "");
}

static void set_scalar(int type, const double value[2], void *out) {
    float f[2] = {(float)value[0], (float)value[1]};
    if (type == 1 || type == 3) memcpy(out, f, sizeof f);
    else memcpy(out, value, 2 * sizeof *value);
}

static void run_call(call *c, bool ours, void *b) {
    char name[32], alpha[16], beta[16];
    bool fortran = ours && c->fortran;
    name_of(c, fortran, name);
    routine r = find(ours, name);
    matrix *A = &c->a, *B = &c->b;
    set_scalar(c->type, c->alpha, alpha);
    set_scalar(c->type, c->beta, beta);
    if (c->kind == 2)
        r.tran(&c->m, &c->n, alpha, A->data, &A->i, &A->j, A->desc, beta, b, &B->i, &B->j, B->desc);
    else if (c->kind == 1 && fortran)
        r.trmr2d(&c->uplo, &c->diag, &c->m, &c->n, A->data, &A->i, &A->j, A->desc, b, &B->i, &B->j, B->desc,
                 &c->context, 1, 1);
    else if (c->kind == 1)
        r.c_trmr2d(&c->uplo, &c->diag, c->m, c->n, A->data, A->i, A->j, A->desc, b, B->i, B->j, B->desc, c->context);
    else if (fortran)
        r.gemr2d(&c->m, &c->n, A->data, &A->i, &A->j, A->desc, b, &B->i, &B->j, B->desc, &c->context);
    else
        r.c_gemr2d(c->m, c->n, A->data, A->i, A->j, A->desc, b, B->i, B->j, B->desc, c->context);
}

static int draw_size(void) { return chance(5) ? 0 : chance(10) ? between(60, 200) : between(1, 40); }

static call draw_call(const world *w) {
    call c = {.type = below(TYPES), .m = draw_size(), .n = draw_size(), .kind = chance(50) ? 0 : between(1, 2)};
    c.fortran = chance(50), c.conjugate = chance(50), c.context = w->all.context;
    c.uplo = "UuLl"[below(4)], c.diag = "UuNn"[below(4)];
    const grid *from = &w->grids[below(GRIDS)], *to = &w->grids[below(GRIDS)];
    if (c.kind == 2 && !c.type) c.type = 2;
    if (c.kind == 2) from = to = &w->all;
    c.alpha[0] = 1;
    c.forwarded = c.kind == 2 && chance(10);
    if (c.forwarded) c.alpha[0] = 2;
    bool numbers = c.kind == 2; /* arithmetic may change the bits of a NaN */
    size_t item = type_sizes[c.type];
    c.a = draw_matrix(from, c.kind == 2 ? c.n : c.m, c.kind == 2 ? c.m : c.n, item, numbers);
    c.b = draw_matrix(to, c.m, c.n, item, numbers);
    return c;
}

static void describe(const call *c, int number, uint64_t seed) {
    char name[32];
    name_of(c, c->fortran, name);
    fprintf(stderr, "call %d of seed %llu on rank %d: %s m=%d n=%d uplo=%c diag=%c\n", number, (unsigned long long)seed,
            world_rank, name, c->m, c->n, c->uplo, c->diag);
    for (int s = 0; s < 2; s++) {
        const matrix *x = s ? &c->b : &c->a;
        fprintf(stderr, "  grid %dx%d at %d,%d, M=%d N=%d MB=%d NB=%d RSRC=%d CSRC=%d LLD=%d, from %d,%d\n", x->g->P,
                x->g->Q, x->g->row, x->g->column, x->desc[2], x->desc[3], x->desc[4], x->desc[5], x->desc[6],
                x->desc[7], x->desc[8], x->i, x->j);
    }
}

/* Makes one call and returns the number of wrong bytes on this rank. */
static int try_call(int number, uint64_t seed) {
    const world *w = &worlds[below(WORLDS)];
    call c = draw_call(w);
    int wrong = 0;
    if (w->all.context >= 0) {
        char *expected = malloc(c.b.bytes + 16);
        memcpy(expected, c.b.data, c.b.bytes);
        run_call(&c, false, expected);
        run_call(&c, true, c.b.data);
        wrong = memcmp(expected, c.b.data, c.b.bytes) != 0;
        free(expected);
        if (wrong) describe(&c, number, seed);
    }
    free(c.a.data);
    free(c.b.data);
    return wrong;
}

/* Rank 0 sends a large matrix with the BLACS and enters a redistribution before rank 1 receives the matrix.  MPI may
 * need rank 0 for the delivery, so the redistribution must not wait outside of MPI. */
static int send_before_a_call(void) {
    enum { N = 700 };
    int ranks[] = {0, 1}, wrong = 0;
    grid g = make_grid(2, ranks, 1, 2, false);
    int desc[] = {1, g.context, 4, 4, 2, 2, 0, 0, 4}, one = 1, n = 4;
    double *x = calloc(N * N, sizeof *x), a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {0};
    if (g.context >= 0 && world_rank == 0) x[N * N - 1] = 5, Cdgesd2d(g.context, N, N, x, N, 0, 1);
    if (g.context >= 0 && world_rank == 1) {
        Cdgerv2d(g.context, N, N, x, N, 0, 0);
        wrong = x[N * N - 1] != 5;
    }
    if (g.context >= 0) find(true, "pdgemr2d_").gemr2d(&n, &n, a, &one, &one, desc, b, &one, &one, desc, &g.context);
    wrong |= g.context >= 0 && memcmp(a, b, sizeof a);
    free(x);
    return wrong;
}

int main(int argc, char **argv) {
    int wrong = 0, count = argc > 2 ? atoi(argv[2]) : 300;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 20261118;
    rsh_scalapack_stats s;
    MPI_Init(&argc, &argv);
    Cblacs_pinfo(&world_rank, &world_size);
    reference = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!reference || world_size > RANKS) {
        fprintf(stderr, "usage: mpirun -n 2..8 scalapack_calls LIBRARY COUNT [SEED]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    state = seed;
    for (int w = 0; w < WORLDS; w++) worlds[w] = make_world(w);
    if (send_before_a_call()) fprintf(stderr, "a message before a call is lost\n"), MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count && !wrong; i++) {
        wrong = try_call(i, seed);
        if (i % 50 == 49 || i == count - 1) MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        else if (wrong) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    rsh_scalapack_get_stats(&s);
    if (!world_rank)
        printf("%d calls of seed %llu on %d ranks: %llu moved, %llu forwarded on rank 0, %s\n", count,
               (unsigned long long)seed, world_size, (unsigned long long)s.moved, (unsigned long long)s.forwarded,
               wrong ? "WRONG" : "all equal");
    MPI_Finalize();
    return wrong;
}

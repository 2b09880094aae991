/* The move with ScaLAPACK's psgemr2d.  Its matrices are column-major, so it sees the transpose of ours: rows over ranks
 * here are columns over a 1 x p grid there, and columns are rows over a p x 1 grid. */
#ifdef PEERS_SCALAPACK
#include "peers.h"

#include <stdlib.h>

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridexit(int context);
void Cpsgemr2d(int m, int n, float *a, int ia, int ja, int *desca, float *b, int ib, int jb, int *descb, int context);

/* Elements of a descriptor: kind, context, rows, columns, rows and columns of a block, first process row and column,
 * leading dimension. */
typedef struct grids {
    int wide, tall; /* the two contexts */
    int from[9], to[9];
} grids;

static bool open_scalapack(contestant *c, const move *m) {
    grids *g = calloc(1, sizeof *g);
    int n = (int)m->n, share = (int)m->share;
    Cblacs_get(-1, 0, &g->wide);
    Cblacs_get(-1, 0, &g->tall);
    Cblacs_gridinit(&g->wide, "Row", 1, m->ranks);
    Cblacs_gridinit(&g->tall, "Row", m->ranks, 1);
    int from[] = {1, g->wide, n, n, n, share, 0, 0, n}, to[] = {1, g->tall, n, n, share, n, 0, 0, share};
    for (int i = 0; i < 9; i++) g->from[i] = from[i], g->to[i] = to[i];
    c->move = m, c->src = m->src, c->dst = m->dst, c->state = g;
    return true;
}

static void run_scalapack(contestant *c) {
    grids *g = c->state;
    int n = (int)c->move->n;
    Cpsgemr2d(n, n, (float *)c->src, 1, 1, g->from, (float *)c->dst, 1, 1, g->to, g->wide);
}

static void close_scalapack(contestant *c) {
    grids *g = c->state;
    Cblacs_gridexit(g->wide);
    Cblacs_gridexit(g->tall);
    free(g);
}

const contestant peer_scalapack = {
    .name = "ScaLAPACK psgemr2d", .open = open_scalapack, .run = run_scalapack, .close = close_scalapack};
#else
typedef int peers_without_scalapack;
#endif

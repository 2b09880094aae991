/* The move with MPI alone: MPI_Alltoallw with subarray types, and rows packed by hand for MPI_Alltoallv.  Blocks arrive
 * in the destination as whole rows, so that MPI_Alltoallv needs no unpacking here. */
#include "peers.h"

#include <stdlib.h>
#include <string.h>

typedef struct types {
    MPI_Datatype *send, *recv; /* one datatype for each rank */
    int *ones, *zeros;
} types;

static MPI_Datatype block(int64_t rows, int64_t columns, int64_t high, int64_t wide, int64_t row, int64_t column) {
    int sizes[] = {(int)rows, (int)columns}, part[] = {(int)high, (int)wide}, at[] = {(int)row, (int)column};
    MPI_Datatype type;
    MPI_Type_create_subarray(2, sizes, part, at, MPI_ORDER_C, MPI_UINT32_T, &type);
    MPI_Type_commit(&type);
    return type;
}

static bool open_w(contestant *c, const move *m) {
    size_t p = (size_t)m->ranks;
    types *t = calloc(1, sizeof *t);
    *t =
        (types){calloc(p, sizeof *t->send), calloc(p, sizeof *t->recv), calloc(p, sizeof(int)), calloc(p, sizeof(int))};
    for (int r = 0; r < m->ranks; r++) {
        t->send[r] = block(m->share, m->n, m->share, m->share, 0, r * m->share);
        t->recv[r] = block(m->n, m->share, m->share, m->share, r * m->share, 0);
        t->ones[r] = 1;
    }
    c->move = m, c->src = m->src, c->dst = m->dst, c->state = t;
    return true;
}

static void run_w(contestant *c) {
    types *t = c->state;
    MPI_Alltoallw(c->src, t->ones, t->zeros, t->send, c->dst, t->ones, t->zeros, t->recv, MPI_COMM_WORLD);
}

static void close_w(contestant *c) {
    types *t = c->state;
    for (int r = 0; r < c->move->ranks; r++) MPI_Type_free(&t->send[r]), MPI_Type_free(&t->recv[r]);
    free(t->send), free(t->recv), free(t->ones), free(t->zeros), free(t);
}

typedef struct packing {
    uint32_t *buffer; /* [ranks][share][share] */
    int *counts, *at;
} packing;

static size_t packed_bytes(const move *m) { return (size_t)(m->share * m->n) * sizeof(uint32_t); }

static bool open_v(contestant *c, const move *m) {
    packing *k = calloc(1, sizeof *k);
    *k = (packing){peers_alloc(packed_bytes(m)), calloc((size_t)m->ranks, sizeof(int)),
                   calloc((size_t)m->ranks, sizeof(int))};
    for (int r = 0; r < m->ranks; r++) {
        k->counts[r] = (int)(m->share * m->share);
        k->at[r] = r * k->counts[r];
    }
    c->move = m, c->src = m->src, c->dst = m->dst, c->state = k;
    return true;
}

static void run_v(contestant *c) {
    packing *k = c->state;
    const move *m = c->move;
    uint32_t *to = k->buffer;
    for (int r = 0; r < m->ranks; r++)
        for (int64_t i = 0; i < m->share; i++, to += m->share)
            memcpy(to, c->src + i * m->n + r * m->share, (size_t)m->share * sizeof *to);
    MPI_Alltoallv(k->buffer, k->counts, k->at, MPI_UINT32_T, c->dst, k->counts, k->at, MPI_UINT32_T, MPI_COMM_WORLD);
}

static void close_v(contestant *c) {
    packing *k = c->state;
    peers_free(k->buffer, packed_bytes(c->move));
    free(k->counts), free(k->at), free(k);
}

const contestant peer_alltoallw = {
    .name = "MPI_Alltoallw, subarray types", .open = open_w, .run = run_w, .close = close_w};
const contestant peer_alltoallv = {.name = "pack rows, MPI_Alltoallv", .open = open_v, .run = run_v, .close = close_v};

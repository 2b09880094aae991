/* A move by launched ranks: parts travel from rank 0 to where they belong, are resharded, and travel back. */
#include "launched.h"

#include <stdlib.h>

/* One rank's parts of a layout. */
typedef struct holding {
    const parts *whole;
    rsh_sharded *tensor;
    rsh_memory *memory; /* [nparts] */
    int64_t nparts, first; /* the first part's number among all */
} holding;

static rsh_status hold(rsh_comm *comm, const parts *whole, holding *h) {
    *h = (holding){.whole = whole, .first = parts_of(whole, rsh_comm_rank(comm))};
    rsh_status st = rsh_sharded_empty(comm, whole->layout, &h->tensor);
    if (st) return st;
    h->nparts = rsh_sharded_nparts(h->tensor);
    h->memory = calloc((size_t)h->nparts + 1, sizeof *h->memory);
    if (!h->memory) return RSH_ENOMEM;
    for (int64_t i = 0; i < h->nparts; i++) h->memory[i].data = rsh_tensor_data(rsh_sharded_part(h->tensor, i));
    return RSH_OK;
}

static void let_go(holding *h) {
    rsh_sharded_free(h->tensor);
    free(h->memory);
}

/* Bytes of part i of all. */
static size_t bytes_of(const parts *p, int64_t i) {
    uintptr_t start = (uintptr_t)p->memory[i].data, end = i + 1 < p->n ? (uintptr_t)p->memory[i + 1].data : (uintptr_t)p->data + p->bytes;
    return end - start;
}

/* Messages with rank 0 for the parts of this rank. */
static rsh_message *own_messages(const holding *h) {
    rsh_message *list = calloc((size_t)h->nparts + 1, sizeof *list);
    for (int64_t i = 0; list && i < h->nparts; i++) list[i] = (rsh_message){0, h->memory[i].data, bytes_of(h->whole, h->first + i)};
    return list;
}

/* Rank 0's messages for the parts of all ranks. */
static rsh_message *all_messages(const parts *p) {
    rsh_message *list = calloc((size_t)p->n + 1, sizeof *list);
    int64_t next = 0, nranks = rsh_layout_nranks(p->layout);
    for (int64_t k = 0; list && k < nranks; k++) {
        int64_t rank = rsh_layout_rank(p->layout, k), nparts = rsh_layout_nparts(p->layout, rank);
        for (int64_t i = 0; i < nparts; i++, next++) list[next] = (rsh_message){(int)rank, p->memory[next].data, bytes_of(p, next)};
    }
    return list;
}

/* All parts of rank 0 to those who hold them, or back. */
static rsh_status carry(rsh_comm *comm, const holding *h, bool back) {
    bool root = !rsh_comm_rank(comm);
    rsh_message *own = own_messages(h), *all = root ? all_messages(h->whole) : NULL;
    int64_t nall = root ? h->whole->n : 0;
    rsh_status st = rsh_comm_agree(comm, own && (all || !root) ? RSH_OK : RSH_ENOMEM);
    if (!st) st = back ? rsh_comm_exchange(comm, h->nparts, own, nall, all) : rsh_comm_exchange(comm, nall, all, h->nparts, own);
    free(own);
    free(all);
    return st;
}

static rsh_status reshard(rsh_comm *comm, const rsh_plan *plan, const holding *src, const holding *dst) {
    rsh_exec *exec = NULL;
    rsh_status st = rsh_exec_bind(plan, comm, src->memory, dst->memory, &exec);
    if (!st) st = rsh_exec_run(exec);
    rsh_exec_free(exec);
    return st;
}

int launched_move(const launched *l, const rsh_plan *plan, const parts *src, const parts *dst) {
    holding from, to = {0};
    rsh_status st = hold(l->comm, src, &from);
    if (!st) st = hold(l->comm, dst, &to);
    st = rsh_comm_agree(l->comm, st);
    if (!st) st = carry(l->comm, &from, false);
    if (!st) st = reshard(l->comm, plan, &from, &to);
    if (!st) st = carry(l->comm, &to, true);
    let_go(&from);
    let_go(&to);
    return st ? fail_library(st) : DONE;
}

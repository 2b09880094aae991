/* A move by launched ranks: parts travel from rank 0 to where they belong, are resharded, and travel back. */
#include "holding.h"
#include "launched.h"

#include <stdlib.h>

/* Messages with rank 0 for the parts of this rank. */
static rsh_message *own_messages(const holding *h) {
    rsh_message *list = calloc((size_t)h->nparts + 1, sizeof *list);
    for (int64_t i = 0; list && i < h->nparts; i++)
        list[i] = (rsh_message){0, h->memory[i].data, parts_bytes(h->whole, h->first + i)};
    return list;
}

/* Rank 0's messages for the parts of all ranks. */
static rsh_message *all_messages(const parts *p) {
    rsh_message *list = calloc((size_t)p->n + 1, sizeof *list);
    int64_t next = 0, nranks = rsh_layout_nranks(p->layout);
    for (int64_t k = 0; list && k < nranks; k++) {
        int64_t rank = rsh_layout_rank(p->layout, k), nparts = rsh_layout_nparts(p->layout, rank);
        for (int64_t i = 0; i < nparts; i++, next++)
            list[next] = (rsh_message){(int)rank, p->memory[next].data, parts_bytes(p, next)};
    }
    return list;
}

/* All parts of rank 0 to those who hold them, or back. */
static rsh_status carry(rsh_comm *comm, const holding *h, bool back) {
    bool root = !rsh_comm_rank(comm);
    rsh_message *own = own_messages(h), *all = root ? all_messages(h->whole) : NULL;
    int64_t nall = root ? h->whole->n : 0;
    rsh_status st = rsh_comm_agree(comm, own && (all || !root) ? RSH_OK : RSH_ENOMEM);
    if (!st)
        st = back ? rsh_comm_exchange(comm, h->nparts, own, nall, all)
                  : rsh_comm_exchange(comm, nall, all, h->nparts, own);
    free(own);
    free(all);
    return st;
}

int launched_move(const launched *l, const rsh_plan *plan, const parts *src, const parts *dst) {
    holding from, to = {0};
    rsh_status st = holding_take(l->comm, src, &from);
    if (!st) st = holding_take(l->comm, dst, &to);
    st = rsh_comm_agree(l->comm, st);
    if (!st) st = carry(l->comm, &from, false);
    if (!st) st = holding_reshard(l->comm, plan, &from, &to);
    if (!st) st = carry(l->comm, &to, true);
    holding_free(&from);
    holding_free(&to);
    return st ? fail_library(st) : DONE;
}

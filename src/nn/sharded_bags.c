/* Sharded bags: looks up rows of a table that is cut over ranks, for the indices of each rank.
 *
 * Every rank gets the indices of all ranks and looks up its part of their rows: whole rows of its chunk if the table is
 * cut along dim 0, its columns of all rows if it is cut along dim 1.  One move then sums or concatenates these parts
 * and brings each bag to the rank that has its indices. */
#include <stdlib.h>
#include <string.h>

#include "nn/bag.h"
#include "nn/impl.h"
#include "nn/sharded_bags.h"
#include "nn/spread.h"

/* ---- the indices of all ranks ---- */

/* Gathers lists of numbers in rank order: n[r] numbers of each rank r.  This rank's numbers are `mine`. */
static rsh_status gather_list(const rshn_cut_weight *w, const int64_t *n, const int64_t *mine, int64_t total,
                              int64_t **out) {
    rsh_layout *from = NULL, *to = NULL;
    rsh_sharded *parts = NULL, *whole = NULL;
    int64_t *all = rshn_malloc((size_t)(total + 1) * sizeof *all);
    rsh_memory memory = {(void *)(uintptr_t)mine, NULL};
    rsh_status st = all ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for %lld indices", (long long)total);
    if (!st) st = rshn_rows_layout(w->comm, RSH_I64, 1, &total, n, &from);
    if (!st) st = rshn_whole_layout(w, RSH_I64, 1, &total, RSH_OP_NONE, &to);
    if (!st) st = rsh_sharded_wrap(w->comm, from, &memory, &parts);
    st = rsh_comm_agree(w->comm, st);
    if (!st) st = rsh_reshard(parts, to, NULL, &whole);
    if (!st && total) memcpy(all, rsh_tensor_data(rsh_sharded_part(whole, 0)), (size_t)total * sizeof *all);
    rsh_sharded_free(whole);
    rsh_sharded_free(parts);
    rsh_layout_free(from);
    rsh_layout_free(to);
    if (st) rshn_free(all);
    else *out = all;
    return st;
}

/* The bags of all ranks, and the numbers of indices and of bags of each rank. */
typedef struct crowd {
    rshn_bags bags;
    int64_t *n, *nbags; /* [ranks], owned: numbers of indices and of bags */
} crowd;

static void crowd_free(crowd *c) {
    rshn_bags_free(&c->bags);
    rshn_free(c->n);
    rshn_free(c->nbags);
}

/* Converts gathered starts, which count each rank's own indices, to positions in the joint list. */
static void shift_starts(const crowd *c, int ranks) {
    int64_t bag = 0, before = 0;
    for (int r = 0; r < ranks; r++) {
        for (int64_t i = 0; i < c->nbags[r]; i++) c->bags.start[bag++] += before;
        before += c->n[r];
    }
    c->bags.start[bag] = before;
}

static rsh_status gather_bags(const rshn_cut_weight *w, const rshn_bags *mine, crowd *c) {
    *c = (crowd){0};
    rsh_status st = rshn_agree_on_rows(w->comm, RSH_OK, mine->n, &c->n, &c->bags.n);
    if (!st) st = rshn_agree_on_rows(w->comm, RSH_OK, mine->nbags, &c->nbags, &c->bags.nbags);
    if (!st) st = gather_list(w, c->n, mine->index, c->bags.n, &c->bags.index);
    if (!st) st = gather_list(w, c->nbags, mine->start, c->bags.nbags, &c->bags.start);
    if (!st) shift_starts(c, rsh_comm_size(w->comm));
    else crowd_free(c);
    return st;
}

/* Gathers the weights of all ranks' indices; backward sums their gradients. */
static rsh_status gather_weights(const rshn_cut_weight *w, const crowd *c, rsh_value *weights, rsh_value **out) {
    rsh_layout *from = NULL, *to = NULL;
    rsh_dtype dtype = rsh_value_dtype(weights);
    rsh_status st = rshn_rows_layout(w->comm, dtype, 1, &c->bags.n, c->n, &from);
    if (!st) st = rshn_whole_layout(w, dtype, 1, &c->bags.n, RSH_OP_NONE, &to);
    st = rsh_comm_agree(w->comm, st);
    if (!st) st = rshn_move_plain(weights, w->comm, from, to, RSH_DERIVATIVE_ADJOINT, out);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return st;
}

/* ---- looking up ---- */

/* Sends the rows that this rank found, [bags, columns], to the ranks that own the bags. */
static rsh_status send_to_owners(const rshn_cut_weight *w, const int64_t *nbags, int64_t total, rsh_value *found,
                                 rsh_value **out) {
    const int64_t sizes[] = {total, w->desc->dim[1].size};
    rsh_dtype dtype = rsh_value_dtype(found);
    rsh_layout *from = NULL, *to = NULL;
    rsh_status st = w->dim == 0 ? rshn_whole_layout(w, dtype, 2, sizes, RSH_OP_SUM, &from)
                                : rshn_last_cut_layout(w, dtype, 2, sizes, &from);
    if (!st) st = rshn_rows_layout(w->comm, dtype, 2, sizes, nbags, &to);
    st = rsh_comm_agree(w->comm, st);
    if (!st) st = rshn_move_plain(found, w->comm, from, to, RSH_DERIVATIVE_ADJOINT, out);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return st;
}

static rsh_status look_up(const rshn_cut_weight *w, const rshn_lookup *l, const rshn_bags *mine, rsh_value *weights,
                          rsh_value **out) {
    crowd c;
    rsh_value *table = NULL, *all = NULL, *found = NULL;
    NN_TRY(gather_bags(w, mine, &c));
    int64_t total = c.bags.nbags, first = w->dim == 0 ? w->first : 0;
    rsh_status st = weights ? gather_weights(w, &c, weights, &all) : RSH_OK;
    if (!st && l->max_norm > 0)
        st = rshn_shorten(&c.bags, l->weight, first, l->max_norm, l->norm_type, w->dim == 0 ? NULL : w->comm);
    if (!st) st = rsh_value_to_local(l->weight, &table);
    if (!st) st = rshn_bag(&c.bags, table, first, l->padding, l->frozen, l->mode, all, &found);
    st = rsh_comm_agree(w->comm, st);
    if (!st) st = send_to_owners(w, c.nbags, total, found, out);
    rsh_value_free(table);
    rsh_value_free(all);
    rsh_value_free(found);
    crowd_free(&c);
    return st;
}

/* Computes maxima.  They are computed on the rank that has all rows of a bag, so that the gradient reaches the right
 * row. */
static rsh_status look_up_max(const rshn_cut_weight *w, const rshn_lookup *l, rshn_bags *mine, rsh_value **out) {
    rshn_lookup rows = *l;
    rshn_bags single = {.n = mine->n, .nbags = mine->n, .index = mine->index};
    rsh_value *fetched = NULL;
    rows.mode = RSH_BAG_SUM;
    rows.padding = -1;
    single.start = rshn_malloc((size_t)(mine->n + 1) * sizeof *single.start);
    rsh_status st = single.start ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for %lld bags", (long long)mine->n);
    st = rsh_comm_agree(w->comm, st);
    for (int64_t i = 0; !st && i <= mine->n; i++) single.start[i] = i;
    if (!st) st = look_up(w, &rows, &single, NULL, &fetched);
    rshn_free(single.start);
    if (st) return st;
    for (int64_t i = 0; i < mine->n; i++) mine->index[i] = mine->index[i] == l->padding ? -1 : i;
    st = rsh_comm_agree(w->comm, rshn_bag(mine, fetched, 0, -1, -1, RSH_BAG_MAX, NULL, out));
    rsh_value_free(fetched);
    return st;
}

rsh_status rshn_sharded_bags(const rshn_lookup *l, rsh_status mine, rshn_bags *bags, rsh_value *weights,
                             rsh_value **out) {
    rshn_cut_weight w = {0};
    if (!mine) mine = rshn_cut_weight_of(l->layer, l->weight, &w);
    rsh_status st = rsh_comm_agree(rsh_value_comm(l->weight), mine);
    if (!st && l->mode == RSH_BAG_MAX && w.dim == 0)
        st = look_up_max(&w, l, bags, out);
    else if (!st) st = look_up(&w, l, bags, weights, out);
    rshn_bags_free(bags);
    return st;
}

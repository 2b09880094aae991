/* Sync grads: turns the gradients of a tree into those of all ranks of a group.
 *
 * How the gradient of a parameter is treated depends on its kind and on how the group relates to the ranks that share
 * the parameter (grad_kind.c): it is summed over the group, summed over a line, or left unchanged.  A line consists
 * of the ranks of the group that have the same position in their meshes.  If the group has whole meshes, a split
 * creates it. */
#include <reshard/shard.h>

#include <stdlib.h>
#include <string.h>

#include <reshard/dtensor.h>
#include <reshard/math.h>

#include "nn/grad_kind.h"
#include "nn/impl.h"
#include "nn/optim.h"
#include "nn/shard_parameter.h"
#include "nn/state_dict.h"

typedef enum way { SUM_OVER_GROUP, SUM_OVER_LINE, ONLY_SCALE, LEAVE } way;

typedef struct entry {
    rsh_value *parameter; /* borrowed */
    way way;
    int64_t line;  /* index of the line, for SUM_OVER_LINE */
    double factor; /* factor applied afterwards; a sum over the group applies the op itself instead */
} entry;

typedef struct line {
    int n;
    const int64_t *ranks; /* borrowed: the ranks that share the parameters of the line */
    rsh_comm *comm;       /* owned: comm of the line; NULL until it is created */
} line;

/* The parameters of a tree that require gradients; all ranks have the same ones. */
typedef struct listing {
    rsh_group *group;
    rsh_op op;
    rshn_grad_tree tree;
    entry *at;
    int64_t n, room;
    rshn_seen seen; /* parameters */
    line *line;
    int64_t nlines, line_room;
    uint64_t shapes; /* hash of the paths, dtypes, sizes and treatments of the parameters */
} listing;

/* ---- planning ---- */

static rsh_status find_line(listing *l, const rshn_gradient *g, int64_t *out) {
    for (*out = 0; *out < l->nlines; ++*out) {
        const line *have = &l->line[*out];
        if (have->n == g->n && !memcmp(have->ranks, g->ranks, (size_t)g->n * sizeof *g->ranks)) return RSH_OK;
    }
    NN_TRY(RSHN_GROW(l->line, l->nlines + 1, &l->line_room));
    l->line[l->nlines++] = (line){g->n, g->ranks, NULL};
    return RSH_OK;
}

/* Returns the factor of a mean over the group: there is either one loss for each rank or one for each mesh. */
static double mean_factor(const rshn_gradient *g, int ranks) {
    if (g->kind != RSH_GRAD_REPLICATED) return 1 / (double)ranks;
    return g->relation == RSHN_AROUND ? g->n / (double)ranks : 1;
}

static rsh_status decide_way(listing *l, const char *path, const rshn_gradient *g, entry *e) {
    int ranks = rsh_group_size(l->group);
    if (l->op == RSH_OP_AVG) e->factor = mean_factor(g, ranks);
    if (g->kind == RSH_GRAD_PARTIAL || g->relation == RSHN_CROSSES) {
        e->way = SUM_OVER_GROUP;
    } else if (g->relation == RSHN_INSIDE) {
        e->way = e->factor == 1 ? LEAVE : ONLY_SCALE;
    } else if (g->relation == RSHN_AROUND && ranks % g->n == 0) {
        e->way = SUM_OVER_LINE;
        NN_TRY(find_line(l, g, &e->line));
    } else {
        return rshn_fail(RSH_EUNSUP,
                         "cannot sync \"%s\": the %d ranks that share it must contain the whole group (%d ranks), "
                         "be an equal share of it, or have at most one rank in common with it",
                         path, g->n, ranks);
    }
    return RSH_OK;
}

static void mix_entry(listing *l, const char *path, const entry *e) {
    const rsh_value *v = e->parameter;
    int32_t facts[] = {(int32_t)rsh_value_dtype(v), (int32_t)e->way, (int32_t)e->line};
    if (rsh_value_layout(v)) l->shapes = rshn_hash_text(l->shapes, rsh_layout_text(rsh_value_layout(v)));
    l->shapes = rshn_hash(rshn_hash_text(l->shapes, path), facts, sizeof facts);
    l->shapes = rshn_hash(l->shapes, rsh_value_shape(v), (size_t)rsh_value_ndim(v) * sizeof(int64_t));
}

/* Checks that a tied parameter is treated the same way everywhere. */
static rsh_status check_tied(const listing *l, const char *path, const entry *e) {
    for (int64_t i = 0; i < l->n; i++) {
        const entry *first = &l->at[i];
        if (first->parameter != e->parameter || (first->way == e->way && first->line == e->line)) continue;
        return rshn_fail(RSH_EUNSUP,
                         "cannot sync \"%s\": the parameter is tied, but its gradient is complete under one path "
                         "and partial under another",
                         path);
    }
    return RSH_OK;
}

static rsh_status list_parameter(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    listing *l = ctx;
    entry e = {.parameter = v, .factor = 1};
    rshn_gradient g;
    bool was = false;
    if (!rsh_value_requires_grad(v)) return RSH_OK;
    NN_TRY(rshn_gradient_of(&l->tree, path, owner, name, &g));
    NN_TRY(decide_way(l, path, &g, &e));
    NN_TRY(rshn_seen_add(&l->seen, v, &was));
    if (was) return check_tied(l, path, &e);
    NN_TRY(RSHN_GROW(l->at, l->n + 1, &l->room));
    l->at[l->n++] = e;
    mix_entry(l, path, &e);
    return RSH_OK;
}

static rsh_status compare_ranks(rsh_group *group, const listing *l) {
    int other = 0;
    NN_TRY(rshn_ranks_compare(rsh_group_comm(group), RSH_OK, &l->shapes, sizeof l->shapes, &other));
    if (!other) return RSH_OK;
    return rshn_fail(
        RSH_EVALUE,
        "rsh_module_sync_grads: the parameters that require gradients on rank %d differ from those on rank 0", other);
}

/* ---- lines ---- */

static int place_in(const line *l, int64_t rank) {
    for (int i = 0; i < l->n; i++)
        if (l->ranks[i] == rank) return i;
    return -1;
}

static rsh_status make_lines(listing *l) {
    rsh_comm *comm = rsh_group_comm(l->group);
    int me = rsh_group_rank(l->group), global = -1;
    NN_TRY(rsh_group_to_global(l->group, me, &global));
    for (int64_t i = 0; i < l->nlines; i++) {
        NN_TRY(rsh_comm_split(comm, place_in(&l->line[i], global), me, &l->line[i].comm));
        bool even = rsh_comm_size(l->line[i].comm) * l->line[i].n == rsh_comm_size(comm);
        rsh_status st = RSH_OK;
        if (!even)
            st = rshn_fail(RSH_EUNSUP,
                           "cannot sync: %d ranks of the group share parameters, so all ranks of the group must share "
                           "them in sets of %d",
                           l->line[i].n, l->line[i].n);
        NN_TRY(rsh_comm_agree(comm, st));
    }
    return RSH_OK;
}

/* Replaces the tensor by the sum over all ranks of the comm. */
static rsh_status sum_over(rsh_comm *comm, const rsh_tensor *t) {
    rsh_layout_desc desc = {.dtype = rsh_tensor_dtype(t), .ndim = rsh_tensor_ndim(t), .naxes = 1};
    rsh_layout *terms = NULL, *sums = NULL;
    rsh_sharded *from = NULL, *to = NULL;
    for (int d = 0; d < desc.ndim; d++) desc.dim[d].size = rsh_tensor_shape(t)[d];
    desc.axis[0] = (rsh_axis){"x", rsh_comm_size(comm)};
    rsh_status st = rsh_layout_new(&desc, &sums);
    desc.op = RSH_OP_SUM;
    desc.npartial = 1;
    if (!st) st = rsh_layout_new(&desc, &terms);
    if (!st) st = rsh_sharded_from_tensors(comm, terms, 1, &t, &from);
    st = rsh_comm_agree(comm, st);
    if (!st) st = rsh_reshard(from, sums, NULL, &to);
    if (!st) st = rsh_math_copy(rsh_sharded_part(to, 0), t);
    rsh_sharded_free(from);
    rsh_sharded_free(to);
    rsh_layout_free(terms);
    rsh_layout_free(sums);
    return st;
}

/* ---- gradients ---- */

/* Determines for each parameter whether any rank has a gradient. */
static rsh_status find_wanted(rsh_group *group, const listing *l, unsigned char *mine, unsigned char *any) {
    for (int64_t i = 0; i < l->n; i++) mine[i] = rsh_value_grad(l->at[i].parameter) != NULL;
    if (!l->n) return RSH_OK;
    return rsh_comm_allreduce(rsh_group_comm(group), mine, any, l->n, RSH_U8, RSH_OP_MAX);
}

static bool is_dense(const rsh_value *g) {
    for (int64_t i = 0; i < rsh_value_nparts(g); i++)
        if (!rsh_tensor_dense(rsh_value_part(g, i))) return false;
    return true;
}

/* Makes sure that this rank has a dense gradient: zeros if it has none. */
static rsh_status ensure_dense_grad(rsh_value *parameter) {
    rsh_value *g = rsh_value_grad(parameter), *fresh = NULL;
    if (g && is_dense(g)) return RSH_OK;
    NN_TRY(rshn_zeros_like(parameter, &fresh));
    rsh_status st = g ? rshn_copy_value(g, fresh) : RSH_OK;
    if (!st) st = rsh_value_set_grad(parameter, fresh);
    rsh_value_free(fresh);
    return st;
}

static rsh_status combine_part(const listing *l, const entry *e, const rsh_tensor *part) {
    if (e->way == SUM_OVER_GROUP) return rsh_group_all_reduce(l->group, (rsh_tensor *)(uintptr_t)part, l->op);
    if (e->way == SUM_OVER_LINE) NN_TRY(sum_over(l->line[e->line].comm, part));
    return e->factor == 1 ? RSH_OK : rshn_scale_part(part, e->factor);
}

static rsh_status combine_all(rsh_group *group, const listing *l, const unsigned char *any) {
    rsh_status st = RSH_OK;
    for (int64_t i = 0; !st && i < l->n; i++)
        if (any[i] && l->at[i].way != LEAVE && (l->at[i].way != ONLY_SCALE || rsh_value_grad(l->at[i].parameter)))
            st = ensure_dense_grad(l->at[i].parameter);
    NN_TRY(rshn_group_agree(group, st));
    for (int64_t i = 0; i < l->n; i++) {
        const rsh_value *g = any[i] && l->at[i].way != LEAVE ? rsh_value_grad(l->at[i].parameter) : NULL;
        for (int64_t k = 0; g && k < rsh_value_nparts(g); k++)
            NN_TRY(combine_part(l, &l->at[i], rsh_value_part(g, k)));
    }
    return RSH_OK;
}

static rsh_status sync_listed(rsh_group *group, listing *l) {
    unsigned char *mine = rshn_malloc((size_t)l->n + 1), *any = rshn_malloc((size_t)l->n + 1);
    rsh_status st = mine && any ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for %lld gradients", (long long)l->n);
    st = rshn_group_agree(group, st);
    if (!st) st = find_wanted(group, l, mine, any);
    if (!st) st = make_lines(l);
    if (!st) st = combine_all(group, l, any);
    rshn_free(mine);
    rshn_free(any);
    return st;
}

static rsh_status check_arguments(rsh_module *m, rsh_op op) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_module_sync_grads: m is NULL");
    if (op == RSH_OP_SUM || op == RSH_OP_AVG) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "rsh_module_sync_grads: op must be sum or avg, got %s", rsh_op_name(op));
}

rsh_status rsh_module_sync_grads(rsh_module *m, rsh_group *group, rsh_op op) {
    listing l = {.group = group, .op = op};
    bool member = rsh_group_rank(group) >= 0;
    rsh_status st = check_arguments(m, op);
    if (!st && member) st = rshn_grad_tree_of(m, group, &l.tree);
    if (!st && member) st = rsh_module_each_parameter(m, true, list_parameter, &l);
    st = rshn_group_agree(group, st);
    if (!st && member) st = compare_ranks(group, &l);
    if (!st && member) st = sync_listed(group, &l);
    for (int64_t i = 0; i < l.nlines; i++)
        if (l.line[i].comm) rsh_comm_free(l.line[i].comm);
    rshn_seen_free(&l.seen);
    rshn_free(l.line);
    rshn_free(l.at);
    return st;
}

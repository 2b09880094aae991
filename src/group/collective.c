/* Collective: broadcast, scatter, gather and the reductions as plans of the core.
 *
 * A call moves one tensor, or one for each rank, from one layout to another: for example from the root to all ranks, or
 * from partial to replicated.  The plan determines the messages and sends no more than necessary, and combines
 * contributions in ascending rank order.  It runs on every engine, reads and writes tensors with any strides in place,
 * and is cached in the comm for the next call. */
#include <stdio.h>

#include "group/impl.h"
#include "math/math.h"
#include "shard/shard.h"

/* Which ranks have tensor j of a call. */
typedef enum place {
    ROOT,   /* the root */
    OTHERS, /* all ranks except the root */
    OWN,    /* rank j */
    ALL,    /* every rank, with equal elements */
    PARTIAL /* every rank, to be reduced */
} place;

/* The tensors of one side: one tensor for all j, or a list with tensor j at index j. */
typedef struct side {
    place where;
    const rsh_tensor *one;
    bool is_list;
    int nlist;
    const rsh_tensor *const *list;
    const rsh_layout **layouts; /* owned: [n], the layouts of the tensors */
    rsh_sharded **standins;     /* owned, by part of this rank: temporaries; NULL: the caller's memory is used */
    rsh_memory *memory;         /* owned, by part of this rank: the memory of the parts */
    int64_t nparts;
} side;

typedef struct call {
    const char *name;
    rsh_comm *comm;
    int root; /* the root's rank; -1: none */
    bool reduces;
    rsh_op op;
    side from, to;
    int64_t n;            /* number of tensors of the plan */
    const rsh_plan *plan; /* owned by the comm */
    rshi_offer *offers;   /* owned: [size], the arguments of each rank */
} call;

/* ---- checks of this rank alone ---- */

static bool holds(const call *c, place where, int64_t j) {
    switch (where) {
    case ROOT: return c->comm->rank == c->root;
    case OTHERS: return c->comm->rank != c->root;
    case OWN: return c->comm->rank == j;
    default: return true;
    }
}

static const rsh_tensor *tensor_of(const side *s, int64_t j) { return s->is_list ? s->list[j] : s->one; }

/* Returns the tensor that every rank has, on either side. */
static const rsh_tensor *common_tensor(const call *c) { return c->from.one ? c->from.one : c->to.one; }

static rsh_status check_list(const call *c, const side *s) {
    bool wanted = s->where != ROOT || c->comm->rank == c->root;
    RSH_REQUIRE(wanted || !s->list, RSH_EVALUE, "%s: rank %d passed a list of tensors; only the root (rank %d) may "
                                                "pass one",
                c->name, c->comm->rank, c->root);
    if (!wanted) return RSH_OK;
    RSH_REQUIRE(s->list, RSH_EVALUE, "%s: rank %d must pass a list of tensors, got NULL", c->name, c->comm->rank);
    RSH_REQUIRE(s->nlist == c->comm->size, RSH_EVALUE,
                "%s: got %d tensors for a group of %d ranks; one per rank is required", c->name,
                s->nlist, c->comm->size);
    rshi_offer mine = rshi_offer_of(common_tensor(c), -1);
    for (int j = 0; j < s->nlist; j++) {
        char whose[48];
        RSH_REQUIRE(s->list[j], RSH_EVALUE, "%s: tensor %d of the list is NULL", c->name, j);
        rshi_offer theirs = rshi_offer_of(s->list[j], -1);
        snprintf(whose, sizeof whose, "tensor %d of the list", j);
        RSH_TRY(rshi_offer_match(c->name, &mine, "the tensor", &theirs, whose));
    }
    return RSH_OK;
}

static rsh_status check_call(const call *c) {
    RSH_REQUIRE(common_tensor(c), RSH_EVALUE, "%s: the tensor is NULL", c->name);
    RSH_REQUIRE(c->root < c->comm->size && (c->root >= 0 || (c->from.where != ROOT && c->to.where != ROOT)),
                RSH_ERUNTIME, "%s: root %d is out of range; the group has ranks 0 to %d", c->name, c->root,
                c->comm->size - 1);
    if (c->from.is_list) RSH_TRY(check_list(c, &c->from));
    if (c->to.is_list) RSH_TRY(check_list(c, &c->to));
    if (!c->reduces) return RSH_OK;
    RSH_REQUIRE(c->op > RSH_OP_NONE && c->op < RSH_OP_COUNT, RSH_EVALUE, "%s: unknown reduction %d", c->name,
                (int)c->op);
    return rsh_op_check(c->op, rsh_tensor_dtype(common_tensor(c)));
}

/* ---- layouts ---- */

/* Creates a layout with a part on every rank, along one axis.  If the root is excluded, the ranks are listed. */
static rsh_status layout_on_many(const call *c, place where, rsh_layout **out) {
    const rsh_tensor *t = common_tensor(c);
    rsh_layout_desc d = {
        .dtype = rsh_tensor_dtype(t), .ndim = rsh_tensor_ndim(t), .naxes = 1, .axis[0] = {"x", c->comm->size}};
    int64_t *ranks = NULL;
    for (int i = 0; i < d.ndim; i++) d.dim[i].size = rsh_tensor_shape(t)[i];
    if (where == PARTIAL) d.op = c->op, d.npartial = 1;
    if (where == OTHERS) {
        d.ranks = ranks = rshi_alloc((size_t)c->comm->size, sizeof *ranks);
        if (!ranks) return rshi_nomem();
        for (int r = 0, n = 0; r < c->comm->size; r++)
            if (r != c->root) ranks[n++] = r;
        d.axis[0].size--;
    }
    rsh_status st = rsh_layout_new(&d, out);
    rshi_free(ranks);
    return st;
}

static rsh_status layout_of(const call *c, place where, int64_t j, rsh_layout **out) {
    const rsh_tensor *t = common_tensor(c);
    if (where != ROOT && where != OWN) return layout_on_many(c, where, out);
    return rsh_layout_whole(rsh_tensor_dtype(t), rsh_tensor_ndim(t), rsh_tensor_shape(t), where == ROOT ? c->root : j,
                            out);
}

/* Prepares the layouts of a side, and this rank's memory of it. */
static rsh_status side_prepare(const call *c, side *s) {
    s->layouts = rshi_calloc((size_t)c->n, sizeof *s->layouts);
    s->standins = rshi_calloc((size_t)c->n, sizeof *s->standins);
    s->memory = rshi_calloc((size_t)c->n, sizeof *s->memory);
    if (!s->layouts || !s->standins || !s->memory) return rshi_nomem();
    for (int64_t j = 0; j < c->n; j++) {
        RSH_TRY(layout_of(c, s->where, j, (rsh_layout **)&s->layouts[j]));
        const rsh_tensor *t = holds(c, s->where, j) ? tensor_of(s, j) : NULL;
        if (t && s == &c->to) RSH_TRY(rshi_elements_check_written(c->name, t));
        if (t) s->memory[s->nparts++] = (rsh_memory){rsh_tensor_data(t), rsh_tensor_strides(t)};
    }
    return RSH_OK;
}

static void side_release(const call *c, side *s) {
    for (int64_t j = 0; s->layouts && j < c->n; j++) rsh_layout_free((rsh_layout *)s->layouts[j]);
    for (int64_t j = 0; s->standins && j < c->n; j++) rsh_sharded_free(s->standins[j]);
    rshi_free(s->layouts);
    rshi_free(s->standins);
    rshi_free(s->memory);
}

/* ---- temporaries: a plan cannot write to memory that it reads ---- */

static int64_t list_touched(const call *c, const side *s, bool dst, rshi_touched *out) {
    int64_t n = 0;
    for (int64_t j = 0; j < c->n; j++)
        if (holds(c, s->where, j)) out[n++] = (rshi_touched){tensor_of(s, j), dst};
    return n;
}

/* Allocates dense memory that peers can read, for every tensor of this rank's side. */
static rsh_status allocate_standins(const call *c, side *s) {
    int64_t part = 0;
    for (int64_t j = 0; j < c->n; j++) {
        if (!holds(c, s->where, j)) continue;
        RSH_TRY(rsh_sharded_empty(c->comm, s->layouts[j], &s->standins[part]));
        rshi_sharded_memory(s->standins[part], &s->memory[part]);
        part++;
    }
    return RSH_OK;
}

/* Copies between the caller's tensors and their temporaries, if there are any. */
static void copy_standins(const call *c, const side *s, bool in) {
    int64_t part = 0;
    for (int64_t j = 0; j < c->n; j++) {
        if (!holds(c, s->where, j)) continue;
        const rsh_sharded *with = s->standins[part++];
        if (!with) continue;
        const rsh_tensor *theirs = tensor_of(s, j), *ours = rsh_sharded_part(with, 0);
        rshi_math_copy(in ? theirs : ours, in ? ours : theirs);
    }
}

/* An exec does not accept destinations that share memory with anything.  Calls that are valid here, such as a reduction
 * of a tensor onto itself, use temporaries on this rank: for all destinations if these overlap each other; otherwise
 * for the side with fewer tensors. */
static rsh_status separate_memory(call *c) {
    rshi_touched *list = rshi_alloc((size_t)(c->from.nparts + c->to.nparts), sizeof *list);
    if (!list) return rshi_nomem();
    bool among = false, any = false;
    int64_t n = list_touched(c, &c->to, true, list);
    rsh_status st = rshi_elements_meet(list, n, &among);
    n += list_touched(c, &c->from, false, list + n);
    if (!st) st = rshi_elements_meet(list, n, &any);
    rshi_free(list);
    if (st || !any) return st;
    return allocate_standins(c, !among && c->from.nparts < c->to.nparts ? &c->from : &c->to);
}

/* ---- the call ---- */

static rsh_status prepare_call(call *c) {
    RSH_TRY(check_call(c));
    c->offers = rshi_alloc((size_t)c->comm->size, sizeof *c->offers);
    if (!c->offers) return rshi_nomem();
    if (c->to.where == OTHERS && c->comm->size == 1) return RSH_OK; /* there is no other rank */
    c->n = c->from.is_list || c->to.is_list ? c->comm->size : 1;
    RSH_TRY(side_prepare(c, &c->from));
    RSH_TRY(side_prepare(c, &c->to));
    RSH_TRY(separate_memory(c));
    return rshi_plan_cached(c->comm, c->n, c->from.layouts, c->to.layouts, NULL, &c->plan);
}

static rsh_status run_call(call *c) {
    if (!c->n) return RSH_OK;
    copy_standins(c, &c->from, true);
    RSH_TRY(rshi_run_cached(c->comm, c->name, RSH_OK, c->plan, c->from.memory, c->to.memory));
    copy_standins(c, &c->to, false);
    for (int64_t j = 0; j < c->n; j++)
        if (holds(c, c->to.where, j)) rsh_tensor_bump_version(tensor_of(&c->to, j));
    return RSH_OK;
}

/* Errors and different ops are detected when the call is opened; different roots, dtypes and shapes right after. */
static rsh_status call_all(rsh_group *g, call *c) {
    RSH_TRY(rshi_group_comm(g, &c->comm));
    if (!c->comm) return RSH_OK; /* this rank is not a member */
    rsh_status st = prepare_call(c);
    RSH_GOTO(rshi_comm_open(c->comm, c->name, (uint64_t)c->op, c->reduces ? rsh_op_name(c->op) : NULL, st));
    rshi_offer mine = rshi_offer_of(common_tensor(c), c->root);
    RSH_GOTO(rshi_offers_agree(c->comm, c->name, &mine, c->offers));
    st = run_call(c);
out:
    side_release(c, &c->from);
    side_release(c, &c->to);
    rshi_free(c->offers);
    return st;
}

rsh_status rsh_group_broadcast(rsh_group *g, rsh_tensor *t, int root) {
    call c = {.name = "broadcast", .root = root, .from = {.where = ROOT, .one = t}, .to = {.where = OTHERS, .one = t}};
    return call_all(g, &c);
}

rsh_status rsh_group_scatter(rsh_group *g, rsh_tensor *out, int nlist, const rsh_tensor *const *list, int root) {
    call c = {.name = "scatter",
              .root = root,
              .from = {.where = ROOT, .is_list = true, .nlist = nlist, .list = list},
              .to = {.where = OWN, .one = out}};
    return call_all(g, &c);
}

rsh_status rsh_group_gather(rsh_group *g, const rsh_tensor *in, int nlist, rsh_tensor *const *list, int root) {
    call c = {.name = "gather",
              .root = root,
              .from = {.where = OWN, .one = in},
              .to = {.where = ROOT, .is_list = true, .nlist = nlist, .list = (const rsh_tensor *const *)list}};
    return call_all(g, &c);
}

rsh_status rsh_group_all_gather(rsh_group *g, int nlist, rsh_tensor *const *list, const rsh_tensor *in) {
    call c = {.name = "all_gather",
              .root = -1,
              .from = {.where = OWN, .one = in},
              .to = {.where = ALL, .is_list = true, .nlist = nlist, .list = (const rsh_tensor *const *)list}};
    return call_all(g, &c);
}

rsh_status rsh_group_all_reduce(rsh_group *g, rsh_tensor *t, rsh_op op) {
    call c = {.name = "all_reduce",
              .root = -1,
              .reduces = true,
              .op = op,
              .from = {.where = PARTIAL, .one = t},
              .to = {.where = ALL, .one = t}};
    return call_all(g, &c);
}

rsh_status rsh_group_reduce(rsh_group *g, rsh_tensor *t, rsh_op op, int root) {
    call c = {.name = "reduce",
              .root = root,
              .reduces = true,
              .op = op,
              .from = {.where = PARTIAL, .one = t},
              .to = {.where = ROOT, .one = t}};
    return call_all(g, &c);
}

rsh_status rsh_group_reduce_scatter(rsh_group *g, rsh_tensor *out, int nlist, const rsh_tensor *const *list,
                                    rsh_op op) {
    call c = {.name = "reduce_scatter",
              .root = -1,
              .reduces = true,
              .op = op,
              .from = {.where = PARTIAL, .is_list = true, .nlist = nlist, .list = list},
              .to = {.where = OWN, .one = out}};
    return call_all(g, &c);
}

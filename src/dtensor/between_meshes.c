/* Between meshes: moves a DTensor to other ranks, and its gradient back, with one plan each in the common parent.
 *
 * Every rank of the parent has the op in its graph, even if it has no part of the tensor before or after the move.  On
 * such a rank the input or output of the op is a plain value with one element. */
#include "dtensor/dtensor.h"

#include <inttypes.h>
#include <string.h>

#include "math/math.h"
#include "shard/shard.h"

/* ---- exchanging arguments ---- */

/* The arguments, which must be equal on all ranks, and the tensor's properties, which must be equal on the ranks of
 * `from`. */
typedef struct asked {
    uint64_t meshes; /* hash of both meshes */
    int64_t n, dtype, enabled;
    rsh_place places[RSH_MAX_AXES];
} asked;
typedef struct had {
    int64_t ndim, dtype, requires_grad;
    int64_t shape[RSH_MAX_NDIM];
    rsh_place places[RSH_MAX_AXES];
} had;
typedef struct card {
    asked asks;
    had has;
} card;

static uint64_t hash_mesh(const rsh_mesh *m, uint64_t seed) {
    uint64_t h = rshi_hash(rsh_mesh_shape(m), (size_t)rsh_mesh_ndim(m) * sizeof(int64_t), seed);
    return rshi_hash(rsh_mesh_ranks(m), (size_t)rsh_mesh_size(m) * sizeof(int64_t), h);
}

static rsh_status fill_card(const rsh_value *v, const rsh_mesh *from, const rsh_mesh *to, int n,
                            const rsh_place *places, rsh_dtype dtype, card *out) {
    memset(out, 0, sizeof *out);
    out->asks.meshes = hash_mesh(to, hash_mesh(from, 1));
    out->asks.n = n;
    out->asks.dtype = dtype;
    out->asks.enabled = rsh_grad_enabled();
    memcpy(out->asks.places, places, (size_t)n * sizeof *places);
    if (!v) return RSH_OK;
    out->has.ndim = rsh_value_ndim(v);
    out->has.dtype = rsh_value_dtype(v);
    out->has.requires_grad = rsh_value_requires_grad(v);
    memcpy(out->has.shape, rsh_value_shape(v), (size_t)rsh_value_ndim(v) * sizeof(int64_t));
    return rsh_dtensor_places(v, out->has.places);
}

static rsh_status check_arguments(const rsh_value *v, const rsh_mesh *from, const rsh_mesh *to, int n,
                                  const rsh_place *places, const void *out) {
    RSH_REQUIRE(to && out, RSH_EVALUE, "rsh_dtensor_move: %s is NULL", to ? "out" : "to");
    RSH_REQUIRE(rsh_mesh_parent(from) == rsh_mesh_parent(to), RSH_EVALUE,
                "rsh_dtensor_move: meshes must have the same parent");
    RSH_REQUIRE(places, RSH_ERUNTIME, "rsh_dtensor_move: places is NULL");
    RSH_REQUIRE(n == rsh_mesh_ndim(to), RSH_EVALUE,
                "rsh_dtensor_move: expected one placement per mesh dim (%d), got %d", rsh_mesh_ndim(to), n);
    for (int i = 0; i < n; i++)
        RSH_REQUIRE(places[i].kind != RSH_PLACE_PARTIAL, RSH_ERUNTIME,
                    "rsh_dtensor_move: placement of mesh dim %d must not be partial", i);
    bool in = rsh_mesh_comm(from) != NULL;
    RSH_REQUIRE(in ? v && rsh_mesh_equal(rsh_dtensor_mesh(v), from) : !v, RSH_EVALUE, "rsh_dtensor_move: %s",
                in ? "the value must be a DTensor on mesh `from`"
                   : "ranks outside of mesh `from` must pass NULL");
    return RSH_OK;
}

/* All ranks see the same cards and reach the same verdict. */
static rsh_status compare_cards(const rsh_mesh *from, const card *cards, int64_t ranks) {
    const int64_t *holders = rsh_mesh_ranks(from);
    for (int64_t r = 1; r < ranks; r++)
        RSH_REQUIRE(!memcmp(&cards[r].asks, &cards[0].asks, sizeof cards->asks), RSH_EMISMATCH,
                    "rsh_dtensor_move: ranks %" PRId64 " and 0 passed different meshes, placements or requires_grad",
                    r);
    for (int64_t p = 1; p < rsh_mesh_size(from); p++)
        RSH_REQUIRE(!memcmp(&cards[holders[p]].has, &cards[holders[0]].has, sizeof cards->has), RSH_EMISMATCH,
                    "rsh_dtensor_move: ranks %" PRId64 " and %" PRId64 " have DTensors with different shapes, dtypes "
                                                                       "or placements", holders[0],
                    holders[p]);
    return RSH_OK;
}

/* Exchanges the arguments; collective.  Returns the card of the ranks that have the tensor. */
static rsh_status exchange_cards(const rsh_mesh *from, const card *mine, rsh_status ready, card *out) {
    rsh_comm *parent = rsh_mesh_parent(from);
    int64_t ranks = rsh_comm_size(parent);
    card *cards = ready ? NULL : rshi_alloc((size_t)ranks, sizeof *cards);
    rsh_status st = rsh_comm_agree(parent, ready ? ready : cards ? RSH_OK : rshi_nomem());
    if (!st) st = rsh_comm_allgather(parent, mine, cards, sizeof *mine);
    if (!st) st = compare_cards(from, cards, ranks);
    if (!st) *out = cards[rsh_mesh_ranks(from)[0]];
    rshi_free(cards);
    return st;
}

/* ---- one side of a move ---- */

typedef struct side {
    rsh_mesh *mesh;             /* held */
    rsh_layout *here, *in_parent; /* owned; the layout in ranks of the mesh, and in ranks of its parent */
} side;

static void side_end(side *s) {
    rsh_layout_free(s->here);
    rsh_layout_free(s->in_parent);
    rsh_mesh_free(s->mesh);
}

static void side_hold(const side *s) {
    rsh_layout_hold(s->here);
    rsh_layout_hold(s->in_parent);
    rsh_mesh_hold(s->mesh);
}

static rsh_status side_new(rsh_mesh *m, const rsh_place *places, rsh_dtype dtype, const had *h, side *out) {
    int n = rsh_mesh_ndim(m), ndim = (int)h->ndim;
    *out = (side){.mesh = rsh_mesh_hold(m)};
    rsh_status st = rsh_mesh_layout(m, RSH_MESH_POSITIONS, n, places, dtype, ndim, h->shape, &out->here);
    if (!st) st = rsh_mesh_layout(m, RSH_MESH_PARENT, n, places, dtype, ndim, h->shape, &out->in_parent);
    return st;
}

/* Creates the tensor on the ranks of the parent, from this rank's parts; a rank outside of the mesh has none. */
static rsh_status to_parent(const side *at, const rsh_sharded *s, rsh_sharded **out) {
    const rsh_tensor *const *parts = s ? (const rsh_tensor *const *)s->part : NULL;
    return rsh_sharded_from_tensors(rsh_mesh_parent(at->mesh), at->in_parent, s ? s->nparts : 0, parts, out);
}

static rsh_status new_number(rsh_dtype dtype, double value, bool requires_grad, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(rsh_tensor_empty(dtype, 0, NULL, &t));
    rsh_status st = rsh_math_fill_number(t, value);
    if (!st) st = rsh_value_adopt_tensor(t, requires_grad, out);
    if (st) rsh_tensor_free(t);
    return st;
}

/* Returns what this rank has after a move: its parts in the mesh's rank numbers, or a number if it is outside. */
static rsh_status from_parent(const side *at, const rsh_sharded *s, rsh_value **out) {
    rsh_comm *comm = rsh_mesh_comm(at->mesh);
    rsh_sharded *mine = NULL;
    if (!comm) return new_number(rsh_layout_dtype(at->here), 0, false, out);
    RSH_TRY(rsh_sharded_from_tensors(comm, at->here, s->nparts, (const rsh_tensor *const *)s->part, &mine));
    rsh_status st = rsh_value_adopt_sharded(mine, false, out);
    if (st) rsh_sharded_free(mine);
    return st;
}

/* Moves the parts; collective over the parent. */
static rsh_status move_parts(const side *from, const rsh_sharded *s, const side *to, rsh_value **out) {
    rsh_comm *parent = rsh_mesh_parent(from->mesh);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = to_parent(from, s, &src);
    st = st ? rsh_comm_agree(parent, st) : rsh_reshard(src, to->in_parent, NULL, &dst);
    if (!st) st = rsh_comm_agree(parent, from_parent(to, dst, out));
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return st;
}

/* ---- the op ---- */

typedef struct crossing {
    side from, to, back; /* source and destination of the move; `back` is the destination of the gradient */
    rsh_op op;           /* op of a partial source; RSH_OP_NONE: not partial */
    double share;        /* factor of the gradient for each contribution */
} crossing;

static void crossing_drop(void *attrs) {
    crossing *c = attrs;
    side_end(&c->from), side_end(&c->to), side_end(&c->back);
}

static rsh_comm *crossing_comm(const void *attrs) { return rsh_mesh_parent(((const crossing *)attrs)->from.mesh); }

static rsh_status cross_forward(rsh_grad_call *call) {
    const crossing *c = rsh_call_attrs(call); /* a copy of the attributes, which holds its references from here on */
    rsh_value *v = NULL;
    side_hold(&c->from), side_hold(&c->to), side_hold(&c->back);
    RSH_TRY(move_parts(&c->from, rsh_value_sharded(rsh_call_input_value(call, 0)), &c->to, &v));
    return rsh_call_set_output_value(call, 0, v);
}

/* Multiplies all elements of t, which is f32 or f64. */
static void scale_elements(const rsh_tensor *t, double by) {
    float *f = rsh_tensor_data(t);
    double *d = rsh_tensor_data(t);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        if (rsh_tensor_dtype(t) == RSH_F32) f[i] = (float)(f[i] * by);
        else d[i] *= by;
}

/* Returns the gradient, or zeros if there is none; NULL on a rank without a part. */
static rsh_status gradient_of(rsh_grad_call *call, const crossing *c, rsh_sharded **zeros, const rsh_sharded **out) {
    const rsh_value *g = rsh_call_output_grad_value(call, 0);
    rsh_comm *comm = rsh_mesh_comm(c->to.mesh);
    *out = comm && g ? rsh_value_sharded(g) : NULL;
    if (*out || !comm) return RSH_OK;
    RSH_TRY(rsh_sharded_zeros(comm, c->to.here, zeros));
    *out = *zeros;
    return RSH_OK;
}

static rsh_status cross_backward(rsh_grad_call *call) {
    const crossing *c = rsh_call_attrs(call);
    rsh_sharded *zeros = NULL;
    const rsh_sharded *g = NULL;
    rsh_value *v = NULL;
    rsh_comm *parent = crossing_comm(c);
    rsh_status st = gradient_of(call, c, &zeros, &g);
    if (!st && c->op && c->op != RSH_OP_SUM && c->op != RSH_OP_AVG)
        st = rshi_fail(RSH_EUNSUP, "rsh_dtensor_move: reduction %s has no derivative; use sum or avg",
                       rsh_op_name(c->op));
    st = st ? rsh_comm_agree(parent, st) : move_parts(&c->to, g, &c->back, &v);
    rsh_sharded_free(zeros);
    RSH_TRY(st);
    for (int64_t i = 0; c->share != 1 && rsh_mesh_comm(c->back.mesh) && i < rsh_value_nparts(v); i++)
        scale_elements(rsh_value_part(v, i), c->share);
    return rsh_call_set_input_grad_value(call, 0, v);
}

static const rsh_grad_op cross_op = {.name = "move between meshes",
                                     .forward = cross_forward,
                                     .backward = cross_backward,
                                     .parts = RSH_PARTS_ANY,
                                     .attr_bytes = sizeof(crossing),
                                     .drop = crossing_drop,
                                     .comm = crossing_comm};

/* ---- the call ---- */

static rsh_status plan_crossing(const card *k, rsh_mesh *from, rsh_mesh *to, crossing *out) {
    rsh_place back[RSH_MAX_AXES];
    int n = rsh_mesh_ndim(from);
    rsh_dtype had_dtype = (rsh_dtype)k->has.dtype, dtype = (rsh_dtype)k->asks.dtype;
    *out = (crossing){.op = RSH_OP_NONE, .share = 1};
    rshi_places_unpartial(n, k->has.places, back);
    for (int i = 0; i < n; i++)
        if (k->has.places[i].kind == RSH_PLACE_PARTIAL) {
            out->op = k->has.places[i].op;
            if (out->op == RSH_OP_AVG) out->share /= (double)rsh_mesh_dim_size(from, i);
        }
    RSH_TRY(side_new(from, k->has.places, had_dtype, &k->has, &out->from));
    RSH_TRY(side_new(from, back, had_dtype, &k->has, &out->back));
    return side_new(to, k->asks.places, dtype == RSH_DTYPE_NONE ? had_dtype : dtype, &k->has, &out->to);
}

static bool differentiable(rsh_dtype d) { return d == RSH_F32 || d == RSH_F64; }

static rsh_status apply_crossing(rsh_value *v, const card *k, const crossing *c, rsh_value **out) {
    bool records = k->has.requires_grad && k->asks.enabled, in_target = rsh_mesh_comm(c->to.mesh);
    rsh_grad_apply_opts as = RSH_GRAD_APPLY_OPTS_INIT;
    if (in_target) as.comm = rsh_mesh_comm(c->to.mesh), as.kind = &rshi_dtensor_kind, as.kind_data = c->to.mesh;
    rsh_value *in = rsh_value_hold(v), *made = NULL;
    rsh_status st = RSH_OK;
    if (records && !differentiable(rsh_layout_dtype(c->to.here)))
        st = rshi_fail(RSH_EUNSUP, "rsh_dtensor_move: cannot record a gradient through dtype %s; use f32 or f64",
                       rsh_dtype_name(rsh_layout_dtype(c->to.here)));
    if (!st && !in) st = new_number((rsh_dtype)k->has.dtype, 0, records, &in);
    st = rsh_comm_agree(rsh_mesh_parent(c->to.mesh), st);
    if (!st) st = rsh_grad_apply_with(&cross_op, c, 1, &in, 1, &as, &made);
    rsh_value_free(in);
    RSH_TRY(st);
    if (in_target || records) *out = made;
    else rsh_value_free(made);
    return RSH_OK;
}

rsh_status rsh_dtensor_move(rsh_value *v, rsh_mesh *from, rsh_mesh *to, int n, const rsh_place *places,
                            rsh_dtype dtype, rsh_value **out) {
    RSH_NEEDS(from);
    card mine, of;
    crossing c;
    rsh_status st = check_arguments(v, from, to, n, places, out);
    if (!st && v) from = rsh_dtensor_mesh(v); /* a mesh equal to the argument, but with the comm of v */
    if (!st) st = fill_card(v, from, to, n, places, dtype, &mine);
    RSH_TRY(exchange_cards(from, &mine, st, &of));
    *out = NULL;
    st = rsh_comm_agree(rsh_mesh_parent(from), plan_crossing(&of, from, to, &c));
    if (!st) st = apply_crossing(v, &of, &c, out);
    crossing_drop(&c);
    return st;
}

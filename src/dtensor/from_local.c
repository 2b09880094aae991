/* From local: makes a DTensor from each rank's own tensor, and converts it back. */
#include "dtensor/dtensor.h"

#include <inttypes.h>
#include <string.h>

#include "shard/shard.h"

/* ---- conversions as ops ---- */

/* Creates a view of the same elements. */
static rsh_status alias(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), out);
}

static rsh_status same_forward(rsh_grad_call *c) {
    rsh_tensor *t;
    RSH_TRY(alias(rsh_call_input(c, 0), &t));
    return rsh_call_set_output(c, 0, t);
}

static rsh_status same_backward(rsh_grad_call *c) {
    rsh_tensor *t;
    RSH_TRY(alias(rsh_call_output_grad(c, 0), &t));
    return rsh_call_set_input_grad(c, 0, t);
}

static const rsh_grad_op from_op = {.name = "from_local", .forward = same_forward, .backward = same_backward};
static const rsh_grad_op to_op = {.name = "to_local", .forward = same_forward, .backward = same_backward};

void rshi_places_unpartial(int n, const rsh_place *places, rsh_place *out) {
    for (int i = 0; i < n; i++) out[i] = places[i].kind == RSH_PLACE_PARTIAL ? rsh_place_replicate() : places[i];
}

/* ---- the shape of the whole tensor ---- */

/* What each rank sends to the others. */
typedef struct card {
    int64_t ndim, dtype;
    int64_t shape[RSH_MAX_NDIM];
} card;

/* Returns the size of a dim: the sum over the coordinates of the mesh dims that shard it, at coordinate 0 of the
 * others. */
static int64_t sum_sizes(const rsh_mesh *mesh, const rsh_place *places, int dim, int ndim, const card *cards) {
    int64_t sum = 0;
    for (int64_t p = 0; p < rsh_mesh_size(mesh); p++) {
        int64_t left = p;
        bool counts = true;
        for (int a = rsh_mesh_ndim(mesh) - 1; a >= 0; a--) {
            int64_t at = left % rsh_mesh_dim_size(mesh, a);
            left /= rsh_mesh_dim_size(mesh, a);
            int d = places[a].dim < 0 ? places[a].dim + ndim : places[a].dim;
            bool cuts = places[a].kind == RSH_PLACE_SHARD && d == dim;
            counts = counts && (cuts || !at);
        }
        if (counts) sum += cards[p].shape[dim];
    }
    return sum;
}

static rsh_status check_cards(const rsh_mesh *mesh, const card *cards) {
    for (int64_t p = 1; p < rsh_mesh_size(mesh); p++)
        RSH_REQUIRE(cards[p].ndim == cards[0].ndim && cards[p].dtype == cards[0].dtype, RSH_EVALUE,
                    "from_local: numbers of dims and dtypes must be equal, but position %" PRId64 " has %" PRId64
                    " dims of %s, position 0 has %" PRId64 " of %s",
                    p, cards[p].ndim, rsh_dtype_name((rsh_dtype)cards[p].dtype), cards[0].ndim,
                    rsh_dtype_name((rsh_dtype)cards[0].dtype));
    return RSH_OK;
}

/* Every rank checks the sizes of all ranks, so all reach the same verdict. */
static rsh_status check_parts(const rsh_mesh *mesh, const rsh_layout *l, const card *cards) {
    for (int64_t p = 0; p < rsh_mesh_size(mesh); p++) {
        rsh_part part;
        RSH_TRY(rsh_layout_part(l, p, 0, &part));
        for (int d = 0; d < part.ndim; d++)
            RSH_REQUIRE(part.shape[d] == cards[p].shape[d], RSH_EVALUE,
                        "from_local: position %" PRId64 " has size %" PRId64
                        " in dim %d, but layout \"%.200s\" requires %" PRId64,
                        p, cards[p].shape[d], d, rsh_layout_text(l), part.shape[d]);
    }
    return RSH_OK;
}

static rsh_status find_whole_layout(const rsh_mesh *mesh, int n, const rsh_place *places, const card *cards,
                                    rsh_layout **out) {
    int64_t shape[RSH_MAX_NDIM];
    int ndim = (int)cards->ndim;
    RSH_TRY(check_cards(mesh, cards));
    for (int d = 0; d < ndim; d++) shape[d] = sum_sizes(mesh, places, d, ndim, cards);
    RSH_TRY(rshi_dtensor_layout(mesh, n, places, (rsh_dtype)cards->dtype, ndim, shape, out));
    rsh_status st = check_parts(mesh, *out, cards);
    if (!st) return RSH_OK;
    rsh_layout_free(*out);
    *out = NULL;
    return st;
}

/* Exchanges the shapes of the parts and computes the shape of the whole tensor; collective. */
static rsh_status exchange_shapes(const rsh_tensor *t, rsh_mesh *mesh, int n, const rsh_place *places,
                                  rsh_layout **out) {
    card mine = {rsh_tensor_ndim(t), rsh_tensor_dtype(t), {0}};
    memcpy(mine.shape, rsh_tensor_shape(t), (size_t)mine.ndim * sizeof *mine.shape);
    card *cards = rshi_alloc((size_t)rsh_mesh_size(mesh), sizeof *cards);
    rsh_status st = rsh_comm_agree(rsh_mesh_comm(mesh), cards ? RSH_OK : rshi_nomem());
    if (!st) st = rsh_comm_allgather(rsh_mesh_comm(mesh), &mine, cards, sizeof mine);
    if (!st) st = find_whole_layout(mesh, n, places, cards, out);
    rshi_free(cards);
    return st;
}

/* ---- comparing replicas ---- */

static rsh_status digest_of(const rsh_tensor *t, rsh_digest *out) {
    rsh_layout *l = NULL;
    rsh_memory memory = {rsh_tensor_data(t), rsh_tensor_strides(t)};
    RSH_TRY(rsh_layout_whole(rsh_tensor_dtype(t), rsh_tensor_ndim(t), rsh_tensor_shape(t), 0, &l));
    rsh_status st = rsh_digest_local(l, &memory, out);
    rsh_layout_free(l);
    return st;
}

/* Returns the position that has the same elements as p and coordinate 0 in the replicated dims. */
static int64_t first_holder(const rsh_mesh *mesh, const rsh_place *places, int64_t p) {
    int64_t left = p, step = 1, first = 0;
    for (int a = rsh_mesh_ndim(mesh) - 1; a >= 0; a--) {
        int64_t size = rsh_mesh_dim_size(mesh, a), at = left % size;
        if (places[a].kind != RSH_PLACE_REPLICATE) first += at * step;
        left /= size;
        step *= size;
    }
    return first;
}

static rsh_status compare_replicas(const rsh_tensor *t, rsh_mesh *mesh, const rsh_place *places) {
    rsh_digest mine = {0, 0}, *all = rshi_alloc((size_t)rsh_mesh_size(mesh), sizeof *all);
    rsh_status st = all ? digest_of(t, &mine) : rshi_nomem();
    st = rsh_comm_agree(rsh_mesh_comm(mesh), st);
    if (!st) st = rsh_comm_allgather(rsh_mesh_comm(mesh), &mine, all, sizeof mine);
    for (int64_t p = 0; !st && p < rsh_mesh_size(mesh); p++) {
        int64_t q = first_holder(mesh, places, p);
        if (memcmp(&all[p], &all[q], sizeof mine))
            st = rshi_fail(RSH_EVALUE,
                           "from_local: positions %" PRId64 " and %" PRId64 " must be replicas, but their elements "
                                                                            "differ", q, p);
    }
    rshi_free(all);
    return st;
}

/* ---- from local ---- */

static rsh_status check_local(const rsh_value *local, const rsh_mesh *mesh, int n, const rsh_place *places) {
    RSH_REQUIRE(local && places, RSH_EVALUE, "rsh_dtensor_from_local: %s is NULL", local ? "places" : "local");
    RSH_REQUIRE(!rsh_value_sharded(local), RSH_ERUNTIME, "from_local: the value is already distributed");
    RSH_REQUIRE(rsh_value_tensor(local), RSH_EVALUE, "from_local: the value must be a single tensor");
    rsh_layout *l = NULL; /* checks that the placements fit the mesh and the number of dims */
    RSH_TRY(rshi_dtensor_layout(mesh, n, places, rsh_value_dtype(local), rsh_value_ndim(local), rsh_value_shape(local),
                                &l));
    rsh_layout_free(l);
    return RSH_OK;
}

static rsh_status find_layout(const rsh_value *local, rsh_mesh *mesh, int n, const rsh_place *places,
                              const rsh_from_local_opts *o, rsh_layout **out) {
    const rsh_tensor *t = rsh_value_tensor(local);
    if (o->shape) {
        RSH_TRY(rshi_dtensor_layout(mesh, n, places, rsh_tensor_dtype(t), rsh_tensor_ndim(t), o->shape, out));
    } else {
        RSH_TRY(exchange_shapes(t, mesh, n, places, out));
    }
    if (!o || !o->check) return RSH_OK;
    rsh_status st = compare_replicas(t, mesh, places);
    if (!st) return RSH_OK;
    rsh_layout_free(*out);
    *out = NULL;
    return st;
}

rsh_status rsh_dtensor_from_local(rsh_value *local, rsh_mesh *mesh, int n, const rsh_place *places,
                                  const rsh_from_local_opts *opts, rsh_value **out) {
    RSH_NEEDS(mesh);
    RSH_NEEDS(out);
    *out = NULL;
    rsh_from_local_opts o = RSH_FROM_LOCAL_OPTS_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(opts, RSH_FROM_LOCAL_OPTS_INIT, &o));
    if (!rsh_mesh_comm(mesh)) return RSH_OK;
    bool alone = o.shape && !o.check;
    rsh_status st = check_local(local, mesh, n, places);
    if (!alone) st = rsh_comm_agree(rsh_mesh_comm(mesh), st);
    RSH_TRY(st);
    rsh_layout *layout = NULL, *back = NULL;
    rsh_place grads[RSH_MAX_AXES];
    st = find_layout(local, mesh, n, places, &o, &layout);
    rshi_places_unpartial(n, places, grads);
    if (!st)
        st = rshi_dtensor_layout(mesh, n, grads, rsh_value_dtype(local), rsh_layout_ndim(layout),
                                 rsh_layout_shape(layout), &back);
    const rsh_layout *given = layout, *wanted = back;
    rsh_grad_apply_opts as = {.struct_size = sizeof as,
                              .comm = rsh_mesh_comm(mesh),
                              .out = &given,
                              .grad_out = &wanted,
                              .kind = &rshi_dtensor_kind,
                              .kind_data = mesh};
    if (!st) st = rsh_grad_apply_with(&from_op, NULL, 1, &local, 1, &as, out);
    rsh_layout_free(layout);
    rsh_layout_free(back);
    return st;
}

/* ---- to local ---- */

/* Removes the mark from a part of a DTensor. */
static rsh_status remove_mark(rsh_value *v, rsh_value **out) {
    const rsh_layout *none = NULL;
    rsh_grad_apply_opts as = {.struct_size = sizeof as, .out = &none};
    return rsh_grad_apply_with(&to_op, NULL, 1, &v, 1, &as, out);
}

rsh_status rsh_dtensor_to_local(rsh_value *v, const rsh_place *grads, rsh_value **out) {
    RSH_NEEDS(out);
    *out = NULL;
    if (!v) return RSH_OK;
    if (rsh_dtensor_part_mesh(v)) return remove_mark(v, out);
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_to_local", v));
    rsh_mesh *mesh = rsh_dtensor_mesh(v);
    rsh_layout *back = NULL;
    if (grads)
        RSH_TRY(rshi_dtensor_layout(mesh, rsh_mesh_ndim(mesh), grads, rsh_value_dtype(v), rsh_value_ndim(v),
                                    rsh_value_shape(v), &back));
    const rsh_layout *none = NULL, *given = back ? back : rsh_value_layout(v);
    rsh_grad_apply_opts as = {.struct_size = sizeof as, .out = &none, .grad_in = &given};
    rsh_status st = rsh_grad_apply_with(&to_op, NULL, 1, &v, 1, &as, out);
    rsh_layout_free(back);
    return st;
}

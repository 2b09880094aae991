/* Assemble: makes one value from tensors of several parts, and implements the layouts of pointwise ops. */
#include "grad/impl.h"

static void free_parts(int64_t nparts, rsh_tensor **parts) {
    for (int64_t i = 0; i < nparts; i++) {
        rsh_tensor_free(parts[i]);
        parts[i] = NULL;
    }
}

/* Returns the layout with another dtype.  Rules only define positions; the dtype may differ, as comparisons return
 * bools. */
static rsh_status layout_as(const rsh_layout *l, rsh_dtype dtype, rsh_layout **out) {
    rsh_layout_desc desc = *rsh_layout_describe(l);
    desc.dtype = dtype;
    return rsh_layout_new(&desc, out);
}

static rsh_status assemble_sharded(rsh_comm *comm, const rsh_layout *layout, int64_t nparts, rsh_tensor **parts,
                                   rsh_value **out) {
    rsh_layout *other = NULL;
    rsh_sharded *s = NULL;
    rsh_status st = RSH_OK;
    rsh_dtype dtype = nparts ? rsh_tensor_dtype(parts[0]) : rsh_layout_dtype(layout);
    if (dtype != rsh_layout_dtype(layout)) RSH_GOTO(layout_as(layout, dtype, &other));
    RSH_GOTO(rsh_sharded_from_tensors(comm, other ? other : layout, nparts, (const rsh_tensor *const *)parts, &s));
    free_parts(nparts, parts);
    RSH_GOTO(rsh_value_adopt_sharded(s, false, out));
    s = NULL;
out:
    rsh_sharded_free(s);
    rsh_layout_free(other);
    return st;
}

rsh_status rshi_parts_assemble(const char *who, rsh_comm *comm, const rsh_layout *layout, int64_t nparts,
                               rsh_tensor **parts, rsh_value **out) {
    rsh_status st;
    if (layout) {
        st = assemble_sharded(comm, layout, nparts, parts, out);
    } else {
        st = nparts == 1
                 ? rsh_value_adopt_tensor(parts[0], false, out)
                 : rshi_fail(RSH_EUNSUP, "%s: a plain result must have 1 part, got %lld", who, (long long)nparts);
        if (!st) parts[0] = NULL;
    }
    if (st) free_parts(nparts, parts);
    return st;
}

/* ---- layouts of pointwise ops ---- */

static rsh_status check_plain(const rsh_value *v) {
    const rsh_tensor *t = rsh_value_tensor(v);
    RSH_REQUIRE(!t || rsh_tensor_count(t) == 1, RSH_EVALUE,
                "a plain tensor combined with a distributed one must have 1 element, got %lld",
                (long long)rsh_tensor_count(t));
    return RSH_OK;
}

rsh_status rsh_grad_same_layout(rsh_grad_layouts *io) {
    const rsh_layout *l = NULL;
    RSH_NEEDS(io);
    for (int i = 0; i < io->nin; i++) {
        const rsh_layout *next = io->in[i];
        if (!next) RSH_TRY(check_plain(io->values[i]));
        RSH_REQUIRE(!l || !next || rsh_layout_same_parts(l, next), RSH_EVALUE,
                    "layouts of distributed inputs must be equal, got \"%.300s\" and \"%.300s\"", rsh_layout_text(l),
                    rsh_layout_text(next));
        if (!l) l = next;
    }
    RSH_REQUIRE(l, RSH_EVALUE, "at least one input must be distributed");
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP,
                "pointwise ops do not support partial values, got layout \"%.300s\"; reduce it first",
                rsh_layout_text(l));
    for (int i = 0; i < io->nout; i++) io->out[i] = rsh_layout_hold(l);
    return RSH_OK;
}

/* Ramp: sharded tensors in which every element is its own index, so that a move can be checked
 * anywhere. */
#ifndef RESHARD_TESTS_RAMP_H
#define RESHARD_TESTS_RAMP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <reshard.h>

enum { RANKS = 4, PATIENCE = 200 }; /* PATIENCE: seconds after which a test counts as hung */

static inline rsh_layout *parsed(const char *text) {
    rsh_layout *l = NULL;
    if (rsh_layout_parse(text, &l) != RSH_OK) fail_msg("%s: %s", text, rsh_error_detail());
    return l;
}

/* Returns the row-major index of an element, which is its value; -1: there is no such element. */
static inline int64_t index_at(const rsh_layout *l, int64_t rank, int64_t part, int64_t offset) {
    int64_t index[RSH_MAX_NDIM], n = 0;
    if (rsh_layout_global_index(l, rank, part, offset, index) != RSH_OK) return -1;
    for (int d = 0; d < rsh_layout_ndim(l); d++) n = n * rsh_layout_shape(l)[d] + index[d];
    return n;
}

/* Returns the dim along which elements are adjacent in the memory of a part; -1: none, or the
 * layout is flat. */
static inline int dim_of_rows(const rsh_layout *l, const rsh_tensor *t) {
    int d = rsh_tensor_ndim(t) == rsh_layout_ndim(l) ? rsh_tensor_ndim(t) - 1 : -1;
    while (d >= 0 && (rsh_tensor_strides(t)[d] != 1 || rsh_tensor_shape(t)[d] == 1)) d--;
    return d;
}

/* Calls each(ctx, offset, index) for every element of a part, in the order of memory; stops and
 * returns false if `each` does.  In rows without gaps the index is incremented, because computing
 * every index would take most of a test's time.  Indices increase along a dim, so a row has no gaps
 * if its last index is its first plus its length minus 1. */
static inline bool walk_part(const rsh_layout *l, int64_t rank, int64_t part, const rsh_tensor *t,
                             bool (*each)(void *ctx, int64_t offset, int64_t index), void *ctx) {
    int row_dim = dim_of_rows(l, t);
    int64_t row = row_dim < 0 ? 1 : rsh_tensor_shape(t)[row_dim], unit = 1;
    for (int d = rsh_layout_ndim(l) - 1; d > row_dim && row_dim >= 0; d--)
        unit *= rsh_layout_shape(l)[d];
    for (int64_t i = 0; i < rsh_tensor_count(t); i += row) {
        int64_t first = index_at(l, rank, part, i);
        bool gaps = index_at(l, rank, part, i + row - 1) != first + (row - 1) * unit;
        for (int64_t k = 0; k < row; k++)
            if (!each(ctx, i + k, gaps ? index_at(l, rank, part, i + k) : first + k * unit))
                return false;
    }
    return true;
}

static inline bool set_element(void *data, int64_t offset, int64_t index) {
    ((float *)data)[offset] = (float)index;
    return true;
}

static inline rsh_status make_source(rsh_comm *comm, const rsh_layout *l, rsh_sharded **out) {
    rsh_status status = rsh_sharded_empty(comm, l, out);
    for (int64_t p = 0; status == RSH_OK && p < rsh_sharded_nparts(*out); p++) {
        const rsh_tensor *t = rsh_sharded_part(*out, p);
        walk_part(l, rsh_comm_rank(comm), p, t, set_element, rsh_tensor_data(t));
    }
    return status;
}

static inline bool is_set(void *data, int64_t offset, int64_t index) {
    return ((const float *)data)[offset] == (float)index;
}

/* RSH_ERUNTIME if a value is wrong. */
static inline rsh_status check_result(const rsh_sharded *s) {
    const rsh_layout *l = rsh_sharded_layout(s);
    int64_t rank = rsh_comm_rank(rsh_sharded_comm(s));
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        const rsh_tensor *t = rsh_sharded_part(s, p);
        if (!walk_part(l, rank, p, t, is_set, rsh_tensor_data(t))) return RSH_ERUNTIME;
    }
    return RSH_OK;
}

#endif

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

enum { RANKS = 4, PATIENCE = 200 /* seconds after which a test hangs, even on a busy machine */ };

static inline rsh_layout *parsed(const char *text) {
    rsh_layout *l = NULL;
    if (rsh_layout_parse(text, &l) != RSH_OK) fail_msg("%s: %s", text, rsh_error_detail());
    return l;
}

/* The value of an element: its row-major index. */
static inline float value_at(const rsh_layout *l, int64_t rank, int64_t part, int64_t offset) {
    int64_t index[RSH_MAX_NDIM], n = 0;
    if (rsh_layout_global_index(l, rank, part, offset, index) != RSH_OK) return -1;
    for (int d = 0; d < rsh_layout_ndim(l); d++) n = n * rsh_layout_shape(l)[d] + index[d];
    return (float)n;
}

static inline rsh_status make_source(rsh_comm *comm, const rsh_layout *l, rsh_sharded **out) {
    rsh_status status = rsh_sharded_empty(comm, l, out);
    for (int64_t p = 0; status == RSH_OK && p < rsh_sharded_nparts(*out); p++) {
        const rsh_tensor *t = rsh_sharded_part(*out, p);
        for (int64_t i = 0; i < rsh_tensor_count(t); i++)
            ((float *)rsh_tensor_data(t))[i] = value_at(l, rsh_comm_rank(comm), p, i);
    }
    return status;
}

/* RSH_ERUNTIME if a value is wrong. */
static inline rsh_status check_result(const rsh_sharded *s) {
    const rsh_layout *l = rsh_sharded_layout(s);
    int64_t rank = rsh_comm_rank(rsh_sharded_comm(s));
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        const rsh_tensor *t = rsh_sharded_part(s, p);
        for (int64_t i = 0; i < rsh_tensor_count(t); i++)
            if (((const float *)rsh_tensor_data(t))[i] != value_at(l, rank, p, i))
                return RSH_ERUNTIME;
    }
    return RSH_OK;
}

#endif

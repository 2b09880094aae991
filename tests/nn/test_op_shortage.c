/* Shortage: ops on DTensors, and one rank whose memory runs out at any of their requests. */
#include "nn/lines.h"

#include "nn/numbers.h"

#include <reshard/nn.h>

/* Ops along a dim that is cut, whose results or inputs move. */
static rsh_status moving_op(int which, rsh_value *x, rsh_value **out) {
    rsh_value *piece[3] = {NULL};
    rsh_status st = RSH_OK;
    if (which == 0) return rsh_nn_narrow(x, 1, 1, 3, out);
    if (which == 1) return rsh_nn_cat(2, (rsh_value *[]){x, x}, 1, out);
    if (which == 2) return rsh_nn_max_dim(x, 1, false, out, NULL);
    st = rsh_nn_split_sizes(x, 1, 3, (int64_t[]){1, 4, 2}, piece);
    for (int i = 1; i < 3; i++) rsh_value_free(piece[i]);
    if (!st) *out = piece[0];
    return st;
}

/* One rank has no memory for its n-th request: nobody waits for it, and the comm goes on. */
static rsh_status shortage(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    rsh_place columns = rsh_shard_on(1);
    rsh_value *plain = some_value(RSH_F64, 1, true, SIZES(5, 7)), *x = NULL;
    (void)ctx;
    TRY(line_of(c, &m));
    TRY(placed(m, plain, &columns, &x));
    for (int which = 0; which < 4; which++) {
        rsh_value *y = NULL;
        rsh_status st = RSH_ENOMEM;
        TRY(moving_op(which, x, &y)); /* its solution and plans are there */
        rsh_value_free(y);
        for (int64_t n = 0; st; n++) {
            if (rsh_comm_rank(c) == 1) rsh_alloc_fail_at(n);
            st = moving_op(which, x, &y);
            rsh_alloc_fail_at(-1);
            CHECK(!st || st == RSH_ENOMEM);
            if (!st) rsh_value_free(y);
            st = rsh_comm_agree(c, st);
        }
    }
    rsh_value_free(plain);
    rsh_value_free(x);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void nobody_waits_for_a_rank_whose_memory_runs_out_in_an_op_that_moves(void **state) {
    (void)state;
    run_on(2, 3, shortage);
}

/* The same for a mesh that has seen no op yet: the rank may not even find out that something moves.  A partial term is
 * brought to the cut of the other; a narrow of whole rows moves nothing. */
static rsh_status first_op(int which, rsh_value *x, rsh_value *terms, rsh_value **out) {
    if (which == 3) return rsh_nn_add(x, terms, out);
    if (which == 4) return rsh_nn_narrow(x, 0, 1, 3, out);
    return moving_op(which, x, out);
}

/* True: there was memory for everything. */
static rsh_status try_first_op(rsh_comm *c, const rsh_value *plain, int which, int64_t n, bool *done) {
    rsh_mesh *m = NULL;
    rsh_place columns = rsh_shard_on(1), summed = rsh_partial_of(RSH_OP_SUM);
    rsh_value *x = NULL, *terms = NULL, *y = NULL;
    TRY(line_of(c, &m));
    TRY(placed(m, plain, &columns, &x));
    TRY(placed(m, plain, &summed, &terms));
    if (rsh_comm_rank(c) == 1) rsh_alloc_fail_at(n);
    rsh_status st = first_op(which, x, terms, &y);
    rsh_alloc_fail_at(-1);
    CHECK(!st || st == RSH_ENOMEM);
    if (!st) rsh_value_free(y);
    *done = !rsh_comm_agree(c, st);
    rsh_value_free(x);
    rsh_value_free(terms);
    rsh_mesh_free(m);
    return RSH_OK;
}

static rsh_status first_shortage(void *ctx, rsh_comm *c) {
    rsh_value *plain = some_value(RSH_F64, 1, true, SIZES(5, 7));
    (void)ctx;
    for (int which = 0; which < 5; which++) {
        bool done = which == 2; /* makes collective calls itself */
        for (int64_t n = 0; !done; n++) TRY(try_first_op(c, plain, which, n, &done));
    }
    rsh_value_free(plain);
    return RSH_OK;
}
static void nobody_waits_for_a_rank_whose_memory_runs_out_before_it_knows_what_moves(void **state) {
    (void)state;
    run_on(2, 3, first_shortage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_for_a_rank_whose_memory_runs_out_in_an_op_that_moves),
        cmocka_unit_test(nobody_waits_for_a_rank_whose_memory_runs_out_before_it_knows_what_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sharded tensors made from existing tensors: they share storage, and tensors that do not match the layout are
 * rejected. */
#include "comm/ranks.h"

#include <reshard.h>

static rsh_status share(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_layout *rows, *columns, *boxes;
    rsh_tensor *band, *turned, *wrong, *f64;
    rsh_sharded *a = NULL, *b = NULL;
    RSH_TRY(rsh_layout_parse("f32[4/x, 3] on x=2", &rows));
    RSH_TRY(rsh_layout_parse("f32[4, 3/x] on x=2", &columns));
    RSH_TRY(rsh_layout_parse("f32[4, 3] boxes 0:[0:4,0:3] 1:[4:4,0:3] 1:[0:0,0:0]", &boxes));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){3, 2}, &band));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){3, 2}, &wrong));
    RSH_TRY(rsh_tensor_zeros(RSH_F64, 2, (int64_t[]){2, 3}, &f64));
    RSH_TRY(rsh_tensor_transpose(band, 0, 1, &turned)); /* [2, 3], with different strides */
    for (int i = 0; i < 6; i++) ((float *)rsh_tensor_data(band))[i] = (float)(10 * me + i);
    const rsh_tensor *part = turned, *other = wrong, *wide = f64, *none = NULL;
    CHECK_STATUS(RSH_EVALUE, rsh_sharded_from_tensors(comm, rows, 1, &other, &a));
    CHECK_SAYS("size 3 along dim 0, expected 2");
    CHECK_STATUS(RSH_EVALUE, rsh_sharded_from_tensors(comm, rows, 1, &wide, &a));
    CHECK_SAYS("f64");
    CHECK_STATUS(RSH_EVALUE, rsh_sharded_from_tensors(comm, rows, 1, &none, &a));
    CHECK_STATUS(RSH_EVALUE, rsh_sharded_from_tensors(comm, rows, 0, NULL, &a));
    CHECK_STATUS(RSH_EVALUE, rsh_sharded_from_tensors(comm, boxes, 3, &part, &a));
    CHECK_SAYS(me ? "2 parts" : "1 part");
    RSH_TRY(rsh_sharded_from_tensors(comm, rows, 1, &part, &a));
    CHECK(rsh_tensor_data(rsh_sharded_part(a, 0)) == rsh_tensor_data(band));
    rsh_tensor_free(band), rsh_tensor_free(turned); /* the sharded tensor still holds the storage */
    RSH_TRY(rsh_reshard(a, columns, NULL, &b));
    const float *x = rsh_tensor_data(rsh_sharded_part(b, 0));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2 - me; j++) CHECK(x[i * (2 - me) + j] == (float)(i / 2 * 10 + (j + 2 * me) * 2 + i % 2));
    rsh_sharded_free(a), rsh_sharded_free(b);
    rsh_tensor_free(wrong), rsh_tensor_free(f64);
    rsh_layout_free(rows), rsh_layout_free(columns), rsh_layout_free(boxes);
    return RSH_OK;
}
static void tensors_that_exist_are_parts(void **state) {
    (void)state;
    int node[2] = {0, 1};
    assert_int_equal(rsh_run(2, share, NULL), RSH_OK);
    assert_int_equal(rsh_run_shm(2, share, NULL), RSH_OK);
    assert_int_equal(run_on_nodes(2, node, share, NULL), RSH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tensors_that_exist_are_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

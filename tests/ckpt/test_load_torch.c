/* A program loads what PyTorch saved (chunks, boxes, transposed tensors) into layouts of its own. */
#include "ckpt/read_whole.h"

#include <reshard.h>

static const struct {
    const char *name, *layout;
} list[] = {
    {"rows", "f32[10, 6/y] on y=3"},      {"uneven", "f32[5/y~, 3] on y=3"}, {"columns", "bf16[6/y, 8] on y=3"},
    {"grid", "f16[7/y~, 5] on y=3"},      {"cube", "i16[4, 3/y, 5] on y=3"}, {"turned", "i32[6/y, 4] on y=3"},
    {"transposed", "f32[3/y, 4] on y=3"}, {"step", "i64[] on y=3"},          {"empty", "f32[0, 4] on y=3"},
};
enum { N = sizeof list / sizeof *list };

/* Counts wrong elements; tools/golden/torch_dcp.py defines the bytes of a tensor. */
static int64_t wrong_elements(const char *name, const rsh_sharded *s) {
    const rsh_layout *l = rsh_sharded_layout(s);
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), wrong = 0;
    const rsh_tensor *part = rsh_sharded_part(s, 0);
    const unsigned char *data = rsh_tensor_data(part);
    for (int64_t i = 0; i < rsh_tensor_count(part); i++) {
        int64_t index[RSH_MAX_NDIM], at = 0;
        if (rsh_layout_global_index(l, rsh_comm_rank(rsh_sharded_comm(s)), 0, i, index)) return -1;
        for (int d = 0; d < rsh_layout_ndim(l); d++) at = at * rsh_layout_shape(l)[d] + index[d];
        for (int64_t b = at * size; b < (at + 1) * size; b++)
            wrong += *data++ != (unsigned char)(37 * b + 11 * (b >> 8) + 13 * (int64_t)strlen(name));
    }
    return wrong;
}

static rsh_status load(void *ctx, rsh_comm *comm) {
    const char *name[N];
    rsh_sharded *s[N];
    rsh_ckpt *c;
    for (int i = 0; i < N; i++) {
        rsh_layout *l;
        name[i] = list[i].name;
        RSH_TRY(rsh_layout_parse(list[i].layout, &l));
        RSH_TRY(rsh_sharded_zeros(comm, l, &s[i]));
        rsh_layout_free(l);
    }
    RSH_TRY(rsh_ckpt_open(ctx, NULL, &c));
    RSH_TRY(rsh_ckpt_load(c, comm, N, name, s, NULL));
    for (int i = 0; i < N; i++) {
        if (wrong_elements(name[i], s[i])) return rshi_fail(RSH_ERUNTIME, "%s is wrong", name[i]);
        rsh_sharded_free(s[i]);
    }
    rsh_ckpt_free(c);
    return RSH_OK;
}

static void what_pytorch_saved_is_loaded_by_three_ranks(void **state) {
    (void)state;
    static char path[][32] = {"tests/ckpt/dcp/1", "tests/ckpt/dcp/2", "tests/ckpt/dcp/4", "tests/ckpt/dcp/newer"};
    for (int i = 0; i < 4; i++) must(rsh_run(3, load, path[i]));
    must(rsh_run_shm(3, load, path[2]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_pytorch_saved_is_loaded_by_three_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

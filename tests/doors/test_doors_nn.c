/* Doors of libreshard-nn: every function rejects NULL and enums out of range, or returns what its header says.
 *
 * door_calls.py generates the calls from the headers; this file makes the other arguments that a call needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <reshard/nn.h>

/* One valid argument of each type, which has the name of the type, and arguments that only single functions need. */
static struct things {
    rsh_comm *rsh_comm;
    rsh_value *rsh_value; /* [4, 4] */
    rsh_value *row, *batch, *mask, *index;
    rsh_value *rsh_value_list[1];
    rsh_module *rsh_module, *rsh_module_list[1], *other_module;
    rsh_state_dict *rsh_state_dict;
    rsh_optimizer *rsh_optimizer;
    rsh_sharding_plan *rsh_sharding_plan, *empty_plan;
    rsh_spec *rsh_spec;
    rsh_group *rsh_group;
    rsh_mesh *rsh_mesh;
    rsh_distribution rsh_distribution;
    rsh_input_reshard_opts rsh_input_reshard_opts;
    rsh_parallel_entry rsh_parallel_entry;
    rsh_nn_opts rsh_nn_opts;
    rsh_cross_entropy_opts rsh_cross_entropy_opts;
    rsh_module_kind rsh_module_kind;
    rsh_named_input rsh_named_input;
    rsh_embedding_opts rsh_embedding_opts;
    rsh_bag_opts rsh_bag_opts;
    rsh_attention_opts rsh_attention_opts;
    rsh_sgd_opts rsh_sgd_opts;
    rsh_adam_opts rsh_adam_opts;
    rsh_param_group rsh_param_group;
    rsh_module_save_opts rsh_module_save_opts;
    rsh_module_load_opts rsh_module_load_opts;
    rsh_schedule rsh_schedule;
    rsh_sharder rsh_sharder;
    rsh_sharding_planner rsh_sharding_planner;
    const char *(*fresh_name)(void);
    unsigned char bytes[64];
    int64_t shape[2];
    int ranks[1], dims[2];
} have;

/* Callbacks that do nothing. */
static void drop_fn(void *ctx) { (void)ctx; }
static rsh_status value_visit(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)ctx, (void)path, (void)owner, (void)name, (void)v;
    return RSH_OK;
}
static rsh_status module_visit(void *ctx, const char *path, rsh_module *m) {
    (void)ctx, (void)path, (void)m;
    return RSH_OK;
}
static rsh_status pre_hook(void *ctx, rsh_module *m, rsh_value **in) {
    (void)ctx, (void)m, (void)in;
    return RSH_OK;
}
static rsh_status forward_hook(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)ctx, (void)m, (void)in, (void)out;
    return RSH_OK;
}
static rsh_status state_hook(void *ctx, rsh_module *m, rsh_state_dict *d, const char *prefix) {
    (void)ctx, (void)m, (void)d, (void)prefix;
    return RSH_OK;
}
static rsh_status empty_plan(void *ctx, rsh_module *m, rsh_sharding_plan **out) {
    (void)ctx, (void)m;
    return rsh_sharding_plan_new(out);
}
/* Returns a name that the module does not have yet. */
static const char *fresh_name(void) {
    static char name[16];
    static int n;
    snprintf(name, sizeof name, "n%d", n++);
    return name;
}

static const char *const unsaid = "no sentence";

/* Checks the status; if the call fails, it must set an error message. */
#define answers(expected, call)                                                                                        \
    do {                                                                                                               \
        rsh_fail(RSH_EVALUE, unsaid);                                                                             \
        rsh_status status_ = (call);                                                                                   \
        if (status_ != (expected))                                                                                     \
            fail_msg("%s is %s (%s), not %s", #call, rsh_status_name(status_), rsh_error_detail(), #expected);         \
        if (status_ && !strcmp(rsh_error_detail(), unsaid)) fail_msg("%s leaves no sentence", #call);                  \
    } while (0)

#include "door_calls.inc"

static rsh_value *zeros(rsh_dtype dtype, int ndim, const int64_t *shape) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    if (rsh_tensor_zeros(dtype, ndim, shape, &t) || rsh_value_adopt_tensor(t, false, &v)) abort();
    return v;
}

static int make(void **state) {
    const int64_t shape[3] = {4, 4, 4};
    (void)state;
    if (rsh_comm_threads(1, &have.rsh_comm)) return 1;
    have.row = zeros(RSH_F32, 1, shape);
    have.rsh_value = have.rsh_value_list[0] = zeros(RSH_F32, 2, shape);
    have.batch = zeros(RSH_F32, 3, shape);
    have.mask = zeros(RSH_BOOL, 2, shape);
    have.index = zeros(RSH_I64, 1, shape);
    have.rsh_nn_opts = (rsh_nn_opts){sizeof(rsh_nn_opts), .threads = 1};
    have.rsh_input_reshard_opts = (rsh_input_reshard_opts)RSH_INPUT_RESHARD_OPTS_INIT;
    have.rsh_cross_entropy_opts = (rsh_cross_entropy_opts)RSH_CROSS_ENTROPY_OPTS_INIT;
    have.rsh_embedding_opts = (rsh_embedding_opts)RSH_EMBEDDING_OPTS_INIT;
    have.rsh_bag_opts = (rsh_bag_opts)RSH_BAG_OPTS_INIT;
    have.rsh_module_kind = (rsh_module_kind){.name = "Kind"};
    have.rsh_named_input = (rsh_named_input){"input", have.rsh_value};
    have.rsh_attention_opts = (rsh_attention_opts){sizeof(rsh_attention_opts), .width = 4, .heads = 2};
    have.rsh_sgd_opts = (rsh_sgd_opts)RSH_SGD_OPTS_INIT;
    have.rsh_adam_opts = (rsh_adam_opts)RSH_ADAM_OPTS_INIT;
    have.rsh_param_group = (rsh_param_group)RSH_PARAM_GROUP_INIT;
    have.rsh_module_save_opts = (rsh_module_save_opts)RSH_MODULE_SAVE_OPTS_INIT;
    have.rsh_module_load_opts = (rsh_module_load_opts)RSH_MODULE_LOAD_OPTS_INIT;
    have.rsh_sharding_planner.build_plan = empty_plan;
    have.fresh_name = fresh_name;
    if (rsh_linear_new(4, 4, true, RSH_F32, &have.rsh_module) || rsh_state_dict_new(&have.rsh_state_dict)) return 1;
    have.rsh_module_list[0] = have.rsh_module;
    if (rsh_linear_new(4, 4, true, RSH_F32, &have.other_module)) return 1;
    have.rsh_parallel_entry = (rsh_parallel_entry){"", rsh_colwise_style()};
    if (rsh_sgd_new(have.rsh_module, &have.rsh_sgd_opts, &have.rsh_optimizer)) return 1;
    if (rsh_sharding_plan_new(&have.rsh_sharding_plan) || rsh_sharding_plan_new(&have.empty_plan)) return 1;
    if (rsh_spec_chunk_ranks(0, 1, NULL, &have.rsh_spec) || rsh_group_init(have.rsh_comm)) return 1;
    have.rsh_group = rsh_group_default();
    if (rsh_mesh_new(have.rsh_comm, 1, (int64_t[]){1}, NULL, NULL, &have.rsh_mesh)) return 1;
    memcpy(have.shape, shape, sizeof have.shape);
    have.dims[1] = 1;
    return 0;
}

static int drop(void **state) {
    rsh_value *all[] = {have.row, have.rsh_value, have.batch, have.mask, have.index};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rsh_value_free(all[i]);
    for (int i = 0; i < 4; i++) rsh_nn_close();
    rsh_sharding_plan_free(have.rsh_sharding_plan);
    rsh_sharding_plan_free(have.empty_plan);
    rsh_optimizer_free(have.rsh_optimizer);
    rsh_state_dict_free(have.rsh_state_dict);
    rsh_module_free(have.rsh_module);
    rsh_module_free(have.other_module);
    rsh_spec_free(have.rsh_spec);
    rsh_mesh_free(have.rsh_mesh);
    if (rsh_group_destroy()) return 1;
    return rsh_comm_free(have.rsh_comm);
}

int main(void) { return cmocka_run_group_tests_name("doors of nn", doors, make, drop); }

/* Doors: every public function rejects NULL and enums out of range, or returns what its header says.
 *
 * door_calls.py generates the calls from the headers; this file makes the other arguments that a call needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <reshard/train.h>
#include <reshard/torch.h>
#ifdef DOORS_MPI /* everything on a comm of the engine mpi, and the functions of libreshard-mpi */
#include <reshard/mpi.h>
#endif

struct saved { /* what was written to a sink */
    char *data;
    size_t bytes;
};

/* One valid argument of each type; the members have the names of the types. */
static struct things {
    rsh_comm *rsh_comm;
    rsh_pool *rsh_pool;
    rsh_layout *rsh_layout;
    rsh_form *rsh_form;
    rsh_ckpt_rules *rsh_ckpt_rules;
    rsh_ckpt *rsh_ckpt;
    char folder[64], rules_path[96], ckpt_path[96], target_path[96], saved_path[96];
    rsh_save_opts rsh_save_opts;
    rsh_sharded *loaded[1];
    rsh_convert_opts rsh_convert_opts;
    rsh_compare_opts rsh_compare_opts;
    rsh_mesh *rsh_mesh;
    rsh_place rsh_place;
    rsh_from_local_opts rsh_from_local_opts;
    rsh_value *dtensor;
    rsh_machine rsh_machine;
    const char *names[1];
    int64_t one[1];
    rsh_plan *rsh_plan;
    rsh_tensor *rsh_tensor, *other_tensor;
    rsh_sharded *rsh_sharded, *other_sharded;
    rsh_exec *rsh_exec;
    rsh_transit *rsh_transit;
    rsh_stash *rsh_stash;
    rsh_ticket *rsh_ticket;
    rsh_value_transit *rsh_value_transit;
    rsh_local_exec *rsh_local_exec;
    rsh_group *rsh_group;
    rsh_spec *rsh_spec, *spec, *other_spec;
    rsh_torch_tensor *rsh_torch_tensor, *other_torch;
    rsh_partial *rsh_partial;
    rsh_tensor_meta *rsh_tensor_meta;
    rsh_value *rsh_value, *other_value, *sharded_value;
    rsh_grad_call *rsh_grad_call; /* NULL: a call exists only while an op runs */
    rsh_value *rsh_value_list[1];
    const rsh_layout *rsh_layout_list[1];
    const rsh_tensor *rsh_tensor_list[1];
    rsh_tensor *other_rsh_tensor_list[1];
    const rsh_sharded *rsh_sharded_list[1];
    const rsh_partial *rsh_partial_list[1];
    rsh_plan_opts rsh_plan_opts;
    rsh_transfer rsh_transfer; /* with a single element */
    rsh_transfer_end rsh_transfer_end;
    rsh_sink rsh_sink;
    rsh_layout_desc rsh_layout_desc;
    rsh_random rsh_random;
    rsh_memory rsh_memory, other_memory;
    rsh_message rsh_message;
    rsh_remote_device rsh_remote_device;
    rsh_shard_meta rsh_shard_meta, by_rank[1];
    rsh_tensor_props rsh_tensor_props;
    rsh_spec_kind rsh_spec_kind;
    rsh_torch_opts rsh_torch_opts;
    rsh_shard rsh_shard;
    rsh_wire rsh_wire;
    rsh_grad_op rsh_grad_op;
    rsh_grad_apply_opts rsh_grad_apply_opts;
    rsh_value_kind rsh_value_kind;
    rsh_saved_hooks rsh_saved_hooks;
    rsh_saved *rsh_saved;
    int64_t shape[2], strides[2], zeros[2], index[2];
    int ranks[1];
    size_t sizes[1];
    const void *states[1];
    struct saved saved, saved_meta;
    float bytes[16], other_bytes[16];
    char room[4096] __attribute__((aligned(16)));
} have;

static rsh_status group_fn(void *ctx, rsh_group *g) { (void)ctx, (void)g; return RSH_OK; }
static int box_fn(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    (void)ctx, (void)box, (void)offset, (void)strides;
    return 0;
}
static int range_fn(void *ctx, int64_t lo, int64_t hi) { (void)ctx, (void)lo, (void)hi; return 0; }
static int neighbour_fn(void *ctx, int64_t peer, int64_t bytes) { (void)ctx, (void)peer, (void)bytes; return 0; }
static int matrix_fn(void *ctx, int64_t s, int64_t d, int64_t bytes) {
    (void)ctx, (void)s, (void)d, (void)bytes;
    return 0;
}
static int stage_fn(void *ctx, int stage, const char *what, int64_t moved, int64_t between_nodes) {
    (void)ctx, (void)stage, (void)what, (void)moved, (void)between_nodes;
    return 0;
}
static int rank_bytes_fn(void *ctx, int64_t rank, int64_t sent, int64_t received, int64_t kept) {
    (void)ctx, (void)rank, (void)sent, (void)received, (void)kept;
    return 0;
}
static int progress_fn(void *ctx, uint64_t done, uint64_t total) { (void)ctx, (void)done, (void)total; return 0; }
static int step_fn(void *ctx, const rsh_convert_step *step) { (void)ctx, (void)step; return 0; }
static void task_fn(void *ctx, int64_t i, int worker) { (void)ctx, (void)i, (void)worker; }
static void deleter_fn(void *ctx) { (void)ctx; }

static int keep(void *ctx, const char *text, size_t length) {
    struct saved *s = ctx;
    char *data = realloc(s->data, s->bytes + length + 1);
    if (!data) return 1;
    memcpy(data + s->bytes, text, length);
    s->data = data;
    s->bytes += length;
    s->data[s->bytes] = '\0';
    return 0;
}
static int ignore(void *ctx, const char *text, size_t length) { (void)ctx, (void)text, (void)length; return 0; }

static rsh_status kind_build(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                             rsh_tensor_meta **out) {
    (void)self, (void)ndim, (void)size, (void)props, (void)out;
    return rsh_fail(RSH_EUNSUP, "nothing is built");
}

static const char *const unsaid = "no sentence";
static const char *before(void) { rsh_fail(RSH_EVALUE, unsaid); return unsaid; }

/* Checks the status; if the call fails, it must set an error message. */
#define answers(expected, call)                                                                                        \
    do {                                                                                                               \
        before();                                                                                                      \
        rsh_status status_ = (call);                                                                                   \
        if (status_ != (expected))                                                                                     \
            fail_msg("%s is %s (%s), not %s", #call, rsh_status_name(status_), rsh_error_detail(), #expected);         \
        if (status_ && !strcmp(rsh_error_detail(), unsaid)) fail_msg("%s leaves no sentence", #call);                  \
    } while (0)
#define ok(call) answers(RSH_OK, call)

static rsh_tensor *fresh_tensor(void) {
    rsh_tensor *t = NULL;
    ok(rsh_tensor_zeros(RSH_F32, 2, have.shape, &t));
    return t;
}

static rsh_value *fresh_value(void) {
    rsh_value *v = NULL;
    ok(rsh_value_adopt_tensor(fresh_tensor(), false, &v));
    return v;
}

#include "door_calls.inc"

static const int no_value[2] = {99, -3}; /* values that no enum has */

static void enums_of_a_description_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        rsh_layout *got = NULL;
        rsh_layout_desc d = {.ndim = 1, .naxes = 1};
        d.dim[0] = (rsh_dim){.size = 4, .cut = {.naxes = 1}};
        d.axis[0] = (rsh_axis){"x", 2};
        rsh_layout_desc dtype = d, op = d, rule = d;
        dtype.dtype = (rsh_dtype)no_value[i];
        op.op = (rsh_op)no_value[i], op.npartial = 1, op.dim[0].cut.naxes = 0;
        rule.dim[0].cut.rule = (rsh_cut_rule)no_value[i];
        answers(RSH_EVALUE, rsh_layout_new(&dtype, &got));
        answers(RSH_EVALUE, rsh_layout_new(&op, &got));
        answers(RSH_EVALUE, rsh_layout_new(&rule, &got));
    }
}

static void enums_of_options_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        rsh_plan *got = NULL;
        rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
        o.reduce = (rsh_reduce_order)no_value[i];
        answers(RSH_EVALUE, rsh_plan_new(have.rsh_layout, have.rsh_layout, &o, &got));
    }
}

static void enums_of_properties_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        rsh_tensor_meta *got = NULL;
        rsh_tensor_props dtype = RSH_TENSOR_PROPS_INIT, layout = dtype, format = dtype;
        dtype.dtype = (rsh_dtype)no_value[i];
        layout.layout = (rsh_storage_layout)no_value[i];
        format.memory_format = (rsh_memory_format)no_value[i];
        answers(RSH_EVALUE, rsh_spec_build(have.rsh_spec, 2, have.shape, &dtype, &got));
        answers(RSH_EVALUE, rsh_spec_build(have.rsh_spec, 2, have.shape, &layout, &got));
        rsh_torch_tensor *tensor = NULL;
        rsh_torch_opts opts = RSH_TORCH_OPTS_INIT;
        opts.props = format; /* metadata may have any memory format until they are saved */
        answers(RSH_EVALUE, rsh_torch_empty(have.rsh_spec, 2, have.shape, &opts, &tensor));
    }
}

static void a_device_that_is_none_has_no_name(void **state) {
    (void)state;
    char text[RSH_REMOTE_DEVICE_TEXT];
    for (int i = 0; i < 2; i++) {
        rsh_spec *got = NULL;
        rsh_remote_device p = have.rsh_remote_device;
        p.device.type = (rsh_device_type)no_value[i];
        rsh_remote_device_print(&p, text);
        assert_string_equal(text, "rank:0/?");
        answers(RSH_EVALUE, rsh_spec_chunk(0, 1, &p, &got));
    }
}

static void callbacks_in_tables_are_checked(void **state) {
    (void)state;
    rsh_spec *got = NULL;
    rsh_spec_kind no_build = have.rsh_spec_kind, no_name = no_build;
    no_build.build = NULL, no_name.name = NULL;
    answers(RSH_EVALUE, rsh_spec_new(&no_build, NULL, &got));
    answers(RSH_EVALUE, rsh_spec_new(&no_name, NULL, &got));
    const rsh_sink none = {NULL, NULL};
    answers(RSH_EVALUE, rsh_plan_print(have.rsh_plan, -1, RSH_PRINT_TEXT, &none));
    answers(RSH_EVALUE, rsh_draw_plan(have.rsh_plan, 0, RSH_PICTURE_TEXT, &none));
    answers(RSH_EVALUE, rsh_draw_layout(have.rsh_layout, RSH_PICTURE_TEXT, &none));
    answers(RSH_EVALUE, rsh_tensor_meta_save(have.rsh_tensor_meta, &none));
    answers(RSH_EVALUE, rsh_torch_save(have.rsh_torch_tensor, &none));
}

static const struct CMUnitTest inside[] = {
    cmocka_unit_test(enums_of_a_description_are_checked), cmocka_unit_test(enums_of_options_are_checked),
    cmocka_unit_test(enums_of_properties_are_checked),    cmocka_unit_test(a_device_that_is_none_has_no_name),
    cmocka_unit_test(callbacks_in_tables_are_checked),
};

static void make_values(void) {
    have.shape[0] = have.shape[1] = 4;
    have.strides[0] = 4, have.strides[1] = 1;
    have.rsh_plan_opts = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    have.rsh_torch_opts = (rsh_torch_opts)RSH_TORCH_OPTS_INIT;
    have.rsh_tensor_props = (rsh_tensor_props)RSH_TENSOR_PROPS_INIT;
    have.rsh_sink = (rsh_sink){ignore, NULL};
    have.rsh_memory.data = have.bytes, have.other_memory.data = have.other_bytes;
    have.rsh_message = (rsh_message){0, have.room, 0};
    have.rsh_spec_kind = (rsh_spec_kind){.name = "own", .build = kind_build};
    have.rsh_wire = (rsh_wire){.name = "none", .size = 1};
}

static void make_comm(void) {
#ifdef DOORS_MPI
    ok(rsh_comm_mpi(MPI_COMM_SELF, &have.rsh_comm));
#else
    ok(rsh_comm_threads(1, &have.rsh_comm));
#endif
}

static void make_core(void) {
    make_comm();
    ok(rsh_pool_new(1, &have.rsh_pool));
    ok(rsh_layout_parse("f32[4, 4] on x=1", &have.rsh_layout));
    ok(rsh_form_parse("[_/x, _] on x=1", NULL, NULL, &have.rsh_form));
    have.rsh_layout_list[0] = have.rsh_layout;
    have.names[0] = "x", have.one[0] = 1;
    ok(rsh_mesh_new(have.rsh_comm, 1, have.one, NULL, have.names, &have.rsh_mesh));
    ok(rsh_dtensor_full(have.rsh_mesh, 1, &have.rsh_place, RSH_F32, 2, have.shape, 0, &have.dtensor));
    ok(rsh_plan_new(have.rsh_layout, have.rsh_layout, NULL, &have.rsh_plan));
    ok(rsh_tensor_zeros(RSH_F32, 2, have.shape, &have.rsh_tensor));
    ok(rsh_tensor_zeros(RSH_F32, 2, have.shape, &have.other_tensor));
    have.rsh_tensor_list[0] = have.rsh_tensor, have.other_rsh_tensor_list[0] = have.other_tensor;
    ok(rsh_sharded_zeros(have.rsh_comm, have.rsh_layout, &have.rsh_sharded));
    ok(rsh_sharded_zeros(have.rsh_comm, have.rsh_layout, &have.other_sharded));
    have.rsh_sharded_list[0] = have.rsh_sharded;
    ok(rsh_exec_bind(have.rsh_plan, have.rsh_comm, &have.rsh_memory, &have.other_memory, &have.rsh_exec));
    ok(rsh_local_exec_bind(have.rsh_plan, NULL, &have.rsh_memory, &have.other_memory, &have.rsh_local_exec));
    ok(rsh_reshard_begin(have.rsh_sharded, have.rsh_layout, NULL, &have.rsh_transit));
    ok(rsh_stash_new(have.rsh_comm, &have.rsh_stash));
    ok(rsh_stash_pack(have.rsh_stash, have.rsh_tensor, 0, &have.rsh_ticket));
}

static rsh_status op_forward(rsh_grad_call *c) { return rsh_call_set_output(c, 0, fresh_tensor()); }
static rsh_status kind_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                                rsh_value **out) {
    return rsh_grad_apply_with(op, attrs, nin, in, nout, &have.rsh_grad_apply_opts, out);
}

static void make_grad(void) {
    have.rsh_grad_apply_opts = (rsh_grad_apply_opts)RSH_GRAD_APPLY_OPTS_INIT;
    have.rsh_grad_op = (rsh_grad_op){.name = "fresh", .forward = op_forward};
    have.rsh_value_kind = (rsh_value_kind){.name = "own", .apply = kind_apply};
    ok(rsh_value_adopt_tensor(fresh_tensor(), true, &have.rsh_value));
    have.other_value = fresh_value();
    ok(rsh_value_share_sharded(have.rsh_sharded, true, &have.sharded_value));
    have.rsh_value_list[0] = have.rsh_value;
    ok(rsh_saved_new(have.rsh_value, &have.rsh_saved));
    ok(rsh_value_reshard_begin(have.sharded_value, have.rsh_layout, RSH_DERIVATIVE_BACKWARD, NULL,
                               &have.rsh_value_transit));
}

static void make_file(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void make_ckpt(void) {
    static const char file[] = "\x3c\0\0\0\0\0\0\0"
                               "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}      1234";
    strcpy(have.folder, "/tmp/doors-XXXXXX");
    assert_non_null(mkdtemp(have.folder));
    snprintf(have.rules_path, sizeof have.rules_path, "%s/rules", have.folder);
    snprintf(have.ckpt_path, sizeof have.ckpt_path, "%s/a.safetensors", have.folder);
    snprintf(have.target_path, sizeof have.target_path, "%s/b.safetensors", have.folder);
    make_file(have.rules_path, "* [...]\n", 8);
    make_file(have.ckpt_path, file, sizeof file - 1);
    have.rsh_convert_opts = (rsh_convert_opts)RSH_CONVERT_OPTS_INIT;
    have.rsh_convert_opts.force = true;
    have.rsh_from_local_opts = (rsh_from_local_opts)RSH_FROM_LOCAL_OPTS_INIT;
    have.rsh_compare_opts = (rsh_compare_opts)RSH_COMPARE_OPTS_INIT;
    ok(rsh_ckpt_rules_parse("* [...]", "rules", &have.rsh_ckpt_rules));
    ok(rsh_ckpt_open(have.ckpt_path, NULL, &have.rsh_ckpt));
    snprintf(have.saved_path, sizeof have.saved_path, "%s/saved", have.folder);
    have.rsh_save_opts = (rsh_save_opts)RSH_SAVE_OPTS_INIT;
    rsh_layout *l;
    ok(rsh_layout_parse("f32[1] on x=1", &l));
    ok(rsh_sharded_zeros(have.rsh_comm, l, &have.loaded[0]));
    rsh_layout_free(l);
    have.names[0] = "a";
}

static void unmake_ckpt(void) {
    char saved[200];
    snprintf(saved, sizeof saved, "%s/rank-00000-of-00001.safetensors", have.saved_path);
    unlink(saved), rmdir(have.saved_path);
    rsh_sharded_free(have.loaded[0]);
    rsh_ckpt_free(have.rsh_ckpt);
    rsh_ckpt_rules_free(have.rsh_ckpt_rules);
    unlink(have.rules_path), unlink(have.ckpt_path), unlink(have.target_path);
    rmdir(have.folder);
}

static void make_torch(void) {
    ok(rsh_group_init(have.rsh_comm));
    have.rsh_group = rsh_group_default();
    ok(rsh_spec_chunk_ranks(0, 1, NULL, &have.rsh_spec));
    ok(rsh_spec_chunk_ranks(1, 1, NULL, &have.other_spec));
    have.spec = have.rsh_spec;
    ok(rsh_torch_zeros(have.rsh_spec, 2, have.shape, NULL, &have.rsh_torch_tensor));
    ok(rsh_torch_zeros(have.rsh_spec, 2, have.shape, NULL, &have.other_torch));
    ok(rsh_partial_new(have.rsh_tensor, RSH_OP_SUM, NULL, &have.rsh_partial));
    have.rsh_partial_list[0] = have.rsh_partial;
    ok(rsh_spec_build(have.rsh_spec, 2, have.shape, NULL, &have.rsh_tensor_meta));
    ok(rsh_remote_device_parse("rank:0/cpu", &have.rsh_remote_device));
    ok(rsh_shard_meta_make(2, have.zeros, 2, have.shape, "rank:0/cpu", &have.rsh_shard_meta));
    ok(rsh_shard_make(have.rsh_tensor, &have.rsh_shard_meta, NULL, &have.rsh_shard));
    ok(rsh_torch_save(have.rsh_torch_tensor, &(rsh_sink){keep, &have.saved}));
    ok(rsh_tensor_meta_save(have.rsh_tensor_meta, &(rsh_sink){keep, &have.saved_meta}));
    have.states[0] = have.saved.data, have.sizes[0] = have.saved.bytes;
}

static int make(void **state) {
    (void)state;
    make_values();
    make_core();
    make_grad();
    make_torch();
    make_ckpt();
    return 0;
}

static int unmake(void **state) {
    (void)state;
    free(have.saved.data), free(have.saved_meta.data);
    unmake_ckpt();
    rsh_shard_clear(&have.rsh_shard);
    rsh_tensor_meta_free(have.rsh_tensor_meta);
    rsh_partial_free(have.rsh_partial);
    rsh_torch_free(have.other_torch), rsh_torch_free(have.rsh_torch_tensor);
    rsh_spec_free(have.other_spec), rsh_spec_free(have.rsh_spec);
    if (rsh_group_destroy()) return 1;
    rsh_saved_free(have.rsh_saved);
    rsh_value_transit_free(have.rsh_value_transit);
    rsh_ticket_free(have.rsh_ticket), rsh_stash_free(have.rsh_stash), rsh_transit_free(have.rsh_transit);
    rsh_value_free(have.sharded_value), rsh_value_free(have.other_value), rsh_value_free(have.rsh_value);
    rsh_local_exec_free(have.rsh_local_exec), rsh_exec_free(have.rsh_exec);
    rsh_sharded_free(have.other_sharded), rsh_sharded_free(have.rsh_sharded);
    rsh_tensor_free(have.other_tensor), rsh_tensor_free(have.rsh_tensor);
    rsh_plan_free(have.rsh_plan), rsh_layout_free(have.rsh_layout);
    rsh_form_free(have.rsh_form);
    rsh_value_free(have.dtensor);
    rsh_mesh_free(have.rsh_mesh);
    rsh_pool_free(have.rsh_pool);
    rsh_status st = rsh_comm_free(have.rsh_comm);
    memset(&have, 0, sizeof have);
    return st != RSH_OK;
}

#ifdef DOORS_MPI
/* MPI can be started and ended only once, so these functions are called by hand. */
static void without_a_place_for_the_comm_mpi_begins_all_the_same(void **state) {
    (void)state;
    int begun = 0;
    answers(RSH_ERUNTIME, rsh_comm_mpi(MPI_COMM_WORLD, &have.rsh_comm));
    answers(RSH_EVALUE, rsh_mpi_open(NULL));
    MPI_Initialized(&begun);
    assert_true(begun);
    answers(RSH_EBUSY, rsh_mpi_open(&have.rsh_comm));
    assert_null(have.rsh_comm);
}

static void without_a_comm_mpi_ends(void **state) {
    (void)state;
    int ended = 0;
    ok(rsh_mpi_close(NULL));
    MPI_Finalized(&ended);
    assert_true(ended);
    ok(rsh_mpi_close(NULL));
    answers(RSH_EBUSY, rsh_mpi_open(&have.rsh_comm));
}

static const struct CMUnitTest first[] = {
    cmocka_unit_test(without_a_place_for_the_comm_mpi_begins_all_the_same),
};
static const struct CMUnitTest last[] = {
    cmocka_unit_test(without_a_comm_mpi_ends),
};
#endif

int main(void) {
    int failed = 0;
#ifdef DOORS_MPI
    failed += cmocka_run_group_tests(first, NULL, NULL);
#endif
    failed += cmocka_run_group_tests(doors, make, unmake);
    failed += cmocka_run_group_tests(inside, make, unmake);
#ifdef DOORS_MPI
    failed += cmocka_run_group_tests(last, NULL, NULL);
#endif
    return failed;
}

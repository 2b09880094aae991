/* Sharded tensors compared bit by bit with PyTorch's recorded results: created, resharded, gathered and saved.  If
 * PyTorch fails, they are compared with the definition. */
#include "golden.h"
#include "torch/kept.h"

/* The objects of a case: rank in the group, the group, the size and the whole tensor. */
typedef struct scene {
    const json_t *c, *answer, *mine; /* the case, its answer, and the answer of this rank */
    int rank, me, ndim;              /* global rank, and rank in the group */
    rsh_group *group;                /* NULL: the default group */
    int64_t size[RSH_MAX_NDIM];
    rsh_tensor *whole;
} scene;

/* ---- a sharded tensor ---- */

/* Checks that local shards hold their boxes of the whole tensor, and are the boxes of the model that this rank owns. */
static rsh_status check_model(const scene *s, const json_t *spec, const rsh_torch_tensor *st) {
    rsh_shard_meta model[MOST_SHARDS];
    const rsh_tensor_meta *meta = rsh_torch_meta(st);
    int64_t n = golden_model(spec, s->ndim, s->size, model), local = 0;
    EXPECT(n == meta->nshards);
    for (int64_t i = 0; i < n; i++) {
        EXPECT(rsh_shard_meta_equal(&model[i], &meta->shards[i]));
        if (model[i].placement.rank != s->me) continue;
        const rsh_shard *shard = rsh_torch_shard(st, local++);
        EXPECT(shard && rsh_shard_meta_equal(&shard->meta, &model[i]));
    }
    EXPECT(local == rsh_torch_nshards(st));
    return RSH_OK;
}

static rsh_status check_values(const scene *s, const rsh_torch_tensor *st) {
    for (int64_t i = 0; i < rsh_torch_nshards(st); i++) {
        const rsh_shard *shard = rsh_torch_shard(st, i);
        rsh_tensor *expected = NULL;
        RSH_TRY(golden_cut(s->whole, shard->meta.offsets, shard->meta.sizes, &expected));
        bool equal = golden_equal(expected, shard->tensor);
        rsh_tensor_free(expected);
        EXPECT(equal);
    }
    return RSH_OK;
}

/* Checks that this rank has the recorded shards in any order, except for empty ones. */
static rsh_status check_shards(const scene *s, const rsh_torch_tensor *st) {
    const json_t *theirs = json_object_get(s->mine, "shards");
    int64_t found = 0, full = 0;
    for (int64_t i = 0; i < rsh_torch_nshards(st); i++) full += rsh_shard_meta_count(&rsh_torch_shard(st, i)->meta) > 0;
    for (size_t k = 0; k < json_array_size(theirs); k++) {
        const json_t *shard = json_array_get(theirs, k), *data = json_object_get(shard, "data");
        rsh_shard_meta box;
        RSH_TRY(golden_box(json_object_get(shard, "box"), &box));
        for (int64_t i = 0; i < rsh_torch_nshards(st); i++) {
            const rsh_shard *mine = rsh_torch_shard(st, i);
            if (!rsh_shard_meta_equal(&mine->meta, &box)) continue;
            if (data) RSH_TRY(golden_compare(data, mine->tensor));
            found += rsh_shard_meta_count(&box) > 0;
        }
    }
    EXPECT(found == full);
    return RSH_OK;
}

static const json_t *said(const scene *s, const char *key) {
    const json_t *value = json_object_get(s->answer, key);
    return value ? value : json_object_get(s->mine, key);
}

static rsh_status check_golden(const scene *s, const rsh_torch_tensor *st) {
    rsh_spec *theirs = NULL;
    const rsh_tensor_meta *meta = rsh_torch_meta(st);
    RSH_TRY(golden_compare_boxes(said(s, "meta"), meta->nshards, meta->shards));
    RSH_TRY(check_shards(s, st));
    RSH_TRY(golden_spec(said(s, "spec"), &theirs));
    bool equal = rsh_spec_equal(theirs, rsh_torch_spec(st), s->ndim);
    rsh_spec_free(theirs);
    EXPECT(equal);
    return RSH_OK;
}

static rsh_status check_st(const scene *s, const json_t *spec, const rsh_torch_tensor *st) {
    if (spec) RSH_TRY(check_model(s, spec, st));
    RSH_TRY(check_values(s, st));
    return golden_answered(s->c) ? check_golden(s, st) : RSH_OK;
}

/* ---- making and moving ---- */

/* Creates the tensor with rsh_shard_tensor. "srcs" gives every rank another source, which must be rejected. */
static rsh_status make_sharded(const scene *s, const rsh_spec *spec, rsh_torch_tensor **out) {
    const json_t *srcs = json_object_get(s->c, "srcs");
    int src = (int)(srcs ? json_integer_value(json_array_get(srcs, (size_t)s->me)) : golden_number(s->c, "src", 0));
    rsh_tensor *given = NULL, *turned = NULL;
    RSH_TRY(golden_whole(s->c, NULL, s->me != src, &given));
    rsh_status st = json_object_get(s->c, "transposed") ? golden_turned(given, &turned) : RSH_OK;
    if (!st) st = rsh_shard_tensor(turned ? turned : given, spec, src, s->group, NULL, out);
    rsh_tensor_free(given), rsh_tensor_free(turned);
    return st;
}

static rsh_status check_shard(const scene *s) {
    const json_t *specs = json_object_get(s->c, "specs");
    rsh_spec *spec = NULL;
    rsh_torch_tensor *made = NULL;
    RSH_TRY(golden_spec(specs ? json_array_get(specs, (size_t)s->me) : json_object_get(s->c, "spec"), &spec));
    rsh_status st = make_sharded(s, spec, &made), expected = golden_expected(s->c, s->rank, true);
    rsh_spec_free(spec);
    EXPECT(st == expected);
    if (st) return RSH_OK;
    st = check_st(s, json_object_get(s->c, "spec"), made);
    rsh_torch_free(made);
    return st;
}

/* Reshards into an existing tensor. */
static rsh_status check_into(const scene *s, const rsh_torch_tensor *from, const rsh_spec *to) {
    rsh_torch_opts opts = RSH_TORCH_OPTS_INIT;
    rsh_torch_tensor *into = NULL;
    opts.props.dtype = rsh_torch_dtype(from), opts.group = s->group;
    RSH_TRY(rsh_torch_zeros(to, s->ndim, s->size, &opts, &into));
    rsh_status st = rsh_torch_reshard_into(from, into);
    if (!st) st = check_st(s, json_object_get(s->c, "to"), into);
    rsh_torch_free(into);
    return st;
}

/* Calls reshuffle_local_shard and reshard_local_shard directly. */
static rsh_status check_part(const scene *s, const rsh_torch_tensor *from, const rsh_spec *to) {
    rsh_shard_meta by_rank[MOST_SHARDS];
    const rsh_tensor *local;
    rsh_shard moved;
    rsh_tensor *expected = NULL;
    int p, q;
    RSH_TRY(rsh_spec_chunk_dim(rsh_torch_spec(from), s->ndim, &p));
    RSH_TRY(rsh_spec_chunk_dim(to, s->ndim, &q));
    RSH_TRY(rsh_torch_local_tensor(from, &local));
    RSH_TRY((p == q ? rsh_reshuffle_local_shard : rsh_reshard_local_shard)(
        local, s->ndim, s->size, rsh_torch_spec(from), to, s->group, &moved, by_rank));
    bool right = rsh_shard_meta_equal(&moved.meta, &by_rank[s->me]);
    rsh_status st = golden_cut(s->whole, moved.meta.offsets, moved.meta.sizes, &expected);
    right = right && !st && golden_equal(expected, moved.tensor);
    if (!st && right) st = golden_compare_boxes(said(s, "meta"), rsh_group_size(s->group), by_rank);
    rsh_tensor_free(expected);
    rsh_shard_clear(&moved);
    EXPECT(right);
    return st;
}

static rsh_status check_moves(const scene *s, const rsh_torch_tensor *from, const rsh_spec *to) {
    rsh_torch_tensor *moved = NULL;
    rsh_status st = rsh_torch_reshard(from, to, &moved), expected = golden_expected(s->c, s->rank, true);
    EXPECT(st == expected);
    if (st) return RSH_OK;
    st = check_st(s, json_object_get(s->c, "to"), moved);
    rsh_torch_free(moved);
    RSH_TRY(st);
    RSH_TRY(check_into(s, from, to));
    if (golden_answered(s->c)) RSH_TRY(check_part(s, from, to));
    return check_model(s, json_object_get(s->c, "from"), from); /* the source must be unchanged */
}

static rsh_status check_reshard(const scene *s) {
    rsh_spec *from = NULL, *to = NULL;
    rsh_torch_tensor *made = NULL;
    rsh_status st;
    RSH_GOTO(golden_spec(json_object_get(s->c, "from"), &from));
    RSH_GOTO(golden_spec(json_object_get(s->c, "to"), &to));
    RSH_GOTO(make_sharded(s, from, &made));
    RSH_GOTO(check_values(s, made));
    RSH_GOTO(check_moves(s, made, to));
    RSH_GOTO(check_values(s, made));
out:
    rsh_spec_free(from), rsh_spec_free(to);
    rsh_torch_free(made);
    return st;
}

/* ---- factories, gather, state ---- */

static rsh_status fill(const scene *s, rsh_torch_tensor *st) {
    for (int64_t i = 0; i < rsh_torch_nshards(st); i++) {
        const rsh_shard *shard = rsh_torch_shard(st, i);
        rsh_tensor *part = NULL;
        RSH_TRY(golden_cut(s->whole, shard->meta.offsets, shard->meta.sizes, &part));
        size_t bytes = (size_t)rsh_tensor_count(part) * rsh_dtype_size(rsh_tensor_dtype(part));
        if (bytes) memcpy(rsh_tensor_data(shard->tensor), rsh_tensor_data(part), bytes);
        rsh_tensor_free(part);
    }
    return RSH_OK;
}

/* Creates a tensor of any spec whose shards hold their parts of the whole. */
static rsh_status make_filled(const scene *s, rsh_group *group, rsh_torch_tensor **out) {
    rsh_spec *spec = NULL;
    rsh_torch_opts opts = RSH_TORCH_OPTS_INIT;
    opts.props.dtype = rsh_tensor_dtype(s->whole), opts.group = group;
    RSH_TRY(golden_spec(json_object_get(s->c, "spec"), &spec));
    rsh_status st = rsh_torch_empty(spec, s->ndim, s->size, &opts, out);
    rsh_spec_free(spec);
    return st ? st : fill(s, *out);
}

static rsh_status check_factory(const scene *s) {
    rsh_spec *spec = NULL;
    rsh_torch_tensor *st = NULL;
    char value[16];
    rsh_torch_opts opts = RSH_TORCH_OPTS_INIT;
    opts.props.dtype = rsh_tensor_dtype(s->whole), opts.group = s->group;
    if (json_object_get(s->c, "sparse")) opts.props.layout = RSH_SPARSE;
    if (json_object_get(s->c, "channels_last")) opts.props.memory_format = RSH_CHANNELS_LAST;
    golden_put(opts.props.dtype, golden_number(s->c, "value", 0), value);
    RSH_TRY(golden_spec(json_object_get(s->c, "spec"), &spec));
    rsh_status got = golden_is(s->c, "which", "full")    ? rsh_torch_full(spec, s->ndim, s->size, value, &opts, &st)
                     : golden_is(s->c, "which", "ones")  ? rsh_torch_ones(spec, s->ndim, s->size, &opts, &st)
                     : golden_is(s->c, "which", "zeros") ? rsh_torch_zeros(spec, s->ndim, s->size, &opts, &st)
                                                         : rsh_torch_empty(spec, s->ndim, s->size, &opts, &st);
    rsh_spec_free(spec);
    EXPECT(got == golden_expected(s->c, s->rank, false));
    if (got) return RSH_OK;
    got = check_model(s, json_object_get(s->c, "spec"), st);
    if (!got) got = check_golden(s, st);
    rsh_torch_free(st);
    return got;
}

static rsh_status check_gather(const scene *s) {
    int dst = (int)golden_number(s->c, "dst", 0);
    const json_t *outs = json_object_get(s->c, "out");
    rsh_torch_tensor *st = NULL;
    rsh_tensor *out = NULL;
    RSH_TRY(make_filled(s, s->group, &st));
    rsh_status got = check_st(s, json_object_get(s->c, "spec"), st);
    if (!got && (outs ? golden_member(outs, s->rank) : s->rank == dst)) got = golden_whole(s->c, NULL, true, &out);
    rsh_status gathered = got ? got : rsh_torch_gather(st, dst, out);
    bool right = gathered == golden_expected(s->c, s->rank, true);
    if (right && !gathered && s->rank == dst) {
        right = golden_equal(s->whole, out);
        if (golden_answered(s->c)) got = golden_compare(json_object_get(s->mine, "whole"), out);
    }
    rsh_tensor_free(out);
    rsh_torch_free(st);
    EXPECT(right);
    return got;
}

/* Loads in the case's group.  An error must name the same number as PyTorch's message. */
static rsh_status load_and_check(const scene *s, const bytes *saved, rsh_group *load) {
    rsh_torch_tensor *back = NULL;
    const char *which = golden_text(s->mine, "which");
    RSH_TRY(rsh_group_enter(load));
    rsh_status st = rsh_torch_load(saved->data, saved->n, &back);
    rsh_group_leave();
    EXPECT(st == golden_expected(s->c, s->rank, false));
    if (st) {
        EXPECT(strstr(rsh_error_detail(), which));
        return RSH_OK;
    }
    st = check_values(s, back);
    if (!st) st = check_golden(s, back);
    rsh_torch_free(back);
    return st;
}

static rsh_status check_state(const scene *s) {
    rsh_group *save = NULL, *load = NULL;
    rsh_torch_tensor *made = NULL;
    bytes saved = {0};
    rsh_status st;
    RSH_GOTO(golden_group(json_object_get(s->c, "save"), &save));
    RSH_GOTO(golden_group(json_object_get(s->c, "load"), &load));
    if (!golden_member(json_object_get(s->c, "save"), s->rank)) goto out;
    RSH_GOTO(make_filled(s, save, &made));
    RSH_GOTO(rsh_torch_save(made, &(rsh_sink){keep, &saved}));
    RSH_GOTO(load_and_check(s, &saved, load));
out:
    free(saved.data);
    rsh_torch_free(made);
    rsh_group_free(load), rsh_group_free(save);
    return st;
}

/* ---- from the shards that each rank has ---- */

static rsh_status own_tensor(const scene *s, const json_t *item, const rsh_shard_meta *box, rsh_tensor **out) {
    rsh_tensor *whole = NULL, *part = NULL;
    const char *dtype = golden_text(item, "dtype");
    RSH_TRY(golden_whole(s->c, *dtype ? dtype : NULL, false, &whole));
    rsh_status st = golden_cut(whole, box->offsets, box->sizes, &part);
    rsh_tensor_free(whole);
    if (st || !json_object_get(item, "transposed")) return *out = part, st;
    st = golden_turned(part, out);
    rsh_tensor_free(part);
    return st;
}

static rsh_status own_shards(const scene *s, int64_t *n, rsh_shard *out) {
    const json_t *items = json_array_get(json_object_get(s->c, "shards"), (size_t)s->rank);
    for (*n = 0; *n < (int64_t)json_array_size(items); ++*n) {
        const json_t *item = json_array_get(items, (size_t)*n);
        rsh_shard_meta box;
        rsh_tensor *tensor = NULL;
        RSH_TRY(golden_box(json_object_get(item, "box"), &box));
        RSH_TRY(own_tensor(s, item, &box, &tensor));
        rsh_tensor_props props = rsh_tensor_get_props(tensor);
        props.requires_grad = json_is_true(json_object_get(item, "grad"));
        rsh_status st = rsh_shard_make(tensor, &box, &props, &out[*n]);
        rsh_tensor_free(tensor);
        RSH_TRY(st);
    }
    return RSH_OK;
}

static rsh_status judge_made(const scene *s, rsh_status got, bool collective, rsh_torch_tensor *st) {
    EXPECT(got == golden_expected(s->c, s->rank, collective));
    if (got) return RSH_OK;
    got = check_st(s, NULL, st);
    rsh_torch_free(st);
    return got;
}

static rsh_status check_from_shards(const scene *s) {
    const json_t *sizes = json_object_get(s->c, "sizes");
    rsh_shard shards[MOST_SHARDS];
    rsh_torch_tensor *st = NULL;
    int64_t n, size[RSH_MAX_NDIM];
    RSH_TRY(own_shards(s, &n, shards));
    int ndim = golden_numbers(sizes ? json_array_get(sizes, (size_t)s->rank) : json_object_get(s->c, "size"), size);
    rsh_status got = rsh_torch_from_shards(n, shards, ndim, size, s->group, &st);
    for (int64_t i = 0; i < n; i++) rsh_shard_clear(&shards[i]);
    return judge_made(s, got, true, st);
}

static rsh_status check_from_meta(const scene *s) {
    rsh_shard shards[MOST_SHARDS];
    rsh_shard_meta boxes[MOST_SHARDS];
    rsh_tensor_meta *meta = NULL;
    rsh_torch_tensor *st = NULL;
    int64_t n, nboxes;
    rsh_tensor_props props = rsh_tensor_get_props(s->whole);
    RSH_TRY(golden_boxes(json_object_get(s->c, "meta"), &nboxes, boxes));
    RSH_TRY(rsh_tensor_meta_new(nboxes, boxes, s->ndim, s->size, &props, &meta));
    rsh_status got = own_shards(s, &n, shards);
    if (!got) got = rsh_torch_from_shards_and_meta(n, shards, meta, NULL, s->group, &st);
    for (int64_t i = 0; i < n; i++) rsh_shard_clear(&shards[i]);
    rsh_tensor_meta_free(meta);
    return judge_made(s, got, false, st);
}

static rsh_status check_from_tensor(const scene *s) {
    const json_t *local = json_array_get(json_object_get(s->c, "locals"), (size_t)s->rank);
    rsh_shard_meta box;
    rsh_tensor *tensor = NULL;
    rsh_spec *spec = NULL;
    rsh_torch_tensor *st = NULL;
    RSH_TRY(golden_box(local, &box));
    RSH_TRY(own_tensor(s, s->c, &box, &tensor)); /* the case sets "transposed" */
    rsh_status got = golden_spec(json_object_get(s->c, "spec"), &spec);
    if (!got) got = rsh_torch_from_tensor(tensor, NULL, spec, s->ndim, s->size, s->group, &st);
    rsh_tensor_free(tensor);
    rsh_spec_free(spec);
    return judge_made(s, got, false, st);
}

/* ---- all cases ---- */

static rsh_status dispatch(const scene *s) {
    static const struct {
        const char *op;
        rsh_status (*check)(const scene *s);
    } ops[] = {{"shard", check_shard},         {"reshard", check_reshard},
               {"factory", check_factory},     {"gather", check_gather},
               {"state", check_state},         {"from_shards", check_from_shards},
               {"from_meta", check_from_meta}, {"from_tensor", check_from_tensor}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (golden_is(s->c, "op", ops[i].op)) return ops[i].check(s);
    EXPECT(!"an operation that this test knows");
    return RSH_OK;
}

static rsh_status check_case(const json_t *c, int rank) {
    scene s = {.c = c, .answer = json_object_get(c, "answer"), .rank = rank};
    s.mine = json_array_get(json_object_get(s.answer, "ranks"), (size_t)rank);
    s.ndim = golden_numbers(json_object_get(c, "size"), s.size);
    RSH_TRY(golden_whole(c, NULL, false, &s.whole));
    rsh_status st = golden_group(json_object_get(c, "group"), &s.group);
    s.me = rsh_group_rank(s.group);
    if (!st && s.me >= 0) st = dispatch(&s);
    rsh_group_free(s.group);
    rsh_tensor_free(s.whole);
    return st;
}

static bool is_of_tensors(const json_t *c) { return !golden_is(c, "op", "collective"); }

static void whole_tensors_are_sharded_as_pytorch_does(void **state) {
    (void)state;
    golden_ranks("shard", NULL, check_case);
}

static void tensors_move_between_specs_as_in_pytorch(void **state) {
    (void)state;
    golden_ranks("reshard", NULL, check_case);
}

static void factories_gathers_and_constructors_answer_as_pytorch(void **state) {
    (void)state;
    golden_ranks("init", NULL, check_case);
}

static void states_are_refused_where_pytorch_refuses_them(void **state) {
    (void)state;
    golden_ranks("state", NULL, check_case);
}

static void what_pytorch_fails_at_is_done_or_refused_on_every_rank(void **state) {
    (void)state;
    golden_ranks("errors", is_of_tensors, check_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tensors_are_sharded_as_pytorch_does),
        cmocka_unit_test(tensors_move_between_specs_as_in_pytorch),
        cmocka_unit_test(factories_gathers_and_constructors_answer_as_pytorch),
        cmocka_unit_test(states_are_refused_where_pytorch_refuses_them),
        cmocka_unit_test(what_pytorch_fails_at_is_done_or_refused_on_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

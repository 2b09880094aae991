/* Process groups and their collectives compared with results recorded from PyTorch's gloo. */
#include "golden.h"

/* One collective on this rank: `in` and `list` are inputs of the case, `out` and `list` are results. */
typedef struct call {
    const json_t *c, *answer; /* the case, and its recorded answer for this rank */
    rsh_group *group;         /* NULL: the default group */
    int rank, size, root;     /* rank in the group, its size, and the root */
    rsh_tensor *in, *out;
    int nlist;
    rsh_tensor *list[MOST_SHARDS];
} call;

static rsh_status take(const json_t *tensors, int i, rsh_tensor **out) {
    return golden_tensor(json_array_get(tensors, (size_t)i), out);
}

static rsh_status take_list(call *k, const json_t *tensors, bool same) {
    for (k->nlist = 0; k->nlist < k->size; k->nlist++)
        RSH_TRY(take(tensors, same ? k->rank : k->nlist, &k->list[k->nlist]));
    return RSH_OK;
}

static rsh_status compare_list(const call *k) {
    const json_t *theirs = json_object_get(k->answer, "list");
    EXPECT(json_array_size(theirs) == (size_t)k->nlist);
    for (int i = 0; i < k->nlist; i++) RSH_TRY(golden_compare(json_array_get(theirs, (size_t)i), k->list[i]));
    return RSH_OK;
}

/* Checks the status of a call.  Sets *compare if the call succeeded, so that the caller compares the results. */
static rsh_status judge(const call *k, rsh_status st, bool *compare) {
    EXPECT(st == golden_expected(k->c, 0, true));
    *compare = !st && golden_answered(k->c);
    return RSH_OK;
}

static rsh_status out_like(const call *k, int64_t rows, rsh_tensor **out) {
    int64_t shape[RSH_MAX_NDIM];
    memcpy(shape, rsh_tensor_shape(k->in), (size_t)rsh_tensor_ndim(k->in) * sizeof *shape);
    if (rows >= 0) shape[0] = rows;
    return rsh_tensor_zeros(rsh_tensor_dtype(k->in), rsh_tensor_ndim(k->in), shape, out);
}

static rsh_status do_all_to_all_single(call *k, const json_t *tensors) {
    const json_t *splits = json_object_get(k->c, "splits");
    int64_t send[MOST_SHARDS], receive[MOST_SHARDS], rows = 0;
    bool compare;
    RSH_TRY(take(tensors, k->rank, &k->in));
    golden_numbers(json_array_get(splits, (size_t)k->rank), send);
    for (int r = 0; r < k->size; r++) {
        receive[r] = json_integer_value(json_array_get(json_array_get(splits, (size_t)r), (size_t)k->rank));
        rows += receive[r];
    }
    RSH_TRY(out_like(k, splits ? rows : -1, &k->out));
    RSH_TRY(judge(k,
                  rsh_group_all_to_all_single(k->group, k->out, k->in, splits ? receive : NULL, splits ? send : NULL),
                  &compare));
    return compare ? golden_compare(json_object_get(k->answer, "out"), k->out) : RSH_OK;
}

static rsh_status do_all_gather(call *k, const json_t *tensors) {
    bool compare;
    RSH_TRY(take(tensors, k->rank, &k->in));
    RSH_TRY(take_list(k, tensors, true));
    RSH_TRY(judge(k, rsh_group_all_gather(k->group, k->nlist, k->list, k->in), &compare));
    return compare ? compare_list(k) : RSH_OK;
}

/* Runs all_reduce, reduce or broadcast, which have one tensor as input and output. */
static rsh_status do_in_place(call *k, const json_t *tensors) {
    rsh_op op = RSH_OP_NONE;
    bool compare, reduces = golden_is(k->c, "which", "reduce"), all = golden_is(k->c, "which", "all_reduce");
    const char *name = golden_text(k->c, "reduce");
    if (*name) RSH_TRY(rsh_op_parse(name, strlen(name), &op));
    RSH_TRY(take(tensors, k->rank, &k->out));
    rsh_status st = all       ? rsh_group_all_reduce(k->group, k->out, op)
                    : reduces ? rsh_group_reduce(k->group, k->out, op, k->root)
                              : rsh_group_broadcast(k->group, k->out, k->root);
    RSH_TRY(judge(k, st, &compare));
    return compare && (!reduces || k->rank == k->root) ? golden_compare(json_object_get(k->answer, "out"), k->out)
                                                       : RSH_OK;
}

static rsh_status do_scatter(call *k, const json_t *tensors) {
    const json_t *givers = json_object_get(k->c, "givers");
    bool compare, given = givers ? golden_member(givers, k->rank) : k->rank == k->root;
    RSH_TRY(take(tensors, 0, &k->in));
    RSH_TRY(out_like(k, -1, &k->out));
    if (given) RSH_TRY(take_list(k, tensors, false));
    RSH_TRY(judge(
        k, rsh_group_scatter(k->group, k->out, k->nlist, given ? (const rsh_tensor *const *)k->list : NULL, k->root),
        &compare));
    return compare ? golden_compare(json_object_get(k->answer, "out"), k->out) : RSH_OK;
}

static rsh_status do_gather(call *k, const json_t *tensors) {
    bool compare;
    RSH_TRY(take(tensors, k->rank, &k->in));
    if (k->rank == k->root) RSH_TRY(take_list(k, tensors, true));
    RSH_TRY(judge(k, rsh_group_gather(k->group, k->in, k->nlist, k->nlist ? k->list : NULL, k->root), &compare));
    return compare && k->nlist ? compare_list(k) : RSH_OK;
}

static rsh_status do_all_gather_object(call *k, const json_t *unused) {
    (void)unused;
    const char *mine = json_string_value(json_array_get(json_object_get(k->c, "texts"), (size_t)k->rank));
    rsh_objects *all = NULL;
    RSH_TRY(rsh_group_all_gather_object(k->group, mine, strlen(mine), &all));
    const json_t *theirs = json_object_get(k->answer, "texts");
    bool same = all->n == (int)json_array_size(theirs);
    for (int i = 0; same && i < all->n; i++) {
        const char *text = json_string_value(json_array_get(theirs, (size_t)i));
        same = all->bytes[i] == strlen(text) && (all->bytes[i] == 0 || memcmp(all->data[i], text, all->bytes[i]) == 0);
    }
    rsh_objects_free(all);
    EXPECT(same);
    return RSH_OK;
}

static rsh_status dispatch(call *k) {
    static const struct {
        const char *which;
        rsh_status (*run)(call *k, const json_t *tensors);
    } kinds[] = {{"all_to_all_single", do_all_to_all_single},
                 {"all_gather", do_all_gather},
                 {"all_reduce", do_in_place},
                 {"reduce", do_in_place},
                 {"broadcast", do_in_place},
                 {"scatter", do_scatter},
                 {"gather", do_gather},
                 {"all_gather_object", do_all_gather_object}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (golden_is(k->c, "which", kinds[i].which)) return kinds[i].run(k, json_object_get(k->c, "in"));
    EXPECT(!"a collective that this test knows");
    return RSH_OK;
}

static rsh_status check_collective(const json_t *c, int rank, rsh_group *group) {
    if (!golden_member(json_object_get(c, "group"), rank)) return RSH_OK;
    call k = {.c = c,
              .group = group,
              .rank = rsh_group_rank(group),
              .size = rsh_group_size(group),
              .root = (int)golden_number(c, "root", 0)};
    k.answer = json_array_get(json_object_get(json_object_get(c, "answer"), "ranks"), (size_t)rank);
    rsh_status st = dispatch(&k);
    rsh_tensor_free(k.in), rsh_tensor_free(k.out);
    for (int i = 0; i < MOST_SHARDS; i++) rsh_tensor_free(k.list[i]);
    return st;
}

/* Checks ranks, sizes and their conversion.  If PyTorch returns an error, the library must return one of the same
 * kind. */
static rsh_status check_facts(const json_t *c, int rank, rsh_group *group) {
    const json_t *mine = json_array_get(json_object_get(json_object_get(c, "answer"), "ranks"), (size_t)rank), *to,
                 *from;
    EXPECT(rsh_group_rank(group) == golden_number(mine, "rank", -2) &&
           rsh_group_size(group) == golden_number(mine, "size", -2));
    to = json_object_get(mine, "to_global"), from = json_object_get(mine, "from_global");
    for (size_t r = 0; r < json_array_size(to); r++) {
        int global = -1;
        RSH_TRY(rsh_group_to_global(group, (int)r, &global));
        EXPECT(global == json_integer_value(json_array_get(to, r)));
    }
    for (size_t r = 0; r < json_array_size(from); r++) {
        const json_t *theirs = json_array_get(from, r);
        int local = -1;
        rsh_status st = rsh_group_from_global(group, (int)r, &local);
        EXPECT(st == golden_kind(json_string_value(json_object_get(theirs, "error"))));
        EXPECT(st || local == json_integer_value(theirs));
    }
    return RSH_OK;
}

static rsh_status check_case(const json_t *c, int rank) {
    rsh_group *group = NULL;
    RSH_TRY(golden_group(json_object_get(c, "group"), &group));
    rsh_status st = golden_is(c, "op", "group") ? check_facts(c, rank, group) : check_collective(c, rank, group);
    rsh_group_free(group);
    return st;
}

static bool is_collective(const json_t *c) { return golden_is(c, "op", "collective"); }

static void collectives_answer_as_gloo_does(void **state) {
    (void)state;
    golden_ranks("collectives", NULL, check_case);
}

static void collectives_refuse_what_gloo_should(void **state) {
    (void)state;
    golden_ranks("errors", is_collective, check_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_answer_as_gloo_does),
        cmocka_unit_test(collectives_refuse_what_gloo_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Group errors: if one rank passes wrong arguments, every rank gets an error of the same kind, and the group works
 * afterwards. */
#include "groups.h"

enum { RANKS = 4 };

/* Tensors of one rank: all are f32[2, 3], except for a few. */
typedef struct kit {
    rsh_tensor *good, *list[RANKS], *out[RANKS], *bool_, *integers, *longer, *flat, *scalar, *stretched;
    bool wrong; /* whether this is the rank with the wrong argument */
    int me;
} kit;

static rsh_status make(rsh_dtype dtype, int ndim, int64_t a, int64_t b, rsh_tensor **out) {
    const int64_t shape[2] = {a, b};
    return rsh_tensor_zeros(dtype, ndim, shape, out);
}
static rsh_status kit_make(kit *k) {
    RSH_TRY(make(RSH_F32, 2, 2, 3, &k->good));
    for (int r = 0; r < RANKS; r++) {
        RSH_TRY(make(RSH_F32, 2, 2, 3, &k->list[r]));
        RSH_TRY(make(RSH_F32, 2, 2, 3, &k->out[r]));
    }
    RSH_TRY(make(RSH_BOOL, 2, 2, 3, &k->bool_));
    RSH_TRY(make(RSH_I32, 2, 2, 3, &k->integers));
    RSH_TRY(make(RSH_F32, 2, 2, 4, &k->longer));
    RSH_TRY(make(RSH_F32, 1, 6, 0, &k->flat));
    const int64_t shape[2] = {2, 3}, strides[2] = {0, 1}; /* both rows are at the same address */
    RSH_TRY(rsh_tensor_view(k->flat, 0, 2, shape, strides, &k->stretched));
    return make(RSH_F32, 0, 0, 0, &k->scalar);
}
static void kit_free(kit *k) {
    for (int r = 0; r < RANKS; r++) rsh_tensor_free(k->list[r]), rsh_tensor_free(k->out[r]);
    rsh_tensor *const rest[] = {k->good, k->bool_, k->integers, k->longer, k->flat, k->scalar, k->stretched};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) rsh_tensor_free(rest[i]);
}

/* Returns the wrong tensor on the wrong rank, otherwise a good one. */
static rsh_tensor *or_else(const kit *k, rsh_tensor *wrong) { return k->wrong ? wrong : k->good; }
/* Copies a list, with one entry replaced on the wrong rank. */
static rsh_tensor **with(const kit *k, rsh_tensor *const *list, rsh_tensor *wrong, rsh_tensor **room) {
    for (int r = 0; r < RANKS; r++) room[r] = list[r];
    if (k->wrong) room[1] = wrong;
    return room;
}
#define SOURCES(list) ((const rsh_tensor *const *)(list))

/* The error messages of all ranks must end in the same way. */
static rsh_status same_everywhere(void) {
    char mine[200] = {0}, all[RANKS][200];
    const char *detail = rsh_error_detail();
    size_t length = strlen(detail);
    snprintf(mine, sizeof mine, "%s", length > 60 ? detail + length - 60 : detail);
    RSH_TRY(rsh_comm_allgather(rsh_group_comm(NULL), mine, all, sizeof mine));
    for (int r = 0; r < RANKS; r++) CHECK(!strcmp(all[r], mine));
    return RSH_OK;
}
#define REFUSED(expected, call)                                                                                        \
    do {                                                                                                               \
        CHECK_STATUS(expected, call);                                                                                  \
        RSH_TRY(same_everywhere());                                                                                    \
    } while (0)

static rsh_status single_tensors(const kit *k) {
    REFUSED(RSH_EVALUE, rsh_group_broadcast(NULL, or_else(k, NULL), 1));
    REFUSED(RSH_ERUNTIME, rsh_group_broadcast(NULL, k->good, k->wrong ? RANKS : 1));
    REFUSED(RSH_ERUNTIME, rsh_group_broadcast(NULL, k->good, k->wrong ? -1 : 1));
    REFUSED(RSH_EVALUE, rsh_group_broadcast(NULL, k->good, k->wrong ? 2 : 1));
    CHECK_SAYS("same root");
    REFUSED(RSH_ERUNTIME, rsh_group_broadcast(NULL, or_else(k, k->integers), 1));
    CHECK_SAYS("i32[2, 3]");
    REFUSED(RSH_EVALUE, rsh_group_broadcast(NULL, or_else(k, k->flat), 1));
    CHECK_SAYS("f32[6]");
    REFUSED(RSH_EVALUE, rsh_group_all_reduce(NULL, or_else(k, k->longer), RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_all_reduce(NULL, or_else(k, NULL), RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_all_reduce(NULL, or_else(k, k->stretched), RSH_OP_SUM));
    CHECK_SAYS("two elements share memory");
    REFUSED(RSH_ERUNTIME, rsh_group_all_reduce(NULL, or_else(k, k->integers), RSH_OP_SUM));
    REFUSED(RSH_ETYPE, rsh_group_all_reduce(NULL, or_else(k, k->integers), RSH_OP_AVG));
    REFUSED(RSH_ETYPE, rsh_group_all_reduce(NULL, or_else(k, k->bool_), RSH_OP_SUM));
    REFUSED(RSH_ETYPE, rsh_group_all_reduce(NULL, k->good, k->wrong ? RSH_OP_BOR : RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_all_reduce(NULL, k->good, k->wrong ? RSH_OP_NONE : RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_all_reduce(NULL, k->good, k->wrong ? RSH_OP_COUNT : RSH_OP_SUM));
    REFUSED(RSH_EMISMATCH, rsh_group_all_reduce(NULL, k->good, k->wrong ? RSH_OP_MAX : RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_reduce(NULL, k->good, RSH_OP_SUM, k->wrong ? 3 : 0));
    REFUSED(RSH_EVALUE, rsh_group_reduce(NULL, or_else(k, k->scalar), RSH_OP_SUM, 2));
    REFUSED(RSH_ERUNTIME, rsh_group_reduce(NULL, k->good, RSH_OP_SUM, k->wrong ? -1 : 0));
    return RSH_OK;
}

static rsh_status lists_of_the_root(const kit *k) {
    rsh_tensor *room[RANKS];
    const int root = 2; /* the wrong rank, if the list is wrong */
    const rsh_tensor *const *sources = k->wrong ? SOURCES(k->list) : NULL;
    rsh_tensor *const *targets = k->wrong ? k->out : NULL;
    REFUSED(RSH_EVALUE, rsh_group_scatter(NULL, k->good, RANKS, NULL, root));
    REFUSED(RSH_EVALUE, rsh_group_scatter(NULL, k->good, RANKS - 1, sources, root));
    REFUSED(RSH_EVALUE,
            rsh_group_scatter(NULL, k->good, RANKS, k->wrong || k->me == 3 ? SOURCES(k->list) : NULL, root));
    REFUSED(RSH_EVALUE,
            rsh_group_scatter(NULL, k->good, RANKS, k->wrong ? SOURCES(with(k, k->list, NULL, room)) : NULL, root));
    REFUSED(RSH_EVALUE, rsh_group_scatter(NULL, k->good, RANKS,
                                          k->wrong ? SOURCES(with(k, k->list, k->longer, room)) : NULL, root));
    REFUSED(RSH_ERUNTIME,
            rsh_group_scatter(NULL, k->good, RANKS, k->wrong ? SOURCES(with(k, k->list, k->bool_, room)) : NULL, root));
    REFUSED(RSH_EVALUE, rsh_group_scatter(NULL, k->me == 0 ? k->longer : k->good, RANKS, sources, root));
    REFUSED(RSH_ERUNTIME, rsh_group_scatter(NULL, k->me == 0 ? k->integers : k->good, RANKS, sources, root));
    REFUSED(RSH_EVALUE, rsh_group_gather(NULL, k->good, RANKS, NULL, root));
    REFUSED(RSH_EVALUE, rsh_group_gather(NULL, k->good, RANKS + 1, targets, root));
    REFUSED(RSH_EVALUE, rsh_group_gather(NULL, k->good, RANKS, k->out, root));
    REFUSED(RSH_EVALUE, rsh_group_gather(NULL, k->good, RANKS, k->wrong ? with(k, k->out, k->flat, room) : NULL, root));
    REFUSED(RSH_ERUNTIME, rsh_group_gather(NULL, k->me == 1 ? k->integers : k->good, RANKS, targets, root));
    REFUSED(RSH_EVALUE, rsh_group_gather(NULL, k->me == 1 ? NULL : k->good, RANKS, targets, root));
    RSH_TRY(rsh_group_scatter(NULL, k->good, RANKS, sources, root));
    return rsh_group_gather(NULL, k->good, RANKS, targets, root);
}

static rsh_status lists_of_all(const kit *k) {
    rsh_tensor *room[RANKS];
    REFUSED(RSH_EVALUE, rsh_group_all_gather(NULL, k->wrong ? 3 : RANKS, k->out, k->good));
    REFUSED(RSH_EVALUE, rsh_group_all_gather(NULL, RANKS, k->wrong ? NULL : k->out, k->good));
    REFUSED(RSH_EVALUE, rsh_group_all_gather(NULL, RANKS, with(k, k->out, k->longer, room), k->good));
    REFUSED(RSH_ERUNTIME, rsh_group_all_gather(NULL, RANKS, with(k, k->out, k->bool_, room), k->good));
    REFUSED(RSH_EVALUE, rsh_group_all_gather(NULL, RANKS, k->out, or_else(k, NULL)));
    REFUSED(RSH_EVALUE, rsh_group_reduce_scatter(NULL, or_else(k, k->longer), RANKS, SOURCES(k->list), RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_reduce_scatter(NULL, k->good, k->wrong ? 0 : RANKS, SOURCES(k->list), RSH_OP_SUM));
    REFUSED(RSH_ERUNTIME, rsh_group_reduce_scatter(NULL, or_else(k, k->integers), RANKS, SOURCES(k->list), RSH_OP_SUM));
    REFUSED(RSH_EMISMATCH,
            rsh_group_reduce_scatter(NULL, k->good, RANKS, SOURCES(k->list), k->wrong ? RSH_OP_MIN : RSH_OP_SUM));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all(NULL, k->wrong ? 5 : RANKS, k->out, SOURCES(k->list)));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all(NULL, RANKS, k->wrong ? NULL : k->out, SOURCES(k->list)));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all(NULL, RANKS, k->out, k->wrong ? NULL : SOURCES(k->list)));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all(NULL, RANKS, with(k, k->out, NULL, room), SOURCES(k->list)));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all(NULL, RANKS, with(k, k->out, k->stretched, room), SOURCES(k->list)));
    REFUSED(RSH_ERUNTIME, rsh_group_all_to_all(NULL, RANKS, with(k, k->out, k->bool_, room), SOURCES(k->list)));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all(NULL, RANKS, with(k, k->out, k->longer, room), SOURCES(k->list)));
    CHECK_SAYS("what rank 1 sends to rank 2 is f32[2, 3]");
    CHECK_SAYS("what rank 2 receives from rank 1 is f32[2, 4]");
    rsh_tensor *integers[RANKS];
    for (int r = 0; r < RANKS; r++) integers[r] = k->integers;
    REFUSED(RSH_ERUNTIME,
            rsh_group_all_to_all(NULL, RANKS, k->wrong ? integers : k->out, SOURCES(k->wrong ? integers : k->list)));
    return rsh_group_all_to_all(NULL, RANKS, k->out, SOURCES(k->list));
}

static rsh_status splits(const kit *k) {
    rsh_tensor *in = NULL, *out = NULL, *odd = NULL, *other = NULL;
    const int64_t good[RANKS] = {1, 1, 1, 1}, moved[RANKS] = {2, 1, 1, 0}, short_[RANKS] = {1, 1, 1, 0},
                  negative[RANKS] = {-1, 2, 2, 1};
    RSH_TRY(make(RSH_F32, 2, 4, 2, &in));
    RSH_TRY(make(RSH_F32, 2, 4, 2, &out));
    RSH_TRY(make(RSH_F32, 2, 5, 2, &odd));
    RSH_TRY(make(RSH_F32, 2, 4, 3, &other));
    REFUSED(RSH_ERUNTIME, rsh_group_all_to_all_single(NULL, out, in, NULL, k->wrong ? short_ : good));
    REFUSED(RSH_ERUNTIME, rsh_group_all_to_all_single(NULL, out, in, k->wrong ? negative : good, good));
    REFUSED(RSH_ERUNTIME, rsh_group_all_to_all_single(NULL, k->wrong ? odd : out, in, NULL, NULL));
    CHECK_SAYS("ranks do not divide");
    REFUSED(RSH_EVALUE, rsh_group_all_to_all_single(NULL, out, in, NULL, k->wrong ? moved : good));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all_single(NULL, out, k->wrong ? other : in, NULL, NULL));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all_single(NULL, out, k->wrong ? k->scalar : in, NULL, NULL));
    REFUSED(RSH_EVALUE, rsh_group_all_to_all_single(NULL, k->wrong ? NULL : out, in, NULL, NULL));
    RSH_TRY(rsh_group_all_to_all_single(NULL, out, in, good, NULL));
    rsh_tensor_free(in);
    rsh_tensor_free(out);
    rsh_tensor_free(odd);
    rsh_tensor_free(other);
    return RSH_OK;
}

static rsh_status all_refusals(void *ctx) {
    (void)ctx;
    kit k = {.me = rsh_group_rank(NULL)};
    k.wrong = k.me == 2;
    rsh_status st = kit_make(&k);
    if (!st) st = single_tensors(&k);
    if (!st) st = lists_of_the_root(&k);
    if (!st) st = lists_of_all(&k);
    if (!st) st = splits(&k);
    kit_free(&k);
    return st;
}
static void what_one_rank_gets_wrong_is_every_ranks_error(void **state) {
    (void)state;
    run_groups(RANKS, all_refusals, NULL);
}

static rsh_status another_call(void *ctx) {
    (void)ctx;
    kit k = {.me = rsh_group_rank(NULL)};
    RSH_TRY(kit_make(&k));
    REFUSED(RSH_EMISMATCH,
            k.me == 1 ? rsh_group_all_reduce(NULL, k.good, RSH_OP_SUM) : rsh_group_broadcast(NULL, k.good, 0));
    kit_free(&k);
    return rsh_group_barrier(NULL);
}
static void ranks_in_different_calls_are_told(void **state) {
    (void)state;
    run_groups(RANKS, another_call, NULL);
}

/* ---- no memory ---- */

static rsh_status nth_call(const kit *k, int which) {
    rsh_tensor *turned = NULL; /* strided and, as a destination, overlapping itself */
    bool root = k->me == 0;
    switch (which) {
    case 0: return rsh_group_broadcast(NULL, k->good, 0);
    case 1: return rsh_group_scatter(NULL, k->good, RANKS, root ? SOURCES(k->list) : NULL, 0);
    case 2: return rsh_group_gather(NULL, k->good, RANKS, root ? k->list : NULL, 0);
    case 3: return rsh_group_all_gather(NULL, RANKS, k->list, k->list[1]);
    case 4: return rsh_group_all_reduce(NULL, k->good, RSH_OP_SUM);
    case 5: return rsh_group_reduce(NULL, k->good, RSH_OP_MAX, 0);
    case 6: return rsh_group_reduce_scatter(NULL, k->good, RANKS, SOURCES(k->list), RSH_OP_SUM);
    case 7: return rsh_group_all_to_all(NULL, RANKS, k->list, SOURCES(k->list));
    default: break;
    }
    const int64_t shape[2] = {4, 1}, strides[2] = {1, 1};
    int64_t data[4] = {0};
    rsh_status st =
        rsh_comm_agree(rsh_group_comm(NULL), rsh_tensor_wrap(data, RSH_I64, 2, shape, strides, NULL, NULL, &turned));
    if (!st) st = rsh_group_all_to_all_single(NULL, turned, turned, NULL, NULL);
    rsh_tensor_free(turned);
    return st;
}

/* Each allocation of one rank fails in turn, until none does.  Every time all ranks return, mostly with RSH_ENOMEM. */
static rsh_status running_out(void *ctx) {
    kit k = {.me = rsh_group_rank(NULL)};
    int poor = *(int *)ctx, failures = 0;
    RSH_TRY(kit_make(&k));
    for (int which = 0; which < 9; which++) {
        bool ran_out = true;
        for (int64_t i = 0; ran_out && i < 2000; i++) {
            if (k.me == poor) rsh_alloc_fail_at(i);
            rsh_status st = nth_call(&k, which);
            rsh_alloc_fail_at(-1);
            RSH_REQUIRE(st == RSH_OK || st == RSH_ENOMEM, st, "call %d, allocation %lld: %s", which, (long long)i,
                        strdup(rsh_error_detail()));
            ran_out = st == RSH_ENOMEM;
            failures += ran_out;
        }
        CHECK(!ran_out);
    }
    CHECK(failures > 9);
    kit_free(&k);
    return rsh_group_barrier(NULL);
}
static void a_rank_without_memory_fails_the_call_for_all(void **state) {
    (void)state;
    for (int poor = 0; poor < 2; poor++) run_groups(RANKS, running_out, &poor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_rank_gets_wrong_is_every_ranks_error),
        cmocka_unit_test(ranks_in_different_calls_are_told),
        cmocka_unit_test(a_rank_without_memory_fails_the_call_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

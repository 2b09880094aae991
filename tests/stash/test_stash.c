/* Stash: tensors of every size are restored, each rank keeps only its chunk, and ranks that disagree get an error. */

#include <reshard/math.h>
#include <reshard/stash.h>

#include "comm/ranks.h"

/* ---- tensors that all ranks have ---- */

/* Creates a tensor whose bytes depend on position and seed, with values that every dtype can represent. */
static rsh_status make(rsh_dtype dtype, int ndim, const int64_t *shape, unsigned seed, rsh_tensor **out) {
    RSH_TRY(rsh_tensor_empty(dtype, ndim, shape, out));
    unsigned char *at = rsh_tensor_data(*out);
    for (size_t i = 0; i < (size_t)rsh_tensor_count(*out) * rsh_dtype_size(dtype); i++)
        at[i] = dtype == RSH_BOOL ? (i + seed) % 2 : (unsigned char)((i * 7 + seed) % 50);
    return RSH_OK;
}

static rsh_status same(const rsh_tensor *a, const rsh_tensor *b) {
    bool equal = false;
    CHECK(rsh_tensor_dtype(a) == rsh_tensor_dtype(b) && rsh_tensor_ndim(a) == rsh_tensor_ndim(b));
    RSH_TRY(rsh_math_equal(a, b, &equal));
    CHECK(equal);
    return RSH_OK;
}

static rsh_status comes_back(rsh_ticket *k, const rsh_tensor *t) {
    rsh_tensor *back = NULL;
    RSH_TRY(rsh_stash_unpack(k, &back));
    rsh_status st = same(back, t);
    if (!st && rsh_ticket_is_cut(k)) /* dims must be in the memory order of the original */
        for (int a = 0; a < rsh_tensor_ndim(t); a++)
            for (int b = 0; b < rsh_tensor_ndim(t); b++)
                if (rsh_tensor_shape(t)[a] > 1 && rsh_tensor_shape(t)[b] > 1 &&
                    rsh_tensor_strides(t)[a] > rsh_tensor_strides(t)[b])
                    CHECK(rsh_tensor_strides(back)[a] > rsh_tensor_strides(back)[b]);
    rsh_tensor_free(back);
    return st;
}

/* Tests one tensor: packs it, compares the kept bytes with the largest chunk, and unpacks it twice, once after a
 * prefetch. */
static rsh_status one_tensor(rsh_stash *s, rsh_comm *c, const rsh_tensor *t, int dim, bool ahead) {
    rsh_ticket *k = NULL;
    int64_t w = rsh_comm_size(c), count = rsh_tensor_count(t);
    int ndim = rsh_tensor_ndim(t), d = dim < 0 ? dim + ndim : dim;
    bool cut = w > 1 && d >= 0 && d < ndim && count >= w;
    uint64_t size = rsh_dtype_size(rsh_tensor_dtype(t));
    RSH_TRY(rsh_stash_pack(s, t, dim, &k));
    CHECK(rsh_ticket_is_cut(k) == cut && rsh_stash_would_cut(s, t, dim) == cut);
    CHECK(rsh_ticket_bytes(k) == (uint64_t)count * size);
    if (cut) {
        int64_t n = rsh_tensor_shape(t)[d];
        CHECK(rsh_ticket_bytes_kept(k) <= (uint64_t)(count / n * ((n + w - 1) / w)) * size);
    }
    if (ahead) RSH_TRY(rsh_stash_prefetch(k));
    CHECK(rsh_ticket_is_begun(k) == (cut && ahead));
    if (ahead) RSH_TRY(rsh_stash_prefetch(k)); /* one prefetch is enough */
    RSH_TRY(comes_back(k, t));
    RSH_TRY(comes_back(k, t));
    rsh_ticket_free(k);
    return RSH_OK;
}

/* Sizes for which a decision by element count would be wrong: fewer elements than the square of the number of ranks,
 * uneven chunks, empty chunks, and a dim that does not exist. */
static rsh_status size_classes(void *ctx, rsh_comm *c) {
    const struct {
        int ndim;
        int64_t shape[2];
        int dim;
    } cases[] = {{2, {4, 5}, 0}, {1, {3}, 0}, {1, {2}, 0}, {2, {5, 4}, 0}, {2, {1, 20}, 0}, {1, {6}, 1},
                 {1, {4}, 0},    {1, {8}, 0}, {1, {12}, 0}, {1, {56}, 0}, {0, {0}, 0},      {2, {0, 4}, 0}};
    rsh_stash *s = NULL;
    (void)ctx;
    RSH_TRY(rsh_stash_new(c, &s));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rsh_tensor *t = NULL;
        RSH_TRY(make(RSH_F32, cases[i].ndim, cases[i].shape, (unsigned)i, &t));
        RSH_TRY(one_tensor(s, c, t, cases[i].dim, i % 2));
        rsh_tensor_free(t);
    }
    rsh_stash_free(s);
    return RSH_OK;
}
static void every_size_class_comes_back(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n++) run_ranks(n, size_classes, NULL);
}

static rsh_status random_tensors(void *ctx, rsh_comm *c) {
    uint64_t rng = *(uint64_t *)ctx;
    const rsh_dtype dtypes[] = {RSH_F32, RSH_F64, RSH_I64, RSH_BOOL, RSH_BF16, RSH_C64};
    rsh_stash *s = NULL;
    RSH_TRY(rsh_stash_new(c, &s));
    for (int i = 0; i < 20; i++) {
        int ndim = 1 + (int)(draw(&rng) % 4);
        int64_t shape[4];
        rsh_tensor *t = NULL, *turned = NULL;
        for (int d = 0; d < ndim; d++) shape[d] = 1 + (int64_t)(draw(&rng) % 7);
        RSH_TRY(make(dtypes[draw(&rng) % 6], ndim, shape, (unsigned)i, &t));
        int a = (int)(draw(&rng) % (uint64_t)ndim), b = (int)(draw(&rng) % (uint64_t)ndim);
        RSH_TRY(rsh_tensor_transpose(t, a, b, &turned));
        int dim = (int)(draw(&rng) % (uint64_t)(2 * ndim + 2)) - ndim - 1; /* including one dim beyond either end */
        RSH_TRY(one_tensor(s, c, turned, dim, draw(&rng) % 2));
        rsh_tensor_free(t), rsh_tensor_free(turned);
    }
    rsh_stash_free(s);
    return RSH_OK;
}
static void random_tensors_come_back(void **state) {
    (void)state;
    uint64_t seed = test_seed(USUAL_SEED);
    for (int n = 1; n <= 5; n++) run_ranks(n, random_tensors, &seed);
}

/* ---- tickets ---- */

enum { MANY = 4 };

static rsh_status pack_many(rsh_stash *s, rsh_tensor **t, rsh_ticket **k) {
    for (int i = 0; i < MANY; i++) {
        RSH_TRY(make(RSH_F32, 2, (const int64_t[]){7, 3}, (unsigned)i, &t[i]));
        RSH_TRY(rsh_stash_pack(s, t[i], 0, &k[i]));
        CHECK(rsh_ticket_number(k[i]) == (uint64_t)i + 1);
    }
    return RSH_OK;
}

static void free_many(rsh_tensor **t, rsh_ticket **k) {
    for (int i = 0; i < MANY; i++) rsh_tensor_free(t[i]), rsh_ticket_free(k[i]);
}

/* Tensors of one form share layouts and bindings, and several gathers may be in progress: all results must be right. */
static rsh_status several(void *ctx, rsh_comm *c) {
    rsh_stash *s = NULL;
    rsh_tensor *t[MANY];
    rsh_ticket *k[MANY];
    rsh_cache_stats before = RSH_CACHE_STATS_INIT, after = RSH_CACHE_STATS_INIT;
    (void)ctx;
    RSH_TRY(rsh_stash_new(c, &s));
    RSH_TRY(pack_many(s, t, k));
    rsh_stash_free(s); /* tickets stay valid */
    for (int round = 0; round < 3; round++) {
        if (round == 2) RSH_TRY(rsh_comm_get_cache_stats(c, &before));
        for (int i = MANY - 1; i >= 0; i--) {
            RSH_TRY(rsh_stash_prefetch(k[i]));
            if (i < MANY - 1) RSH_TRY(comes_back(k[i + 1], t[i + 1]));
        }
        RSH_TRY(comes_back(k[0], t[0]));
    }
    RSH_TRY(rsh_comm_get_cache_stats(c, &after));
    /* two are in progress at a time, and their bindings are cached */
    CHECK(after.misses == before.misses && after.bindings == 2);
    free_many(t, k);
    return RSH_OK;
}
static void several_gathers_are_under_way(void **state) {
    (void)state;
    for (int n = 2; n <= 4; n++) run_ranks(n, several, NULL);
}

/* If ranks unpack different tickets, they get an error at once, even if the gathers have begun; nothing is lost. */
static rsh_status other_order(void *ctx, rsh_comm *c) {
    bool ahead = *(bool *)ctx;
    rsh_stash *s = NULL;
    rsh_tensor *t[MANY], *back = NULL;
    rsh_ticket *k[MANY];
    int mine = rsh_comm_rank(c) == 1 ? 2 : 3;
    RSH_TRY(rsh_stash_new(c, &s));
    RSH_TRY(pack_many(s, t, k));
    for (int i = 0; ahead && i < MANY; i++) RSH_TRY(rsh_stash_prefetch(k[i]));
    CHECK_STATUS(RSH_EMISMATCH, rsh_stash_unpack(k[mine], &back));
    CHECK_SAYS("ticket 3");
    CHECK_SAYS("ticket 4");
    if (!ahead) CHECK_STATUS(RSH_EMISMATCH, rsh_stash_prefetch(k[mine]));
    CHECK(!back && rsh_ticket_is_begun(k[mine]) == ahead);
    for (int i = 0; i < MANY; i++) RSH_TRY(comes_back(k[i], t[i]));
    free_many(t, k);
    rsh_stash_free(s);
    return RSH_OK;
}
static void ranks_that_unpack_in_another_order_are_told(void **state) {
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++)
        for (int n = 2; n <= 4; n++) run_ranks(n, other_order, &(bool){ahead});
}

/* A rank that packed fewer tensors, because its step failed, has the same numbers as the others after a restart. */
static rsh_status out_of_step(void *ctx, rsh_comm *c) {
    rsh_stash *s = NULL;
    rsh_tensor *t[MANY], *back = NULL;
    rsh_ticket *k[MANY], *extra = NULL, *late = NULL;
    (void)ctx;
    RSH_TRY(rsh_stash_new(c, &s));
    RSH_TRY(pack_many(s, t, k));
    if (rsh_comm_rank(c)) RSH_TRY(rsh_stash_pack(s, t[0], 0, &extra));
    RSH_TRY(rsh_stash_pack(s, t[1], 0, &late));
    CHECK_STATUS(RSH_EMISMATCH, rsh_stash_unpack(late, &back));
    rsh_ticket_free(late), rsh_ticket_free(extra);
    rsh_stash_restart(s);
    RSH_TRY(rsh_stash_pack(s, t[1], 0, &late));
    CHECK(rsh_ticket_number(late) == 1);
    RSH_TRY(comes_back(late, t[1]));
    rsh_ticket_free(late);
    free_many(t, k);
    rsh_stash_free(s);
    return RSH_OK;
}
static void a_restart_brings_ranks_into_step(void **state) {
    (void)state;
    run_ranks(3, out_of_step, NULL);
}

/* Gathers that were begun but are not needed end on all ranks, even if each forgets or frees at a different time. */
static rsh_status given_up(void *ctx, rsh_comm *c) {
    rsh_stash *s = NULL;
    rsh_tensor *t[MANY];
    rsh_ticket *k[MANY];
    (void)ctx;
    RSH_TRY(rsh_stash_new(c, &s));
    RSH_TRY(pack_many(s, t, k));
    RSH_TRY(rsh_stash_prefetch(k[3]));
    RSH_TRY(rsh_stash_prefetch(k[2]));
    rsh_stash_forget(k[rsh_comm_rank(c) % 2 ? 3 : 2]);
    rsh_stash_forget(k[rsh_comm_rank(c) % 2 ? 2 : 3]);
    CHECK(!rsh_ticket_is_begun(k[3]) && !rsh_ticket_is_begun(k[2]));
    RSH_TRY(comes_back(k[3], t[3]));
    RSH_TRY(rsh_stash_prefetch(k[1]));
    RSH_TRY(rsh_stash_prefetch(k[0]));
    free_many(t, k);
    rsh_stash_free(s);
    return rsh_comm_barrier(c);
}
static void what_was_begun_is_ended_by_all(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_ranks(n, given_up, NULL);
}

/* ---- errors ---- */

static rsh_status changed(void *ctx, rsh_comm *c) {
    rsh_stash *s = NULL;
    rsh_tensor *t = NULL, *back = NULL;
    rsh_ticket *k = NULL;
    (void)ctx;
    RSH_TRY(rsh_stash_new(c, &s));
    RSH_TRY(make(RSH_F32, 1, (const int64_t[]){1}, 0, &t));
    RSH_TRY(rsh_stash_pack(s, t, 0, &k));
    rsh_tensor_bump_version(t);
    CHECK_STATUS(RSH_ERUNTIME, rsh_stash_unpack(k, &back));
    CHECK_SAYS("has been modified");
    rsh_ticket_free(k);
    rsh_tensor_free(t);
    rsh_stash_free(s);
    return RSH_OK;
}
static void a_tensor_that_was_not_cut_must_not_change(void **state) {
    (void)state;
    run_ranks(2, changed, NULL);
}

/* Memory runs out on one rank at any allocation: all ranks get an error, now or in their next call, and nothing is
 * lost. */
static rsh_status short_of_memory(rsh_comm *c, int64_t at, bool *failed) {
    rsh_stash *s = NULL;
    rsh_tensor *t = NULL, *back = NULL;
    rsh_ticket *k = NULL;
    RSH_TRY(make(RSH_F32, 2, (const int64_t[]){7, 3}, 0, &t));
    RSH_TRY(rsh_stash_new(c, &s));
    if (rsh_comm_rank(c) == 1) rsh_alloc_fail_at(at);
    rsh_status st = rsh_stash_pack(s, t, 0, &k);
    *failed = st != RSH_OK;
    st = rsh_comm_agree(c, st);
    if (!st) st = rsh_stash_prefetch(k);
    if (!st) st = rsh_stash_unpack(k, &back);
    if (!st) st = rsh_comm_agree(c, RSH_OK);
    rsh_alloc_fail_at(-1);
    CHECK(!st || st == RSH_ENOMEM);
    *failed = st != RSH_OK;
    if (!st) RSH_TRY(same(back, t));
    rsh_tensor_free(back), rsh_tensor_free(t);
    rsh_ticket_free(k);
    rsh_stash_free(s);
    return RSH_OK;
}
static rsh_status all_shortages(void *ctx, rsh_comm *c) {
    bool failed = true;
    (void)ctx;
    for (int64_t at = 0; failed; at++) RSH_TRY(short_of_memory(c, at, &failed));
    return rsh_comm_barrier(c);
}
static void memory_that_runs_out_on_one_rank_is_heard_by_all(void **state) {
    (void)state;
    run_ranks(2, all_shortages, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_class_comes_back),
        cmocka_unit_test(random_tensors_come_back),
        cmocka_unit_test(several_gathers_are_under_way),
        cmocka_unit_test(ranks_that_unpack_in_another_order_are_told),
        cmocka_unit_test(a_restart_brings_ranks_into_step),
        cmocka_unit_test(what_was_begun_is_ended_by_all),
        cmocka_unit_test(a_tensor_that_was_not_cut_must_not_change),
        cmocka_unit_test(memory_that_runs_out_on_one_rank_is_heard_by_all),
    };
    return RUN_EVERYWHERE(tests);
}

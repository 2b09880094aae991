/* Saved sharded tensors: loaded in the same group, rejected in others, loaded with another spec; and bytes that are not
 * a state. */
#include "kept.h"
#include "whole.h"

#define W 4

static int refuse(void *ctx, const char *text, size_t length) {
    (void)ctx, (void)text, (void)length;
    return 1;
}

static rsh_status save(const rsh_torch_tensor *t, bytes *out) {
    *out = (bytes){NULL, 0};
    return rsh_torch_save(t, &(rsh_sink){keep, out});
}

static const cutting two_on_0 = {
    RSH_F64, 2, {10, 10}, 4, {{{0, 0}, {5, 5}, 0}, {{0, 5}, {5, 5}, 0}, {{5, 0}, {5, 5}, 2}, {{5, 5}, {5, 5}, 3}}};

static rsh_status round_trip(const rsh_spec *s, const cutting *c, rsh_comm *comm) {
    rsh_torch_tensor *t, *back;
    bytes b;
    bool equal;
    RSH_TRY(make_filled(s, c, NULL, &t));
    if (c->dtype == RSH_F32) RSH_TRY(rsh_torch_set_requires_grad(t, true));
    RSH_TRY(save(t, &b));
    RSH_TRY(rsh_torch_load(b.data, b.n, &back));
    RSH_TRY(check_st(back, c, rsh_comm_rank(comm)));
    CHECK(rsh_tensor_meta_equal(rsh_torch_meta(t), rsh_torch_meta(back)) &&
          rsh_spec_equal(rsh_torch_spec(t), rsh_torch_spec(back), -1));
    if (c->dtype == RSH_I32) {
        RSH_TRY(rsh_torch_equal(t, back, &equal));
        CHECK(equal);
    }
    CHECK_STATUS(RSH_EIO, rsh_torch_save(t, &(rsh_sink){refuse, NULL}));
    free(b.data);
    rsh_torch_free(t);
    rsh_torch_free(back);
    return RSH_OK;
}

static rsh_status save_and_load(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_spec *s;
    for (int d = 0; d < RSH_NDTYPES; d++) {
        int64_t size[3] = {3, d % 7, 2};
        int owners[5] = {3, 1, 0, 2, 1};
        cutting c = cut_chunks((rsh_dtype)d, 3, size, -2, 5, owners);
        RSH_TRY(rsh_spec_chunk_ranks(-2, 5, owners, &s));
        RSH_TRY(round_trip(s, &c, comm));
        rsh_spec_free(s);
    }
    RSH_TRY(boxes_spec(&two_on_0, &s));
    RSH_TRY(round_trip(s, &two_on_0, comm));
    rsh_spec_free(s);
    return RSH_OK;
}
/* PyTorch's scenario T19. */
static void what_was_saved_comes_back(void **state) {
    (void)state;
    run_engines(W, save_and_load, NULL);
}

/* Saved by all four ranks, loaded in a group of 0, 2 and 3; and the other way round. */
static rsh_status other_groups(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    int64_t size[2] = {7, 3};
    cutting c = cut_chunks(RSH_I32, 2, size, 0, W, NULL), d = cut_chunks(RSH_I32, 2, size, 0, 3, NULL);
    rsh_spec *s, *three;
    rsh_group *g;
    rsh_torch_tensor *t, *back = NULL;
    bytes b;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
    RSH_TRY(rsh_spec_chunk_ranks(0, 3, NULL, &three));
    RSH_TRY(make_filled(s, &c, NULL, &t));
    RSH_TRY(save(t, &b));
    RSH_TRY(rsh_group_new(3, (int[]){0, 2, 3}, &g));
    RSH_TRY(rsh_group_enter(g));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_load(b.data, b.n, &back));
    CHECK_SAYS(me == 0 ? "group size" : "group rank");
    rsh_group_leave();
    free(b.data);
    rsh_torch_free(t);
    if (me != 1) { /* b34: only this rank enters the group */
        int r = rsh_group_rank(g);
        RSH_TRY(make_filled(three, &d, g, &t));
        RSH_TRY(save(t, &b));
        CHECK_STATUS(RSH_ERUNTIME, rsh_torch_load(b.data, b.n, &back));
        RSH_TRY(rsh_group_enter(g));
        RSH_TRY(rsh_torch_load(b.data, b.n, &back));
        rsh_group_leave();
        RSH_TRY(check_st(back, &d, r));
        CHECK(rsh_torch_group(back) == g);
        free(b.data);
        rsh_torch_free(t);
        rsh_torch_free(back);
    }
    rsh_group_free(g);
    rsh_spec_free(s);
    rsh_spec_free(three);
    return RSH_OK;
}
/* PyTorch's scenario T19 and defect B-34. */
static void the_group_must_be_the_one_of_saving(void **state) {
    (void)state;
    run_engines(W, other_groups, NULL);
}

/* PyTorch's scenario T19. */
static void without_a_group_nothing_is_loaded(void **state) {
    (void)state;
    rsh_torch_tensor *t;
    assert_int_equal(rsh_torch_load("rshstate", 8, &t), RSH_ERUNTIME);
    assert_non_null(strstr(rsh_error_detail(), "default group"));
}

/* ---- loading with another spec ---- */

/* The states of four ranks, given to two: each gets some of them, and rank 1 also gets a copy of one that rank 0
 * has. */
typedef struct states {
    bytes of[W];
} states;

static rsh_status save_all(void *ctx, rsh_comm *comm) {
    states *all = ctx;
    rsh_spec *s;
    rsh_torch_tensor *t;
    RSH_TRY(boxes_spec(&two_on_0, &s));
    RSH_TRY(make_filled(s, &two_on_0, NULL, &t));
    RSH_TRY(save(t, &all->of[rsh_comm_rank(comm)]));
    rsh_torch_free(t);
    rsh_spec_free(s);
    return RSH_OK;
}

static rsh_status load_all(void *ctx, rsh_comm *comm) {
    const states *all = ctx;
    int me = rsh_comm_rank(comm), n = 0, mine[2][3] = {{3, 0, -1}, {2, 0, 1}};
    const void *data[3];
    size_t sizes[3];
    rsh_spec *s;
    rsh_torch_tensor *t = NULL;
    cutting c = cut_chunks(RSH_F64, 2, two_on_0.size, 1, 3, (int[]){1, 0, 1});
    for (int i = 0; i < 3; i++)
        if (mine[me][i] >= 0) data[n] = all->of[mine[me][i]].data, sizes[n++] = all->of[mine[me][i]].n;
    RSH_TRY(rsh_spec_chunk_ranks(1, 3, (int[]){1, 0, 1}, &s));
    RSH_TRY(rsh_torch_load_resharded(n, data, sizes, s, &t));
    RSH_TRY(check_st(t, &c, me));
    rsh_torch_free(t);
    t = NULL;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_load_resharded(me ? 0 : n, data, sizes, s, &t)); /* a part is missing */
    CHECK_STATUS(RSH_EVALUE, rsh_torch_load_resharded(0, NULL, NULL, s, &t));
    if (me) sizes[1]--;
    /* one state is truncated on one rank */
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_load_resharded(n, data, sizes, s, &t));
    CHECK_SAYS("rank 1");
    CHECK(!t);
    rsh_spec_free(s);
    return RSH_OK;
}

static void states_of_four_ranks_are_loaded_on_two_by_another_spec(void **state) {
    (void)state;
    states all = {{{NULL, 0}}};
    in_group g = {save_all, &all};
    assert_int_equal(rsh_run(W, rank_in_group, &g), RSH_OK);
    run_engines(2, load_all, &all);
    for (int r = 0; r < W; r++) free(all.of[r].data);
}

/* ---- bytes that are not a state ---- */

/* Loading damaged states returns a result or an error, and always detects a changed byte. */
static rsh_status damage(void *ctx, rsh_comm *comm) {
    uint64_t seed = *(const uint64_t *)ctx;
    int64_t size[2] = {6, 5};
    cutting c = cut_chunks(RSH_F32, 2, size, 0, 3, (int[]){0, 0, 0});
    rsh_spec *s;
    rsh_torch_tensor *t, *back = NULL;
    bytes b;
    RSH_TRY(rsh_spec_chunk_ranks(0, 3, (int[]){0, 0, 0}, &s));
    RSH_TRY(make_filled(s, &c, NULL, &t));
    RSH_TRY(save(t, &b));
    for (size_t n = 0; n < b.n; n++) CHECK_STATUS(RSH_ERUNTIME, rsh_torch_load(b.data, n, &back));
    for (size_t i = 0; i < b.n; i++) {
        char was = b.data[i];
        b.data[i] = (char)(was ^ (1 << draw(&seed) % 8));
        rsh_status st = rsh_torch_load(b.data, b.n, &back);
        CHECK(st && !back);
        b.data[i] = was;
    }
    char *junk = malloc(b.n);
    for (int k = 0; k < 5000; k++) { /* random bytes, some of them after a valid beginning */
        size_t good = draw(&seed) % 64;
        for (size_t i = 0; i < b.n; i++) junk[i] = i < good ? b.data[i] : (char)draw(&seed);
        CHECK(rsh_torch_load(junk, k % 2 ? b.n : draw(&seed) % b.n, &back) && !back);
    }
    for (int k = 0; k < 5000; k++) { /* a few changed bytes, with the hash corrected as far as possible from outside */
        memcpy(junk, b.data, b.n);
        for (uint64_t n = draw(&seed) % 4 + 1; n--;) junk[draw(&seed) % (b.n - 8)] = (char)draw(&seed);
        if (!rsh_torch_load(junk, b.n, &back)) {
            CHECK(!memcmp(junk, b.data, b.n));
            rsh_torch_free(back);
            back = NULL;
        }
    }
    free(junk);
    RSH_TRY(rsh_torch_load(b.data, b.n, &back));
    RSH_TRY(check_st(back, &c, rsh_comm_rank(comm)));
    free(b.data);
    rsh_torch_free(t), rsh_torch_free(back);
    rsh_spec_free(s);
    return RSH_OK;
}
static void damaged_states_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(20);
    run_engines(1, damage, &seed);
}

/* Computes the hash: a state with a valid hash must be checked too. */
static uint64_t hash_of(const char *data, size_t n) {
    uint64_t lengths[3], h = rshi_hash(data, 56, 0);
    memcpy(lengths, data + 32, sizeof lengths);
    if (lengths[0] > n || lengths[1] > n || 56 + lengths[0] + lengths[1] + 8 > n) return 0;
    h = rshi_hash(data + 56, lengths[0], h);
    h = rshi_hash(data + 56 + lengths[0], lengths[1], h);
    return rshi_hash(data + 56 + lengths[0] + lengths[1], n - 64 - lengths[0] - lengths[1], h);
}

static rsh_status forge(void *ctx, rsh_comm *comm) {
    uint64_t seed = *(const uint64_t *)ctx;
    int64_t n = 6, loaded = 0;
    cutting c = cut_chunks(RSH_U8, 1, &n, 0, 1, NULL);
    rsh_spec *s;
    rsh_torch_tensor *t, *back;
    bytes b;
    (void)comm;
    RSH_TRY(rsh_spec_chunk_ranks(0, 1, NULL, &s));
    RSH_TRY(make_filled(s, &c, NULL, &t));
    RSH_TRY(save(t, &b));
    char *forged = malloc(b.n);
    for (int k = 0; k < 20000; k++) {
        memcpy(forged, b.data, b.n);
        for (uint64_t m = draw(&seed) % 3 + 1; m--;) {
            char *at = &forged[8 + draw(&seed) % (b.n - 16)];
            *at = draw(&seed) % 2 ? (char)draw(&seed) : (char)('0' + draw(&seed) % 10);
        }
        uint64_t h = hash_of(forged, b.n);
        memcpy(forged + b.n - 8, &h, sizeof h);
        if (rsh_torch_load(forged, b.n, &back)) continue;
        loaded++; /* the loaded tensor must be usable */
        CHECK(rsh_torch_nshards(back) == 1 &&
              rsh_tensor_count(rsh_torch_shard(back, 0)->tensor) * (int64_t)rsh_dtype_size(rsh_torch_dtype(back)) == 6);
        rsh_torch_free(back);
    }
    CHECK(loaded > 0); /* some load, because only elements changed */
    free(forged);
    free(b.data);
    rsh_torch_free(t);
    rsh_spec_free(s);
    return RSH_OK;
}
static void forged_states_do_no_harm(void **state) {
    (void)state;
    uint64_t seed = test_seed(21);
    run_engines(1, forge, &seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_comes_back),
        cmocka_unit_test(the_group_must_be_the_one_of_saving),
        cmocka_unit_test(without_a_group_nothing_is_loaded),
        cmocka_unit_test(states_of_four_ranks_are_loaded_on_two_by_another_spec),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(forged_states_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tensors made from data of the ranks: shards that are compared, shards with metadata, and whole tensors that are
 * cut. */
#include "whole.h"

#define W 4

static const cutting grid = {
    RSH_F32, 2, {10, 10}, 4, {{{0, 0}, {5, 5}, 0}, {{0, 5}, {5, 5}, 1}, {{5, 0}, {5, 5}, 2}, {{5, 5}, {5, 5}, 3}}};

static rsh_status shard_of(const cutting *c, int i, rsh_shard *out) {
    rsh_tensor *t;
    RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->pieces[i].n, &t));
    walk_box(c, &c->pieces[i], rsh_tensor_data(t), true);
    rsh_status st = rsh_shard_from_tensor(t, c->ndim, c->pieces[i].lo, c->pieces[i].rank, out);
    rsh_tensor_free(t);
    return st;
}

/* ---- one shard ---- */

static void a_shard_is_a_tensor_that_fits_its_metadata(void **state) {
    (void)state;
    rsh_tensor *t;
    rsh_shard_meta m;
    rsh_shard s;
    int64_t zero[2] = {0, 0}, size[2] = {2, 3}, other[2] = {3, 2};
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 2, size, &t), RSH_OK);
    assert_int_equal(rsh_shard_meta_make(2, zero, 2, size, NULL, &m), RSH_OK);
    assert_int_equal(rsh_shard_make(t, &m, NULL, &s), RSH_OK); /* t20: here the placement may be missing */
    assert_false(s.meta.has_placement);
    rsh_shard_clear(&s);
    assert_int_equal(rsh_shard_meta_make(2, zero, 2, other, NULL, &m), RSH_OK);
    assert_int_equal(rsh_shard_make(t, &m, NULL, &s), RSH_EVALUE);
    assert_int_equal(rsh_shard_meta_make(2, zero, 2, size, "rank:0/cuda:0", &m), RSH_OK);
    assert_int_equal(rsh_shard_make(t, &m, NULL, &s), RSH_EVALUE);
    assert_int_equal(rsh_shard_from_tensor(t, 2, size, 3, &s), RSH_OK);
    assert_true(s.meta.placement.rank == 3 && s.meta.offsets[1] == 3 && s.meta.sizes[0] == 2);
    rsh_shard_clear(&s);
    assert_int_equal(rsh_shard_from_tensor(t, 1, size, 3, &s), RSH_EVALUE);
    rsh_tensor_free(t);
}

/* ---- from shards ---- */

static rsh_status from_one(const cutting *c, const int64_t *size, rsh_group *g, int me, rsh_torch_tensor **out) {
    rsh_shard s[MOST_PIECES] = {{0}};
    int n = 0;
    for (int i = 0; i < c->npieces; i++)
        if (c->pieces[i].rank == me) RSH_TRY(shard_of(c, i, &s[n++]));
    rsh_status st = rsh_torch_from_shards(n, s, c->ndim, size, g, out);
    for (int i = 0; i < n; i++) rsh_shard_clear(&s[i]);
    return st;
}

static rsh_status make_of_shards(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm), owners[W] = {2, 0, 3, 1};
    rsh_torch_tensor *t;
    rsh_group *g;
    RSH_TRY(from_one(&grid, grid.size, NULL, me, &t));
    RSH_TRY(check_st(t, &grid, me));
    CHECK(!strcmp(rsh_spec_kind_name(rsh_torch_spec(t)), "boxes"));
    rsh_torch_free(t);
    int64_t sizes[3][2] = {{4, 16}, {13, 3}, {5, 2}};
    for (int i = 0; i < 3; i++) {
        cutting rows = cut_chunks(RSH_F32, 2, sizes[i], 0, W, owners);
        RSH_TRY(from_one(&rows, sizes[i], NULL, me, &t));
        RSH_TRY(check_st(t, &rows, me)); /* metadata are ordered by offset, not by rank */
        CHECK(!strcmp(rsh_spec_kind_name(rsh_torch_spec(t)), "chunk"));
        rsh_torch_free(t);
    }
    cutting some = {RSH_F32, 2, {6, 6}, 3, {{{0, 0}, {6, 2}, 1}, {{0, 2}, {3, 4}, 1}, {{3, 2}, {3, 4}, 2}}};
    RSH_TRY(from_one(&some, some.size, NULL, me, &t)); /* ranks 0 and 3 have no shards */
    RSH_TRY(check_st(t, &some, me));
    rsh_torch_free(t);
    RSH_TRY(rsh_group_new(3, (int[]){1, 2, 3}, &g));
    if (me) {
        RSH_TRY(from_one(&some, some.size, g, me - 1, &t));
        RSH_TRY(check_st(t, &some, me - 1));
        rsh_torch_free(t);
    }
    rsh_group_free(g);
    return RSH_OK;
}
/* PyTorch's scenario T16. */
static void shards_of_all_ranks_make_a_tensor(void **state) {
    (void)state;
    run_engines(W, make_of_shards, NULL);
}

/* Rank 3 makes one mistake; every rank gets the error. */
enum { OVERLAP, GAP, NOBODY, SPARSE, TURNED, SIZE, DTYPE, GRAD, PIN, RANK, FAULTS };

static rsh_status spoil(int fault, rsh_shard *s) {
    rsh_tensor *t = NULL, *view = NULL;
    int64_t six[2] = {6, 6}, four[2] = {4, 4}, lo[2] = {4, 4}, at[2] = {5, 5};
    switch (fault) {
    case OVERLAP: case GAP:
        rsh_shard_clear(s);
        RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, fault == GAP ? four : six, &t));
        RSH_TRY(rsh_shard_from_tensor(t, 2, fault == GAP ? at : lo, 3, s));
        break;
    case SPARSE: s->props.layout = RSH_SPARSE; break;
    case TURNED:
        RSH_TRY(rsh_tensor_transpose(s->tensor, 0, 1, &view));
        rsh_shard_clear(s);
        s->tensor = view;
        break;
    case DTYPE:
        rsh_shard_clear(s);
        RSH_TRY(rsh_tensor_zeros(RSH_F64, 2, (int64_t[]){5, 5}, &t));
        RSH_TRY(rsh_shard_from_tensor(t, 2, at, 3, s));
        break;
    case GRAD: s->props.requires_grad = true; break;
    case PIN: s->props.pin_memory = true; break;
    case RANK: s->meta.placement.rank = 2; break;
    default: break;
    }
    rsh_tensor_free(t);
    return RSH_OK;
}

static rsh_status make_of_bad_shards(void *ctx, rsh_comm *comm) {
    (void)ctx;
    static const char *const says[FAULTS] = {"",     "",      "one rank",      "strided",    "contiguous",
                                             "size", "dtype", "requires_grad", "pin_memory", "rank 2"};
    int me = rsh_comm_rank(comm);
    for (int fault = 0; fault < FAULTS; fault++) {
        rsh_shard s;
        rsh_torch_tensor *t = NULL;
        int64_t size[2] = {10, fault == SIZE && me == 3 ? 11 : 10};
        RSH_TRY(shard_of(&grid, me, &s));
        if (me == 3) RSH_TRY(spoil(fault, &s));
        CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(fault == NOBODY ? 0 : 1, &s, 2, size, NULL, &t));
        CHECK_SAYS(says[fault]);
        if (fault >= SIZE && fault < RANK) CHECK(strstr(rsh_error_detail(), "0 and 3"));
        rsh_shard_clear(&s);
    }
    rsh_torch_tensor *t;
    /* no rank has a shard, so there is no size */
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(0, NULL, 2, NULL, NULL, &t));
    return RSH_OK;
}
/* PyTorch's scenario T16. */
static void a_fault_of_one_rank_is_refused_on_all(void **state) {
    (void)state;
    run_engines(W, make_of_bad_shards, NULL);
}
/* PyTorch's defect B-27. */
static void a_refusal_on_one_rank_reaches_all(void **state) {
    (void)state;
    run_engines(W, make_of_bad_shards, NULL);
}

/* ---- computed sizes ---- */

static rsh_status work_out_sizes(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_tensor *x;
    rsh_shard s;
    rsh_torch_tensor *t = NULL;
    rsh_group *g;
    int64_t open[2] = {-1, -1}, zero[2] = {0, 0}, size[2] = {me + 2, 5};
    cutting stacked = {
        RSH_F32, 2, {14, 5}, 4, {{{0, 0}, {2, 5}, 0}, {{2, 0}, {3, 5}, 1}, {{5, 0}, {4, 5}, 2}, {{9, 0}, {5, 5}, 3}}};
    RSH_TRY(rsh_tensor_empty(RSH_F32, 2, size, &x));
    walk_box(&stacked, &stacked.pieces[me], rsh_tensor_data(x), true);
    RSH_TRY(rsh_shard_from_tensor(x, 2, zero, me, &s));
    RSH_TRY(rsh_torch_from_shards(1, &s, 2, open, NULL, &t));
    RSH_TRY(check_st(t, &stacked, me));
    rsh_torch_free(t);
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(1, &s, 2, zero, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(1, &s, 2, (int64_t[]){-1, 7}, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(1, &s, 2, (int64_t[]){15, -1}, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(me == 2 ? 0 : 1, &s, 2, open, NULL, &t));
    RSH_TRY(rsh_group_new(2, (int[]){3, 1}, &g)); /* b33: offsets are assigned by ranks of the group */
    if (me == 1 || me == 3) {
        cutting pair = {RSH_F32, 2, {8, 5}, 2, {{{0, 0}, {3, 5}, 0}, {{3, 0}, {5, 5}, 1}}};
        int r = me / 2;
        walk_box(&pair, &pair.pieces[r], rsh_tensor_data(s.tensor), true);
        s.meta.placement.rank = r;
        RSH_TRY(rsh_torch_from_shards(1, &s, 2, (int64_t[]){-1, 5}, g, &t));
        RSH_TRY(check_st(t, &pair, r));
        rsh_torch_free(t);
    }
    rsh_group_free(g);
    rsh_shard_clear(&s);
    rsh_tensor_free(x);
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, zero, &x));
    RSH_TRY(rsh_shard_from_tensor(x, 2, zero, me, &s));
    RSH_TRY(rsh_torch_from_shards(1, &s, 2, open, NULL, &t));
    CHECK(rsh_torch_meta(t)->size[0] == 0 && rsh_torch_meta(t)->size[1] == 0 && rsh_torch_nshards(t) == 1);
    rsh_torch_free(t);
    rsh_shard_clear(&s);
    rsh_tensor_free(x);
    return RSH_OK;
}
/* PyTorch's scenario T18 and defect B-33. */
static void sizes_are_worked_out_by_rank(void **state) {
    (void)state;
    run_engines(W, work_out_sizes, NULL);
}

/* ---- shards and metadata ---- */

static rsh_status meta_of(const cutting *c, rsh_tensor_meta **out) {
    rsh_shard_meta list[MOST_PIECES];
    rsh_tensor_props p = RSH_TENSOR_PROPS_INIT;
    p.dtype = c->dtype;
    for (int i = 0; i < c->npieces; i++) RSH_TRY(box_meta(c, &c->pieces[i], &list[i]));
    return rsh_tensor_meta_new(c->npieces, list, c->ndim, c->size, &p, out);
}

static rsh_status compare_metadata(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_shard s[2];
    rsh_tensor_meta *m, good;
    rsh_torch_tensor *t = NULL;
    rsh_tensor *turned;
    RSH_TRY(meta_of(&grid, &m));
    RSH_TRY(shard_of(&grid, me, &s[0]));
    s[1] = s[0];
    RSH_TRY(rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    RSH_TRY(check_st(t, &grid, me));
    rsh_torch_free(t);
    t = NULL;
    good = *m;
    rsh_spec *rows;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &rows));
    CHECK_STATUS(RSH_EVALUE,
                 rsh_torch_from_shards_and_meta(1, s, m, rows, NULL, &t)); /* the spec contradicts the metadata */
    rsh_spec_free(rows);
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_from_shards_and_meta(0, NULL, m, NULL, NULL, &t));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_from_shards_and_meta(2, s, m, NULL, NULL, &t));
    m->nshards = 0;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    *m = good, m->props.layout = RSH_SPARSE;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    *m = good, m->props.dtype = RSH_F64;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    *m = good, m->props.requires_grad = true;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    *m = good, m->props.pin_memory = true;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    *m = good, m->size[0] = 11;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    *m = good, m->shards[me].sizes[0] = 4;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    m->shards[me].sizes[0] = 5, m->shards[me].placement.rank = 7;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    m->shards[me].placement.rank = me, m->shards[me].has_placement = false; /* t20: without a placement */
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s, m, NULL, NULL, &t));
    m->shards[me].has_placement = true;
    RSH_TRY(rsh_tensor_transpose(s->tensor, 0, 1, &turned));
    s[1].tensor = turned;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, s + 1, m, NULL, NULL, &t));
    CHECK(!t);
    rsh_tensor_free(turned);
    rsh_shard_clear(s);
    rsh_tensor_meta_free(m);
    return RSH_OK;
}
/* PyTorch's scenarios T17 and T20. */
static void shards_must_be_what_the_metadata_say(void **state) {
    (void)state;
    run_engines(W, compare_metadata, NULL);
}

/* Metadata in which other ranks own nothing: each rank has a tensor of its own. */
static rsh_status accept_views(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    for (int64_t at = 0; at <= 5; at += 5) {
        cutting c = {RSH_F32, 1, {5}, W, {{{0}, {0}, 0}}};
        rsh_tensor_meta *m;
        rsh_shard s;
        rsh_torch_tensor *t = NULL;
        for (int i = 0; i < W; i++) c.pieces[i] = (piece){{i == me ? 0 : at}, {i == me ? 5 : 0}, i};
        RSH_TRY(meta_of(&c, &m));
        RSH_TRY(shard_of(&c, me, &s));
        RSH_TRY(rsh_torch_from_shards_and_meta(1, &s, m, NULL, NULL, &t));
        CHECK(rsh_torch_nshards(t) == 1 &&
              !walk_box(&c, &c.pieces[me], rsh_tensor_data(rsh_torch_shard(t, 0)->tensor), false));
        rsh_torch_free(t);
        m->shards[me].offsets[0] = s.meta.offsets[0] = 1; /* the shard exceeds the tensor */
        CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, &s, m, NULL, NULL, &t));
        rsh_shard_clear(&s);
        rsh_tensor_meta_free(m);
    }
    cutting none = {RSH_F32, 2, {0, 0}, W, {{{0}, {0}, 0}, {{0}, {0}, 1}, {{0}, {0}, 2}, {{0}, {0}, 3}}};
    rsh_tensor_meta *m;
    rsh_shard s;
    rsh_torch_tensor *t;
    RSH_TRY(meta_of(&none, &m));
    RSH_TRY(shard_of(&none, me, &s));
    RSH_TRY(rsh_torch_from_shards_and_meta(1, &s, m, NULL, NULL, &t));
    rsh_torch_free(t);
    rsh_shard_clear(&s);
    rsh_tensor_meta_free(m);
    return RSH_OK;
}
/* PyTorch's scenario T17. */
static void metadata_of_a_local_view_are_accepted(void **state) {
    (void)state;
    run_engines(W, accept_views, NULL);
}

/* ---- cutting a whole tensor ---- */

static rsh_status cut_good(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t sizes[3][2] = {{12, 12}, {9, 12}, {5, 2}}; /* s1, s2 and b05 */
    for (int i = 0; i < 3; i++)
        for (int src = 0; src < W; src++) {
            int owners[W] = {0, 1, 2, 3}, me = rsh_comm_rank(comm);
            if (src == 3) owners[0] = 3, owners[3] = 0;
            cutting c = cut_chunks(RSH_F32, 2, sizes[i], 0, W, owners);
            rsh_spec *s;
            rsh_tensor *x;
            rsh_torch_tensor *t;
            rsh_tensor_props p = RSH_TENSOR_PROPS_INIT;
            p.requires_grad = true;
            RSH_TRY(rsh_spec_chunk_ranks(me % 2 ? -2 : 0, W, owners,
                                         &s)); /* the same dim on every rank, positive or negative */
            RSH_TRY(me == src ? make_whole(&c, &x) : rsh_tensor_zeros(RSH_F32, 2, sizes[i], &x));
            RSH_TRY(rsh_shard_tensor(x, s, src, NULL, &p, &t));
            RSH_TRY(check_st(t, &c, me));
            CHECK(rsh_torch_requires_grad(t) && rsh_torch_shard(t, 0)->props.requires_grad);
            rsh_torch_free(t);
            rsh_tensor_free(x);
            rsh_spec_free(s);
        }
    return RSH_OK;
}
/* PyTorch's scenarios S1 and S2. */
static void a_whole_tensor_is_cut(void **state) {
    (void)state;
    run_engines(W, cut_good, NULL);
}

static rsh_status cut_bad(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm), mine[W] = {0, 1, 2, 3};
    int64_t size[2] = {12, 12}, other[2] = {12, 11};
    rsh_spec *s, *own, *boxes;
    rsh_tensor *x, *y, *turned, *f64;
    rsh_torch_tensor *t = NULL;
    cutting c = cut_chunks(RSH_F32, 2, size, 0, W, NULL);
    mine[0] = me;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
    RSH_TRY(rsh_spec_chunk_ranks(0, W, mine, &own));
    RSH_TRY(boxes_spec(&c, &boxes));
    RSH_TRY(make_whole(&c, &x));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, other, &y));
    RSH_TRY(rsh_tensor_zeros(RSH_F64, 2, size, &f64));
    RSH_TRY(rsh_tensor_transpose(x, 0, 1, &turned));
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(x, s, me, NULL, NULL, &t)); /* s3: src_rank differs between ranks */
    CHECK_SAYS("src_rank");
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(x, own, me, NULL, NULL, &t)); /* the error about src_rank comes first */
    CHECK_SAYS("src_rank");
    /* s4 and b27: a wrong tensor on rank 2 */
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(me == 2 ? turned : x, s, 0, NULL, NULL, &t));
    CHECK_SAYS("rank 2");
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(x, own, 0, NULL, NULL, &t)); /* s5 */
    CHECK_SAYS("spec");
    CHECK_STATUS(RSH_EUNSUP, rsh_shard_tensor(x, boxes, 0, NULL, NULL, &t)); /* s6 */
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(me == 1 ? y : x, s, 0, NULL, NULL, &t));
    CHECK_SAYS("same shape");
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(me == 1 ? f64 : x, s, 0, NULL, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_shard_tensor(me == 3 ? NULL : x, s, 0, NULL, NULL, &t));
    CHECK_STATUS(RSH_ERUNTIME, rsh_shard_tensor(x, s, 4, NULL, NULL, &t));
    CHECK_SAYS("rank 4");
    CHECK_SAYS("0 to 3");
    CHECK(!t);
    RSH_TRY(rsh_torch_scatter(x, boxes, 2, NULL, NULL, &t));
    RSH_TRY(check_st(t, &c, me));
    rsh_torch_free(t);
    rsh_tensor_free(x), rsh_tensor_free(y), rsh_tensor_free(turned), rsh_tensor_free(f64);
    rsh_spec_free(s), rsh_spec_free(own), rsh_spec_free(boxes);
    return RSH_OK;
}
/* PyTorch's scenarios S3 to S6. */
static void cuts_that_are_wrong_are_refused(void **state) {
    (void)state;
    run_engines(W, cut_bad, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_is_a_tensor_that_fits_its_metadata),
        cmocka_unit_test(shards_of_all_ranks_make_a_tensor),
        cmocka_unit_test(a_fault_of_one_rank_is_refused_on_all),
        cmocka_unit_test(shards_must_be_what_the_metadata_say),
        cmocka_unit_test(metadata_of_a_local_view_are_accepted),
        cmocka_unit_test(sizes_are_worked_out_by_rank),
        cmocka_unit_test(a_whole_tensor_is_cut),
        cmocka_unit_test(cuts_that_are_wrong_are_refused),
        cmocka_unit_test(a_refusal_on_one_rank_reaches_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

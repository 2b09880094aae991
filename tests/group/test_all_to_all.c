/* All_to_all: pieces of any size for every pair of ranks, as lists and along dim 0 of one tensor. */
#include "groups.h"
#include "scattered.h"

#define MOST 5

/* ---- one tensor ---- */

static rsh_status worked(void *ctx) {
    (void)ctx;
    const int64_t in_splits[3][3] = {{1, 2, 1}, {0, 1, 2}, {3, 1, 2}},
                  out_splits[3][3] = {{1, 0, 3}, {2, 1, 1}, {1, 2, 2}};
    const int64_t in_length[3] = {4, 3, 6}, out_length[3] = {4, 4, 5};
    const int64_t expected[3][5] = {{0, 20, 21, 22}, {1, 2, 10, 23}, {3, 11, 12, 24, 25}};
    int me = rsh_group_rank(NULL);
    rsh_tensor *in = NULL, *out = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_I64, 1, &in_length[me], &in));
    RSH_TRY(rsh_tensor_empty(RSH_I64, 1, &out_length[me], &out));
    for (int64_t i = 0; i < in_length[me]; i++) ((int64_t *)rsh_tensor_data(in))[i] = 10 * me + i;
    RSH_TRY(rsh_group_all_to_all_single(NULL, out, in, out_splits[me], in_splits[me]));
    CHECK(!memcmp(rsh_tensor_data(out), expected[me], (size_t)out_length[me] * sizeof(int64_t)));
    /* Calling it again with the lists swapped restores the input. */
    memset(rsh_tensor_data(in), 0, (size_t)in_length[me] * sizeof(int64_t));
    RSH_TRY(rsh_group_all_to_all_single(NULL, in, out, in_splits[me], out_splits[me]));
    for (int64_t i = 0; i < in_length[me]; i++) CHECK(((int64_t *)rsh_tensor_data(in))[i] == 10 * me + i);
    rsh_tensor_free(in);
    rsh_tensor_free(out);
    return RSH_OK;
}
static void uneven_pieces_arrive_in_the_order_of_their_sources(void **state) {
    (void)state;
    run_groups(3, worked, NULL);
}

/* Returns an element.  Rows are numbered by sender, receiver and place in the piece; element e of a row adds e. */
static int64_t row_value(int from, int to, int64_t row, int64_t e) { return ((from * 10 + to) * 10 + row) * 100 + e; }

/* Creates this rank's side of a matrix of piece lengths, as a tensor of rows with any strides. */
static scattered rows_new(const int64_t lengths[MOST], int n, int64_t wide, uint64_t *own, form *f) {
    *f = (form){.dtype = RSH_I64, .ndim = 2, .shape = {0, wide}};
    for (int r = 0; r < n; r++) f->shape[0] += lengths[r];
    f->count = f->shape[0] * wide;
    return scattered_new(f, draw(own) % 2, own);
}
static int64_t *row_at(const scattered *s, int64_t row, int64_t e) {
    return (int64_t *)rsh_tensor_data(s->t) + row * rsh_tensor_strides(s->t)[0] + e * rsh_tensor_strides(s->t)[1];
}

static rsh_status random_splits(uint64_t *rng, uint64_t *own, bool equal) {
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    int64_t pieces[MOST][MOST], to[MOST], from[MOST], wide = (int64_t)(draw(rng) % 4), same = (int64_t)(draw(rng) % 4);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) pieces[i][j] = equal ? same : (int64_t)(draw(rng) % 4);
    for (int r = 0; r < n; r++) to[r] = pieces[me][r], from[r] = pieces[r][me];
    form fin, fout;
    scattered in = rows_new(to, n, wide, own, &fin), out = rows_new(from, n, wide, own, &fout);
    int64_t row = 0;
    for (int r = 0; r < n; r++)
        for (int64_t k = 0; k < to[r]; k++, row++)
            for (int64_t e = 0; e < wide; e++) *row_at(&in, row, e) = row_value(me, r, k, e);
    rsh_status st = rsh_group_all_to_all_single(NULL, out.t, in.t, equal ? NULL : from, equal ? NULL : to);
    bool ok = true;
    row = 0;
    for (int r = 0; r < n; r++)
        for (int64_t k = 0; k < from[r]; k++, row++)
            for (int64_t e = 0; e < wide; e++) ok = ok && *row_at(&out, row, e) == row_value(r, me, k, e);
    scattered_free(&in);
    scattered_free(&out);
    RSH_TRY(st);
    CHECK(ok);
    return RSH_OK;
}
static rsh_status many_splits(void *ctx) {
    uint64_t rng = *(uint64_t *)ctx, own = rng + 50 + (uint64_t)rsh_group_rank(NULL);
    for (int i = 0; i < 60; i++) RSH_TRY(random_splits(&rng, &own, i % 4 == 0));
    return RSH_OK;
}
static void pieces_of_any_length_and_stride_arrive(void **state) {
    (void)state;
    uint64_t seed = test_seed(4711);
    run_group_counts(many_splits, &seed);
}

/* Every other element of memory that ends with the last of them, so the empty last piece would begin outside. */
static rsh_status last_piece_empty(void *ctx) {
    (void)ctx;
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    int64_t splits[MOST], from[MOST], length = 0, two = 2;
    for (int r = 0; r < n; r++) length += splits[r] = r == n - 1 ? 0 : 3;
    for (int r = 0; r < n; r++) from[r] = me == n - 1 ? 0 : 3;
    int64_t room = length ? 2 * length - 1 : 0, received = me == n - 1 ? 0 : 3 * n;
    rsh_tensor *all = NULL, *in = NULL, *out = NULL;
    RSH_TRY(rsh_tensor_zeros(RSH_I32, 1, &room, &all));
    RSH_TRY(rsh_tensor_view(all, 0, 1, &length, &two, &in));
    RSH_TRY(rsh_tensor_zeros(RSH_I32, 1, &received, &out));
    for (int64_t i = 0; i < length; i++) ((int32_t *)rsh_tensor_data(all))[2 * i] = (int32_t)(100 * me + i);
    RSH_TRY(rsh_group_all_to_all_single(NULL, out, in, from, splits));
    for (int64_t i = 0; i < received; i++)
        CHECK(((int32_t *)rsh_tensor_data(out))[i] == 100 * (i / 3) + 3 * me + i % 3);
    rsh_tensor_free(in);
    rsh_tensor_free(out);
    rsh_tensor_free(all);
    return RSH_OK;
}
static void an_empty_piece_needs_no_memory(void **state) {
    (void)state;
    run_group_counts(last_piece_empty, NULL);
}

/* ---- lists ---- */

/* Returns the form of what `from` sends to `to`: any shape, one dtype. */
static form pair_form(uint64_t seed, int from, int to) {
    uint64_t rng = seed + (uint64_t)(from * 100 + to);
    form f = form_draw(&rng);
    f.dtype = (rsh_dtype)(seed % RSH_NDTYPES);
    return f;
}
static rsh_status random_lists(uint64_t seed, uint64_t *own) {
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    scattered in[MOST], out[MOST];
    const rsh_tensor *sources[MOST];
    rsh_tensor *targets[MOST];
    for (int r = 0; r < n; r++) {
        form sent = pair_form(seed, me, r), received = pair_form(seed, r, me);
        in[r] = scattered_new(&sent, draw(own) % 2, own), sources[r] = in[r].t;
        out[r] = scattered_new(&received, draw(own) % 2, own), targets[r] = out[r].t;
        scattered_fill(&sent, &in[r], seed, me, r);
    }
    rsh_status st = rsh_group_all_to_all(NULL, n, targets, sources);
    bool ok = true;
    for (int r = 0; r < n; r++) {
        form received = pair_form(seed, r, me);
        ok = ok && scattered_is(&received, &out[r], seed, r, me);
        scattered_free(&in[r]);
        scattered_free(&out[r]);
    }
    RSH_TRY(st);
    CHECK(ok);
    return RSH_OK;
}
static rsh_status many_lists(void *ctx) {
    uint64_t rng = *(uint64_t *)ctx, own = rng + 90 + (uint64_t)rsh_group_rank(NULL);
    for (int i = 0; i < 40; i++) RSH_TRY(random_lists(draw(&rng) >> 8, &own));
    return RSH_OK;
}
static void every_pair_may_have_a_shape_of_its_own(void **state) {
    (void)state;
    uint64_t seed = test_seed(815);
    run_group_counts(many_lists, &seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_pieces_arrive_in_the_order_of_their_sources),
        cmocka_unit_test(pieces_of_any_length_and_stride_arrive),
        cmocka_unit_test(an_empty_piece_needs_no_memory),
        cmocka_unit_test(every_pair_may_have_a_shape_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

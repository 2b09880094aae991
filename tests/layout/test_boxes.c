/* Boxes: exact tilings are accepted, errors name the first element that is missing or held twice, the canonical order
 * is right, and many boxes are fast. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <reshard/layout.h>

#include "base/base.h"
#include "seed.h"

enum { MAX_RANKS = 4 };

typedef struct box {
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM];
    int nranks, rank[MAX_RANKS]; /* ascending */
} box;

typedef struct tiling {
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    box *box;
    int64_t n;
} tiling;

static uint64_t random_state;

static int64_t below(int64_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

static uint64_t seed(void) { return seed_or(1); }

static tiling whole(int ndim, const int64_t *shape, int64_t room) {
    tiling t = {.ndim = ndim, .n = 1, .box = calloc((size_t)room, sizeof(box))};
    memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(t.box->hi, t.shape, sizeof t.shape);
    t.box->nranks = 1;
    return t;
}

/* Cuts box i at x along dim d; the upper part becomes the last box. */
static void split(tiling *t, int64_t i, int d, int64_t x) {
    t->box[t->n] = t->box[i];
    t->box[t->n++].lo[d] = x;
    t->box[i].hi[d] = x;
}

static void split_anywhere(tiling *t) {
    int64_t i = below(t->n);
    int d = (int)below(t->ndim);
    split(t, i, d, t->box[i].lo[d] + below(t->box[i].hi[d] - t->box[i].lo[d] + 1));
}

static void shuffle(tiling *t) {
    for (int64_t i = t->n - 1; i > 0; i--) {
        int64_t j = below(i + 1);
        box b = t->box[i];
        t->box[i] = t->box[j];
        t->box[j] = b;
    }
}

static void give_ranks(tiling *t, int nranks) {
    for (int64_t i = 0; i < t->n; i++) {
        box *b = &t->box[i];
        b->nranks = 0;
        for (int r = 0; r < nranks && b->nranks < MAX_RANKS; r++)
            if (!below(nranks)) b->rank[b->nranks++] = r;
        if (!b->nranks) b->rank[b->nranks++] = (int)below(nranks);
    }
}

static char *text_of(const tiling *t) {
    rshi_text text = {0};
    rshi_text_add(&text, "f32[");
    for (int d = 0; d < t->ndim; d++) rshi_text_add(&text, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
    rshi_text_add(&text, "] boxes");
    for (int64_t i = 0; i < t->n; i++) {
        const box *b = &t->box[i];
        for (int r = 0; r < b->nranks; r++) rshi_text_add(&text, "%c%d", r ? ',' : ' ', b->rank[r]);
        rshi_text_add(&text, ":[");
        for (int d = 0; d < t->ndim; d++)
            rshi_text_add(&text, "%s%lld:%lld", d ? "," : "", (long long)b->lo[d], (long long)b->hi[d]);
        rshi_text_add(&text, "]");
    }
    assert_false(text.failed);
    return text.data;
}

/* ---- small tilings compared with counting ---- */

static bool holds(const box *b, int ndim, const int64_t *x) {
    for (int d = 0; d < ndim; d++)
        if (x[d] < b->lo[d] || x[d] >= b->hi[d]) return false;
    return true;
}

static bool next_element(const tiling *t, int64_t *x) {
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (++x[d] < t->shape[d]) return true;
        x[d] = 0;
    }
    return false;
}

/* Writes the error that the library should report for the tiling; "" if there is none.  `words` has 128 bytes. */
static void first_fault(const tiling *t, char *words) {
    int64_t x[RSH_MAX_NDIM] = {0}, count = 1;
    *words = 0;
    for (int d = 0; d < t->ndim; d++) count *= t->shape[d];
    if (!count) return;
    do {
        int holders = 0;
        for (int64_t i = 0; i < t->n; i++) holders += holds(&t->box[i], t->ndim, x);
        if (holders == 1) continue;
        int used = snprintf(words, 128, "%s element [", holders ? "both hold" : "no box holds");
        for (int d = 0; d < t->ndim; d++)
            used += snprintf(words + used, 128 - (size_t)used, "%s%lld", d ? "," : "", (long long)x[d]);
        snprintf(words + used, 128 - (size_t)used, "]");
        return;
    } while (next_element(t, x));
}

static void disturb(tiling *t) {
    box *b = &t->box[below(t->n)];
    int d = (int)below(t->ndim);
    switch (below(5)) {
    case 0: b->lo[d] = below(b->hi[d] + 1); break;
    case 1: b->hi[d] = b->lo[d] + below(t->shape[d] - b->lo[d] + 1); break;
    case 2: t->box[t->n++] = *b; break;
    case 3: *b = t->box[--t->n]; break;
    default: break; /* it stays a tiling */
    }
}

static void check_against_counting(const tiling *t, uint64_t first_seed) {
    char words[128], *text = text_of(t);
    rsh_layout *l = NULL;
    first_fault(t, words);
    rsh_status st = rsh_layout_parse(text, &l);
    bool right = *words ? st == RSH_EVALUE && strstr(rsh_error_detail(), words) : st == RSH_OK;
    if (!right)
        fail_msg("RESHARD_SEED=%llu: %s: \"%s\", not \"%s\"", (unsigned long long)first_seed, text,
                 st ? rsh_error_detail() : "", words);
    rsh_layout_free(l);
    rshi_free(text);
}

static void the_first_element_missed_or_doubled_is_named(void **state) {
    uint64_t first_seed = random_state = seed();
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int64_t shape[4];
        int ndim = 1 + (int)below(4);
        for (int d = 0; d < ndim; d++) shape[d] = 1 + below(6) - !below(20);
        tiling t = whole(ndim, shape, 32);
        for (int64_t n = below(20); n > 0; n--) split_anywhere(&t);
        shuffle(&t);
        for (int64_t n = below(3); n > 0 && t.n; n--) disturb(&t);
        give_ranks(&t, 6);
        check_against_counting(&t, first_seed);
        free(t.box);
    }
}

/* The smallest tiling that no straight line divides is accepted. */
static void a_pinwheel_tiles(void **state) {
    rsh_layout *l;
    (void)state;
    assert_int_equal(
        rsh_layout_parse("f32[3, 3] boxes 0:[0:1,0:2] 1:[0:2,2:3] 2:[2:3,1:3] 3:[1:3,0:1] 4:[1:2,1:2]", &l), RSH_OK);
    rsh_layout_free(l);
}

static void volume_that_fits_is_not_enough(void **state) {
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_parse("f32[2, 2] boxes 0:[0:1,0:2] 1:[0:1,0:2]", &l), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "both hold element [0,0]"));
}

static void empty_boxes_overlap_nothing(void **state) {
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_parse("f32[4, 2] boxes 0:[0:4,0:2] 1:[2:2,0:2] 1:[2:2,0:2] 2:[1:3,1:1]", &l), RSH_OK);
    assert_int_equal(rsh_layout_nparts(l, 1), 2);
    rsh_layout_free(l);
    assert_int_equal(rsh_layout_parse("f32[0, 4] boxes 3:[0:0,1:2] 4:[0:0,1:2]", &l), RSH_OK);
    assert_int_equal(rsh_layout_nranks(l), 2);
    rsh_layout_free(l);
    assert_int_equal(rsh_layout_parse("f32[0, 4] boxes", &l), RSH_OK);
    assert_int_equal(rsh_layout_nranks(l), 0);
    assert_int_equal(rsh_layout_nparts(l, 0), 0);
    rsh_layout_free(l);
}

static void long_lists_of_ranks_are_cut_short_in_errors(void **state) {
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_parse("f32[2] boxes 9,8,7,6,5,4:[0:2] 0:[1:2]", &l), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(), "layout:1:32: boxes 4,5,6,7,...:[0:2] and 0:[1:2] both hold element [1]");
}

/* ---- canonical order ---- */

static bool shares_a_rank(const box *a, const box *b) {
    for (int i = 0; i < a->nranks; i++)
        for (int j = 0; j < b->nranks; j++)
            if (a->rank[i] == b->rank[j]) return true;
    return false;
}

/* Applies the rule slowly: of the boxes that no box precedes on any of their ranks, the one with the lowest rank is
 * next. */
static void sort_slowly(tiling *t) {
    for (int64_t done = 0; done < t->n; done++) {
        int64_t best = done;
        for (int64_t i = done + 1; i < t->n; i++) {
            bool ready = t->box[i].rank[0] < t->box[best].rank[0];
            for (int64_t j = done; ready && j < i; j++) ready = !shares_a_rank(&t->box[i], &t->box[j]);
            if (ready) best = i;
        }
        box b = t->box[best];
        memmove(&t->box[done + 1], &t->box[done], (size_t)(best - done) * sizeof b);
        t->box[done] = b;
    }
}

static void boxes_go_by_rank_and_keep_the_order_of_each_rank(void **state) {
    uint64_t first_seed = random_state = seed();
    (void)state;
    for (int round = 0; round < 1000; round++) {
        tiling t = whole(2, (int64_t[]){8, 8}, 32);
        for (int64_t n = below(25); n > 0; n--) split_anywhere(&t);
        shuffle(&t);
        give_ranks(&t, 2 + (int)below(8));
        char *written = text_of(&t);
        sort_slowly(&t);
        char *sorted = text_of(&t);
        rsh_layout *l;
        assert_int_equal(rsh_layout_parse(written, &l), RSH_OK);
        if (strcmp(rsh_layout_text(l), sorted))
            fail_msg("RESHARD_SEED=%llu: %s\nbecame %s\nnot    %s", (unsigned long long)first_seed, written,
                     rsh_layout_text(l), sorted);
        rsh_layout_free(l);
        rshi_free(written);
        rshi_free(sorted);
        free(t.box);
    }
}

/* ---- many boxes ---- */

/* Cuts all boxes into `parts` along d. */
static void cut_all(tiling *t, int d, int64_t parts) {
    int64_t n = t->n, length = t->shape[d] / parts;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = parts - 1; k > 0; k--) split(t, i, d, k * length);
}

/* Makes rows of bricks, each row shifted relative to the one before, so that no two bricks of different rows share a
 * whole face. */
static tiling bricks(int64_t rows, int64_t columns) {
    tiling t = whole(2, (int64_t[]){rows, columns * 1000}, rows * (columns + 1));
    for (int64_t r = rows - 1; r > 0; r--) split(&t, 0, 0, r);
    for (int64_t r = 0, n = t.n; r < n; r++)
        for (int64_t c = columns - 1; c > 0; c--) split(&t, r, 1, c * 1000 + t.box[r].lo[0] % 997);
    return t;
}

static tiling grid(int ndim, const int64_t *parts) {
    int64_t shape[RSH_MAX_NDIM], n = 1;
    for (int d = 0; d < ndim; d++) n *= parts[d], shape[d] = parts[d] * 3;
    tiling t = whole(ndim, shape, n + 1);
    for (int d = 0; d < ndim; d++) cut_all(&t, d, parts[d]);
    return t;
}

static tiling random_cuts(int64_t n) {
    tiling t = whole(3, (int64_t[]){100000, 100000, 20000}, n + 1);
    random_state = 5;
    while (t.n < n) split_anywhere(&t);
    return t;
}

static void check_quick(const char *what, tiling t) {
    shuffle(&t);
    for (int64_t i = 0; i < t.n; i++) t.box[i].rank[0] = (int)below(1000);
    char *text = text_of(&t);
    rsh_layout *l = NULL;
    clock_t start = clock(); /* processor time, which other load does not affect */
    if (rsh_layout_parse(text, &l)) fail_msg("%s: %.200s", what, rsh_error_detail());
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (getenv("RESHARD_TIMES")) print_message("%-24s %7lld boxes %6.3f s\n", what, (long long)t.n, seconds);
    assert_true(seconds < 20); /* comparing all pairs would take minutes */
    rsh_layout_free(l);
    rshi_free(text);
    free(t.box);
}

static void a_hundred_thousand_boxes_are_quick(void **state) {
    (void)state;
    random_state = 1;
    check_quick("316 x 316", grid(2, (int64_t[]){316, 316}));
    check_quick("46 x 46 x 46", grid(3, (int64_t[]){46, 46, 46}));
    check_quick("18 x 18 x 18 x 17", grid(4, (int64_t[]){18, 18, 18, 17}));
    check_quick("4 to the 8th", grid(8, (int64_t[]){4, 4, 4, 4, 4, 4, 4, 4}));
    check_quick("slabs along dim 0", grid(3, (int64_t[]){100000, 1, 1}));
    check_quick("slabs along dim 1", grid(3, (int64_t[]){1, 100000, 1}));
    check_quick("slabs along dim 2", grid(3, (int64_t[]){1, 1, 100000}));
    check_quick("10 x 10000", grid(2, (int64_t[]){10, 10000}));
    check_quick("bricks 316 x 316", bricks(316, 316));
    check_quick("bricks 10 x 10000", bricks(10, 10000));
    check_quick("bricks 10000 x 10", bricks(10000, 10));
    check_quick("random cuts in 3 dims", random_cuts(100000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_element_missed_or_doubled_is_named),
        cmocka_unit_test(a_pinwheel_tiles),
        cmocka_unit_test(volume_that_fits_is_not_enough),
        cmocka_unit_test(empty_boxes_overlap_nothing),
        cmocka_unit_test(long_lists_of_ranks_are_cut_short_in_errors),
        cmocka_unit_test(boxes_go_by_rank_and_keep_the_order_of_each_rank),
        cmocka_unit_test(a_hundred_thousand_boxes_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

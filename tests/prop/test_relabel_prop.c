/* Relabel: the best permutation of the destination's ranks, compared with all permutations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "prop.h"

enum { MOST_RANKS = 7, MOST_TENSORS = 2 };

static int64_t moved(const rsh_layout *from, const rsh_layout *to) {
    rsh_plan *p = NULL;
    rsh_plan_totals t = {sizeof t, .bytes_moved = -1};
    if (rsh_plan_new(from, to, NULL, &p) == RSH_OK) rsh_plan_get_totals(p, &t);
    rsh_plan_free(p);
    return t.bytes_moved;
}

static bool rotated_check(prop_case *c, const rsh_layout *from, const rsh_layout *to) {
    rsh_layout *better = NULL;
    bool exact = false;
    PROP_OK(c, rsh_plan_relabel(1, &from, &to, NULL, &better, &exact));
    int64_t bytes = moved(from, better);
    bool ok = bytes == 0 && exact;
    if (!ok)
        prop_say(c, "%lld bytes still move to %.800s (exact: %d)", (long long)bytes, rsh_layout_text(better), exact);
    rsh_layout_free(better);
    return ok;
}

/* Draws a layout, and the same layout with every rank's role given to the next rank. */
static bool rotated(prop_case *c) {
    ora_dtype t = gen_any_dtype(&c->rng);
    gen_wish w = {gen_any_shape(&c->rng), t, ORA_NONE, 12, true, false};
    gen_layout l;
    int64_t rank[GEN_MAX_ROLES], next[GEN_MAX_ROLES];
    gen_any_layout(&c->rng, &w, &l);
    if (!l.is_boxes && !l.mesh[0]) return true; /* one rank: there is nothing to rotate */
    gen_ranks(&c->rng, l.nroles, rank);
    for (int i = 0; i < l.nroles; i++) next[i] = rank[(i + 1) % l.nroles];
    gen_text(&l, rank, c->from);
    gen_text(&l, next, c->to);
    rsh_layout *a = NULL, *b = NULL;
    PROP_OK(c, rsh_layout_parse(c->from, &a));
    PROP_OK(c, rsh_layout_parse(c->to, &b));
    bool ok = rotated_check(c, a, b);
    rsh_layout_free(a);
    rsh_layout_free(b);
    return ok;
}

typedef struct family {
    int n;
    char from_text[MOST_TENSORS][GEN_TEXT], to_text[MOST_TENSORS][GEN_TEXT];
    ora_layout *from_o[MOST_TENSORS], *to_o[MOST_TENSORS];
    rsh_layout *from[MOST_TENSORS], *to[MOST_TENSORS], *better[MOST_TENSORS];
    int nranks;
    int64_t rank[GEN_MAX_ROLES];           /* ranks of the destinations */
    int64_t keeps[MOST_RANKS][MOST_RANKS]; /* bytes that do not move if rank j takes the place of rank i */
    int64_t needs;                         /* bytes of all parts together */
} family;

static void count_places(family *f) {
    for (int k = 0; k < f->n; k++) {
        const ora_layout *a = f->from_o[k], *b = f->to_o[k];
        size_t x = ora_size(a->dtype), y = ora_size(b->dtype);
        int64_t bytes = (int64_t)(x < y ? x : y);
        for (int i = 0; i < f->nranks; i++)
            for (int64_t e = 0; e < b->count; e++) {
                if (!ora_rank_holds(b, f->rank[i], e)) continue;
                f->needs += bytes;
                for (int j = 0; j < f->nranks; j++) f->keeps[i][j] += ora_rank_holds(a, f->rank[j], e) ? bytes : 0;
            }
    }
}

/* Returns the most bytes that need not move, by trying every permutation. */
static int64_t most_kept(const family *f, int i, unsigned taken) {
    int64_t best = 0;
    if (i == f->nranks) return 0;
    for (int j = 0; j < f->nranks; j++)
        if (!(taken >> j & 1)) {
            int64_t kept = f->keeps[i][j] + most_kept(f, i + 1, taken | 1u << j);
            if (kept > best) best = kept;
        }
    return best;
}

/* Draws n tensors.  The destinations of all are on the same ranks, in the same order or not. */
static bool family_new(prop_case *c, family *f, int n, bool same_order) {
    gen_layout l;
    gen_shape shape = gen_any_shape(&c->rng);
    f->n = n;
    for (int k = 0; k < f->n; k++) {
        gen_wish w = {shape, gen_any_dtype(&c->rng), ORA_NONE, MOST_RANKS, true, false};
        int64_t any[GEN_MAX_ROLES];
        gen_side(&c->rng, &w, f->from_text[k]);
        do
            gen_any_layout(&c->rng, &w, &l);
        while ((!l.is_boxes && !l.mesh[0]) || (k > 0 && l.nroles != f->nranks));
        gen_ranks(&c->rng, l.nroles, any);
        if (k == 0) memcpy(f->rank, any, sizeof any);
        f->nranks = l.nroles;
        if (!same_order) gen_shuffle(&c->rng, f->nranks, f->rank);
        gen_text(&l, f->rank, f->to_text[k]);
        f->from_o[k] = ora_parse(f->from_text[k]);
        f->to_o[k] = ora_parse(f->to_text[k]);
        PROP_OK(c, rsh_layout_parse(f->from_text[k], &f->from[k]));
        PROP_OK(c, rsh_layout_parse(f->to_text[k], &f->to[k]));
    }
    strcpy(c->from, f->from_text[f->n - 1]);
    strcpy(c->to, f->to_text[f->n - 1]);
    return true;
}

static void family_free(family *f) {
    for (int k = 0; k < MOST_TENSORS; k++) {
        rsh_layout_free(f->from[k]);
        rsh_layout_free(f->to[k]);
        rsh_layout_free(f->better[k]);
        ora_free(f->from_o[k]);
        ora_free(f->to_o[k]);
    }
    free(f);
}

static bool same_place(const ora_layout *a, int64_t p, const ora_layout *b, int64_t q) {
    int64_t i = 0, j = 0;
    while (i < a->nparts && a->part[i].rank != p) i++;
    while (j < b->nparts && b->part[j].rank != q) j++;
    for (; i < a->nparts && a->part[i].rank == p; i++, j++) {
        if (j == b->nparts || b->part[j].rank != q || a->part[i].count != b->part[j].count) return false;
        if (memcmp(a->part[i].element, b->part[j].element, sizeof(int64_t) * (size_t)a->part[i].count)) return false;
    }
    return j == b->nparts || b->part[j].rank != q;
}

/* Is there one permutation that turns every `to` into its `better`? */
static bool permuted(const family *f, ora_layout *const *better, int i, unsigned taken) {
    if (i == f->nranks) return true;
    for (int j = 0; j < f->nranks; j++) {
        bool fits = !(taken >> j & 1);
        for (int k = 0; fits && k < f->n; k++) fits = same_place(f->to_o[k], f->rank[i], better[k], f->rank[j]);
        if (fits && permuted(f, better, i + 1, taken | 1u << j)) return true;
    }
    return false;
}

static bool one_permutation(prop_case *c, const family *f) {
    ora_layout *better[MOST_TENSORS] = {0};
    for (int k = 0; k < f->n; k++) better[k] = ora_parse(rsh_layout_text(f->better[k]));
    bool ok = permuted(f, better, 0, 0), shape = true;
    for (int k = 0; k < f->n; k++) {
        shape = shape && better[k]->nparts == f->to_o[k]->nparts && better[k]->dtype == f->to_o[k]->dtype;
        ora_free(better[k]);
    }
    PROP(c, ok && shape, "%.900s is no permutation of the destination's ranks", rsh_layout_text(f->better[0]));
    return true;
}

static bool best_of_all(prop_case *c, family *f) {
    bool exact = false, unchanged = true;
    int64_t found = 0, identity = 0;
    PROP_OK(c, rsh_plan_relabel(f->n, (const rsh_layout *const *)f->from, (const rsh_layout *const *)f->to, NULL,
                                  f->better, &exact));
    PROP(c, exact, "not exact with %d ranks", f->nranks);
    for (int k = 0; k < f->n; k++) {
        found += moved(f->from[k], f->better[k]);
        identity += moved(f->from[k], f->to[k]);
        unchanged = unchanged && rsh_layout_same_parts(f->to[k], f->better[k]);
    }
    count_places(f);
    int64_t best = f->needs - most_kept(f, 0, 0);
    PROP(c, found <= identity, "%lld bytes move, %lld as it was", (long long)found, (long long)identity);
    PROP(c, found == best, "%lld bytes move, %lld would do (%lld as it was): %.700s", (long long)found, (long long)best,
         (long long)identity, rsh_layout_text(f->better[0]));
    PROP(c, identity != best || unchanged, "nothing is better than the identity, yet it is %.700s",
         rsh_layout_text(f->better[0]));
    return one_permutation(c, f);
}

static bool best_for(prop_case *c, int n, bool same_order) {
    family *f = prop_alloc(sizeof *f);
    bool ok = family_new(c, f, n, same_order) && best_of_all(c, f);
    family_free(f);
    return ok;
}

static bool best(prop_case *c) { return best_for(c, 1, true); }
static bool best_for_two(prop_case *c) { return best_for(c, 2, true); }
static bool best_for_two_meshes(prop_case *c) { return best_for(c, 2, false); }

static void a_rotated_layout_is_turned_back(void **state) { (void)state; prop_run("rotated", 400, rotated); }
static void no_permutation_is_better_than_the_one_found(void **state) { (void)state; prop_run("best", 400, best); }
static void two_tensors_share_the_best_permutation(void **state) {
    (void)state;
    prop_run("best_for_two", 120, best_for_two);
}
static void two_tensors_may_order_their_ranks_differently(void **state) {
    (void)state;
    prop_run("two_meshes", 120, best_for_two_meshes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rotated_layout_is_turned_back),
        cmocka_unit_test(no_permutation_is_better_than_the_one_found),
        cmocka_unit_test(two_tensors_share_the_best_permutation),
        cmocka_unit_test(two_tensors_may_order_their_ranks_differently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Relabel: gives the destination's parts to the ranks that already hold most of them. */
#include "plan/impl.h"
#include "plan/assign.h"

#include <stdlib.h>

#define EXACT_LIMIT 4096

typedef struct gain_list {
    rshi_gain *gain;
    int64_t n, room;
} gain_list;

/* The ranks of all destinations, ascending.  Places and labels are ordinals in this list. */
typedef struct rank_list {
    int64_t *rank;
    int64_t n;
} rank_list;

typedef struct counting {
    const rsh_layout *from, *to;
    const rank_list *ranks;
    const rshi_piece *b;
    int64_t label; /* ordinal of b's rank */
    gain_list *out;
    int64_t size;
} counting;

static int64_t ordinal(const rank_list *l, int64_t rank) { return rshi_find(l->rank, l->n, sizeof *l->rank, rank); }

static rsh_status list_ranks(int64_t n, const rsh_layout *const *to, rank_list *out) {
    int64_t total = 0, k = 0;
    for (int64_t t = 0; t < n; t++) total += rsh_layout_nranks(to[t]);
    out->rank = rshi_alloc((size_t)total + 1, sizeof *out->rank);
    if (!out->rank) return rshi_nomem();
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < rsh_layout_nranks(to[t]); i++) out->rank[k++] = rsh_layout_rank(to[t], i);
    qsort(out->rank, (size_t)k, sizeof *out->rank, rshi_compare_int64);
    for (int64_t i = 0; i < k; i++)
        if (!out->n || out->rank[out->n - 1] != out->rank[i]) out->rank[out->n++] = out->rank[i];
    return RSH_OK;
}

static rsh_status push(gain_list *l, rshi_gain g) {
    RSH_TRY(RSHI_GROW(l->gain, l->n + 1, &l->room));
    l->gain[l->n++] = g;
    return RSH_OK;
}

/* Every listed rank that holds source piece a would keep what a and b have in common. */
static rsh_status count_holders(void *ctx, const rshi_piece *a) {
    counting *c = ctx;
    int64_t bytes = rshi_pieces_common(c->to, a, c->b) * c->size, partials = rshi_layout_partials(c->from);
    for (int64_t p = 0; p < partials; p++) {
        rshi_piece at;
        rshi_piece_at_partial(c->from, a, p, &at);
        int64_t holders = rshi_piece_holders(c->from, &at);
        for (int64_t j = 0; j < holders; j++) {
            int64_t place = ordinal(c->ranks, rshi_piece_holder(c->from, &at, j));
            if (place >= 0) RSH_TRY(push(c->out, (rshi_gain){place, c->label, bytes}));
        }
    }
    return RSH_OK;
}

static rsh_status count_tensor(const rsh_layout *from, const rsh_layout *to, const rank_list *ranks, gain_list *out) {
    counting c = {.from = from, .to = to, .ranks = ranks, .out = out};
    size_t e = rsh_dtype_size(rsh_layout_dtype(from)), f = rsh_dtype_size(rsh_layout_dtype(to));
    rsh_status st = RSH_OK;
    c.size = (int64_t)(e < f ? e : f);
    for (int64_t i = 0; i < rsh_layout_nranks(to) && !st; i++) {
        rshi_piece *b = NULL;
        int64_t n = 0;
        c.label = ordinal(ranks, rsh_layout_rank(to, i));
        st = rshi_layout_pieces(to, rsh_layout_rank(to, i), &b, &n);
        for (int64_t k = 0; k < n && !st; k++) {
            c.b = &b[k];
            st = rshi_layout_search(from, b[k].set, count_holders, &c);
        }
        rshi_free(b);
    }
    return st;
}

static int by_pair(const void *a, const void *b) {
    const rshi_gain *x = a, *y = b;
    if (x->i != y->i) return x->i < y->i ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

/* Adds up gains of the same pair. */
static void merge(gain_list *l) {
    int64_t n = 0;
    if (l->n) qsort(l->gain, (size_t)l->n, sizeof *l->gain, by_pair);
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->gain[i].w) continue;
        if (n && !by_pair(&l->gain[n - 1], &l->gain[i]))
            l->gain[n - 1].w += l->gain[i].w;
        else
            l->gain[n++] = l->gain[i];
    }
    l->n = n;
}

static rsh_status check(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                        rsh_layout **relabelled) {
    RSH_REQUIRE(n > 0 && from && to && relabelled, RSH_EVALUE,
                "relabelling needs at least one pair of layouts and a place for the result");
    for (int64_t t = 0; t < n; t++) {
        RSH_REQUIRE(from[t] && to[t], RSH_EVALUE, "tensor %lld has no layout", (long long)t);
        RSH_TRY(rshi_check_shapes(from[t], to[t]));
    }
    return RSH_OK;
}

static rsh_status solve(int64_t places, const rsh_plan_opts *opts, gain_list *gains, int64_t *place_of, bool *exact) {
    merge(gains);
    *exact = places <= EXACT_LIMIT;
    RSH_REQUIRE(*exact || opts->approximate, RSH_EUNSUP,
                "relabelling is exact up to %d ranks, got %lld: set opts.approximate to accept an approximate answer",
                EXACT_LIMIT, (long long)places);
    return *exact ? rshi_assign(places, gains->n, gains->gain, place_of)
                  : rshi_assign_approximate(places, gains->n, gains->gain, place_of);
}

/* The part of rank r goes to the rank at place_of[ordinal of r]. */
static rsh_status renumber(const rsh_layout *to, const rank_list *ranks, const int64_t *place_of, rsh_layout **out) {
    int64_t n = rshi_layout_positions(to), *list = rshi_alloc((size_t)n + 1, sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) list[i] = ranks->rank[place_of[ordinal(ranks, rshi_layout_rank_at(to, i))]];
    rsh_status st = rshi_layout_renumber(to, list, out);
    rshi_free(list);
    return st;
}

static rsh_status renumber_all(int64_t n, const rsh_layout *const *to, const rank_list *ranks, const int64_t *place_of,
                               rsh_layout **relabelled) {
    rsh_status st = RSH_OK;
    for (int64_t t = 0; t < n; t++) relabelled[t] = NULL;
    for (int64_t t = 0; t < n && !st; t++) st = renumber(to[t], ranks, place_of, &relabelled[t]);
    for (int64_t t = 0; t < n && st; t++) {
        rsh_layout_free(relabelled[t]);
        relabelled[t] = NULL;
    }
    return st;
}

rsh_status rsh_plan_relabel(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                            const rsh_plan_opts *opts, rsh_layout **relabelled, bool *exact) {
    gain_list gains = {0};
    rank_list ranks = {0};
    bool is_exact = true;
    int64_t *place_of = NULL;
    rsh_plan_opts o;
    rsh_status st;
    RSH_TRY(check(n, from, to, relabelled));
    RSH_TRY(rshi_plan_opts_take(opts, &o));
    RSH_GOTO(list_ranks(n, to, &ranks));
    place_of = rshi_alloc((size_t)ranks.n + 1, sizeof *place_of);
    if (!place_of) RSH_GOTO(rshi_nomem());
    for (int64_t t = 0; t < n; t++) RSH_GOTO(count_tensor(from[t], to[t], &ranks, &gains));
    RSH_GOTO(solve(ranks.n, &o, &gains, place_of, &is_exact));
    RSH_GOTO(renumber_all(n, to, &ranks, place_of, relabelled));
    if (exact) *exact = is_exact;
out:
    rshi_free(gains.gain);
    rshi_free(ranks.rank);
    rshi_free(place_of);
    return st;
}

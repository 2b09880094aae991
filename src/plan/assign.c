/* Assign: exact and approximate linear assignment over sparse gains.
 *
 * Places buy labels.  A gain of w becomes an edge of weight w * (n + 1), and a label at its own place weighs 1 more.
 * So the heaviest matching over these edges has the most bytes first and the most fixed labels second.  Labels and
 * places that it leaves unmatched gain nothing anywhere and are paired in order.  Prices of labels and profits of
 * places are the dual: never negative, with profit[i] + price[j] >= weight(i, j), equality for matched pairs, and
 * zero for whatever is unmatched at the end. */
#include "plan/assign.h"

#include <stdlib.h>

#define NOBODY   (-1)
#define PATIENCE 8   /* consecutive bids before the last displaced place is left to the search */
#define PARTS    128 /* the approximate sum is short by one part at most */

__extension__ typedef __int128 wide; /* weights reach (n + 1) * 2^63 */
#define FAR ((wide)INT64_MAX << 63)

typedef struct edge {
    int64_t label, w;
} edge;

typedef struct market {
    int64_t n;
    int64_t *first;    /* [n + 1], edges of place i are first[i]..first[i + 1]-1 */
    edge *edges;       /* by place, then largest w first; the place's own label is always there */
    wide *price;       /* [n], by label */
    wide *profit;      /* [n], by place */
    int64_t *label_of; /* [n], by place; NOBODY while unmatched */
    int64_t *place_of; /* [n], by label; borrowed from the caller */
} market;

/* One search.  Labels that are not reached have distance FAR and are not in the heap. */
typedef struct search {
    wide *distance;   /* [n], by label */
    int64_t *from;    /* [n], by label: the place from which it was reached */
    int64_t *heap;    /* [n], labels, nearest first */
    int64_t *heap_at; /* [n], by label: its index in the heap, or NOBODY */
    int64_t *reached; /* [n], the labels that have a distance */
    int64_t nheap, nreached;
    wide bound;  /* the length of the shortest path to an end so far */
    int64_t end; /* the label at which it ends; NOBODY: the start */
} search;

static wide weight(const market *m, int64_t place, const edge *e) {
    return (wide)e->w * (m->n + 1) + (e->label == place);
}

/* Neither e nor any edge after it in its row weighs more. */
static wide ceiling(const market *m, const edge *e) { return (wide)e->w * (m->n + 1) + 1; }

static int heaviest_first(const void *a, const void *b) {
    const edge *x = a, *y = b;
    if (x->w != y->w) return x->w > y->w ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

/* Sorts edges into rows by counting.  The label of the place itself comes first (w = 0 unless it gains something).
 * Rows are then sorted by weight, so that reading can stop early. */
static void fill_edges(market *m, int64_t ngains, const rshi_gain *gains) {
    int64_t n = m->n, *next = m->label_of; /* not needed yet: it serves as the end of each row */
    for (int64_t i = 0; i < n; i++) next[i] = 1;
    for (int64_t g = 0; g < ngains; g++) next[gains[g].i] += gains[g].i != gains[g].j;
    m->first[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        m->first[i + 1] = m->first[i] + next[i];
        m->edges[m->first[i]] = (edge){i, 0};
        next[i] = m->first[i] + 1;
    }
    for (int64_t g = 0; g < ngains; g++) {
        int64_t i = gains[g].i, j = gains[g].j;
        m->edges[i == j ? m->first[i] : next[i]++] = (edge){j, gains[g].w};
    }
    for (int64_t i = 0; i < n; i++)
        qsort(m->edges + m->first[i], (size_t)(m->first[i + 1] - m->first[i]), sizeof *m->edges, heaviest_first);
}

static void market_close(market *m) {
    rshi_free(m->first);
    rshi_free(m->edges);
    rshi_free(m->price);
    rshi_free(m->profit);
    rshi_free(m->label_of);
}

static rsh_status market_open(market *m, int64_t n, int64_t ngains, const rshi_gain *gains, int64_t *place_of) {
    size_t size = (size_t)n;
    *m = (market){.n = n, .place_of = place_of};
    m->first = rshi_alloc(size + 1, sizeof *m->first);
    m->edges = rshi_alloc(size + (size_t)ngains, sizeof *m->edges);
    m->price = rshi_calloc(size, sizeof *m->price);
    m->profit = rshi_calloc(size, sizeof *m->profit);
    m->label_of = rshi_alloc(size, sizeof *m->label_of);
    if (!m->first || !m->edges || !m->price || !m->profit || !m->label_of) {
        market_close(m);
        return rshi_nomem();
    }
    fill_edges(m, ngains, gains);
    for (int64_t i = 0; i < n; i++) m->label_of[i] = NOBODY;
    return RSH_OK;
}

/* ---- bids ---- */

/* Returns the label that gives the place the most profit at current prices, or NOBODY, and the profits of the best
 * and the second-best choice.  Buying nothing is a choice too.  Among equal labels an unmatched one wins. */
static int64_t best_label(const market *m, int64_t place, wide *best, wide *second) {
    int64_t label = NOBODY;
    *best = *second = 0;
    for (const edge *e = m->edges + m->first[place], *end = m->edges + m->first[place + 1]; e < end; e++) {
        if (ceiling(m, e) < *second) break;
        wide net = weight(m, place, e) - m->price[e->label];
        bool better = net > *best || (net == *best && label != NOBODY && m->place_of[label] != NOBODY &&
                                      m->place_of[e->label] == NOBODY);
        if (better) {
            *second = *best;
            *best = net;
            label = e->label;
        } else if (net > *second) {
            *second = net;
        }
    }
    return label;
}

/* The place buys its best label at a price that leaves it `step` below its second choice.  Returns the place that
 * held the label.  Returns NOBODY if no place is displaced, or if the place buys nothing: there is no profit, or the
 * price of a held label would not rise. */
static int64_t bid(market *m, int64_t place, wide step) {
    wide best, second;
    int64_t label = best_label(m, place, &best, &second);
    if (label == NOBODY) return NOBODY;
    int64_t holder = m->place_of[label];
    wide rise = best - second + step;
    if (holder != NOBODY && rise == 0) return NOBODY;
    m->price[label] += rise;
    m->profit[place] = best - rise;
    m->label_of[place] = label;
    m->place_of[label] = place;
    if (holder != NOBODY) m->label_of[holder] = NOBODY;
    return holder;
}

/* Every place bids, then the place that it displaced, and so on for at most `patience` bids. */
static void bid_all(market *m, wide step, int64_t patience) {
    for (int64_t j = 0; j < m->n; j++) m->place_of[j] = NOBODY;
    for (int64_t i = 0; i < m->n; i++) {
        int64_t place = i;
        for (int64_t k = 0; k < patience && place != NOBODY; k++) place = bid(m, place, step);
    }
}

/* ---- search ---- */

static void search_close(search *s) {
    rshi_free(s->distance);
    rshi_free(s->from);
    rshi_free(s->heap);
    rshi_free(s->heap_at);
    rshi_free(s->reached);
}

static rsh_status search_open(search *s, int64_t n) {
    size_t size = (size_t)n;
    *s = (search){.distance = rshi_alloc(size, sizeof *s->distance),
                  .from = rshi_alloc(size, sizeof *s->from),
                  .heap = rshi_alloc(size, sizeof *s->heap),
                  .heap_at = rshi_alloc(size, sizeof *s->heap_at),
                  .reached = rshi_alloc(size, sizeof *s->reached)};
    if (!s->distance || !s->from || !s->heap || !s->heap_at || !s->reached) {
        search_close(s);
        return rshi_nomem();
    }
    for (int64_t j = 0; j < n; j++) {
        s->distance[j] = FAR;
        s->heap_at[j] = NOBODY;
    }
    return RSH_OK;
}

static void heap_put(search *s, int64_t at, int64_t label) {
    s->heap[at] = label;
    s->heap_at[label] = at;
}

/* Adds the label, or moves it up after its distance decreased. */
static void heap_raise(search *s, int64_t label) {
    int64_t at = s->heap_at[label];
    if (at == NOBODY) at = s->nheap++;
    for (; at > 0; at = (at - 1) / 2) {
        int64_t parent = s->heap[(at - 1) / 2];
        if (s->distance[parent] <= s->distance[label]) break;
        heap_put(s, at, parent);
    }
    heap_put(s, at, label);
}

static int64_t heap_take(search *s) {
    int64_t nearest = s->heap[0], label = s->heap[--s->nheap], at = 0;
    for (int64_t child = 1; child < s->nheap; child = 2 * at + 1) {
        if (child + 1 < s->nheap && s->distance[s->heap[child + 1]] < s->distance[s->heap[child]]) child++;
        if (s->distance[label] <= s->distance[s->heap[child]]) break;
        heap_put(s, at, s->heap[child]);
        at = child;
    }
    if (s->nheap > 0) heap_put(s, at, label);
    s->heap_at[nearest] = NOBODY;
    return nearest;
}

/* Reaches the labels of a place at `distance`.  The length of an edge is profit + price - weight.  A path may end at
 * an unmatched label, or at a matched one whose holder is then left out, which costs the holder's profit. */
static void reach_from(const market *m, search *s, int64_t place, wide distance) {
    wide start = distance + m->profit[place];
    for (const edge *e = m->edges + m->first[place], *last = m->edges + m->first[place + 1]; e < last; e++) {
        if (start - ceiling(m, e) >= s->bound) break; /* prices only increase it */
        int64_t label = e->label, holder = m->place_of[label];
        wide way = start - weight(m, place, e) + m->price[label];
        if (way >= s->bound || way >= s->distance[label]) continue;
        if (s->distance[label] == FAR) s->reached[s->nreached++] = label;
        s->distance[label] = way;
        s->from[label] = place;
        heap_raise(s, label);
        wide whole = way + (holder == NOBODY ? 0 : m->profit[holder]);
        if (whole >= s->bound) continue;
        s->bound = whole;
        s->end = label;
        if (whole <= distance) break;
    }
}

/* Updates prices so that the shortest path is tight, and clears the search. */
static void settle_prices(market *m, search *s, int64_t start) {
    m->profit[start] -= s->bound;
    for (int64_t k = 0; k < s->nreached; k++) {
        int64_t label = s->reached[k];
        wide rise = s->bound - s->distance[label];
        if (rise > 0) {
            m->price[label] += rise;
            m->profit[m->place_of[label]] -= rise;
        }
        s->distance[label] = FAR;
        s->heap_at[label] = NOBODY;
    }
    s->nreached = s->nheap = 0;
}

/* Every place on the path takes the label that it reached. */
static void swap_along(market *m, const search *s, int64_t start) {
    int64_t label = s->end, place = NOBODY;
    if (label == NOBODY) return;
    if (m->place_of[label] != NOBODY) m->label_of[m->place_of[label]] = NOBODY;
    while (place != start) {
        place = s->from[label];
        int64_t given_up = m->label_of[place];
        m->label_of[place] = label;
        m->place_of[label] = place;
        label = given_up;
    }
}

/* Matches one more place, or finds that leaving a place out is heaviest, by a shortest alternating path (Dijkstra). */
static void match_place(market *m, search *s, int64_t start) {
    wide second;
    best_label(m, start, &m->profit[start], &second);
    s->bound = m->profit[start];
    s->end = NOBODY;
    if (s->bound == 0) return;
    reach_from(m, s, start, 0);
    while (s->nheap > 0 && s->distance[s->heap[0]] < s->bound) {
        int64_t label = heap_take(s);
        reach_from(m, s, m->place_of[label], s->distance[label]);
    }
    settle_prices(m, s, start);
    swap_along(m, s, start);
}

/* ---- the two solvers ---- */

static void pair_unmatched(market *m) {
    int64_t place = 0;
    for (int64_t j = 0; j < m->n; j++) {
        if (m->place_of[j] != NOBODY) continue;
        while (m->label_of[place] != NOBODY) place++;
        m->place_of[j] = place++;
    }
}

/* Bids without a step match most places while the dual stays exact; a shortest path for each remaining place does
 * the rest. The cost is a sort of the edges and, for each remaining place, at worst all edges and n log n.  Sorted
 * rows and the bound on the path avoid most of that. */
rsh_status rshi_assign(int64_t n, int64_t ngains, const rshi_gain *gains, int64_t *place_of) {
    market m;
    search s;
    RSH_TRY(market_open(&m, n, ngains, gains, place_of));
    rsh_status st = search_open(&s, n);
    if (st == RSH_OK) {
        bid_all(&m, 0, PATIENCE);
        for (int64_t i = 0; i < n; i++)
            if (m.label_of[i] == NOBODY) match_place(&m, &s, i);
        pair_unmatched(&m);
        search_close(&s);
    }
    market_close(&m);
    return st;
}

/* 1/n of 1/PARTS of the weight of all labels at their best places, rounded up. */
static wide auction_step(market *m) {
    wide sum = 0, *best = m->price; /* not needed yet: it serves as the largest weight of each label */
    for (int64_t i = 0; i < m->n; i++)
        for (const edge *e = m->edges + m->first[i], *end = m->edges + m->first[i + 1]; e < end; e++)
            if (weight(m, i, e) > best[e->label]) best[e->label] = weight(m, i, e);
    for (int64_t j = 0; j < m->n; j++) {
        sum += best[j];
        best[j] = 0;
    }
    return sum / ((wide)PARTS * (m->n + 1)) + 1;
}

/* Is the matching heavier than the identity? */
static bool beats_identity(const market *m) {
    wide sum = 0, identity = 0;
    for (int64_t i = 0; i < m->n; i++)
        for (const edge *e = m->edges + m->first[i], *end = m->edges + m->first[i + 1]; e < end; e++) {
            if (m->place_of[e->label] == i) sum += weight(m, i, e);
            if (e->label == i) identity += weight(m, i, e);
        }
    return sum > identity;
}

/* An auction.  A bid raises a price by at least one step, and no price exceeds the value of the label by more than a
 * step, so there are at most about PARTS bids per label.  Every place ends within one step of its best choice, so
 * the sum falls short by at most n steps.  The cost is a sort of the edges and at worst one row per bid. */
rsh_status rshi_assign_approximate(int64_t n, int64_t ngains, const rshi_gain *gains, int64_t *place_of) {
    market m;
    RSH_TRY(market_open(&m, n, ngains, gains, place_of));
    bid_all(&m, auction_step(&m), INT64_MAX);
    pair_unmatched(&m);
    if (!beats_identity(&m))
        for (int64_t j = 0; j < n; j++) place_of[j] = j;
    market_close(&m);
    return RSH_OK;
}

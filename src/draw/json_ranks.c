/* Ranks: writes what ranks hold, keep, send and receive, for the page.  With few ranks all of them are listed; with
 * many, those that hold the corners of the picture, followed by the totals of every rank. */
#include "draw/impl.h"

#include "plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>

#define MOST_NAMED  64 /* limit of listed ranks */
#define MOST_OTHERS 16 /* limit of neighbours per rank that are not listed themselves */

typedef struct named {
    int64_t n;
    int64_t *rank; /* owned, ascending */
    bool all;
} named;

static int64_t sort_unique(int64_t *list, int64_t n) {
    int64_t k = 0;
    qsort(list, (size_t)n, sizeof *list, rshi_compare_int64);
    for (int64_t i = 0; i < n; i++)
        if (!k || list[i] != list[k - 1]) list[k++] = list[i];
    return k;
}

static bool has_few_ranks(const rshi_scene *s) {
    for (int i = 0; i < s->nsides; i++)
        if (rsh_layout_nranks(s->side[i].layout) > MOST_NAMED) return false;
    return true;
}

/* Keeps the first and the last ranks if there are too many. */
static void keep_most(named *out) {
    int64_t tail = MOST_NAMED / 4, head = MOST_NAMED - tail;
    if (out->n <= MOST_NAMED) return;
    out->all = false;
    for (int64_t i = 0; i < tail; i++) out->rank[head + i] = out->rank[out->n - tail + i];
    out->n = MOST_NAMED;
}

static void name_all(const rshi_side *side, named *out) {
    for (int64_t i = 0; i < rsh_layout_nranks(side->layout); i++)
        out->rank[out->n++] = rsh_layout_rank(side->layout, i);
}

/* Returns the i-th of up to HEAD + TAIL intervals, counted from both ends; -1: there are no more. */
#define HEAD 6
#define TAIL 2
static int from_ends(const rshi_borders *e, int i) {
    if (e->n <= HEAD + TAIL) return i < e->n ? i : -1;
    return i < HEAD ? i : e->n - HEAD - TAIL + i;
}

/* Lists the first holders of cells in the corners, which often exchange data with each other. */
static void name_corners(const rshi_scene *s, const rshi_side *side, named *out) {
    for (int i = 0; i < HEAD + TAIL; i++)
        for (int k = 0; k < HEAD + TAIL; k++) {
            int row = from_ends(&s->along[RSHI_ROWS], i), column = from_ends(&s->along[RSHI_COLUMNS], k);
            int h = row < 0 || column < 0 ? -1 : side->cell[rshi_scene_cell(s, 0, row, column)];
            if (h >= 0) out->rank[out->n++] = side->holders[h].ranks.first[0];
        }
}

static rsh_status name_ranks(const rshi_scene *s, named *out) {
    out->rank = rshi_calloc(2 * rshi_max(MOST_NAMED, (HEAD + TAIL) * (HEAD + TAIL)), sizeof *out->rank);
    if (!out->rank) return rshi_nomem();
    for (int i = 0; i < s->nsides; i++)
        if (has_few_ranks(s))
            name_all(&s->side[i], out);
        else
            name_corners(s, &s->side[i], out);
    out->n = sort_unique(out->rank, out->n);
    out->all = has_few_ranks(s);
    keep_most(out);
    return RSH_OK;
}

/* ---- neighbours ---- */

typedef struct listing {
    const named *ranks;
    const rsh_sink *sink;
    int64_t written, others;
    rsh_status status;
} listing;

static int put_peer(void *ctx, int64_t peer, int64_t bytes) {
    listing *l = ctx;
    bool own = bsearch(&peer, l->ranks->rank, (size_t)l->ranks->n, sizeof peer, rshi_compare_int64) != NULL;
    if (!own && l->others++ >= MOST_OTHERS) return 0;
    l->status = rshi_sink_format(l->sink, "%s[%" PRId64 ",%" PRId64 "]", l->written++ ? "," : "", peer, bytes);
    return l->status != RSH_OK;
}

static rsh_status put_peers(const rshi_scene *s, const named *ranks, int64_t rank, bool to, const rsh_sink *sink) {
    listing l = {ranks, sink, 0, 0, RSH_OK};
    RSH_TRY(rshi_sink_format(sink, ",\"%s\":[", to ? "to" : "from"));
    RSH_TRY(to ? rsh_plan_each_destination(s->plan, rank, put_peer, &l)
               : rsh_plan_each_source(s->plan, rank, put_peer, &l));
    RSH_TRY(l.status);
    return rshi_sink_text(sink, "]");
}

/* ---- what arrives in each stage ---- */

typedef struct arrival {
    int64_t source, bytes;
    int stage;
} arrival;

static int by_stage_and_source(const void *a, const void *b) {
    const arrival *x = a, *y = b;
    return x->stage != y->stage ? x->stage - y->stage : (x->source > y->source) - (x->source < y->source);
}

static int64_t count_sources(const rsh_transfer *t, int64_t n) {
    int64_t all = 0;
    for (int64_t i = 0; i < n; i++) all += t[i].nsrc;
    return all;
}

static int64_t take_sources(const rsh_transfer *t, int64_t n, arrival *out) {
    int64_t all = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < t[i].nsrc; k++)
            out[all++] = (arrival){t[i].src[k].rank, t[i].count * t[i].element_bytes, t[i].stage};
    return all;
}

/* Writes [stage, source, bytes] for the listed sources, each pair once. */
static rsh_status put_arrival_list(arrival *list, int64_t n, const named *ranks, const rsh_sink *sink) {
    int64_t written = 0;
    qsort(list, (size_t)n, sizeof *list, by_stage_and_source);
    for (int64_t i = 0, k; i < n; i = k) {
        int64_t bytes = 0;
        for (k = i; k < n && !by_stage_and_source(&list[i], &list[k]); k++) bytes += list[k].bytes;
        int64_t source = list[i].source;
        if (!bsearch(&source, ranks->rank, (size_t)ranks->n, sizeof source, rshi_compare_int64)) continue;
        RSH_TRY(rshi_sink_format(sink, "%s[%d,%" PRId64 ",%" PRId64 "]", written++ ? "," : "", list[i].stage,
                                 source, bytes));
    }
    return RSH_OK;
}

static rsh_status put_arrivals(const rshi_scene *s, const named *ranks, int64_t rank, const rsh_sink *sink) {
    rsh_share *share = NULL;
    arrival *list = NULL;
    rsh_status st = RSH_OK;
    if (s->stages < 2) return RSH_OK;
    RSH_TRY(rshi_plan_share(s->plan, rank, RSHI_SENDS_NONE, &share));
    int64_t received = count_sources(share->receives, share->nreceives), all = received;
    all += count_sources(share->copies, share->ncopies);
    RSH_GOTO((list = rshi_calloc((size_t)rshi_max(1, all), sizeof *list)) ? RSH_OK : rshi_nomem());
    take_sources(share->receives, share->nreceives, list);
    take_sources(share->copies, share->ncopies, list + received);
    RSH_GOTO(rshi_sink_text(sink, ",\"arrivals\":["));
    RSH_GOTO(put_arrival_list(list, all, ranks, sink));
    RSH_GOTO(rshi_sink_text(sink, "]"));
out:
    rshi_free(list);
    rsh_share_free(share);
    return st;
}

static rsh_status put_moved(const rshi_scene *s, const named *ranks, int64_t rank, const rsh_sink *sink) {
    rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
    RSH_TRY(rsh_plan_get_rank_totals(s->plan, rank, &v));
    RSH_TRY(rshi_sink_format(sink,
                             ",\"sent\":%" PRId64 ",\"received\":%" PRId64 ",\"kept\":%" PRId64 ",\"nto\":%" PRId64
                             ",\"nfrom\":%" PRId64,
                             v.bytes_sent, v.bytes_received, v.bytes_local, v.nsend, v.nrecv));
    RSH_TRY(put_peers(s, ranks, rank, true, sink));
    RSH_TRY(put_peers(s, ranks, rank, false, sink));
    return put_arrivals(s, ranks, rank, sink);
}

/* ---- holdings ---- */

rsh_status rshi_held_bytes(const rsh_layout *l, int64_t rank, int64_t *bytes) {
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l));
    *bytes = 0;
    for (int64_t i = 0; i < rsh_layout_nparts(l, rank); i++) {
        rsh_part part;
        RSH_TRY(rsh_layout_part(l, rank, i, &part));
        *bytes += part.count * size;
    }
    return RSH_OK;
}

/* Writes the bytes that a rank holds of the tensor, and its coordinates on the mesh. */
static rsh_status put_place(const rsh_layout *l, int64_t rank, const rsh_sink *sink) {
    const rsh_layout_desc *d = rsh_layout_describe(l);
    int64_t bytes, position = rshi_layout_position(l, rank);
    RSH_TRY(rshi_held_bytes(l, rank, &bytes));
    RSH_TRY(rshi_sink_format(sink, "[%" PRId64, bytes));
    for (int a = 0; a < d->naxes && !d->is_boxes && position >= 0; a++)
        RSH_TRY(rshi_sink_format(sink, ",%" PRId64, position / rshi_layout_axis_step(l, a) % d->axis[a].size));
    return rshi_sink_text(sink, "]");
}

static rsh_status put_rank(const rshi_scene *s, const named *ranks, int64_t rank, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_format(sink, "{\"rank\":%" PRId64 ",\"places\":[", rank));
    for (int i = 0; i < s->nsides; i++) {
        if (i) RSH_TRY(rshi_sink_text(sink, ","));
        RSH_TRY(put_place(s->side[i].layout, rank, sink));
    }
    RSH_TRY(rshi_sink_text(sink, "]"));
    if (s->plan) RSH_TRY(put_moved(s, ranks, rank, sink));
    return rshi_sink_text(sink, "}");
}

static rsh_status put_ranks(const rshi_scene *s, const named *ranks, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_text(sink, "\"ranks\":["));
    for (int64_t i = 0; i < ranks->n; i++) {
        RSH_TRY(rshi_sink_text(sink, i ? ",\n" : "\n"));
        RSH_TRY(put_rank(s, ranks, ranks->rank[i], sink));
    }
    return rshi_sink_text(sink, "],\n");
}

rsh_status rshi_json_ranks(const rshi_scene *s, const rsh_sink *sink) {
    named ranks = {0};
    rsh_status st = name_ranks(s, &ranks);
    if (!st) st = put_ranks(s, &ranks, sink);
    if (!st && !ranks.all) st = rshi_json_every(s, sink);
    rshi_free(ranks.rank);
    return st;
}

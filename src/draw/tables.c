/* Tables: what the plan costs, and a map of the bytes between ranks, for the HTML page. */
#include "draw/impl.h"

#include <inttypes.h>

#define MAPPED 64 /* ranks that a map can show */
#define MAP_SIDE 420

static rsh_status put_bytes(const rsh_sink *sink, const char *what, int64_t bytes) {
    char label[RSHI_DRAW_LABEL];
    rshi_bytes_label(bytes, label);
    return rshi_sink_format(sink, "<tr><td>%s<td class=\"n\">%" PRId64 "<td class=\"n\">%s</tr>\n", what, bytes, label);
}

static rsh_status put_count(const rsh_sink *sink, const char *what, int64_t n) {
    return rshi_sink_format(sink, "<tr><td>%s<td class=\"n\">%" PRId64 "<td></tr>\n", what, n);
}

static rsh_status put_totals(const rshi_scene *s, const rsh_sink *sink) {
    const rsh_plan_totals *t = &s->totals;
    RSH_TRY(rshi_sink_text(sink, "<div><h2>Totals</h2>\n<table id=\"totals\">\n"));
    RSH_TRY(put_count(sink, "ranks", rsh_plan_nranks(s->plan)));
    RSH_TRY(put_bytes(sink, "tensor", t->tensor_bytes));
    RSH_TRY(put_bytes(sink, "moves between ranks", t->bytes_moved));
    RSH_TRY(put_bytes(sink, "the least possible", t->lower_bound));
    RSH_TRY(put_bytes(sink, "copied within a rank", t->bytes_local));
    if (t->bytes_between_nodes) RSH_TRY(put_bytes(sink, "between nodes", t->bytes_between_nodes));
    RSH_TRY(put_bytes(sink, "most that a rank sends", t->max_send));
    RSH_TRY(put_bytes(sink, "most that a rank receives", t->max_recv));
    RSH_TRY(put_count(sink, "messages", t->messages));
    RSH_TRY(put_bytes(sink, "scratch of a rank", t->scratch_bytes));
    return rshi_sink_format(sink,
                            "<tr><td>fingerprint<td class=\"n\">%016" PRIx64 "<td></tr>\n</table></div>\n",
                            rsh_plan_fingerprint(s->plan));
}

typedef struct map {
    const rsh_sink *sink;
    int64_t n, rank[MAPPED]; /* ascending, of both layouts */
    int64_t bytes[MAPPED][MAPPED]; /* [source][destination] */
    int64_t most;
} map;

static void add_rank(map *m, int64_t rank) {
    int64_t i = m->n;
    while (i > 0 && m->rank[i - 1] > rank) i--;
    if (i > 0 && m->rank[i - 1] == rank) return;
    for (int64_t k = m->n++; k > i; k--) m->rank[k] = m->rank[k - 1];
    m->rank[i] = rank;
}

static int64_t place(const map *m, int64_t rank) {
    int64_t i = 0;
    while (i < m->n && m->rank[i] != rank) i++;
    return i;
}

/* A plan of many tensors has ranks that these two layouts do not: they are not in the map. */
static int add_bytes(void *ctx, int64_t source, int64_t destination, int64_t bytes) {
    map *m = ctx;
    int64_t i = place(m, source), j = place(m, destination);
    if (i == m->n || j == m->n) return 0;
    m->bytes[i][j] = bytes;
    m->most = rshi_max(m->most, bytes);
    return 0;
}

static rsh_status put_cell(const map *m, int64_t i, int64_t j, int side) {
    char label[RSHI_DRAW_LABEL];
    int64_t bytes = m->bytes[i][j];
    rshi_bytes_label(bytes, label);
    rshi_colour k =
        bytes ? rshi_colour_heat(0.12 + 0.88 * (double)bytes / (double)m->most) : (rshi_colour){250, 250, 250};
    return rshi_sink_format(
        m->sink,
        "<rect id=\"bytes-%" PRId64 "-%" PRId64 "\" class=\"%s\" data-source=\"%" PRId64 "\" x=\"%d\" y=\"%d\" "
        "width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"><title>%" PRId64 " to %" PRId64 ": %s</title></rect>\n",
        m->rank[i], m->rank[j], i == j ? "local" : "sent", m->rank[i], 40 + (int)j * side, 40 + (int)i * side, side - 1,
        side - 1, (unsigned)k.red, (unsigned)k.green, (unsigned)k.blue, m->rank[i], m->rank[j], label);
}

/* Rank numbers along both sides, where a number has room. */
static rsh_status put_sides(const map *m, int side) {
    int64_t every = side >= 14 ? 1 : 8;
    for (int64_t i = 0; i < m->n; i += every) {
        int middle = 40 + (int)i * side + side / 2;
        RSH_TRY(rshi_sink_format(m->sink,
                                 "<text class=\"tick\" x=\"34\" y=\"%d\" text-anchor=\"end\">%" PRId64 "</text>"
                                 "<text class=\"tick\" x=\"%d\" y=\"30\" text-anchor=\"middle\">%" PRId64 "</text>\n",
                                 middle, m->rank[i], middle, m->rank[i]));
    }
    return RSH_OK;
}

static rsh_status put_map(const map *m) {
    int side = (int)rshi_max(6, rshi_min(36, MAP_SIDE / m->n)), all = 48 + (int)m->n * side;
    RSH_TRY(rshi_sink_format(
        m->sink,
        "<div><h2>Bytes between ranks</h2>\n<svg id=\"map\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
        "<text class=\"note\" x=\"40\" y=\"12\">destination</text>\n"
        "<text class=\"note\" transform=\"translate(12 40) rotate(-90)\" text-anchor=\"end\">source</text>\n",
        all, all, all, all));
    RSH_TRY(put_sides(m, side));
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t j = 0; j < m->n; j++) RSH_TRY(put_cell(m, i, j, side));
    return rshi_sink_text(m->sink, "</svg></div>\n");
}

static rsh_status draw_map(const rshi_scene *s, map *m) {
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < rsh_layout_nranks(s->side[side].layout); i++)
            add_rank(m, rsh_layout_rank(s->side[side].layout, i));
    RSH_TRY(rsh_plan_matrix(s->plan, add_bytes, m));
    return m->n ? put_map(m) : RSH_OK;
}

rsh_status rshi_html_tables(const rshi_scene *s, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_text(sink, "<div class=\"tables\">\n"));
    RSH_TRY(put_totals(s, sink));
    if (rsh_plan_nranks(s->plan) <= MAPPED) {
        map *m = RSHI_NEW(map);
        if (!m) return rshi_nomem();
        m->sink = sink;
        rsh_status st = draw_map(s, m);
        rshi_free(m);
        RSH_TRY(st);
    }
    return rshi_sink_text(sink, "</div>\n");
}

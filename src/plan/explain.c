/* Explain: prints a plan, or one rank of it, as text or JSON. */
#include "plan/impl.h"

#include <jansson.h>

static json_t *json_bytes(int64_t x) { return json_integer((json_int_t)x); }

static void add_layouts(json_t *o, const rsh_plan *p) {
    json_t *list = json_array();
    for (int64_t t = 0; t < p->n; t++) {
        json_t *pair = json_object();
        json_object_set_new(pair, "from", json_string(rsh_layout_text(rshi_plan_src(p, t))));
        json_object_set_new(pair, "to", json_string(rsh_layout_text(rshi_plan_dst(p, t))));
        json_array_append_new(list, pair);
    }
    json_object_set_new(o, "tensors", list);
}

/* ---- per dim: number of source parts, of destination parts, and of pairs that overlap ---- */

typedef struct factor {
    int64_t from_parts, to_parts, meetings;
} factor;

static rsh_status count_factor(const rsh_plan *p, int d, factor *out) {
    const rsh_layout *from = p->pair[0].from, *to = p->pair[0].to;
    *out = (factor){rshi_layout_cut_parts(from, d), rshi_layout_cut_parts(to, d), 0};
    for (int64_t c = 0; c < out->from_parts; c++) {
        rshi_stripe a = rshi_layout_cut_stripe(from, d, c);
        int64_t n = 0;
        if (a.count) RSH_TRY(rshi_layout_cut_count(to, d, &a, &n));
        out->meetings += n;
    }
    return RSH_OK;
}

static bool has_factors(const rsh_plan *p) {
    return p->n == 1 && rshi_layout_plain(p->pair[0].from) && rshi_layout_plain(p->pair[0].to);
}

static rsh_status add_factors(json_t *o, const rsh_plan *p) {
    json_t *list = json_array();
    json_object_set_new(o, "dims", list);
    for (int d = 0; d < rsh_layout_ndim(p->pair[0].to); d++) {
        factor f;
        RSH_TRY(count_factor(p, d, &f));
        json_t *dim = json_object();
        json_object_set_new(dim, "from_parts", json_bytes(f.from_parts));
        json_object_set_new(dim, "to_parts", json_bytes(f.to_parts));
        json_object_set_new(dim, "meetings", json_bytes(f.meetings));
        json_array_append_new(list, dim);
    }
    return RSH_OK;
}

static json_t *totals_json(const rsh_plan *p, const rsh_plan_totals *t) {
    char hex[24];
    json_t *o = json_object();
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)p->fingerprint);
    add_layouts(o, p);
    json_object_set_new(o, "ranks", json_bytes(p->nranks));
    json_object_set_new(o, "stages", json_integer(rshi_plan_stages(p)));
    json_object_set_new(o, "tensor_bytes", json_bytes(t->tensor_bytes));
    json_object_set_new(o, "bytes_moved", json_bytes(t->bytes_moved));
    json_object_set_new(o, "lower_bound", json_bytes(t->lower_bound));
    json_object_set_new(o, "bytes_local", json_bytes(t->bytes_local));
    json_object_set_new(o, "bytes_between_nodes", json_bytes(t->bytes_between_nodes));
    json_object_set_new(o, "lower_bound_between_nodes", json_bytes(t->lower_bound_between_nodes));
    json_object_set_new(o, "max_send", json_bytes(t->max_send));
    json_object_set_new(o, "max_recv", json_bytes(t->max_recv));
    json_object_set_new(o, "messages", json_bytes(t->messages));
    json_object_set_new(o, "scratch_bytes", json_bytes(t->scratch_bytes));
    json_object_set_new(o, "fingerprint", json_string(hex));
    return o;
}

static int add_stage(void *ctx, int stage, const char *what, int64_t moved, int64_t between) {
    json_t *o = json_object();
    (void)stage;
    json_object_set_new(o, "what", json_string(what));
    json_object_set_new(o, "bytes_moved", json_bytes(moved));
    json_object_set_new(o, "bytes_between_nodes", json_bytes(between));
    return json_array_append_new(ctx, o);
}

static rsh_status add_chain(json_t *o, const rsh_plan *p) {
    json_t *list = json_array();
    json_object_set_new(o, "chain", list);
    return rsh_plan_each_stage(p, add_stage, list);
}

static int add_neighbour(void *ctx, int64_t peer, int64_t bytes) {
    json_t *pair = json_array();
    json_array_append_new(pair, json_bytes(peer));
    json_array_append_new(pair, json_bytes(bytes));
    return json_array_append_new(ctx, pair);
}

static rsh_status rank_json(const rsh_plan *p, int64_t rank, json_t *o) {
    rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
    RSH_TRY(rsh_plan_get_rank_totals(p, rank, &v));
    json_t *in = json_array(), *out = json_array();
    json_object_set_new(o, "rank", json_bytes(rank));
    json_object_set_new(o, "bytes_sent", json_bytes(v.bytes_sent));
    json_object_set_new(o, "bytes_received", json_bytes(v.bytes_received));
    json_object_set_new(o, "bytes_local", json_bytes(v.bytes_local));
    json_object_set_new(o, "scratch_bytes", json_bytes(v.scratch_bytes));
    json_object_set_new(o, "sources", in);
    json_object_set_new(o, "destinations", out);
    RSH_TRY(rsh_plan_each_source(p, rank, add_neighbour, in));
    return rsh_plan_each_destination(p, rank, add_neighbour, out);
}

static int write_piece(const char *text, size_t length, void *ctx) {
    const rsh_sink *sink = ctx;
    return length ? sink->write(sink->ctx, text, length) : 0;
}

static rsh_status write_json(const json_t *o, const rsh_sink *sink) {
    RSH_REQUIRE(!json_dump_callback(o, write_piece, (void *)sink, JSON_INDENT(1)), RSH_EIO,
                "JSON could not be written to the sink");
    return rshi_sink_text(sink, "\n");
}

static rsh_status print_json(const rsh_plan *p, int64_t rank, const rsh_sink *sink) {
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    json_t *o = NULL;
    rsh_status st;
    if (rank < 0) {
        RSH_GOTO(rsh_plan_get_totals(p, &t));
        o = totals_json(p, &t);
        RSH_GOTO(add_chain(o, p));
        if (has_factors(p)) RSH_GOTO(add_factors(o, p));
    } else {
        o = json_object();
        RSH_GOTO(rank_json(p, rank, o));
    }
    RSH_GOTO(write_json(o, sink));
out:
    json_decref(o);
    return st;
}

/* ---- text ---- */

static rsh_status line(const rsh_sink *sink, const char *name, int64_t value) {
    return rshi_sink_format(sink, "  %-26s %lld\n", name, (long long)value);
}

static rsh_status print_layouts(const rsh_plan *p, const rsh_sink *sink) {
    for (int64_t t = 0; t < p->n; t++) {
        RSH_TRY(rshi_sink_text(sink, "from "));
        RSH_TRY(rshi_sink_text(sink, rsh_layout_text(rshi_plan_src(p, t))));
        RSH_TRY(rshi_sink_text(sink, "\nto   "));
        RSH_TRY(rshi_sink_text(sink, rsh_layout_text(rshi_plan_dst(p, t))));
        RSH_TRY(rshi_sink_text(sink, "\n"));
    }
    return RSH_OK;
}

static rsh_status print_factors(const rsh_plan *p, const rsh_sink *sink) {
    for (int d = 0; d < rsh_layout_ndim(p->pair[0].to); d++) {
        factor f;
        RSH_TRY(count_factor(p, d, &f));
        RSH_TRY(rshi_sink_format(sink, "  dim %d: %lld parts meet %lld parts in %lld overlaps\n", d,
                                 (long long)f.from_parts, (long long)f.to_parts, (long long)f.meetings));
    }
    return RSH_OK;
}

typedef struct stage_lines {
    const rsh_sink *sink;
    bool nodes;
    rsh_status st;
} stage_lines;

static int print_stage(void *ctx, int stage, const char *what, int64_t moved, int64_t between) {
    stage_lines *l = ctx;
    l->st = rshi_sink_format(l->sink, "    %d: %s: %lld bytes", stage, what, (long long)moved);
    if (!l->st && l->nodes) l->st = rshi_sink_format(l->sink, ", %lld between nodes", (long long)between);
    if (!l->st) l->st = rshi_sink_text(l->sink, "\n");
    return l->st != RSH_OK;
}

static rsh_status print_stages(const rsh_plan *p, const rsh_sink *sink) {
    stage_lines l = {sink, rshi_plan_has_nodes(p), RSH_OK};
    RSH_TRY(line(sink, "stages", rshi_plan_stages(p)));
    RSH_TRY(rsh_plan_each_stage(p, print_stage, &l));
    return l.st;
}

static rsh_status print_totals(const rsh_plan *p, const rsh_sink *sink) {
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    RSH_TRY(rsh_plan_get_totals(p, &t));
    RSH_TRY(print_layouts(p, sink));
    if (has_factors(p)) RSH_TRY(print_factors(p, sink));
    RSH_TRY(line(sink, "ranks", p->nranks));
    RSH_TRY(print_stages(p, sink));
    RSH_TRY(line(sink, "tensor bytes", t.tensor_bytes));
    RSH_TRY(line(sink, "bytes moved", t.bytes_moved));
    RSH_TRY(line(sink, "lower bound", t.lower_bound));
    RSH_TRY(line(sink, "bytes local", t.bytes_local));
    if (rshi_plan_has_nodes(p)) {
        RSH_TRY(line(sink, "bytes between nodes", t.bytes_between_nodes));
        RSH_TRY(line(sink, "lower bound between nodes", t.lower_bound_between_nodes));
    }
    RSH_TRY(line(sink, "largest send", t.max_send));
    RSH_TRY(line(sink, "largest receive", t.max_recv));
    RSH_TRY(line(sink, "messages", t.messages));
    RSH_TRY(line(sink, "scratch bytes", t.scratch_bytes));
    return rshi_sink_format(sink, "  %-26s %016llx\n", "fingerprint", (unsigned long long)p->fingerprint);
}

typedef struct listing {
    const rsh_sink *sink;
    rsh_status st;
} listing;

static int print_neighbour(void *ctx, int64_t peer, int64_t bytes) {
    listing *l = ctx;
    l->st = rshi_sink_format(l->sink, "    rank %-8lld %lld\n", (long long)peer, (long long)bytes);
    return l->st != RSH_OK;
}

static rsh_status print_rank(const rsh_plan *p, int64_t rank, const rsh_sink *sink) {
    rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
    listing l = {sink, RSH_OK};
    RSH_TRY(rsh_plan_get_rank_totals(p, rank, &v));
    RSH_TRY(rshi_sink_format(sink, "rank %lld: sends %lld bytes to %lld, receives %lld from %lld, keeps %lld\n  from\n",
                             (long long)rank, (long long)v.bytes_sent, (long long)v.nsend, (long long)v.bytes_received,
                             (long long)v.nrecv, (long long)v.bytes_local));
    RSH_TRY(rsh_plan_each_source(p, rank, print_neighbour, &l));
    RSH_TRY(l.st);
    RSH_TRY(rshi_sink_text(sink, "  to\n"));
    RSH_TRY(rsh_plan_each_destination(p, rank, print_neighbour, &l));
    return l.st;
}

rsh_status rsh_plan_print(const rsh_plan *p, int64_t rank, rsh_print_format form, const rsh_sink *sink) {
    RSH_NEEDS(p);
    RSH_REQUIRE(sink && sink->write, RSH_EVALUE, "printing a plan needs a sink with a write function");
    RSH_REQUIRE(form == RSH_PRINT_TEXT || form == RSH_PRINT_JSON, RSH_EVALUE,
                "form must be a value of rsh_print_format, got %d", (int)form);
    if (form == RSH_PRINT_JSON) return print_json(p, rank, sink);
    return rank < 0 ? print_totals(p, sink) : print_rank(p, rank, sink);
}

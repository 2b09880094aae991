/* Explain: plans a move and prints its cost. */
#include "new_file.h"
#include "explain.h"
#include "interrupt.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { JSON = 256, MATRIX, SVG, HTML, RANKS_PER_NODE, RELABEL, BY_NODE };

#define FEW_TO_TRY 256 /* number of ranks up to which a second plan takes negligible time */

#define MOST_RANKS ((int64_t)1 << 22)   /* ranks of a layout, at most; each takes about 400 bytes */
#define MOST_ENTRIES ((int64_t)1 << 24) /* most entries of a matrix */

static const struct argp_option options[] = {
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {.name = "matrix", .key = MATRIX, .doc = "add the bytes from each rank to each rank, including itself"},
    {.name = "svg", .key = SVG, .arg = "FILE", .doc = "draw the move; - writes only the picture, to stdout"},
    {.name = "html", .key = HTML, .arg = "FILE", .doc = "draw the move as a page with tables"},
    {.name = "ranks-per-node",
     .key = RANKS_PER_NODE,
     .arg = "N",
     .doc = "ranks 0..N-1 share a node, N..2N-1 the next, ..."},
    {.name = "by-node", .key = BY_NODE, .doc = "reduce within each node first"},
    {.name = "relabel", .key = RELABEL, .doc = "first renumber the ranks of TO, so that fewer bytes move"},
    {0}};

static bool is_stdout(const char *name) { return name && !strcmp(name, "-"); }

static error_t parse(int key, char *word, struct argp_state *state) {
    explanation *e = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &e->pair; return 0;
    case JSON: e->json = true; return 0;
    case MATRIX: e->matrix = true; return 0;
    case SVG: e->svg = word; return 0;
    case HTML: e->html = word; return 0;
    case BY_NODE: e->by_node = true; return 0;
    case RELABEL: e->relabel = true; return 0;
    case RANKS_PER_NODE:
        if (!parse_count(word, 1, &e->ranks_per_node))
            argp_error(state, "--ranks-per-node must be at least 1, got '%s'", word);
        return 0;
    case ARGP_KEY_END:
        if ((e->svg && !*e->svg) || (e->html && !*e->html)) argp_error(state, "--svg and --html need a file name");
        if (e->svg && e->html && !is_stdout(e->svg) && !strcmp(e->svg, e->html))
            argp_error(state, "--svg and --html would both write to '%s'", e->svg);
        if (is_stdout(e->svg) + is_stdout(e->html) + (e->json && (is_stdout(e->svg) || is_stdout(e->html))) > 1)
            argp_error(state, "only one of --svg=-, --html=- and --json can go to stdout");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &layout_pair_argp}, {0}};
static const struct argp explain_argp = {
    options,  parse, "FROM TO", "Prints what a move from layout FROM to layout TO costs: bytes, messages, memory.",
    children, NULL,  NULL};

/* ---- planning ---- */

static rsh_status make_plan(explanation *e, const rsh_plan_opts *opts) {
    double start = clock_seconds();
    rsh_status st = rsh_plan_new(e->pair.from, e->pair.to, opts, &e->plan);
    e->totals.struct_size = sizeof e->totals;
    if (!st) st = rsh_plan_get_totals_with(e->plan, progress_tell_plan, NULL, &e->totals);
    e->seconds = clock_seconds() - start;
    return st;
}

/* Renumbers the ranks of TO.  The plan without relabelling is made only to report what relabelling saves. */
static rsh_status relabel_ranks(explanation *e, const rsh_plan_opts *opts) {
    const rsh_layout *from = e->pair.from, *old = e->pair.to;
    rsh_layout *to = NULL;
    rsh_plan_opts search = *opts;
    search.approximate = true;
    rsh_status st = make_plan(e, opts);
    if (!st) st = rsh_plan_relabel(1, &from, &old, &search, &to, &e->relabel_exact);
    if (st) return st;
    e->moved_before = e->totals.bytes_moved;
    rsh_plan_free(e->plan);
    e->plan = NULL;
    rsh_layout_free(e->pair.to);
    e->pair.to = to;
    return RSH_OK;
}

/* Computes the bytes between nodes if contributions are combined in the other order. */
static rsh_status try_other_order(explanation *e, const rsh_plan_opts *opts) {
    rsh_plan_opts other = *opts;
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    rsh_plan *p = NULL;
    bool reduces = rsh_layout_op(e->pair.from) && !rsh_layout_op(e->pair.to);
    if (!reduces || !e->ranks_per_node || (!e->by_node && rsh_plan_nranks(e->plan) > FEW_TO_TRY)) return RSH_OK;
    other.reduce = e->by_node ? RSH_REDUCE_IN_ORDER : RSH_REDUCE_BY_NODE;
    rsh_status st = rsh_plan_new(e->pair.from, e->pair.to, &other, &p);
    if (!st) st = rsh_plan_get_totals_with(p, progress_tell_plan, NULL, &totals);
    rsh_plan_free(p);
    if (st) return st;
    e->has_other = true;
    e->other_between_nodes = totals.bytes_between_nodes;
    return RSH_OK;
}

static rsh_status plan_move(explanation *e) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.ranks_per_node = e->ranks_per_node;
    opts.reduce = e->by_node ? RSH_REDUCE_BY_NODE : RSH_REDUCE_IN_ORDER;
    rsh_status st = e->relabel ? relabel_ranks(e, &opts) : RSH_OK;
    if (!st) st = make_plan(e, &opts);
    return st ? st : try_other_order(e, &opts);
}

/* ---- answers ---- */

static int refuse_ranks(const explanation *e) {
    int64_t a = rsh_layout_nranks(e->pair.from), b = rsh_layout_nranks(e->pair.to), most = a > b ? a : b;
    if (most <= MOST_RANKS) return DONE;
    return fail("too many ranks: explain supports at most %" PRId64 ", got %" PRId64, MOST_RANKS, most);
}

static int refuse_matrix(const explanation *e) {
    int64_t entries = e->totals.messages;
    if (!e->matrix || entries <= MOST_ENTRIES) return DONE;
    return fail("--matrix: the matrix has more than %" PRId64 " entries; at most %" PRId64 " are supported", entries,
                MOST_ENTRIES);
}

/* The output file of a picture, and the first error of writing it. */
typedef struct drawing {
    FILE *file;
    int error;
} drawing;

static int put_picture(void *ctx, const char *text, size_t length) {
    drawing *d = ctx;
    if (fwrite(text, 1, length, d->file) == length) return 0;
    d->error = errno;
    return 1;
}

static int draw_stdout(const explanation *e, rsh_picture_format form) {
    rsh_sink sink = {to_stream, stdout};
    rsh_status st = rsh_draw_plan(e->plan, 0, form, &sink);
    return !st ? DONE : st == RSH_EIO ? FAILED : fail_library(st); /* close_stdout reports errors of stdout */
}

static int draw_file(const explanation *e, const char *name, rsh_picture_format form) {
    new_file to;
    if (!name) return DONE;
    if (is_stdout(name)) return draw_stdout(e, form);
    int fd = new_file_open(&to, name);
    if (fd < 0) return fail("%s: %s", name, strerror(errno));
    drawing d = {fdopen(dup(fd), "w"), 0};
    rsh_sink sink = {put_picture, &d};
    rsh_status st = d.file ? rsh_draw_plan(e->plan, 0, form, &sink) : RSH_ENOMEM;
    if (d.file && fclose(d.file) && !d.error) d.error = errno;
    if (d.error || st)
        new_file_abandon(&to, fd);
    else if (new_file_publish(&to, fd))
        d.error = errno;
    if (d.error) return fail("%s: %s", name, strerror(d.error));
    return st ? fail_library(st) : DONE;
}

static int print_explanation(const explanation *e) {
    if (refuse_matrix(e)) return FAILED;
    if (draw_file(e, e->svg, RSH_PICTURE_SVG) || draw_file(e, e->html, RSH_PICTURE_HTML)) return FAILED;
    if (is_stdout(e->svg) || is_stdout(e->html)) return DONE; /* the picture is the answer */
    return e->json ? explain_json(e) : explain_text(e);
}

int cmd_explain(int argc, char **argv) {
    explanation e = {0};
    int result = FAILED;
    argp_parse(&explain_argp, argc, argv, 0, NULL, &e);
    if (layout_pair_parse(&e.pair) && refuse_ranks(&e) == DONE) {
        interrupt_leaves("nothing was written");
        progress_plan("explain", layout_pair_group(&e.pair));
        rsh_status st = plan_move(&e);
        progress_end();
        result = st ? fail_library(st) : print_explanation(&e);
    }
    rsh_plan_free(e.plan);
    layout_pair_free(&e.pair);
    return result;
}

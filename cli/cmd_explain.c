/* Explain: plan a move and say what it costs. */
#include "explain.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { JSON = 256, MATRIX, SVG, HTML, RANKS_PER_NODE, RELABEL, BY_NODE };

#define FEW_TO_TRY 256 /* ranks: a second plan then takes no time that anybody would notice */

#define MOST_RANKS ((int64_t)1 << 22)   /* of a layout: some 400 bytes each, and seconds for a million */
#define MOST_ENTRIES ((int64_t)1 << 24) /* of a matrix */

static const struct argp_option options[] = {
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {.name = "matrix", .key = MATRIX, .doc = "with the bytes from each rank to each other (itself too)"},
    {.name = "svg", .key = SVG, .arg = "FILE", .doc = "draw the move into FILE"},
    {.name = "html", .key = HTML, .arg = "FILE", .doc = "the same as a page with tables"},
    {.name = "ranks-per-node",
     .key = RANKS_PER_NODE,
     .arg = "N",
     .doc = "ranks 0..N-1 share a node, N..2N-1 the next, ..."},
    {.name = "by-node", .key = BY_NODE, .doc = "reductions combine what lies on each node first"},
    {.name = "relabel", .key = RELABEL, .doc = "first renumber the ranks of TO so that most bytes stay where they are"},
    {0}};

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
        if (!parse_count(word, 1, &e->ranks_per_node)) argp_error(state, "'%s' is not a number of ranks", word);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &layout_pair_argp}, {0}};
static const struct argp explain_argp = {
    options,  parse, "FROM TO", "What a move from layout FROM to layout TO costs: bytes, messages, memory.",
    children, NULL,  NULL};

/* ---- planning ---- */

static rsh_status make_plan(explanation *e, const rsh_plan_opts *opts) {
    double start = clock_seconds();
    rsh_status st = rsh_plan_new(e->pair.from, e->pair.to, opts, &e->plan);
    if (!st) st = rsh_plan_get_totals(e->plan, &e->totals);
    e->seconds = clock_seconds() - start;
    return st;
}

/* The plan as given is made only to say what relabelling saves. */
static rsh_status relabel(explanation *e, const rsh_plan_opts *opts) {
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

/* What passes between nodes if reductions combine the other way. */
static rsh_status try_other(explanation *e, const rsh_plan_opts *opts) {
    rsh_plan_opts other = *opts;
    rsh_plan_totals totals;
    rsh_plan *p = NULL;
    bool reduces = rsh_layout_op(e->pair.from) && !rsh_layout_op(e->pair.to);
    if (!reduces || !e->ranks_per_node || (!e->by_node && rsh_plan_nranks(e->plan) > FEW_TO_TRY)) return RSH_OK;
    other.reduce = e->by_node ? RSH_REDUCE_IN_ORDER : RSH_REDUCE_BY_NODE;
    rsh_status st = rsh_plan_new(e->pair.from, e->pair.to, &other, &p);
    if (!st) st = rsh_plan_get_totals(p, &totals);
    rsh_plan_free(p);
    if (st) return st;
    e->has_other = true;
    e->other_between_nodes = totals.bytes_between_nodes;
    return RSH_OK;
}

static rsh_status plan(explanation *e) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.ranks_per_node = e->ranks_per_node;
    opts.reduce = e->by_node ? RSH_REDUCE_BY_NODE : RSH_REDUCE_IN_ORDER;
    rsh_status st = e->relabel ? relabel(e, &opts) : RSH_OK;
    if (!st) st = make_plan(e, &opts);
    return st ? st : try_other(e, &opts);
}

/* ---- progress, for who waits at a terminal ---- */

static volatile sig_atomic_t waited; /* seconds */

static void tell_time(int signal) {
    char line[] = "\rplanning for      s";
    int seconds = waited++;
    (void)signal;
    for (int i = 17; seconds && i > 13; i--, seconds /= 10) line[i] = (char)('0' + seconds % 10);
    ssize_t told = waited > 2 ? write(STDERR_FILENO, line, sizeof line - 1) : 0;
    (void)told;
}

static void watch(bool on) {
    struct sigaction act = {.sa_handler = on ? tell_time : SIG_DFL, .sa_flags = SA_RESTART};
    struct itimerval each = {{on, 0}, {on, 0}};
    if (!isatty(STDERR_FILENO)) return;
    if (on) sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
    if (!on) sigaction(SIGALRM, &act, NULL);
    if (!on && waited > 2) fputs("\r                    \r", stderr);
}

/* ---- answers ---- */

static int refuse_ranks(const explanation *e) {
    int64_t a = rsh_layout_nranks(e->pair.from), b = rsh_layout_nranks(e->pair.to), most = a > b ? a : b;
    if (most <= MOST_RANKS) return DONE;
    return fail("a layout on %" PRId64 " ranks is not explained; the most are %" PRId64 " ranks", most, MOST_RANKS);
}

static int refuse_matrix(const explanation *e) {
    int64_t entries = e->totals.messages;
    if (!e->matrix || entries <= MOST_ENTRIES) return DONE;
    return fail("the matrix has more than %" PRId64 " entries; at most %" PRId64 " are printed", entries, MOST_ENTRIES);
}

static int draw_file(const explanation *e, const char *name, rsh_picture form) {
    if (!name) return DONE;
    FILE *file = fopen(name, "w");
    if (!file) return fail("%s: %s", name, strerror(errno));
    rsh_sink sink = {to_stream, file};
    errno = 0;
    rsh_status st = rsh_draw_plan(e->plan, 0, form, &sink);
    if (fclose(file) || st == RSH_EIO)
        return fail("%s: %s", name, errno ? strerror(errno) : "the picture was not written");
    return st ? fail_library(st) : DONE;
}

static int answer(const explanation *e) {
    if (refuse_matrix(e)) return FAILED;
    if (draw_file(e, e->svg, RSH_PICTURE_SVG) || draw_file(e, e->html, RSH_PICTURE_HTML)) return FAILED;
    return e->json ? explain_json(e) : explain_text(e);
}

int cmd_explain(int argc, char **argv) {
    explanation e = {0};
    int result = FAILED;
    argp_parse(&explain_argp, argc, argv, 0, NULL, &e);
    if (layout_pair_parse(&e.pair) && refuse_ranks(&e) == DONE) {
        watch(true);
        rsh_status st = plan(&e);
        watch(false);
        result = st ? fail_library(st) : answer(&e);
    }
    rsh_plan_free(e.plan);
    layout_pair_free(&e.pair);
    return result;
}

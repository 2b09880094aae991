/* Bench: measures a move and compares it with memcpy and with the machine's memory bandwidth. */
#include "comparison.h"
#include "launched.h"
#include "contributions.h"
#include "interrupt.h"
#include "progress.h"
#include "room.h"

#include <inttypes.h>
#include <string.h>

#define MOST_REPEATS 1000000 /* a larger number is probably a typing error */

enum { ENGINE = 256, REPEAT, JSON };

typedef struct bench {
    layout_pair pair;
    const char *engine;
    int64_t repeat;
    bool json;

    rsh_plan *plan;
    double plan_seconds;
    int64_t bytes, bytes_read;
    int sources; /* number of streams read per stream written */
    launched launched;
    comparison comparison;
} bench;

static const struct argp_option options[] = {
    {.name = "engine", .key = ENGINE, .arg = "NAME", .doc = "threads (the default), shm or mpi"},
    {.name = "repeat", .key = REPEAT, .arg = "N", .doc = "run N rounds (default: at least 15, for at least 0.2 s)"},
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {0}};

static error_t parse(int key, char *word, struct argp_state *state) {
    bench *b = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &b->pair; return 0;
    case ENGINE:
        if (!engine_known(word)) argp_error(state, "unknown engine '%s'; expected threads, shm or mpi", word);
        b->engine = word;
        return 0;
    case REPEAT:
        if (!parse_count(word, 1, &b->repeat) || b->repeat > MOST_REPEATS)
            argp_error(state, "--repeat must be from 1 to %d, got '%s'", MOST_REPEATS, word);
        return 0;
    case JSON: b->json = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &layout_pair_argp}, {0}};
static const struct argp bench_argp = {options,
                                       parse,
                                       "FROM TO",
                                       "Repeatedly moves a tensor from layout FROM to layout TO, with one thread or "
                                       "process per rank, and alternates with memcpy of the same size and with the "
                                       "fastest of several copy loops, both on all cores.  Prints the best time of "
                                       "each, the fraction of the fastest loop's speed, and checks every element at "
                                       "the end.",
                                       children,
                                       NULL,
                                       NULL};

/* ---- bytes ---- */

static int64_t elements(const rsh_layout *l) {
    int64_t sum = 0, nranks = rsh_layout_nranks(l);
    for (int64_t i = 0; i < nranks; i++) {
        int64_t rank = rsh_layout_rank(l, i), nparts = rsh_layout_nparts(l, rank);
        rsh_part part;
        for (int64_t p = 0; p < nparts; p++)
            if (!rsh_layout_part(l, rank, p, &part)) sum += part.count;
    }
    return sum;
}

/* Counts the bytes that a move reads.  A reduction reads every contribution once, and the result once for each further
 * copy; any other move reads what it writes. */
static void count_bytes(bench *b) {
    const layout_pair *pair = &b->pair;
    int64_t contributions = contributions_count(pair->from);
    int64_t written = elements(b->pair.to), count = rsh_layout_count(b->pair.to), read = written;
    bool moved = rsh_layout_op(pair->from) == rsh_layout_op(pair->to) && contributions_same(pair->from, pair->to);
    if (!moved) read += count * (contributions - 1);
    b->sources = moved ? 1 : contributions > FASTEST_STREAMS ? FASTEST_STREAMS : (int)contributions;
    if (b->sources < 1) b->sources = 1;
    b->bytes = written * (int64_t)rsh_dtype_size(rsh_layout_dtype(b->pair.to));
    b->bytes_read = read * (int64_t)rsh_dtype_size(rsh_layout_dtype(b->pair.from));
}

/* ---- answers ---- */

static double rate(int64_t bytes, double seconds) { return seconds > 0 ? (double)bytes / seconds / 1e9 : 0; }

static double fraction(const bench *b) {
    return b->comparison.seconds > 0 ? b->comparison.memcpy_seconds / b->comparison.seconds : 0;
}

/* memcpy reads as much as it writes; a reduction reads more. */
static double fraction_of_reference(const bench *b) {
    return b->bytes ? fraction(b) * (double)(b->bytes_read + b->bytes) / (2 * (double)b->bytes) : fraction(b);
}

/* Returns the GB/s that the fastest pass writes; it reads `sources` times as many. */
static double stream_rate(const bench *b) { return b->comparison.stream_rate / (b->sources + 1) / 1e9; }

static int print_bench_json(const bench *b) {
    const comparison *c = &b->comparison;
    json_t *o = json_object();
    json_object_set_new(o, "from", json_string(rsh_layout_text(b->pair.from)));
    json_object_set_new(o, "to", json_string(rsh_layout_text(b->pair.to)));
    json_object_set_new(o, "engine", json_string(b->engine));
    json_object_set_new(o, "ranks", json_integer(rsh_plan_nranks(b->plan)));
    json_object_set_new(o, "bytes", json_integer(b->bytes));
    json_object_set_new(o, "bytes_read", json_integer(b->bytes_read));
    json_object_set_new(o, "seconds", json_real(c->seconds));
    json_object_set_new(o, "memcpy_seconds", json_real(c->memcpy_seconds));
    json_object_set_new(o, "gb_per_s", json_real(rate(b->bytes, c->seconds)));
    json_object_set_new(o, "memcpy_gb_per_s", json_real(rate(b->bytes, c->memcpy_seconds)));
    json_object_set_new(o, "fraction_of_memcpy", json_real(fraction(b)));
    json_object_set_new(o, "fraction_of_reference", json_real(fraction_of_reference(b)));
    json_object_set_new(o, "stream_gb_per_s", json_real(stream_rate(b)));
    json_object_set_new(o, "stream_loop", json_string(c->stream_name ? c->stream_name : ""));
    json_object_set_new(o, "fraction_of_stream", json_real(c->stream_fraction));
    json_object_set_new(o, "plan_us", json_real(1e6 * b->plan_seconds));
    json_object_set_new(o, "verified", json_boolean(!c->fault.count));
    return print_json(o, NULL, NULL);
}

static void print_line(const char *what, int64_t bytes, double seconds) {
    char written[QUANTITY], time[QUANTITY];
    printf("%-10s %12s %12s %10.2f GB/s\n", what, human_bytes((double)bytes, written), human_seconds(seconds, time),
           rate(bytes, seconds));
}

static int print_bench_text(const bench *b) {
    const comparison *c = &b->comparison;
    char time[QUANTITY], read[QUANTITY];
    printf("from  %s\nto    %s\n\n", rsh_layout_text(b->pair.from), rsh_layout_text(b->pair.to));
    printf("%-10s %12s %12s %15s\n", "", "written", "time", "rate");
    print_line("reshard", b->bytes, c->seconds);
    print_line("memcpy", b->bytes, c->memcpy_seconds);
    print_line("stream", b->bytes, (double)b->bytes / stream_rate(b) / 1e9);
    printf("\n%.1f %% of stream (%s), %.1f %% of memcpy", 100 * c->stream_fraction,
           c->stream_name ? c->stream_name : "", 100 * fraction(b));
    if (b->bytes_read != b->bytes)
        printf(", %.1f %% counting the %s it reads", 100 * fraction_of_reference(b),
               human_bytes((double)b->bytes_read, read));
    int64_t ranks = rsh_plan_nranks(b->plan);
    printf("\n%" PRId64 " rank%s, engine %s, planned in %s, %s\n", ranks, plural(ranks), b->engine,
           human_seconds(b->plan_seconds, time), c->fault.count ? "WRONG" : "every element checked");
    return DONE;
}

static int report_fault(const pattern_fault *f) {
    if (!f->count) return DONE;
    return fail("the move is wrong: %" PRId64 " elements differ; the first has flat index %" PRId64
                ", on rank %" PRId64,
                f->count, f->index, f->rank);
}

static int run_bench(bench *b) {
    if (!layout_pair_parse(&b->pair) || launched_check(&b->launched, &b->pair)) return FAILED;
    double start = clock_seconds();
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    int64_t ranks = layout_pair_group(&b->pair);
    rsh_status st = b->launched.comm ? RSH_OK : room_check(ranks, !strcmp(b->engine, "threads"));
    if (!st) st = launched_nodes(&b->launched, &opts);
    progress_plan("bench", ranks);
    if (!st) st = rsh_plan_new(b->pair.from, b->pair.to, &opts, &b->plan);
    b->plan_seconds = clock_seconds() - start;
    progress_end();
    if (st) return fail_library(st);
    count_bytes(b);
    b->comparison = (comparison){.pair = &b->pair, .plan = b->plan, .repeat = b->repeat, .bytes = (size_t)b->bytes,
                           .bytes_read = (size_t)b->bytes_read, .sources = b->sources,
                           .processes = !strcmp(b->engine, "shm"), .comm = b->launched.comm};
    st = comparison_run(&b->comparison);
    if (st) return fail_library(st);
    if (!launched_speaks(&b->launched)) return b->comparison.fault.count ? FAILED : DONE;
    int printed = b->json ? print_bench_json(b) : print_bench_text(b);
    int checked = report_fault(&b->comparison.fault);
    return printed ? printed : checked;
}

int cmd_bench(int argc, char **argv) {
    bench b = {0};
    argp_parse(&bench_argp, argc, argv, 0, NULL, &b);
    if (!b.engine && launched_forgotten("bench", "threads")) return USAGE;
    if (!b.engine) b.engine = "threads";
    interrupt_leaves("nothing was written");
    int result = launched_open(&b.launched, b.engine);
    if (!result) result = run_bench(&b);
    rsh_plan_free(b.plan);
    layout_pair_free(&b.pair);
    return launched_close(&b.launched, result);
}

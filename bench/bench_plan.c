/* Measures the time of planning: every ordered pair of twelve forms on 65,536 ranks, with and without nodes, with the
 * ranks in order, as a range and as a random list; random pairs; many boxes; a mesh of a million ranks; and a model of
 * 1,000 tensors.
 *
 * bench_plan             the model, and every pair of forms once, from rows to columns, on random ranks and nodes of 48
 * bench_plan --all       everything
 * bench_plan --large     many boxes, a million ranks
 * bench_plan --random    200 random pairs
 *   --no-shares          omits the shares; --limit S ends a case after S seconds; --seed N for other random lists
 * bench_plan FROM TO [RANKS_PER_NODE]   one case, by forms ("flat") or as layouts
 *
 * Each case runs in a separate process, so that its memory can be measured and a slow case can be ended.  A case does
 * what `reshard explain` does: parse, plan, add up, draw; then computes the shares of a few ranks, each the best of
 * three. */
#include <reshard.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 65536
#define ROWS 70001
#define COLUMNS 66003
#define TENSORS 1000
#define FORMS 12

#define MOST_SECONDS 10.0 /* limits for a case: time and memory to explain, and time of a share */
#define MOST_BYTES 500e6
#define MOST_SHARE 0.2 /* seconds */

static double limit = 20; /* seconds after which a case is ended */
static bool shares = true;
static uint64_t seed = 1;

/* Returns seconds of processor time, so that other load on the machine does not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(rsh_status st) {
    if (!st) return;
    fprintf(stderr, "bench_plan: %s\n", rsh_error_detail());
    exit(1);
}

static uint64_t next_random(void) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int64_t below(int64_t n) { return (int64_t)(next_random() % (uint64_t)n); }

/* ---- texts ---- */

typedef struct text {
    char *at; /* owned */
    size_t n, room;
} text;

static void add(text *t, const char *format, ...) {
    va_list args;
    if (t->room - t->n < 256) t->at = realloc(t->at, t->room = 2 * t->room + 4096);
    if (!t->at) exit(1);
    va_start(args, format);
    t->n += (size_t)vsnprintf(t->at + t->n, t->room - t->n, format, args);
    va_end(args);
}

/* The order of ranks in the layout: position i is rank[i]. */
typedef enum order { IN_ORDER, RANGE, RANDOM, ORDERS } order;
static const char *const order_names[ORDERS] = {"in order", "range", "random"};

static void fill_ranks(order o, int64_t n, int64_t first, int64_t *rank) {
    for (int64_t i = 0; i < n; i++) rank[i] = i + (o == RANGE ? first : 0);
    for (int64_t i = n - 1; i > 0 && o == RANDOM; i--) {
        int64_t j = below(i + 1), r = rank[i];
        rank[i] = rank[j];
        rank[j] = r;
    }
}

static void add_ranks(text *t, order o, int64_t n, const int64_t *rank) {
    if (o == RANGE) add(t, "@%lld-%lld", (long long)rank[0], (long long)rank[n - 1]);
    if (o != RANDOM) return;
    for (int64_t i = 0; i < n; i++) add(t, "%s%lld", i ? "," : "@[", (long long)rank[i]);
    add(t, "]");
}

/* Appends uneven numbers that add up to n. */
static void add_sizes(text *t, int64_t n, int64_t parts) {
    for (int64_t i = 0, left = n; i < parts; i++) {
        int64_t most = 2 * left / (parts - i), size = i == parts - 1 ? left : below(most + 1);
        add(t, "%s%lld", i ? "," : "{", (long long)size);
        left -= size;
    }
    add(t, "}");
}

/* Halves a box along its longer side, not quite in the middle, until there is one box for each rank. */
static void add_boxes(text *t, int64_t n, const int64_t *rank, const int64_t *lo, const int64_t *hi) {
    if (n == 1) {
        add(t, " %lld:[%lld:%lld,%lld:%lld]", (long long)*rank, (long long)lo[0], (long long)hi[0], (long long)lo[1],
            (long long)hi[1]);
        return;
    }
    int d = hi[0] - lo[0] >= hi[1] - lo[1] ? 0 : 1;
    int64_t size = hi[d] - lo[d], few = n / 2, cut[2] = {hi[0], hi[1]}, from[2] = {lo[0], lo[1]};
    int64_t at = size * few / n + below(size / 8 + 1) - size / 16;
    if (at < 0) at = 0;
    cut[d] = from[d] = lo[d] + at;
    add_boxes(t, few, rank, lo, cut);
    add_boxes(t, n - few, rank + few, from, hi);
}

typedef enum form { CHUNK, BALANCED, SIZES, UNIT, CYCLIC, NESTED, SEGMENTS, FLAT, FLAT_CUT, REPLICAS, SUM, BOXES } form;
static const char *const form_names[FORMS] = {"chunk",    "balanced", "sizes",    "unit",     "cyclic", "nested",
                                              "segments", "flat",     "flat/cut", "replicas", "sum",    "boxes"};

/* Writes the dim that is cut, in the given form. */
static void add_dim(text *t, form f, int64_t size) {
    long long n = size;
    switch (f) {
    case CHUNK: add(t, "%lld/x", n); break;
    case BALANCED: add(t, "%lld/x~", n); break;
    case SIZES: add(t, "%lld/x", n), add_sizes(t, size, RANKS); break;
    case UNIT: add(t, "%lld/x%%2", n); break;
    case CYCLIC: add(t, "%lld/x:1", n); break;
    case NESTED: add(t, "%lld/(x,y)", n); break;
    case SEGMENTS: add(t, "(%lld|%lld|%lld)/x", n / 2, n / 5, n - n / 2 - n / 5); break;
    case FLAT_CUT: add(t, "%lld/y", n); break;
    case REPLICAS: add(t, "%lld/x", n); break;
    default: add(t, "%lld", n); break;
    }
}

static const char *mesh_of(form f) {
    if (f == NESTED) return "x=256,y=256";
    if (f == FLAT_CUT) return "x=4096,y=16";
    return f == REPLICAS ? "x=4096,y=16" : "x=65536";
}

/* Writes a tensor of ROWS by COLUMNS in the given form, cut along dim. */
static char *write_form(form f, int dim, order o, int64_t first) {
    static const int64_t lo[2] = {0, 0}, hi[2] = {ROWS, COLUMNS};
    text t = {0};
    int64_t *rank = malloc(RANKS * sizeof *rank);
    if (!rank) exit(1);
    fill_ranks(o, RANKS, first, rank);
    add(&t, "f32[");
    for (int d = 0; d < 2; d++) {
        add(&t, d ? ", " : "");
        if (d == dim && f != BOXES)
            add_dim(&t, f, hi[d]);
        else
            add(&t, "%lld", (long long)hi[d]);
    }
    add(&t, f == FLAT || f == FLAT_CUT ? "]/x" : "]");
    if (f == BOXES) {
        add(&t, " boxes");
        add_boxes(&t, RANKS, rank, lo, hi);
    } else {
        add(&t, " on %s", mesh_of(f));
        add_ranks(&t, o, RANKS, rank);
        if (f == SUM) add(&t, " sum(x)");
    }
    free(rank);
    return t.at;
}

/* ---- one case ---- */

typedef struct seen {
    double seconds, share; /* seconds to explain, and seconds of the slowest share */
    double bytes;          /* peak memory in bytes while explaining */
    int64_t neighbours;    /* neighbours of the slowest share */
    int64_t moved, bound;
    bool done; /* false: the case was ended, or failed */
} seen;

static int drop(void *ctx, const char *bytes, size_t n) {
    (void)ctx, (void)bytes, (void)n;
    return 0;
}

static int count_one(void *ctx, int64_t peer, int64_t bytes) {
    (void)peer, (void)bytes;
    ++*(int64_t *)ctx;
    return 0;
}

static double best_share(const rsh_plan *p, int64_t rank) {
    double best = 1e9;
    for (int i = 0; i < 3 && (i == 0 || best < 0.5); i++) {
        rsh_share *share;
        double t = now();
        must(rsh_plan_share(p, rank, &share));
        t = now() - t;
        rsh_share_free(share);
        if (t < best) best = t;
    }
    return best;
}

static double memory(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1024.0 * (double)u.ru_maxrss;
}

static void measure_shares(const rsh_plan *p, seen *s) {
    const rsh_layout *to = rsh_plan_to(p, 0);
    for (int64_t i = 0; i < 3; i++) {
        int64_t rank = rsh_layout_rank(to, i * (rsh_layout_nranks(to) - 1) / 2);
        double t = best_share(p, rank);
        if (t <= s->share) continue;
        s->share = t;
        int64_t in = 0, out = 0;
        must(rsh_plan_each_source(p, rank, count_one, &in));
        must(rsh_plan_each_destination(p, rank, count_one, &out));
        s->neighbours = in > out ? in : out;
    }
}

static void run_case(const char *from, const char *to, int64_t per_node, int result) {
    rsh_layout *a, *b;
    rsh_plan *p;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_sink sink = {drop, NULL};
    seen s = {.done = true};
    double before = memory(), start = now();
    o.ranks_per_node = per_node;
    must(rsh_layout_parse(from, &a));
    must(rsh_layout_parse(to, &b));
    must(rsh_plan_new(a, b, &o, &p));
    must(rsh_plan_get_totals(p, &t));
    must(rsh_draw_plan(p, 0, RSH_PICTURE_TEXT, &sink));
    s.seconds = now() - start;
    s.bytes = memory() - before;
    s.moved = t.bytes_moved;
    s.bound = t.lower_bound;
    if (shares) {
        /* write the result now, in case the shares take too long */
        if (write(result, &s, sizeof s) != sizeof s) exit(1);
        measure_shares(p, &s);
    }
    if (write(result, &s, sizeof s) != sizeof s) exit(1);
    exit(0);
}

static seen measure(const char *from, const char *to, int64_t per_node) {
    seen s = {.seconds = limit}, got;
    int ends[2];
    fflush(stdout);
    if (pipe(ends)) exit(1);
    pid_t child = fork();
    if (child < 0) exit(1);
    if (!child) {
        struct rlimit most = {(rlim_t)limit + 1, (rlim_t)limit + 1};
        setrlimit(RLIMIT_CPU, &most);
        close(ends[0]);
        run_case(from, to, per_node, ends[1]);
    }
    close(ends[1]);
    while (read(ends[0], &got, sizeof got) == sizeof got) {
        s = got;
        if (shares && !s.share) s.share = limit;
    }
    close(ends[0]);
    waitpid(child, NULL, 0);
    return s;
}

/* Cases that exceed a limit are marked. */
static bool exceeds(const seen *s) {
    return !s->done || s->seconds > MOST_SECONDS || s->bytes > MOST_BYTES ||
           s->share > MOST_SHARE;
}

static void print_seen(const char *name, const seen *s) {
    if (!s->done) {
        printf("%-44s not done after %.0f s *\n", name, limit);
        return;
    }
    printf("%-44s %7.3f s  %6.0f MB   share %9.3f ms of %6lld neighbours   moved/bound %.3f%s\n", name, s->seconds,
           1e-6 * s->bytes, 1e3 * s->share, (long long)s->neighbours,
           s->bound ? (double)s->moved / (double)s->bound : 1.0, exceeds(s) ? " *" : "");
}

static void worst_of(seen *worst, const seen *s) {
    if (s->seconds > worst->seconds) worst->seconds = s->seconds, worst->moved = s->moved, worst->bound = s->bound;
    if (s->bytes > worst->bytes) worst->bytes = s->bytes;
    if (s->share > worst->share) worst->share = s->share, worst->neighbours = s->neighbours;
    worst->done = worst->done && s->done;
}

/* ---- pairs of forms ---- */

static int cases, over;

static seen measure_forms(form f, form g, bool crossed, order o, int64_t per_node) {
    char *from = write_form(f, 0, o, 0), *to = write_form(g, crossed, o, 1000);
    seen s = measure(from, to, per_node);
    cases++;
    over += exceeds(&s);
    free(from);
    free(to);
    return s;
}

static void measure_pair(form f, form g, bool all) {
    static const int64_t per_node[] = {0, 8, 48};
    seen worst = {.done = true};
    char name[64];
    for (int crossed = !all; crossed < 2; crossed++)
        for (int o = all ? 0 : RANDOM; o < ORDERS; o++)
            for (int n = all ? 0 : 2; n < 3; n++) {
                seen s = measure_forms(f, g, crossed, (order)o, per_node[n]);
                worst_of(&worst, &s);
                snprintf(name, sizeof name, "  %s to %s, %s, %s, %lld", form_names[f], form_names[g],
                         crossed ? "crossed" : "along", order_names[o], (long long)per_node[n]);
                if (all && exceeds(&s)) print_seen(name, &s);
            }
    snprintf(name, sizeof name, "%s to %s%s", form_names[f], form_names[g], all ? ", worst of 18" : "");
    print_seen(name, &worst);
}

static void measure_random(int64_t n) {
    static const int64_t per_node[] = {0, 8, 48, 7, 64};
    seen worst = {.done = true};
    for (int64_t i = 0; i < n; i++) {
        form f = (form)below(FORMS), g = (form)below(FORMS);
        int crossed = (int)below(2);
        order o = (order)below(ORDERS);
        int64_t nodes = per_node[below(5)];
        seen s = measure_forms(f, g, crossed, o, nodes);
        char name[64];
        snprintf(name, sizeof name, "  random %lld: %s to %s, %lld", (long long)i, form_names[f], form_names[g],
                 (long long)nodes);
        if (exceeds(&s)) print_seen(name, &s);
        worst_of(&worst, &s);
    }
    print_seen("random pairs, the worst", &worst);
}

/* ---- many boxes, many ranks ---- */

static void measure_boxes(int64_t n, int64_t ranks) {
    static const int64_t lo[2] = {0, 0}, hi[2] = {ROWS, COLUMNS};
    char name[64];
    text t[2] = {{0}, {0}};
    int64_t *rank = malloc((size_t)n * sizeof *rank);
    if (!rank) exit(1);
    for (int i = 0; i < 2; i++) {
        for (int64_t b = 0; b < n; b++) rank[b] = below(ranks);
        add(&t[i], "f32[%d, %d] boxes", ROWS, COLUMNS);
        add_boxes(&t[i], n, rank, lo, hi);
    }
    seen s = measure(t[0].at, t[1].at, 0);
    snprintf(name, sizeof name, "%lld boxes on %lld ranks, both sides", (long long)n, (long long)ranks);
    print_seen(name, &s);
    free(rank);
    free(t[0].at);
    free(t[1].at);
}

static void measure_million(void) {
    seen s = measure("f32[1048576/x, 1048576/y] on x=1024,y=1024", "f32[1048576/(y,x), 1048576] on x=1024,y=1024", 0);
    print_seen("1,048,576 ranks: blocks to rows", &s);
    s = measure("f32[1048576/x, 1048576/y] on x=1024,y=1024", "f32[1048576, 1048576/(x,y)] on x=1024,y=1024", 8);
    print_seen("1,048,576 ranks: blocks to columns, nodes", &s);
    s = measure("f32[1048576/x, 4096] on x=65536,y=16", "f32[1048576, 4096/x] on x=4096,y=256", 8);
    print_seen("1,048,576 ranks: replicas, nodes", &s);
}

/* ---- many tensors ---- */

/* Makes the layouts of a transformer's weights, from 8-way to 16-way tensor parallel: cut along rows, along columns, as
 * three fused projections, or whole. */
static void model_layouts(rsh_layout **from, rsh_layout **to) {
    static const char *const forms[4] = {"bf16[%d/tp, 4096] on dp=%d,tp=%d", "bf16[4096, %d/tp] on dp=%d,tp=%d",
                                         "bf16[(%d|1024|1024)/tp, 4096] on dp=%d,tp=%d", "bf16[%d] on dp=%d,tp=%d"};
    for (int i = 0; i < TENSORS; i++) {
        char text[128];
        int size = 4096 + 64 * (i / 4);
        snprintf(text, sizeof text, forms[i % 4], size, 512, 8);
        must(rsh_layout_parse(text, &from[i]));
        snprintf(text, sizeof text, forms[i % 4], size, 256, 16);
        must(rsh_layout_parse(text, &to[i]));
    }
}

static void measure_model(void) {
    rsh_layout *from[TENSORS], *to[TENSORS];
    rsh_plan *p;
    double slowest = 0;
    int64_t transfers = 0;
    model_layouts(from, to);
    double start = now();
    must(rsh_plan_new_many(TENSORS, (const rsh_layout *const *)from, (const rsh_layout *const *)to, NULL, &p));
    double planned = now() - start;
    for (int64_t rank = 0; rank < 4096; rank += 4096 / 8) {
        rsh_share *share;
        start = now();
        must(rsh_plan_share(p, rank, &share));
        double took = now() - start;
        if (took > slowest) slowest = took, transfers = share->ncopies + share->nreceives + share->nsends;
        rsh_share_free(share);
    }
    printf("%d tensors, 4096 ranks: plan %.2f ms   slowest share %.2f ms of %lld transfers   together %.3f s\n",
           TENSORS, 1e3 * planned, 1e3 * slowest, (long long)transfers, planned + slowest);
    rsh_plan_free(p);
    for (int i = 0; i < TENSORS; i++) {
        rsh_layout_free(from[i]);
        rsh_layout_free(to[i]);
    }
}

/* ---- */

static int form_number(const char *name) {
    for (int f = 0; f < FORMS; f++)
        if (!strcmp(name, form_names[f])) return f;
    return -1;
}

static int measure_one(int argc, char **argv) {
    int f = form_number(argv[1]), g = form_number(argv[2]);
    int64_t per_node = argc > 3 ? atoll(argv[3]) : 0;
    if (f >= 0 && g >= 0) {
        for (int crossed = 0; crossed < 2; crossed++)
            for (int o = 0; o < ORDERS; o++) {
                char name[64];
                seen s = measure_forms((form)f, (form)g, crossed, (order)o, per_node);
                snprintf(name, sizeof name, "%s to %s, %s, %s", argv[1], argv[2], crossed ? "crossed" : "along",
                         order_names[o]);
                print_seen(name, &s);
            }
        return 0;
    }
    seen s = measure(argv[1], argv[2], per_node);
    print_seen("layouts as given", &s);
    return 0;
}

int main(int argc, char **argv) {
    bool all = false, large = false, random = false;
    for (; argc > 1 && !strncmp(argv[1], "--", 2); argc--, argv++) {
        if (!strcmp(argv[1], "--all")) all = true;
        if (!strcmp(argv[1], "--large")) large = true;
        if (!strcmp(argv[1], "--random")) random = true;
        if (!strcmp(argv[1], "--no-shares")) shares = false;
        if (argc < 3) continue;
        if (!strcmp(argv[1], "--seed")) seed = strtoull(argv[2], NULL, 10), argc--, argv++;
        else if (!strcmp(argv[1], "--limit")) limit = atof(argv[2]), argc--, argv++;
    }
    if (argc > 2) return measure_one(argc, argv);
    printf("planning for %d ranks; * exceeds %.0f s, %.0f MB, or %.0f ms for a share; seed %llu\n", RANKS, MOST_SECONDS,
           1e-6 * MOST_BYTES, 1e3 * MOST_SHARE, (unsigned long long)seed);
    for (int f = 0; f < FORMS && !large && !random; f++)
        for (int g = 0; g < FORMS; g++) measure_pair((form)f, (form)g, all);
    if (all || random) measure_random(200);
    if (all || large) {
        measure_boxes(100000, 65536);
        measure_boxes(100000, 64);
        measure_million();
    }
    printf("%d cases, %d exceed\n", cases, over);
    if (!large && !random) measure_model();
    return 0;
}

/* Simulate: estimates the time of a move on another machine. */
#include "cli.h"
#include "interrupt.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JSON = 256, RANKS_PER_NODE, NIC, LATENCY, MEM, CORE, BY_NODE, CALIBRATE, MACHINE };

#define RUN_BYTES 48 /* cost of a run in bytes if it was not measured; a typical measured value */

static const struct argp_option options[] = {
    {.name = "mem", .key = MEM, .arg = "GB/S", .doc = "copy rate of all ranks of a node together, in bytes written"},
    {.name = "core", .key = CORE, .arg = "GB/S", .doc = "copy rate of one rank alone (default: that of --mem)"},
    {.name = "nic", .key = NIC, .arg = "GB/S", .doc = "rate of a node's network card in each direction"},
    {.name = "latency", .key = LATENCY, .arg = "US", .doc = "microseconds from rank to rank (default 0)"},
    {.name = "calibrate", .key = CALIBRATE, .doc = "measure this machine; other options take precedence"},
    {.name = "machine", .key = MACHINE, .arg = "FILE", .doc =
            "read the machine from FILE, made with --calibrate --json"},
    {.name = "ranks-per-node",
     .key = RANKS_PER_NODE,
     .arg = "N",
     .doc = "ranks 0..N-1 share a node, N..2N-1 the next, ... (default: one node)"},
    {.name = "by-node", .key = BY_NODE, .doc = "reduce within each node first"},
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {0}};

typedef struct simulating {
    const char *text[2]; /* FROM and TO, or NULL with --calibrate alone */
    const char *file;    /* path of a machine file, or NULL */
    layout_pair pair;
    bool json, by_node, calibrate;
    int64_t ranks_per_node; /* 0: the option was not given */
    double mem, core, nic, latency; /* options in bytes per second and seconds; negative: not given */
    rsh_machine machine;
    rsh_plan *plan;
    rsh_simulation result;
} simulating;

/* Parses a number above 0; if `zero` is set, 0 is allowed too. */
static bool parse_number(const char *text, bool zero, double unit, double *out) {
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(x) || x < 0 || (x == 0 && !zero)) return false;
    *out = x * unit;
    return true;
}

static void parse_rate(struct argp_state *state, const char *option, const char *word, double *out) {
    if (!parse_number(word, false, 1e9, out))
        argp_error(state, "%s: expected a rate in GB/s above 0, such as 12.5, got '%s'", option, word);
}

static void store_layout(simulating *s, const char *word, struct argp_state *state) {
    if (state->arg_num > 1)
        argp_error(state, "expected two layouts, FROM and TO; unexpected argument '%s' (quote layouts that contain "
                          "blanks)", word);
    else
        s->text[state->arg_num] = word;
}

static void check_usage(const simulating *s, struct argp_state *state) {
    if (!s->text[1] && !(s->calibrate && !s->text[0])) argp_error(state, "the layouts FROM and TO are required");
    if (s->mem < 0 && !s->calibrate && !s->file)
        argp_error(state, "the memory rate is required: give --mem, --machine or --calibrate");
    if (s->ranks_per_node && s->nic < 0 && !s->file)
        argp_error(state, "--ranks-per-node needs the rate of network cards: give --nic or --machine");
}

static error_t parse(int key, char *word, struct argp_state *state) {
    simulating *s = state->input;
    switch (key) {
    case JSON: s->json = true; return 0;
    case BY_NODE: s->by_node = true; return 0;
    case CALIBRATE: s->calibrate = true; return 0;
    case MACHINE: s->file = word; return 0;
    case MEM: parse_rate(state, "--mem", word, &s->mem); return 0;
    case CORE: parse_rate(state, "--core", word, &s->core); return 0;
    case NIC: parse_rate(state, "--nic", word, &s->nic); return 0;
    case LATENCY:
        if (!parse_number(word, true, 1e-6, &s->latency))
            argp_error(state, "--latency: expected microseconds, got '%s'", word);
        return 0;
    case RANKS_PER_NODE:
        if (!parse_count(word, 1, &s->ranks_per_node))
            argp_error(state, "--ranks-per-node must be at least 1, got '%s'", word);
        return 0;
    case ARGP_KEY_ARG: store_layout(s, word, state); return 0;
    case ARGP_KEY_END: check_usage(s, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp simulate_argp = {
    options, parse, "[FROM TO]", "Estimates the time of a move from layout FROM to layout TO on another machine.",
    NULL,    NULL,  NULL};

/* ---- the machine ---- */

/* Reads a machine file; returns NULL after printing an error. */
static json_t *read_json(const char *path) {
    static const char advice[] = "; make one with 'reshard simulate --calibrate --json'";
    json_error_t error;
    errno = 0;
    FILE *file = fopen(path, "r");
    json_t *o = file ? json_loadf(file, 0, &error) : NULL;
    int reason = !file || ferror(file) ? errno : 0;
    if (file) fclose(file);
    if (reason)
        fail("%s: %s", path, strerror(reason));
    else if (!o)
        fail("%s is not a machine file: line %d: %s%s", path, error.line, error.text, advice);
    else if (!json_object_get(o, "machine"))
        fail("%s is not a machine file: it has no member \"machine\"%s", path, advice);
    if (o && json_object_get(o, "machine")) return o;
    json_decref(o);
    return NULL;
}

/* Reads the members that machine_json writes; missing ones are 0. */
static bool read_machine(const char *path, rsh_machine *m) {
    json_error_t error;
    json_t *o = read_json(path), *machine = json_object_get(o, "machine");
    double mem = 0, core = 0, nic = 0, latency = 0;
    const char *form = "{s:F, s?F, s?F, s?F, s?F, s?F, s?F}";
    bool ok = machine && !json_unpack_ex(machine, &error, 0, form, "mem_gb_per_s", &mem, "core_gb_per_s", &core,
                                         "nic_gb_per_s", &nic, "latency_us", &latency, "run_bytes", &m->run_bytes,
                                         "transposed_gb_per_s", &m->transposed, "combined_gb_per_s", &m->combined);
    if (machine && !ok) fail("%s: %s", path, error.text);
    json_decref(o);
    m->memory = mem * 1e9, m->core = core * 1e9, m->nic = nic * 1e9, m->latency = latency * 1e-6;
    m->transposed *= 1e9, m->combined *= 1e9;
    return ok;
}

static bool set_up_machine(simulating *s) {
    rsh_machine *m = &s->machine;
    *m = (rsh_machine)RSH_MACHINE_INIT;
    m->run_bytes = RUN_BYTES;
    if (s->file && !read_machine(s->file, m)) return false;
    if (s->calibrate) progress_begin("simulate: measuring this machine", 0);
    rsh_status st = s->calibrate ? rsh_machine_calibrate(m) : RSH_OK;
    progress_end();
    if (s->mem >= 0) m->memory = s->mem, m->transposed = m->combined = m->core = 0;
    if (s->core >= 0) m->core = s->core;
    if (s->nic >= 0) m->nic = s->nic;
    if (s->latency >= 0) m->latency = s->latency;
    return !st || (fail_library(st), false);
}

/* Converts a machine to the units of the options. */
static json_t *machine_json(const rsh_machine *m) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mem_gb_per_s", m->memory / 1e9, "core_gb_per_s",
                     m->core / 1e9, "nic_gb_per_s", m->nic / 1e9, "latency_us", m->latency * 1e6, "run_bytes",
                     m->run_bytes, "transposed_gb_per_s", m->transposed / 1e9, "combined_gb_per_s", m->combined / 1e9);
}

static void print_rate(const char *what, double rate) {
    if (rate > 0) printf("%-22s %16.2f GB/s\n", what, rate / 1e9);
}

static void print_machine(const rsh_machine *m) {
    print_rate("memory of a node", m->memory);
    print_rate("one core", m->core);
    print_rate("transposed", m->transposed);
    print_rate("combined", m->combined);
    printf("%-22s %16.1f B\n", "a run costs", m->run_bytes);
    print_rate("network card", m->nic);
    printf("%-22s %16.2f us\n", "latency", m->latency * 1e6);
}

/* ---- the answer ---- */

static double reached(const rsh_simulation *r) { return r->seconds > 0 ? r->lower_bound / r->seconds : 1; }

static json_t *stage_json(const rsh_simulated_stage *k) {
    json_t *resources = json_object();
    for (int r = 0; r < RSH_RESOURCE_COUNT; r++)
        json_object_set_new(resources, rsh_resource_name((rsh_resource)r), json_real(k->resource[r]));
    return json_pack("{s:f, s:s, s:o, s:I, s:I, s:I, s:I}", "seconds", k->seconds, "limit",
                     rsh_resource_name(k->limit), "resources", resources, "bytes_copied",
                     (json_int_t)k->bytes_copied, "bytes_in", (json_int_t)k->bytes_in, "bytes_out",
                     (json_int_t)k->bytes_out, "peers", (json_int_t)k->peers);
}

static int answer_json(const simulating *s) {
    const rsh_simulation *r = &s->result;
    json_t *o = json_object(), *stages = json_array();
    if (!s->plan) {
        json_object_set_new(o, "machine", machine_json(&s->machine));
        json_decref(stages);
        return print_json(o, NULL, NULL);
    }
    for (int k = 0; k < r->nstages; k++) json_array_append_new(stages, stage_json(&r->stage[k]));
    json_object_set_new(o, "from", json_string(rsh_layout_text(s->pair.from)));
    json_object_set_new(o, "to", json_string(rsh_layout_text(s->pair.to)));
    json_object_set_new(o, "ranks", json_integer(r->ranks));
    json_object_set_new(o, "nodes", json_integer(r->nodes));
    json_object_set_new(o, "ranks_walked", json_integer(r->ranks_walked));
    json_object_set_new(o, "machine", machine_json(&s->machine));
    json_object_set_new(o, "stages", stages);
    json_object_set_new(o, "seconds", json_real(r->seconds));
    json_object_set_new(o, "limit", json_string(rsh_resource_name(r->limit)));
    json_object_set_new(o, "lower_bound_seconds", json_real(r->lower_bound));
    json_object_set_new(o, "lower_bound_limit", json_string(rsh_resource_name(r->lower_bound_limit)));
    json_object_set_new(o, "share_of_bound", json_real(reached(r)));
    return print_json(o, NULL, NULL);
}

static void print_stage(int number, const rsh_simulated_stage *k) {
    char text[QUANTITY];
    printf("%6d  %10s", number, human_seconds(k->seconds, text));
    for (int r = 0; r < RSH_RESOURCE_COUNT; r++)
        printf("  %10s", k->resource[r] > 0 ? human_seconds(k->resource[r], text) : "-");
    printf("   %s\n", k->seconds > 0 ? rsh_resource_name(k->limit) : "-");
}

static int answer_text(const simulating *s) {
    const rsh_simulation *r = &s->result;
    char text[QUANTITY];
    if (!s->plan) {
        print_machine(&s->machine);
        return DONE;
    }
    printf("from  %s\nto    %s\n\n", rsh_layout_text(s->pair.from), rsh_layout_text(s->pair.to));
    print_machine(&s->machine);
    printf("%-22s %16" PRId64 "\n%-22s %16" PRId64 "\n", "ranks", r->ranks, "nodes", r->nodes);
    if (r->ranks_walked < r->ranks)
        printf("%-22s %16" PRId64 "   the others are assumed to be like these\n", "ranks examined", r->ranks_walked);
    printf("\n%6s  %10s", "stage", "takes");
    for (int k = 0; k < RSH_RESOURCE_COUNT; k++) printf("  %10s", rsh_resource_name((rsh_resource)k));
    puts("   limit");
    for (int k = 0; k < r->nstages; k++) print_stage(k, &r->stage[k]);
    printf("\n%-22s %16s   limited by %s\n", "takes", human_seconds(r->seconds, text), rsh_resource_name(r->limit));
    printf("%-22s %16s   by %s\n", "least possible", human_seconds(r->lower_bound, text),
           rsh_resource_name(r->lower_bound_limit));
    printf("%-22s %15.0f%%\n", "of that reached", 100 * reached(r));
    return DONE;
}

static rsh_status simulate_move(simulating *s) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.ranks_per_node = s->ranks_per_node;
    opts.reduce = s->by_node ? RSH_REDUCE_BY_NODE : RSH_REDUCE_IN_ORDER;
    progress_plan("simulate", layout_pair_group(&s->pair));
    rsh_status st = rsh_plan_new(s->pair.from, s->pair.to, &opts, &s->plan);
    s->result.struct_size = sizeof s->result;
    if (!st) st = rsh_simulate(s->plan, &s->machine, &s->result);
    progress_end();
    return st;
}

int cmd_simulate(int argc, char **argv) {
    simulating s = {.mem = -1, .core = -1, .nic = -1, .latency = -1};
    int result = FAILED;
    argp_parse(&simulate_argp, argc, argv, 0, NULL, &s);
    interrupt_leaves("nothing was written");
    s.pair.from_text = s.text[0], s.pair.to_text = s.text[1];
    if ((!s.text[0] || layout_pair_parse(&s.pair)) && set_up_machine(&s)) {
        rsh_status st = s.text[0] ? simulate_move(&s) : RSH_OK;
        result = st ? fail_library(st) : s.json ? answer_json(&s) : answer_text(&s);
    }
    rsh_plan_free(s.plan);
    layout_pair_free(&s.pair);
    return result;
}

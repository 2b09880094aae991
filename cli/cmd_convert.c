/* Convert: rewrites a checkpoint with different layouts. */
#include "cli.h"
#include "interrupt.h"
#include "progress.h"
#include "ready_rules.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TO = 256,
    FROM,
    MEM,
    THREADS,
    RESUME,
    VERIFY,
    FORCE,
    DRY_RUN,
    JSON,
    MAX_SHARD,
    DEDUP,
    INCLUDE,
    EXCLUDE,
    DROP,
    NO_DIGEST,
    REVERSE,
    FORMAT,
    MAX_TENSORS
};

static const struct argp_option options[] = {
    {.name = "to",
     .key = TO,
     .arg = "RULES|MESH|whole",
     .doc = "layouts of the result: a rule file, a mesh (tp=4) for built-in rules, or whole tensors"},
    {.name = "from", .key = FROM, .arg = "RULES", .doc = "rules for SRC, if it has rank files of another tool"},
    {.name = "reverse", .key = REVERSE, .doc = "undo the rules given with --from, which made SRC"},
    {.name = "mem", .key = MEM, .arg = "BYTES", .doc = "memory limit (default 256M)"},
    {.name = "threads", .key = THREADS, .arg = "N", .doc = "number of threads that read, copy and write"},
    {.name = "resume", .key = RESUME, .doc = "continue an interrupted run"},
    {.name = "verify", .key = VERIFY, .doc = "afterwards read both again and compare every element"},
    {.name = "force", .key = FORCE, .doc = "replace an existing DST"},
    {.name = "dry-run", .key = DRY_RUN, .doc = "only print which tensors each rule matches"},
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {.name = "max-shard-size", .key = MAX_SHARD, .arg = "BYTES", .doc = "maximum size of each file of a directory"},
    {.name = "max-shard-tensors",
     .key = MAX_TENSORS,
     .arg = "N",
     .doc = "maximum number of tensors in each file of a directory"},
    {.name = "format",
     .key = FORMAT,
     .arg = "safetensors|gguf",
     .doc = "format of the result (default: gguf if DST ends in .gguf, otherwise safetensors)"},
    {.name = "dedup", .key = DEDUP, .doc = "store replicated parts once"},
    {.name = "include", .key = INCLUDE, .arg = "GLOB", .doc =
            "convert only tensors that match GLOB; may be repeated"},
    {.name = "exclude", .key = EXCLUDE, .arg = "GLOB", .doc = "omit tensors that match GLOB; may be repeated"},
    {.name = "drop", .key = DROP, .doc = "omit non-tensor entries"},
    {.name = "no-digest", .key = NO_DIGEST, .doc = "compute no digests; lets the kernel copy bytes directly"},
    {0}};

typedef struct conversion {
    const char *src, *dst, *to, *from;
    bool dry_run, json;
    rsh_convert_opts opts;
    const char **include, **exclude;
} conversion;

static void add_pattern(struct argp_state *state, const char ***list, int64_t *n, const char *pattern) {
    const char **grown = realloc((void *)*list, (size_t)(*n + 1) * sizeof *grown);
    if (!grown) argp_failure(state, FAILED, 0, "out of memory");
    *list = grown;
    grown[(*n)++] = pattern;
}

static error_t parse_argument(conversion *c, const char *word, struct argp_state *state) {
    check_path(word, state);
    if (!c->src)
        c->src = word;
    else if (!c->dst)
        c->dst = word;
    else
        argp_error(state, "expected SRC and DST; unexpected argument '%s'", word);
    return 0;
}

static void parse_size(struct argp_state *state, const char *option, const char *word, uint64_t *out) {
    if (!parse_bytes(word, out) || !*out)
        argp_error(state, "%s: expected a number of bytes, such as 256M, got '%s'", option, word);
}

/* Does the command write GGUF files?  Their tensors are always whole. */
static bool writes_gguf(const conversion *c) {
    size_t n = strlen(c->dst);
    return c->opts.format ? !strcmp(c->opts.format, "gguf") : n > 5 && !strcmp(c->dst + n - 5, ".gguf");
}

static error_t parse(int key, char *word, struct argp_state *state) {
    conversion *c = state->input;
    int64_t n;
    switch (key) {
    case TO: c->to = word; return 0;
    case FROM: c->from = word; return 0;
    case MEM: parse_size(state, "--mem", word, &c->opts.mem); return 0;
    case THREADS:
        if (!parse_count(word, 1, &n) || n > 256) argp_error(state, "--threads must be from 1 to 256, got '%s'", word);
        c->opts.threads = (int)n;
        return 0;
    case RESUME: c->opts.resume = true; return 0;
    case VERIFY: c->opts.verify = true; return 0;
    case FORCE: c->opts.force = true; return 0;
    case DRY_RUN: c->dry_run = true; return 0;
    case JSON: c->json = true; return 0;
    case MAX_SHARD: parse_size(state, "--max-shard-size", word, &c->opts.max_shard); return 0;
    case DEDUP: c->opts.dedup = true; return 0;
    case INCLUDE: add_pattern(state, &c->include, &c->opts.ninclude, word); return 0;
    case EXCLUDE: add_pattern(state, &c->exclude, &c->opts.nexclude, word); return 0;
    case DROP: c->opts.drop = true; return 0;
    case NO_DIGEST: c->opts.no_digest = true; return 0;
    case REVERSE: c->opts.reverse = true; return 0;
    case FORMAT: c->opts.format = word; return 0;
    case MAX_TENSORS:
        if (!parse_count(word, 1, &c->opts.max_tensors))
            argp_error(state, "--max-shard-tensors must be at least 1, got '%s'", word);
        return 0;
    case ARGP_KEY_ARG: return parse_argument(c, word, state);
    case ARGP_KEY_END:
        if (!c->src || !c->dst) argp_error(state, "SRC and DST are required");
        if (c->opts.reverse && !c->from) argp_error(state, "--reverse needs --from with the rules that made SRC");
        if (c->opts.reverse && !c->to) c->to = "whole";
        if (c->opts.reverse && strcmp(c->to, "whole"))
            argp_error(state, "--reverse writes whole tensors, so --to must be 'whole'; to cut them, convert the "
                              "result again");
        if (!c->to && writes_gguf(c)) c->to = "whole";
        if (!c->to) argp_error(state, "--to is required: give a rule file, a mesh such as tp=4, or 'whole'");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp convert_argp = {
    options,
    parse,
    "SRC DST --to RULES|whole",
    "Rewrites the checkpoint SRC as DST, with the layouts that the rules describe.",
    NULL,
    NULL,
    NULL};

/* ---- other files ---- */

/* Reports the files that hold no tensors; `copied` is "copied", or what will be done. */
static void report_other_files(const rsh_convert_report *r, const char *copied) {
    char bytes[QUANTITY];
    long long more = (long long)(r->left_files - r->left_named);
    if (r->copied_files)
        printf("%s: %lld other file%s, %s\n", copied, (long long)r->copied_files, plural(r->copied_files),
               human_bytes((double)r->copied_bytes, bytes));
    if (!r->left_files) return;
    fputs("not copied: ", stdout);
    print_name(r->left, SIZE_MAX, 0);
    if (more) printf("%s%lld more", r->left_named ? " and " : "", more);
    putchar('\n');
}

/* ---- dry run ---- */

typedef struct step {
    char *name, *from, *to, *pattern; /* owned; from and to are NULL for whole tensors */
    char **sources;
    int64_t nsources;
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    bool dropped;
    int line;
    int64_t rule;
    uint64_t bytes;
} step;

typedef struct steps {
    step *list;
    size_t n, room;
    bool failed;
} steps;

static char *copy_text(const char *text) { return text ? strdup(text) : NULL; }

static char *whole_text(const rsh_layout *l, rsh_dtype dtype, const rsh_convert_step *s) {
    char text[RSH_MAX_NDIM * 24 + 64];
    if (l) return strdup(rsh_layout_text(l));
    int used = snprintf(text, sizeof text, "%s[", rsh_dtype_name(dtype));
    for (int d = 0; d < s->ndim; d++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", d ? ", " : "", (long long)s->shape[d]);
    snprintf(text + used, sizeof text - (size_t)used, "], whole");
    return strdup(text);
}

static bool copy_sources(const rsh_convert_step *s, step *out) {
    out->sources = calloc((size_t)s->nsources + 1, sizeof *out->sources);
    for (int64_t i = 0; out->sources && i < s->nsources; i++) {
        if (!(out->sources[i] = strdup(s->sources[i]))) return false;
        out->nsources++;
    }
    return out->sources != NULL;
}

static int keep_step(void *ctx, const rsh_convert_step *s) {
    steps *all = ctx;
    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 256;
        step *list = realloc(all->list, room * sizeof *list);
        if (!list) return (all->failed = true);
        all->list = list;
        all->room = room;
    }
    step *out = &all->list[all->n++];
    *out = (step){.name = copy_text(s->name),
                  .pattern = copy_text(s->pattern),
                  .ndim = s->ndim,
                  .dropped = s->dropped,
                  .line = s->line,
                  .rule = s->rule,
                  .bytes = s->bytes};
    out->from = whole_text(s->from, s->from_dtype, s);
    out->to = s->dropped ? NULL : whole_text(s->to, s->to_dtype, s);
    memcpy(out->shape, s->shape, (size_t)s->ndim * sizeof *s->shape);
    all->failed |= !copy_sources(s, out) || !out->name || !out->from;
    return all->failed;
}

static void free_steps(steps *all) {
    for (size_t i = 0; i < all->n; i++) {
        step *s = &all->list[i];
        for (int64_t k = 0; k < s->nsources; k++) free(s->sources[k]);
        free(s->sources);
        free(s->name);
        free(s->from);
        free(s->to);
        free(s->pattern);
    }
    free(all->list);
}

/* Tensors matched only by "*" are listed first, because their rules may have been forgotten. */
static int64_t sort_key(const step *s) { return s->pattern && !strcmp(s->pattern, "*") ? -1 : s->rule; }

static int by_rule(const void *a, const void *b) {
    int64_t x = sort_key(a), y = sort_key(b);
    return x != y ? (x < y ? -1 : 1) : strcmp(((const step *)a)->name, ((const step *)b)->name);
}

static json_t *step_json(const step *s) {
    json_t *sources = json_array(), *shape = json_array();
    for (int64_t k = 0; k < s->nsources; k++) json_array_append_new(sources, json_string(s->sources[k]));
    for (int d = 0; d < s->ndim; d++) json_array_append_new(shape, json_integer((json_int_t)s->shape[d]));
    return json_pack("{s:s, s:o, s:o, s:s, s:s?, s:b, s:s?, s:i, s:I}", "name", s->name, "sources", sources, "shape",
                     shape, "from", s->from, "to", s->to, "dropped", (int)s->dropped, "pattern", s->pattern, "line",
                     s->line, "bytes", (json_int_t)s->bytes);
}

static int list_json(const steps *all, const rsh_convert_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < all->n; i++) json_array_append_new(list, step_json(&all->list[i]));
    return print_json(json_pack("{s:I, s:I, s:I, s:I, s:o}", "tensors", (json_int_t)r->tensors, "files",
                                (json_int_t)r->files, "source_bytes", (json_int_t)r->source_bytes, "target_bytes",
                                (json_int_t)r->target_bytes, "steps", list),
                      NULL, NULL);
}

/* Is the only source a tensor of the same name? */
static bool keeps_name(const step *s) { return s->nsources == 1 && !strcmp(s->sources[0], s->name); }

static void print_step(const step *s) {
    printf("  ");
    print_name(s->name, SIZE_MAX, 48);
    printf(s->dropped ? " %s, dropped\n" : " %s -> %s\n", s->from, s->to);
    for (int64_t k = 0; k < s->nsources && !s->dropped && !keeps_name(s); k++) {
        if (k == 8 && s->nsources > 10) {
            printf("      and %lld more\n", (long long)(s->nsources - k));
            return;
        }
        printf("      %s ", k ? "and" : "from");
        print_name(s->sources[k], SIZE_MAX, 0);
        printf("\n");
    }
}

static int list_text(const conversion *c, const steps *all, const rsh_convert_report *r) {
    char bytes[QUANTITY];
    for (size_t i = 0; i < all->n; i++) {
        const step *s = &all->list[i];
        if (s->pattern && (!i || all->list[i - 1].line != s->line))
            printf("%s:%d: %s%s\n", c->to, s->line, s->pattern, sort_key(s) < 0 ? "    (matched only by \"*\")" : "");
        print_step(s);
    }
    report_other_files(r, "to be copied");
    printf("%lld tensor%s, %lld file%s, %s\n", (long long)r->tensors, plural(r->tensors), (long long)r->files,
           plural(r->files), human_bytes((double)r->target_bytes, bytes));
    return DONE;
}

/* Replaces the layouts of quantised tensors in the steps by their types and shapes, such as Q4_K[4096, 4096]. */
static rsh_status name_quantised_types(const conversion *c, steps *all) {
    rsh_ckpt *source = NULL;
    rsh_ckpt_entry t = RSH_CKPT_ENTRY_INIT;
    rsh_status st = rsh_ckpt_open(c->src, NULL, &source);
    for (size_t i = 0; !st && i < all->n; i++) {
        char text[256];
        step *s = &all->list[i];
        int64_t number = rsh_ckpt_find(source, s->name);
        if (number < 0 || rsh_ckpt_get_tensor(source, number, &t) || !t.packing) continue;
        free(s->from);
        free(s->to);
        s->from = strdup(tensor_form(&t, text, sizeof text));
        s->to = copy_text(s->from);
        all->failed |= !s->from || !s->to;
    }
    rsh_ckpt_free(source);
    return st;
}

static int run_preview(conversion *c) {
    steps all = {0};
    rsh_convert_report r = RSH_CONVERT_REPORT_INIT;
    rsh_status st = rsh_convert_preview(c->src, c->dst, &c->opts, keep_step, &all, &r);
    if (!st && writes_gguf(c)) st = name_quantised_types(c, &all);
    int result = st ? fail_library(st) : all.failed ? fail("out of memory") : DONE;
    if (result == DONE && all.n) qsort(all.list, all.n, sizeof *all.list, by_rule);
    if (result == DONE) result = c->json ? list_json(&all, &r) : list_text(c, &all, &r);
    free_steps(&all);
    return result;
}

/* ---- converting ---- */

static int report_json(const rsh_convert_report *r, double seconds) {
    return print_json(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:f}", "tensors",
                                (json_int_t)r->tensors, "files", (json_int_t)r->files, "source_bytes",
                                (json_int_t)r->source_bytes, "target_bytes", (json_int_t)r->target_bytes, "bytes_read",
                                (json_int_t)r->bytes_read, "bytes_written", (json_int_t)r->bytes_written, "bytes_kept",
                                (json_int_t)r->bytes_kept, "converted", (json_int_t)r->converted, "verified",
                                (int)r->verified, "digests_unchecked", (json_int_t)r->digests_unchecked, "copied_files",
                                (json_int_t)r->copied_files, "copied_bytes", (json_int_t)r->copied_bytes, "left_files",
                                (json_int_t)r->left_files, "seconds", seconds),
                      NULL, NULL);
}

/* Reports what was not done, although a user might expect it. */
static void report_omissions(const conversion *c, const rsh_convert_report *r) {
    bool skipped = c->opts.no_digest && !c->opts.verify;
    if (r->digests_unchecked)
        printf("not checked: the digests of %lld tensor%s of the source (%s)\n",
               (long long)r->digests_unchecked, plural(r->digests_unchecked),
               skipped ? "because of --no-digest; add --verify to check them"
                       : "the rules use only a part of the tensor, or the digest has an unknown format");
}

static int report_text(const conversion *c, const rsh_convert_report *r, double seconds) {
    char bytes[QUANTITY], time[QUANTITY], rate[QUANTITY];
    printf("%s: %lld tensor%s, %lld file%s, %s in %s, %s/s\n", c->dst, (long long)r->tensors, plural(r->tensors),
           (long long)r->files, plural(r->files), human_bytes((double)r->target_bytes, bytes),
           human_seconds(seconds, time), human_bytes((double)r->bytes_written / (seconds > 0 ? seconds : 1), rate));
    report_other_files(r, "copied");
    if (r->verified && r->converted)
        printf("verified: every element equals that of the source (%lld tensor%s converted to another dtype)\n",
               (long long)r->converted, plural(r->converted));
    else if (r->verified)
        puts("verified: every element equals that of the source");
    report_omissions(c, r);
    return DONE;
}

/* Prepares the message for Ctrl-C, which names the working directory if it exists by then. */
static void set_interrupt_message(const conversion *c) {
    static char path[PATH_MAX], words[PATH_MAX + 100];
    static const char otherwise[] = "DST is either unchanged or complete";
    int n = (int)strlen(c->dst);
    while (n > 1 && c->dst[n - 1] == '/') n--;
    snprintf(path, sizeof path, "%.*s.reshard-partial", n, c->dst);
    spell(path, strlen(path), words, PATH_MAX);
    strcat(words, c->opts.no_digest ? " is incomplete and cannot be resumed without digests; remove it"
                                    : " holds the finished part; use --resume to continue");
    interrupt_leaves_at(path, words, otherwise);
}

static int run_convert(conversion *c) {
    rsh_convert_report r = RSH_CONVERT_REPORT_INIT;
    double start = clock_seconds();
    c->opts.progress = progress_tell;
    c->opts.progress_ctx = "convert";
    set_interrupt_message(c);
    progress_begin("convert: reading headers", 0);
    rsh_status st = rsh_ckpt_convert(c->src, c->dst, &c->opts, &r);
    progress_end();
    if (st) return fail_library(st);
    if (r.gap)
        note("for a moment %s did not exist, because this file system cannot swap two names", c->dst);
    double seconds = clock_seconds() - start;
    return c->json ? report_json(&r, seconds) : report_text(c, &r, seconds);
}

int cmd_convert(int argc, char **argv) {
    conversion c = {.opts = RSH_CONVERT_OPTS_INIT};
    rsh_ckpt_rules *to = NULL, *from = NULL;
    argp_parse(&convert_argp, argc, argv, 0, NULL, &c);
    c.opts.include = c.include;
    c.opts.exclude = c.exclude;
    rsh_status st = RSH_OK;
    if (strcmp(c.to, "whole") && !is_mesh(c.to) && access(c.to, F_OK))
        return fail("--to '%s': no such rule file; give a rule file, a mesh such as tp=4, or 'whole'", c.to);
    if (is_mesh(c.to))
        st = choose_ready_rules(c.src, c.to, &to);
    else if (strcmp(c.to, "whole"))
        st = rsh_ckpt_rules_read(c.to, &to);
    if (st == RSH_EKEY && is_mesh(c.to))
        return fail(
            "%s: the tensor names match none of the built-in rules (Llama, Qwen, Mixtral, GPT-2, DeepSeek); write a "
            "rule file and give it with --to",
            c.src);
    if (!st && c.from) st = rsh_ckpt_rules_read(c.from, &from);
    c.opts.to = to;
    c.opts.from = from;
    int result = st ? fail_library(st) : c.dry_run ? run_preview(&c) : run_convert(&c);
    rsh_ckpt_rules_free(to);
    rsh_ckpt_rules_free(from);
    free((void *)c.include);
    free((void *)c.exclude);
    return result;
}

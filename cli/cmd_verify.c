/* Verify: compares the tensors of two checkpoints; layouts may differ. */
#include "cli.h"
#include "interrupt.h"
#include "progress.h"

enum { JSON = 256, MEM, FROM_A, FROM_B };

static const struct argp_option options[] = {
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {.name = "mem", .key = MEM, .arg = "BYTES", .doc = "memory limit (default 256M)"},
    {.name = "from-a", .key = FROM_A, .arg = "RULES", .doc = "rules for A, if it has rank files of another tool"},
    {.name = "from-b", .key = FROM_B, .arg = "RULES", .doc = "rules for B, if it has rank files of another tool"},
    {0}};

typedef struct verification {
    const char *path[2], *from[2];
    bool json;
    uint64_t mem;
    rsh_ckpt *c[2];
} verification;

static error_t parse(int key, char *word, struct argp_state *state) {
    verification *v = state->input;
    switch (key) {
    case JSON: v->json = true; return 0;
    case MEM:
        if (!parse_bytes(word, &v->mem) || !v->mem)
            argp_error(state, "--mem: expected a number of bytes, such as 256M, got '%s'", word);
        return 0;
    case FROM_A: v->from[0] = word; return 0;
    case FROM_B: v->from[1] = word; return 0;
    case ARGP_KEY_ARG:
        check_path(word, state);
        if (v->path[1]) argp_error(state, "expected A and B; unexpected argument '%s'", word);
        v->path[v->path[0] ? 1 : 0] = word;
        return 0;
    case ARGP_KEY_END:
        if (!v->path[1]) argp_error(state, "the checkpoints A and B are required");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp verify_argp = {
    options, parse, "A B", "Compares every element of two checkpoints; their layouts may differ.", NULL, NULL, NULL};

static rsh_status open_checkpoint(verification *v, int i) {
    rsh_ckpt_rules *from = NULL;
    rsh_status st = v->from[i] ? rsh_ckpt_rules_read(v->from[i], &from) : RSH_OK;
    if (!st) st = rsh_ckpt_open(v->path[i], from, &v->c[i]);
    rsh_ckpt_rules_free(from);
    return st;
}

static json_t *index_json(const rsh_ckpt_difference *d) {
    if (!d->has_index) return json_null();
    json_t *list = json_array();
    for (int k = 0; k < d->ndim; k++) json_array_append_new(list, json_integer(d->index[k]));
    return list;
}

static int print_difference(const verification *v, const rsh_ckpt_difference *d) {
    long long n = (long long)rsh_ckpt_ntensors(v->c[0]);
    int result = d->found ? FAILED : DONE;
    if (v->json) {
        print_json(json_pack("{s:b, s:I, s:s?, s:o, s:s?}", "same", !d->found, "tensors", (json_int_t)n, "tensor",
                             d->found ? d->tensor : NULL, "index", index_json(d), "difference",
                             d->found ? d->sentence : NULL),
                   NULL, NULL);
    } else if (d->found) {
        printf("different: %s\n", d->sentence);
    } else {
        printf("same: %lld tensor%s\n", n, plural(n));
    }
    return result;
}

int cmd_verify(int argc, char **argv) {
    verification v = {.mem = 0};
    rsh_ckpt_difference d = RSH_CKPT_DIFFERENCE_INIT;
    argp_parse(&verify_argp, argc, argv, 0, NULL, &v);
    interrupt_leaves("the comparison is incomplete");
    progress_begin("verify: reading headers", 0);
    rsh_status st = open_checkpoint(&v, 0);
    if (!st) st = open_checkpoint(&v, 1);
    rsh_compare_opts opts = RSH_COMPARE_OPTS_INIT;
    opts.mem = v.mem;
    opts.progress = progress_tell;
    opts.progress_ctx = "verify";
    if (!st) st = rsh_ckpt_compare(v.c[0], v.c[1], &opts, &d);
    progress_end();
    int result = st ? fail_library(st) : print_difference(&v, &d);
    rsh_ckpt_free(v.c[0]);
    rsh_ckpt_free(v.c[1]);
    return result;
}

/* Inspect: lists the contents of checkpoints; reads only their headers. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { JSON = 256, FROM };

static const struct argp_option options[] = {
    {.name = "json", .key = JSON, .doc = "answer in JSON"},
    {.name = "from", .key = FROM, .arg = "RULES", .doc = "rules for PATH, if it has rank files of another tool"},
    {0}};

typedef struct inspection {
    const char **path;
    int npaths;
    const char *from;
    bool json;
    int printed; /* number of checkpoints printed so far */
} inspection;

static error_t parse(int key, char *word, struct argp_state *state) {
    inspection *i = state->input;
    switch (key) {
    case JSON: i->json = true; return 0;
    case FROM: i->from = word; return 0;
    case ARGP_KEY_ARG:
        check_path(word, state);
        i->path[i->npaths++] = word;
        return 0;
    case ARGP_KEY_END:
        if (!i->npaths) argp_error(state, "at least one PATH is required");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp inspect_argp = {
    options, parse, "PATH...", "Lists the tensors of checkpoints: dtypes, shapes, layouts, sizes.", NULL, NULL, NULL};

const char *tensor_form(const rsh_ckpt_entry *t, char *text, size_t room) {
    if (t->layout) return rsh_layout_text(t->layout);
    size_t used = (size_t)snprintf(text, room, "%s[", t->packing ? t->packing : rsh_dtype_name(t->dtype));
    for (int d = 0; d < t->ndim; d++) {
        bool row = t->packing && d == t->ndim - 1;
        int64_t size = row ? t->shape[d] / t->block_bytes * t->block_elements : t->shape[d];
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? ", " : "", (long long)size);
    }
    snprintf(text + used, room - used, "]");
    return text;
}

static uint64_t total_bytes(const rsh_ckpt *c) {
    uint64_t total = 0;
    rsh_ckpt_entry t = RSH_CKPT_ENTRY_INIT;
    for (int64_t i = 0; !rsh_ckpt_get_tensor(c, i, &t); i++) total += t.bytes;
    return total;
}

static uint64_t file_bytes(const rsh_ckpt *c) {
    uint64_t total = 0, bytes;
    const char *name;
    for (int64_t i = 0; !rsh_ckpt_get_file(c, i, &name, &bytes); i++) total += bytes;
    return total;
}

/* ---- text ---- */

static void print_pair(const char *lead, const char *key, const char *value) {
    fputs(lead, stdout);
    print_name(key, SIZE_MAX, 0);
    fputs(": ", stdout);
    print_name(value, 200, 0);
    putchar('\n');
}

static void print_other(const char *name, const char *what) {
    fputs("  ", stdout);
    print_name(name, SIZE_MAX, 48);
    printf(" %10s  ", "other");
    print_name(what, SIZE_MAX, 0);
    putchar('\n');
}

static void print_text(const char *path, const rsh_ckpt *c) {
    char text[256], bytes[QUANTITY], files[QUANTITY];
    rsh_ckpt_entry t = RSH_CKPT_ENTRY_INIT;
    const char *a, *b;
    long long tensors = (long long)rsh_ckpt_ntensors(c), nfiles = (long long)rsh_ckpt_nfiles(c);
    printf("%s: %s, %lld tensor%s, %s; %lld file%s, %s\n", path, rsh_ckpt_kind(c), tensors, plural(tensors),
           human_bytes((double)total_bytes(c), bytes), nfiles, plural(nfiles),
           human_bytes((double)file_bytes(c), files));
    for (int64_t i = 0; !rsh_ckpt_get_meta(c, i, &a, &b); i++) print_pair("  metadata ", a, b);
    for (int64_t i = 0; !rsh_ckpt_get_tensor(c, i, &t); i++) {
        fputs("  ", stdout);
        print_name(t.name, SIZE_MAX, 48);
        printf(" %10s  %s\n", human_bytes((double)t.bytes, bytes), tensor_form(&t, text, sizeof text));
    }
    for (int64_t i = 0; !rsh_ckpt_get_non_tensor(c, i, &a, &b); i++) print_other(a, b);
}

/* ---- JSON, printed without building it in memory, since there may be half a million tensors ---- */

static void print_string(const char *text) {
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if (*p < 32)
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

static void print_member(const char *lead, const char *key, const char *value) {
    printf("%s\"%s\": ", lead, key);
    if (value)
        print_string(value);
    else
        fputs("null", stdout);
}

static void print_tensor(const rsh_ckpt_entry *t) {
    print_member("{", "name", t->name);
    print_member(", ", "dtype", rsh_dtype_name(t->dtype));
    fputs(", \"shape\": [", stdout);
    for (int d = 0; d < t->ndim; d++) printf("%s%lld", d ? ", " : "", (long long)t->shape[d]);
    printf("], \"bytes\": %llu", (unsigned long long)t->bytes);
    print_member(", ", "layout", t->layout ? rsh_layout_text(t->layout) : NULL);
    print_member(", ", "digest", t->digest);
    if (t->packing) print_member(", ", "packing", t->packing);
    fputs("}", stdout);
}

static void print_checkpoint(inspection *x, const char *path, const rsh_ckpt *c) {
    rsh_ckpt_entry t = RSH_CKPT_ENTRY_INIT;
    const char *a, *b;
    uint64_t bytes;
    print_member(x->printed++ ? ",\n{" : "\n{", "path", path);
    print_member(", ", "kind", rsh_ckpt_kind(c));
    printf(", \"bytes\": %llu, \"files\": [", (unsigned long long)total_bytes(c));
    for (int64_t i = 0; !rsh_ckpt_get_file(c, i, &a, &bytes); i++) {
        print_member(i ? ", {" : "{", "name", a);
        printf(", \"bytes\": %llu}", (unsigned long long)bytes);
    }
    fputs("], \"metadata\": {", stdout);
    for (int64_t i = 0; !rsh_ckpt_get_meta(c, i, &a, &b); i++) {
        if (i) fputs(", ", stdout);
        print_string(a);
        fputs(": ", stdout);
        print_string(b);
    }
    fputs("}, \"others\": [", stdout);
    for (int64_t i = 0; !rsh_ckpt_get_non_tensor(c, i, &a, &b); i++) {
        print_member(i ? ", {" : "{", "name", a);
        print_member(", ", "what", b);
        fputs("}", stdout);
    }
    fputs("], \"tensors\": [", stdout);
    for (int64_t i = 0; !rsh_ckpt_get_tensor(c, i, &t); i++) {
        fputs(i ? ",\n  " : "\n  ", stdout);
        print_tensor(&t);
    }
    fputs("]}", stdout);
}

static int inspect_path(inspection *x, const char *path, const rsh_ckpt_rules *from) {
    rsh_ckpt *c = NULL;
    rsh_status st = rsh_ckpt_open(path, from, &c);
    if (st) return fail_library(st);
    if (x->json)
        print_checkpoint(x, path, c);
    else
        print_text(path, c);
    rsh_ckpt_free(c);
    return DONE;
}

int cmd_inspect(int argc, char **argv) {
    inspection x = {.path = calloc((size_t)argc + 1, sizeof *x.path)};
    rsh_ckpt_rules *from = NULL;
    int result = DONE;
    if (!x.path) return fail("out of memory");
    argp_parse(&inspect_argp, argc, argv, 0, NULL, &x);
    if (x.from && rsh_ckpt_rules_read(x.from, &from)) result = fail("%s", rsh_error_detail());
    if (x.json) fputs("{\"checkpoints\": [", stdout);
    for (int i = 0; i < x.npaths && (!x.from || from); i++)
        if (inspect_path(&x, x.path[i], from) != DONE) result = FAILED;
    if (x.json) fputs("]}\n", stdout);
    rsh_ckpt_rules_free(from);
    free((void *)x.path);
    return result;
}

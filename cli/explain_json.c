/* Explain JSON: prints the results as JSON. */
#include "explain.h"

#include <inttypes.h>

typedef struct matrix_print {
    const char *lead;
} matrix_print;

static int print_entry(void *ctx, int64_t source, int64_t destination, int64_t bytes) {
    matrix_print *m = ctx;
    printf("%s[%" PRId64 ",%" PRId64 ",%" PRId64 "]", m->lead, source, destination, bytes);
    m->lead = ",\n    ";
    return ferror(stdout);
}

static int print_matrix(void *ctx) {
    const explanation *e = ctx;
    matrix_print m = {"\n    "};
    fputs(",\n  \"matrix\": [", stdout);
    rsh_status st = rsh_plan_each_pair(e->plan, print_entry, &m);
    fputs("]", stdout);
    return st ? fail_library(st) : DONE;
}

static void set_integer(json_t *o, const char *key, int64_t value) { json_object_set_new(o, key, json_integer(value)); }

static int add_stage(void *ctx, int stage, const char *what, int64_t moved, int64_t between) {
    (void)stage;
    return json_array_append_new(ctx, json_pack("{s:s, s:I, s:I}", "what", what, "bytes_moved", (json_int_t)moved,
                                                "bytes_between_nodes", (json_int_t)between));
}

int explain_json(const explanation *e) {
    const rsh_plan_totals *t = &e->totals;
    json_t *o = json_object();
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, rsh_plan_fingerprint(e->plan));
    json_object_set_new(o, "from", json_string(rsh_layout_text(e->pair.from)));
    json_object_set_new(o, "to", json_string(rsh_layout_text(e->pair.to)));
    set_integer(o, "ranks", rsh_plan_nranks(e->plan));
    set_integer(o, "tensor_bytes", t->tensor_bytes);
    set_integer(o, "bytes_moved", t->bytes_moved);
    set_integer(o, "lower_bound", t->lower_bound);
    set_integer(o, "bytes_local", t->bytes_local);
    set_integer(o, "bytes_between_nodes", t->bytes_between_nodes);
    set_integer(o, "lower_bound_between_nodes", t->lower_bound_between_nodes);
    if (e->has_other) {
        set_integer(o, "bytes_between_nodes_in_order", e->by_node ? e->other_between_nodes : t->bytes_between_nodes);
        set_integer(o, "bytes_between_nodes_by_node", e->by_node ? t->bytes_between_nodes : e->other_between_nodes);
    }
    set_integer(o, "max_send", t->max_send);
    set_integer(o, "max_recv", t->max_recv);
    set_integer(o, "messages", t->messages);
    set_integer(o, "scratch_bytes", t->scratch_bytes);
    json_t *stages = json_array();
    json_object_set_new(o, "stages", stages);
    rsh_status st = rsh_plan_each_stage(e->plan, add_stage, stages);
    if (st) {
        json_decref(o);
        return fail_library(st);
    }
    json_object_set_new(o, "plan_seconds", json_real(e->seconds));
    json_object_set_new(o, "fingerprint", json_string(fingerprint));
    if (e->relabel) {
        json_object_set_new(o, "relabel_exact", json_boolean(e->relabel_exact));
        set_integer(o, "bytes_moved_before", e->moved_before);
    }
    return print_json(o, e->matrix ? print_matrix : NULL, (void *)e);
}

/* Broadcasts over nodes: every number of the plan, every byte, and the transpose of the map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "doors.h"
#include "engine.h"
#include "planned.h"

static int64_t three_stages; /* cases of the current property that were spread over nodes */

static int keep_text(void *ctx, const char *bytes, size_t n) {
    char *text = ctx;
    size_t at = strlen(text), room = 2 * GEN_TEXT + 2048 - at - 1;
    memcpy(text + at, bytes, n < room ? n : room);
    text[at + (n < room ? n : room)] = 0;
    return 0;
}

static bool is_spread(const rsh_plan *plan) {
    char text[2 * GEN_TEXT + 2048] = "";
    rsh_sink sink = {keep_text, text};
    return rsh_plan_print(plan, -1, RSH_PRINT_JSON, &sink) == RSH_OK && !strstr(text, "\"stages\": 2") &&
           !strstr(text, "\"stages\": 1");
}

static void any_broadcast(prop_case *c, int64_t *node_of, rsh_plan_opts *opts) {
    ora_dtype a = gen_any_dtype(&c->rng), b = gen_chance(&c->rng, 30) ? gen_dtype_from(&c->rng, a) : a;
    gen_broadcast(&c->rng, a, b, c->from, c->to);
    gen_nodes(&c->rng, node_of);
    opts->node_of = node_of;
    opts->nnode_of = GEN_MAX_ROLES;
    size_t n = (size_t)snprintf(c->note, sizeof c->note, "nodes");
    for (int r = 0; r < GEN_MAX_ROLES; r++)
        n += (size_t)snprintf(c->note + n, sizeof c->note - n, " %d", (int)node_of[r]);
}

/* Is every region in one source piece and one destination piece that are equal on all their holders? */
static bool regular(const planned *p) {
    return !p->from_o->is_boxes && !p->from_o->flat.naxes && ora_size(p->to_o->dtype) <= ora_size(p->from_o->dtype);
}

static bool numbers_agree(prop_case *c, const planned *p) {
    const rsh_plan_totals *t = &p->totals;
    PROP(c, t->bytes_between_nodes >= t->lower_bound_between_nodes,
         "%lld bytes between nodes, fewer than the least, %lld", (long long)t->bytes_between_nodes,
         (long long)t->lower_bound_between_nodes);
    PROP(c, !regular(p) || t->bytes_between_nodes == t->lower_bound_between_nodes,
         "%lld bytes between nodes, the least is %lld", (long long)t->bytes_between_nodes,
         (long long)t->lower_bound_between_nodes);
    return nothing_more_than_needed(c, p) && totals_are_those_of_the_matrix(c, p) && ranks_agree_with_the_matrix(c, p);
}

static bool numbers(prop_case *c) {
    planned p;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    int64_t node_of[GEN_MAX_ROLES];
    any_broadcast(c, node_of, &opts);
    bool ok = planned_new(c, &p, &opts) && numbers_agree(c, &p);
    three_stages += ok && is_spread(p.plan);
    planned_free(&p);
    return ok;
}

static bool bytes(prop_case *c) {
    stage s;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    int64_t node_of[GEN_MAX_ROLES];
    any_broadcast(c, node_of, &opts);
    int64_t i = gen_below(&c->rng, LOCAL_DOORS + RANK_DOORS);
    const door *through = i < LOCAL_DOORS && !engine_is_job() ? &local_doors[i] : &rank_doors[i % RANK_DOORS];
    opts.messages = gen_chance(&c->rng, 40);
    size_t n = strlen(c->note);
    snprintf(c->note + n, sizeof c->note - n, ", %s%s", through->name, opts.messages ? ", messages" : "");
    bool ok = stage_new(&s, c, c->from, c->to, gen_chance(&c->rng, 40));
    if (ok) {
        s.opts = opts;
        stage_values(&s, &c->rng);
        ok = through->go(c, &s);
    }
    stage_free(&s);
    return ok;
}

static void every_number_of_a_broadcast_follows_from_the_matrix(void **state) {
    (void)state;
    three_stages = 0;
    prop_run("numbers", 40, numbers);
    if (gen_most_ranks == GEN_MAX_ROLES) assert_true(three_stages > 0);
}

static void every_byte_of_a_broadcast_arrives(void **state) { (void)state; prop_run("bytes", 25, bytes); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_a_broadcast_follows_from_the_matrix),
        cmocka_unit_test(every_byte_of_a_broadcast_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

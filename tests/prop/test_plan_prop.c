/* Plans compared with counts of the oracle, and all numbers of a plan compared with each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planned.h"

static bool least(prop_case *c) {
    static const gen_pair_wish w = {0, 30, false, true, 12, false};
    planned p;
    gen_pair(&c->rng, &w, c->from, c->to);
    bool ok = planned_new(c, &p, NULL) && nothing_more_than_needed(c, &p) && totals_are_those_of_the_matrix(c, &p) &&
              ranks_agree_with_the_matrix(c, &p);
    planned_free(&p);
    return ok;
}

static bool consistent(prop_case *c) {
    static const gen_pair_wish w = {100, 30, false, true, 12, false};
    planned p;
    gen_pair(&c->rng, &w, c->from, c->to);
    bool ok = planned_new(c, &p, NULL) && totals_are_those_of_the_matrix(c, &p) && ranks_agree_with_the_matrix(c, &p);
    if (ok && p.totals.lower_bound > p.totals.bytes_moved)
        ok = prop_say(c, "lower_bound %lld above bytes_moved %lld", (long long)p.totals.lower_bound,
                      (long long)p.totals.bytes_moved);
    planned_free(&p);
    return ok;
}

static bool between_nodes_check(prop_case *c, const planned *p, int64_t per_node) {
    int64_t between = 0, least_between = ora_least_between_nodes(p->from_o, p->to_o, per_node);
    for (int64_t r = 0; r < RANKS; r++)
        for (int64_t q = 0; q < RANKS; q++)
            if (r / per_node != q / per_node) between += p->matrix[r][q];
    const rsh_plan_totals *t = &p->totals;
    PROP(c, t->bytes_between_nodes == between, "bytes_between_nodes %lld, matrix %lld",
         (long long)t->bytes_between_nodes, (long long)between);
    PROP(c, t->lower_bound_between_nodes == least_between, "lower_bound_between_nodes %lld, oracle %lld",
         (long long)t->lower_bound_between_nodes, (long long)least_between);
    PROP(c, between >= least_between, "%lld bytes between nodes, fewer than the least, %lld", (long long)between,
         (long long)least_between);
    return nothing_more_than_needed(c, p) && totals_are_those_of_the_matrix(c, p) && ranks_agree_with_the_matrix(c, p);
}

/* Returns the bytes that rank r needs and no rank of its node holds. */
static int64_t far_bytes(const planned *p, int64_t r, int64_t per_node) {
    size_t a = ora_size(p->from_o->dtype), b = ora_size(p->to_o->dtype);
    int64_t missing = 0;
    for (int64_t i = 0; i < p->to_o->nparts; i++) {
        const ora_part *part = &p->to_o->part[i];
        for (int64_t j = 0; part->rank == r && j < part->count; j++) {
            bool near = false;
            for (int64_t q = r / per_node * per_node; q < RANKS && q / per_node == r / per_node && !near; q++)
                near = ora_rank_holds(p->from_o, q, part->element[j]);
            missing += !near;
        }
    }
    return missing * (int64_t)(a < b ? a : b);
}

/* Checks that no rank takes from another node what its own node holds. */
static bool near_first(prop_case *c, const planned *p, int64_t per_node) {
    for (int64_t r = 0; r < RANKS; r++) {
        int64_t far = 0;
        for (int64_t q = 0; q < RANKS; q++) far += q / per_node != r / per_node ? p->matrix[q][r] : 0;
        if (far)
            PROP(c, far <= far_bytes(p, r, per_node),
                 "rank %lld takes %lld bytes from other nodes, its node lacks %lld", (long long)r, (long long)far,
                 (long long)far_bytes(p, r, per_node));
    }
    return true;
}

static bool nodes(prop_case *c) {
    static const gen_pair_wish w = {0, 20, false, true, 12, false};
    planned p;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    int64_t node_of[RANKS];
    gen_pair(&c->rng, &w, c->from, c->to);
    int64_t per_node = gen_between(&c->rng, 1, 6);
    bool by_map = gen_chance(&c->rng, 50);
    for (int64_t r = 0; r < RANKS; r++) node_of[r] = 100 - r / per_node;
    if (by_map) {
        opts.node_of = node_of;
        opts.nnode_of = RANKS;
    } else {
        opts.ranks_per_node = per_node;
    }
    snprintf(c->note, sizeof c->note, "ranks per node %lld%s", (long long)per_node, by_map ? " by map" : "");
    bool ok = planned_new(c, &p, &opts) && between_nodes_check(c, &p, per_node) && near_first(c, &p, per_node);
    planned_free(&p);
    return ok;
}

static uint64_t fingerprint(const char *from, const char *to, const rsh_plan_opts *opts) {
    rsh_layout *a = NULL, *b = NULL;
    rsh_plan *p = NULL;
    uint64_t found = 0;
    if (rsh_layout_parse(from, &a) == RSH_OK && rsh_layout_parse(to, &b) == RSH_OK &&
        rsh_plan_new(a, b, opts, &p) == RSH_OK)
        found = rsh_plan_fingerprint(p);
    rsh_plan_free(p);
    rsh_layout_free(a);
    rsh_layout_free(b);
    return found;
}

static bool other_text(const char *a, const char *b) {
    rsh_layout *x = NULL, *y = NULL;
    bool other = rsh_layout_parse(a, &x) == RSH_OK && rsh_layout_parse(b, &y) == RSH_OK && !rsh_layout_equal(x, y);
    rsh_layout_free(x);
    rsh_layout_free(y);
    return other;
}

static bool fingerprints(prop_case *c) {
    static const gen_pair_wish w = {20, 20, false, true, 8, false};
    char spelling[2 * GEN_TEXT];
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    gen_pair(&c->rng, &w, c->from, c->to);
    uint64_t first = fingerprint(c->from, c->to, NULL);
    gen_respell(&c->rng, c->from, spelling);
    PROP(c, first != 0, "no plan: %s", rsh_error_detail());
    PROP(c, fingerprint(spelling, c->to, NULL) == first, "the same layouts give another fingerprint");
    PROP(c, fingerprint(c->from, c->to, &opts) == first, "default options give another fingerprint");
    if (other_text(c->from, c->to)) {
        PROP(c, fingerprint(c->from, c->from, NULL) != first, "another destination gives the same fingerprint");
        PROP(c, fingerprint(c->to, c->to, NULL) != first, "another source gives the same fingerprint");
    }
    opts.messages = true;
    PROP(c, fingerprint(c->from, c->to, &opts) != first, "another option gives the same fingerprint");
    return true;
}

/* Writes "[4,5]" without blanks, as error messages do. */
static void shape_text(const ora_layout *l, char out[256]) {
    size_t n = (size_t)snprintf(out, 256, "[");
    for (int d = 0; d < l->ndim; d++) n += (size_t)snprintf(out + n, 256 - n, d ? ",%d" : "%d", (int)l->shape[d]);
    snprintf(out + n, 256 - n, "]");
}

static bool sentence_has_both(prop_case *c, const ora_layout *a, const ora_layout *b) {
    char said[2048] = "", x[256], y[256];
    size_t n = 0;
    for (const char *p = rsh_error_detail(); *p && n < sizeof said - 1; p++)
        if (!isspace((unsigned char)*p)) said[n++] = *p;
    shape_text(a, x);
    shape_text(b, y);
    PROP(c, strstr(said, x) && strstr(said, y), "the sentence does not name %s and %s: %s", x, y, rsh_error_detail());
    return true;
}

static bool other_shape(prop_case *c) {
    static const gen_pair_wish w = {20, 20, false, true, 8, false};
    char ignored[GEN_TEXT];
    gen_pair(&c->rng, &w, c->from, ignored);
    gen_pair(&c->rng, &w, c->to, ignored);
    ora_layout *a = ora_parse(c->from), *b = ora_parse(c->to);
    bool same = a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof a->shape), ok = true;
    rsh_layout *x = NULL, *y = NULL;
    rsh_plan *p = NULL;
    if (!same && rsh_layout_parse(c->from, &x) == RSH_OK && rsh_layout_parse(c->to, &y) == RSH_OK) {
        rsh_status status = rsh_plan_new(x, y, NULL, &p);
        ok = status == RSH_EVALUE ? sentence_has_both(c, a, b)
                                  : prop_say(c, "rsh_plan_new says %s", rsh_status_name(status));
    }
    rsh_plan_free(p);
    rsh_layout_free(x);
    rsh_layout_free(y);
    ora_free(a);
    ora_free(b);
    return ok;
}

/* With a limit, a plan either stays below it or is an error, and a higher limit is never worse. */
static bool ceiling_check(prop_case *c, planned *p, bool messages) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    bool fits = false;
    opts.has_max_scratch = true;
    opts.messages = messages;
    for (uint64_t room = 0; room <= (uint64_t)1 << 40; room = room ? room * 4 : 16) {
        rsh_plan *plan = NULL;
        rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
        opts.max_scratch_bytes = room;
        rsh_status status = rsh_plan_new(p->from, p->to, &opts, &plan);
        PROP(c, status == RSH_OK || (status == RSH_ENOMEM && !fits), "ceiling %llu: %s", (unsigned long long)room,
             rsh_status_name(status));
        fits = status == RSH_OK;
        if (!fits) continue;
        PROP_OK(c, rsh_plan_get_totals(plan, &t));
        rsh_plan_free(plan);
        uint64_t needs = (uint64_t)(messages ? t.scratch_messages : t.scratch_bytes);
        PROP(c, needs <= room, "ceiling %llu: needs %llu", (unsigned long long)room, (unsigned long long)needs);
    }
    PROP(c, fits, "a terabyte of scratch is not enough");
    return true;
}

static bool ceilings(prop_case *c) {
    static const gen_pair_wish w = {50, 30, false, true, 10, false};
    planned p;
    gen_pair(&c->rng, &w, c->from, c->to);
    bool ok = planned_new(c, &p, NULL) && ceiling_check(c, &p, false) && ceiling_check(c, &p, true);
    planned_free(&p);
    return ok;
}

static void without_partials_nothing_moves_that_need_not(void **state) { (void)state; prop_run("least", 4000, least); }
static void every_number_follows_from_the_matrix(void **state) {
    (void)state;
    prop_run("consistent", 3000, consistent);
}
static void bytes_between_nodes_are_counted_as_they_cross(void **state) { (void)state; prop_run("nodes", 4000, nodes); }
static void fingerprints_are_those_of_the_input(void **state) {
    (void)state;
    prop_run("fingerprints", 400, fingerprints);
}
static void different_shapes_are_refused_by_name(void **state) {
    (void)state;
    prop_run("other_shape", 100, other_shape);
}
static void a_plan_stays_under_its_ceiling_or_is_refused(void **state) {
    (void)state;
    prop_run("ceilings", 500, ceilings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_partials_nothing_moves_that_need_not),
        cmocka_unit_test(every_number_follows_from_the_matrix),
        cmocka_unit_test(bytes_between_nodes_are_counted_as_they_cross),
        cmocka_unit_test(fingerprints_are_those_of_the_input),
        cmocka_unit_test(different_shapes_are_refused_by_name),
        cmocka_unit_test(a_plan_stays_under_its_ceiling_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

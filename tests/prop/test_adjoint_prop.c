/* Adjoint and backward: <A x, y> = <x, A' y> with different values on every replica, and the rule of automatic
 * differentiation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static ora_dtype any_float(gen_rng *g) {
    static const ora_dtype list[] = {ORA_F64, ORA_F64, ORA_F32, ORA_F32, ORA_F16, ORA_BF16};
    return list[gen_below(g, 6)];
}

/* Draws two sides with these ops, with float dtypes, or with the given dtype on both. */
static void any_pair(prop_case *c, ora_op from, ora_op to, ora_dtype t) {
    bool fixed = t != ORA_DTYPES;
    gen_wish w = {gen_any_shape(&c->rng), fixed ? t : any_float(&c->rng), from, 12, true, false};
    gen_side(&c->rng, &w, c->from);
    w.op = to;
    w.rather_boxes = from != ORA_NONE;
    if (!fixed && gen_chance(&c->rng, 40)) w.dtype = any_float(&c->rng);
    gen_side(&c->rng, &w, c->to);
}

/* Fills a side with small whole numbers that differ between replicas; their sums are exact in every float type. */
static void fill_apart(side *s, gen_rng *g) {
    size_t size = ora_size(s->o->dtype);
    for (int64_t i = 0; i < s->o->nparts; i++)
        for (int64_t j = 0; j < s->o->part[i].count; j++)
            ora_encode(s->o->dtype, (ora_number){.re = (long double)gen_between(g, -3, 3)},
                       s->dense[i] + (size_t)j * size);
    side_show(s);
}

/* Returns the scalar product of the side's memory with `other`, over all parts of all ranks. */
static long double dot(const side *s, unsigned char **other) {
    size_t size = ora_size(s->o->dtype);
    long double sum = 0;
    for (int64_t i = 0; i < s->o->nparts; i++) {
        held_get(&s->held[i], s->got[i]);
        for (int64_t j = 0; j < s->o->part[i].count; j++)
            sum += ora_decode(s->o->dtype, s->got[i] + (size_t)j * size).re *
                   ora_decode(s->o->dtype, other[i] + (size_t)j * size).re;
    }
    return sum;
}

static bool transposed(prop_case *c, stage *s, side *xbar, side *y, bool exact) {
    rsh_plan *plan = NULL, *adjoint = NULL;
    PROP_OK(c, rsh_plan_new(s->from.l, s->to.l, &s->opts, &plan));
    PROP_OK(c, rsh_plan_adjoint(plan, &adjoint));
    fill_apart(&s->from, &c->rng);
    fill_apart(y, &c->rng);
    PROP_OK(c, rsh_plan_run_local(plan, NULL, s->from.memory, s->to.memory));
    PROP_OK(c, rsh_plan_run_local(adjoint, NULL, y->memory, xbar->memory));
    long double forward = dot(&s->to, y->dense), backward = dot(xbar, s->from.dense);
    bool close = fabsl(forward - backward) <= 1e-4L * (1 + fabsl(forward));
    bool equal = exact ? forward == backward : close;
    for (int64_t i = 0; i < xbar->o->nparts; i++)
        PROP(c, held_guards_are_whole(&xbar->held[i]), "the adjoint writes outside its parts");
    rsh_plan_free(plan);
    rsh_plan_free(adjoint);
    PROP(c, equal, "<A x, y> = %.12Lg, <x, A' y> = %.12Lg", forward, backward);
    return true;
}

/* Runs with or without nodes, which determine which copy is read. */
static bool dot_test(prop_case *c, bool exact) {
    stage s;
    side xbar = {0}, y = {0};
    int64_t node_of[GEN_MAX_ROLES];
    bool ok =
        stage_new(&s, c, c->from, c->to, false) && side_new(&xbar, c, c->from, false) && side_new(&y, c, c->to, false);
    gen_nodes(&c->rng, node_of);
    s.opts.node_of = gen_chance(&c->rng, 60) ? node_of : NULL;
    s.opts.nnode_of = GEN_MAX_ROLES;
    s.opts.reduce = gen_chance(&c->rng, 50) ? RSH_REDUCE_BY_NODE : RSH_REDUCE_IN_ORDER;
    ok = ok && transposed(c, &s, &xbar, &y, exact);
    side_free(&xbar);
    side_free(&y);
    stage_free(&s);
    return ok;
}

static bool copies(prop_case *c) {
    any_pair(c, ORA_NONE, ORA_NONE, ORA_DTYPES);
    return dot_test(c, true);
}

/* Sizes that are large enough to be spread over nodes. */
static bool broadcasts(prop_case *c) {
    gen_broadcast(&c->rng, ORA_F64, ORA_F64, c->from, c->to);
    return dot_test(c, true);
}

static bool sums(prop_case *c) {
    int64_t way = gen_below(&c->rng, 3);
    any_pair(c, way == 1 ? ORA_NONE : ORA_SUM, way == 0 ? ORA_NONE : ORA_SUM, ORA_DTYPES);
    return dot_test(c, true);
}

static bool averages(prop_case *c) {
    int64_t way = gen_below(&c->rng, 3);
    any_pair(c, way == 1 ? ORA_NONE : ORA_AVG, way == 0 ? ORA_NONE : ORA_AVG,
             gen_chance(&c->rng, 50) ? ORA_F64 : ORA_F32);
    return dot_test(c, false);
}

/* Sources that are flat over replicated segments, or partial: the gradient goes to the copies that were read. */
static bool known_pairs(prop_case *c) {
    static const char *const pair[][2] = {
        {"f32[(0/z|1)]/o on z=2,o=1,e=2 sum(e)", "f32[1] on x=2"},
        {"f32[(1|1/z)]/o on z=2,o=1,e=2 sum(e)", "f32[2] on x=2"},
        {"f32[(64/tp|8|8), 16]/dp on dp=2,tp=2,pp=2 sum(pp)", "f32[(64/tp|8|8), 16]/dp on dp=2,tp=2,pp=2"},
    };
    int64_t i = gen_below(&c->rng, 3);
    strcpy(c->from, pair[i][0]);
    strcpy(c->to, pair[i][1]);
    return dot_test(c, true);
}

/* The adjoint of the adjoint is the original map. */
static bool involution(prop_case *c) {
    stage s;
    rsh_plan *plan = NULL, *adjoint = NULL, *twice = NULL;
    any_pair(c, gen_chance(&c->rng, 50) ? ORA_SUM : ORA_NONE, ORA_NONE, ORA_DTYPES);
    bool ok = stage_new(&s, c, c->from, c->to, false);
    if (ok) {
        stage_values(&s, &c->rng);
        rsh_status status = rsh_plan_new(s.from.l, s.to.l, NULL, &plan);
        if (status == RSH_OK) status = rsh_plan_adjoint(plan, &adjoint);
        if (status == RSH_OK) status = rsh_plan_adjoint(adjoint, &twice);
        if (status == RSH_OK) status = rsh_plan_run_local(twice, NULL, s.from.memory, s.to.memory);
        ok = status == RSH_OK ? stage_done(c, &s, "the adjoint of the adjoint")
                              : prop_say(c, "%s: %s", rsh_status_name(status), rsh_error_detail());
    }
    rsh_plan_free(plan);
    rsh_plan_free(adjoint);
    rsh_plan_free(twice);
    stage_free(&s);
    return ok;
}

static bool refusal(prop_case *c, rsh_status (*derive)(const rsh_plan *, rsh_plan **), const char *name,
                    const char *word) {
    rsh_layout *a = NULL, *b = NULL;
    rsh_plan *plan = NULL, *derived = NULL;
    PROP_OK(c, rsh_layout_parse(c->from, &a));
    PROP_OK(c, rsh_layout_parse(c->to, &b));
    PROP_OK(c, rsh_plan_new(a, b, NULL, &plan));
    rsh_status status = derive(plan, &derived);
    rsh_plan_free(plan);
    rsh_plan_free(derived);
    rsh_layout_free(a);
    rsh_layout_free(b);
    PROP(c, status == RSH_EUNSUP, "%s says %s", name, rsh_status_name(status));
    PROP(c, strstr(rsh_error_detail(), word), "%s does not name %s: %s", name, word, rsh_error_detail());
    return true;
}

static bool other_ops(prop_case *c) {
    ora_dtype t = gen_any_dtype(&c->rng);
    ora_op op = gen_any_op(&c->rng, t);
    while (op == ORA_SUM || op == ORA_AVG || op == ORA_NONE) {
        t = gen_any_dtype(&c->rng);
        op = gen_any_op(&c->rng, t);
    }
    int64_t way = gen_below(&c->rng, 3);
    any_pair(c, way == 1 ? ORA_NONE : op, way == 0 ? ORA_NONE : op, t);
    return refusal(c, rsh_plan_adjoint, "rsh_plan_adjoint", ora_op_name(op)) &&
           refusal(c, rsh_plan_backward, "rsh_plan_backward", ora_op_name(op));
}

/* Removes the partial from a layout's text. */
static void strip_partial(const char *text, ora_op op, char out[GEN_TEXT]) {
    char word[16] = " ";
    strcpy(out, text);
    if (op == ORA_NONE) return;
    strcat(strcat(word, ora_op_name(op)), "(");
    char *at = strstr(out, word), *end = at ? strchr(at, ')') : NULL;
    if (!end) abort();
    memmove(at, end + 1, strlen(end + 1) + 1);
}

static bool goes_back(prop_case *c, const stage *forward, stage *back) {
    rsh_plan *plan = NULL, *derived = NULL;
    PROP_OK(c, rsh_plan_new(forward->from.l, forward->to.l, NULL, &plan));
    PROP_OK(c, rsh_plan_backward(plan, &derived));
    PROP(c, rsh_plan_ntensors(derived) == 1, "backward has %d tensors", (int)rsh_plan_ntensors(derived));
    PROP(c, rsh_layout_same_parts(rsh_plan_from(derived, 0), back->from.l), "backward starts from %.500s",
         rsh_layout_text(rsh_plan_from(derived, 0)));
    PROP(c,
         rsh_layout_same_parts(rsh_plan_to(derived, 0), back->to.l) &&
             rsh_layout_op(rsh_plan_to(derived, 0)) == RSH_OP_NONE,
         "backward goes to %.500s", rsh_layout_text(rsh_plan_to(derived, 0)));
    stage_values(back, &c->rng);
    PROP_OK(c, rsh_plan_run_local(derived, NULL, back->from.memory, back->to.memory));
    rsh_plan_free(plan);
    rsh_plan_free(derived);
    return stage_done(c, back, "backward");
}

static bool backward(prop_case *c) {
    stage forward, back = {0};
    char target[GEN_TEXT];
    int64_t way = gen_below(&c->rng, 6);
    ora_op op = gen_chance(&c->rng, 70) ? ORA_SUM : ORA_AVG;
    any_pair(c, way < 3 ? op : ORA_NONE, way == 0 || way == 3 ? op : ORA_NONE, ORA_DTYPES);
    bool ok = stage_new(&forward, c, c->from, c->to, false);
    if (ok) {
        strip_partial(c->from, forward.from.o->op, target);
        ok = stage_new(&back, c, c->to, target, true) && goes_back(c, &forward, &back);
    }
    stage_free(&forward);
    stage_free(&back);
    return ok;
}

static void the_adjoint_of_copies_is_their_transpose(void **state) { (void)state; prop_run("copies", 1200, copies); }
static void the_adjoint_of_broadcasts_is_their_transpose(void **state) {
    (void)state;
    prop_run("broadcasts", 12, broadcasts);
}
static void the_adjoint_of_sums_is_their_transpose(void **state) { (void)state; prop_run("sums", 2500, sums); }
static void the_adjoint_of_averages_is_their_transpose(void **state) {
    (void)state;
    prop_run("averages", 300, averages);
}
static void the_adjoint_of_flat_replicated_segments_is_their_transpose(void **state) {
    (void)state;
    prop_run("known_pairs", 24, known_pairs);
}
static void the_adjoint_of_the_adjoint_is_the_plan(void **state) {
    (void)state;
    prop_run("involution", 200, involution);
}
static void other_ops_have_no_adjoint_and_are_named(void **state) { (void)state; prop_run("other_ops", 40, other_ops); }
static void backward_leads_to_the_source_without_its_partial(void **state) {
    (void)state;
    prop_run("backward", 600, backward);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_adjoint_of_copies_is_their_transpose),
        cmocka_unit_test(the_adjoint_of_broadcasts_is_their_transpose),
        cmocka_unit_test(the_adjoint_of_sums_is_their_transpose),
        cmocka_unit_test(the_adjoint_of_averages_is_their_transpose),
        cmocka_unit_test(the_adjoint_of_flat_replicated_segments_is_their_transpose),
        cmocka_unit_test(the_adjoint_of_the_adjoint_is_the_plan),
        cmocka_unit_test(other_ops_have_no_adjoint_and_are_named),
        cmocka_unit_test(backward_leads_to_the_source_without_its_partial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

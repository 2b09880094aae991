/* Local doors: moves by one caller that has every rank's parts. */
#include "doors.h"

static bool with_pool(prop_case *c, stage *s, rsh_plan *plan, rsh_pool *pool, const char *when) {
    PROP_OK(c, rsh_plan_run_local(plan, pool, s->from.memory, s->to.memory));
    return stage_done(c, s, when);
}

static bool alone(prop_case *c, stage *s) {
    rsh_plan *plan = NULL;
    PROP_OK(c, rsh_plan_new(s->from.l, s->to.l, &s->opts, &plan));
    bool ok = with_pool(c, s, plan, NULL, "run_local");
    rsh_plan_free(plan);
    return ok;
}

static bool pool(prop_case *c, stage *s) {
    rsh_plan *plan = NULL;
    rsh_pool *threads = NULL;
    PROP_OK(c, rsh_plan_new(s->from.l, s->to.l, &s->opts, &plan));
    PROP_OK(c, rsh_pool_new((int)gen_between(&c->rng, 1, 3), &threads));
    bool ok = with_pool(c, s, plan, threads, "run_local with a pool");
    rsh_pool_free(threads);
    rsh_plan_free(plan);
    return ok;
}

static bool run_bound_twice(prop_case *c, stage *s, rsh_local_exec *bound) {
    stage_next_values(s, &c->rng);
    PROP_OK(c, rsh_local_exec_run(bound));
    stage_turn(s, -1);
    PROP_OK(c, rsh_local_exec_run(bound));
    return stage_done_twice(c, s, "the second rsh_local_exec_run");
}

static bool bound(prop_case *c, stage *s) {
    rsh_plan *plan = NULL;
    rsh_local_exec *local = NULL;
    PROP_OK(c, rsh_plan_new(s->from.l, s->to.l, &s->opts, &plan));
    PROP_OK(c, rsh_local_exec_bind(plan, NULL, s->from.memory, s->to.memory, &local));
    bool ok = run_bound_twice(c, s, local);
    rsh_local_exec_free(local);
    rsh_plan_free(plan);
    return ok;
}

static bool bound_with_pool(prop_case *c, stage *s) {
    rsh_plan *plan = NULL;
    rsh_pool *threads = NULL;
    rsh_local_exec *local = NULL;
    PROP_OK(c, rsh_plan_new(s->from.l, s->to.l, &s->opts, &plan));
    PROP_OK(c, rsh_pool_new(2, &threads));
    PROP_OK(c, rsh_local_exec_bind(plan, threads, s->from.memory, s->to.memory, &local));
    bool ok = run_bound_twice(c, s, local);
    rsh_local_exec_free(local);
    rsh_pool_free(threads);
    rsh_plan_free(plan);
    return ok;
}

const door local_doors[LOCAL_DOORS] = {
    {"rsh_plan_run_local", alone},
    {"rsh_plan_run_local with a pool", pool},
    {"rsh_local_exec_bind", bound},
    {"rsh_local_exec_bind with a pool", bound_with_pool},
};

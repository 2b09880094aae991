/* Simulate: estimates the time of each stage of a plan, and finds the resource that limits it.
 *
 * The share of a rank lists what it copies, packs, unpacks and exchanges with other nodes in every stage.  The work of
 * all ranks of a node is added up; the slowest node determines the time. */
#include "simulate/impl.h"

#include <math.h>

#define IN_FLIGHT 8 /* messages that a rank has in flight; more neighbours take additional latencies */

/* The work of one rank, or of all ranks of a node, in one stage. */
typedef struct load {
    rshi_work work;
    double in, out; /* bytes of messages from and to other nodes */
    double peers;   /* number of transfers from other nodes */
    bool others;    /* whether data of another rank is needed */
} load;

typedef struct simulating {
    const rsh_plan *p;
    const rsh_machine *m;
    load rank[RSH_MAX_STAGES], node[RSH_MAX_STAGES];
    rsh_simulation *out;
} simulating;

static const char *const names[RSH_RESOURCE_COUNT] = {"memory", "core", "nic in", "nic out", "latency"};

const char *rsh_resource_name(rsh_resource r) { return (unsigned)r < RSH_RESOURCE_COUNT ? names[r] : "?"; }

/* ---- the machine ---- */

static bool is_rate(double x) { return isfinite(x) && x >= 0; }

rsh_status rshi_machine_take(const rsh_machine *given, rsh_machine *out) {
    RSH_NEEDS(given);
    *out = (rsh_machine)RSH_MACHINE_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(given, RSH_MACHINE_INIT, out));
    RSH_REQUIRE(is_rate(out->memory) && is_rate(out->core) && is_rate(out->nic) && is_rate(out->latency) &&
                    is_rate(out->run_bytes) && is_rate(out->transposed) && is_rate(out->combined),
                RSH_EVALUE, "machine: every number must be finite and at least 0");
    if (!out->core) out->core = out->memory;
    if (!out->transposed) out->transposed = out->memory / 2;
    if (!out->combined) out->combined = out->memory;
    return RSH_OK;
}

/* ---- one rank ---- */

static int64_t node_of(const simulating *s, int64_t rank) { return rshi_plan_node_of(s->p, rank); }

static bool is_near(const simulating *s, const rsh_transfer *t, int64_t i) {
    return node_of(s, t->src[i].rank) == node_of(s, t->dst.rank);
}

/* Does the destination read all sources in place? */
static bool is_direct(const simulating *s, const rsh_transfer *t) {
    for (int64_t i = 0; i < t->nsrc; i++)
        if (t->src[i].rank != t->dst.rank && (rshi_plan_messages(s->p) || !is_near(s, t, i))) return false;
    return true;
}

static rsh_status add_incoming(simulating *s, const rsh_transfer *t) {
    load *l = &s->rank[t->stage];
    rshi_work w;
    RSH_TRY(is_direct(s, t) ? rshi_work_of_move(s->p, t, &w) : rshi_work_of_unpacking(s->p, t, &w));
    rshi_work_add(&l->work, &w, 1);
    for (int64_t i = 0; i < t->nsrc; i++) {
        l->others |= t->src[i].rank != t->dst.rank;
        if (is_near(s, t, i)) continue;
        l->in += (double)t->count * (double)t->element_bytes;
        l->peers++;
    }
    return RSH_OK;
}

static rsh_status add_outgoing(simulating *s, const rsh_transfer *t, int64_t rank) {
    load *l = &s->rank[t->stage];
    rshi_work w;
    if (is_direct(s, t)) return RSH_OK;
    for (int64_t i = 0; i < t->nsrc; i++) {
        if (t->src[i].rank != rank) continue;
        RSH_TRY(rshi_work_of_packing(s->p, t, i, &w));
        rshi_work_add(&l->work, &w, 1);
        if (!is_near(s, t, i)) l->out += (double)t->count * (double)t->element_bytes;
    }
    return RSH_OK;
}

static rsh_status add_share(simulating *s, const rsh_share *share) {
    for (int64_t i = 0; i < share->ncopies; i++) RSH_TRY(add_incoming(s, &share->copies[i]));
    for (int64_t i = 0; i < share->nreceives; i++) RSH_TRY(add_incoming(s, &share->receives[i]));
    for (int64_t i = 0; i < share->nsends; i++) RSH_TRY(add_outgoing(s, &share->sends[i], share->rank));
    return RSH_OK;
}

/* ---- stages ---- */

static void raise_to(double *most, double x) {
    if (x > *most) *most = x;
}

/* Adds the work of the current rank to its node. */
static void end_rank(simulating *s, double weight) {
    for (int k = 0; k < s->out->nstages; k++) {
        load *r = &s->rank[k], *n = &s->node[k];
        double *resource = s->out->stage[k].resource, rounds = ceil(r->peers / IN_FLIGHT);
        raise_to(&resource[RSH_RESOURCE_CORE], rshi_work_seconds(&r->work, s->m) * s->m->memory / s->m->core);
        if (r->others) raise_to(&resource[RSH_RESOURCE_LATENCY], s->m->latency * (rounds > 1 ? rounds : 1));
        if ((int64_t)r->peers > s->out->stage[k].peers) s->out->stage[k].peers = (int64_t)r->peers;
        rshi_work_add(&n->work, &r->work, weight);
        n->in += weight * r->in;
        n->out += weight * r->out;
        *r = (load){0};
    }
}

static void most_bytes(int64_t *most, double bytes) {
    if (bytes > (double)*most) *most = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

static void end_node(simulating *s) {
    for (int k = 0; k < s->out->nstages; k++) {
        load *n = &s->node[k];
        rsh_simulated_stage *stage = &s->out->stage[k];
        raise_to(&stage->resource[RSH_RESOURCE_MEMORY], rshi_work_seconds(&n->work, s->m));
        if (s->m->nic > 0) {
            raise_to(&stage->resource[RSH_RESOURCE_NIC_IN], n->in / s->m->nic);
            raise_to(&stage->resource[RSH_RESOURCE_NIC_OUT], n->out / s->m->nic);
        }
        most_bytes(&stage->bytes_copied, n->work.written);
        most_bytes(&stage->bytes_in, n->in);
        most_bytes(&stage->bytes_out, n->out);
        *n = (load){0};
    }
}

static rsh_status walk_witnesses(simulating *s, const rshi_witnesses *w) {
    for (int64_t i = 0; i < w->n; i++) {
        rsh_share *share = NULL;
        rsh_status st = rsh_plan_share(s->p, w->list[i].rank, &share);
        if (!st) st = add_share(s, share);
        rsh_share_free(share);
        if (st) return st;
        end_rank(s, w->list[i].weight);
        if (i + 1 == w->n || w->list[i + 1].node != w->list[i].node) end_node(s);
    }
    return RSH_OK;
}

/* ---- answers ---- */

static void end_stage(rsh_simulated_stage *k) {
    k->limit = RSH_RESOURCE_MEMORY;
    for (int r = 0; r < RSH_RESOURCE_COUNT; r++)
        if (k->resource[r] > k->resource[k->limit]) k->limit = (rsh_resource)r;
    for (int r = 0; r < RSH_RESOURCE_LATENCY; r++) raise_to(&k->seconds, k->resource[r]);
    k->seconds += k->resource[RSH_RESOURCE_LATENCY];
}

static void add_up_stages(rsh_simulation *s) {
    double limited[RSH_RESOURCE_COUNT] = {0};
    for (int k = 0; k < s->nstages; k++) {
        end_stage(&s->stage[k]);
        s->seconds += s->stage[k].seconds;
        limited[s->stage[k].limit] += s->stage[k].seconds;
    }
    for (int r = 0; r < RSH_RESOURCE_COUNT; r++)
        if (limited[r] > limited[s->limit]) s->limit = (rsh_resource)r;
}

static rsh_status check_machine(const rsh_machine *m, const rshi_witnesses *w) {
    RSH_REQUIRE(m->memory > 0, RSH_EVALUE, "machine: memory must be above 0, got %g B/s", m->memory);
    RSH_REQUIRE(m->nic > 0 || w->nodes < 2, RSH_EVALUE,
                "machine: nic must be above 0 for a plan with %lld nodes", (long long)w->nodes);
    return RSH_OK;
}

rsh_status rsh_simulate(const rsh_plan *p, const rsh_machine *m, rsh_simulation *out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_SIMULATION_INIT);
    rsh_machine machine;
    rsh_simulation made = {.ranks = rsh_plan_nranks(p), .nstages = rshi_plan_stages(p)};
    rshi_witnesses w = {0};
    rsh_status st;
    RSH_GOTO(rshi_machine_take(m, &machine));
    RSH_GOTO(rshi_witnesses_choose(p, &w));
    RSH_GOTO(check_machine(&machine, &w));
    made.nodes = w.nodes;
    made.ranks_walked = w.n;
    RSH_GOTO(walk_witnesses(&(simulating){.p = p, .m = &machine, .out = &made}, &w));
    add_up_stages(&made);
    RSH_GOTO(rshi_simulate_bound(p, &machine, &w, &made));
    rshi_result_write(&made, sizeof made, out);
out:
    rshi_free(w.list);
    return st;
}

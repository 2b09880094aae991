/* Run: executes a bound plan, in the same way for every engine and every plan.
 *
 * A rank processes the stages of the plan.  In each stage it runs its moves, as soon as the peers that they read are
 * ready, and takes the messages of the stage.  Then it raises its flag for its readers, and can send the elements that
 * it passes on.  Nothing is allocated.
 *
 * If there are only moves, a rank sleeps on its peers' flags.  If messages come over a wire, there is more than one
 * thing to wait for, and the rank must make progress on the wire: it polls everything in turn, runs moves in between as
 * long as there are any, and then sleeps for longer and longer times. */
#include "shard/comm_cache.h"
#include "shard/team.h"
#include "shard/exec_run.h"

#define SLICE 20e-6     /* seconds of moves between two polls of the messages */
#define AT_ONCE 4      /* slabs between two reads of the clock */

/* ---- flags ---- */

/* Waits until a peer's flag reaches a value; if `may_wait` is false, only checks. */
rsh_status rshi_exec_await_value(rsh_exec *e, const rshi_peer *p, uint64_t target, bool may_wait, bool *there) {
    if (rshi_flag_read(p->flag) >= target) return RSH_OK;
    if (may_wait) return rshi_comm_verdict(e->comm, e->comm->ops->wait(e->comm, p->rank, p->flag, target));
    *there = false;
    e->missing = p->rank;
    return RSH_OK;
}

/* Waits for a condition of `due` in the same way.  A peer that refuses the run stays in it until this rank has seen
 * that, so its flag and its error message stay valid.  A peer that only passes a refusal on does not wait for ranks
 * that have completed all their stages; for them it counts as a peer that has finished reading. */
static rsh_status await_peer(rsh_exec *e, int64_t i, int what, bool may_wait, bool *there) {
    const rshi_peer *p = &e->peers[i];
    if (p->due[what] < 0) return RSH_OK;
    uint64_t target = rshi_flag_value(e, p->start, p->due[what]), seen = rshi_flag_read(p->flag);
    if (seen < target) {
        e->late[what] = i;
        RSH_TRY(rshi_exec_await_value(e, p, target, may_wait, there));
        seen = rshi_flag_read(p->flag);
    }
    uint64_t refused = rshi_flag_value(e, p->start, e->stages + 1 + (what == RSHI_READERS));
    bool over = seen == refused || seen == rshi_flag_value(e, p->start, e->stages + 2);
    return over ? rshi_refusal_tell(rshi_refusal_of(p->parts.table)) : RSH_OK;
}

/* Waits for all peers, starting with the one that arrived last in the previous run.  If ranks share cores, they tend to
 * arrive in the same order, and a rank that sleeps until the last one arrives finds all others without sleeping
 * again. */
static rsh_status await_all(rsh_exec *e, int what, bool may_wait, bool *there) {
    int64_t first = e->late[what];
    for (int64_t i = first; i > 0; i--) RSH_TRY(await_peer(e, i, what, may_wait, there));
    for (int64_t i = e->npeers - 1; i > first; i--) RSH_TRY(await_peer(e, i, what, may_wait, there));
    return RSH_OK;
}

/* Fails if a peer's memory is no longer valid; called before and after reading.  A peer whose flag is raised keeps its
 * memory valid until this rank has read it, unless the peer timed out.  Then the memory may be reused, and the data
 * read from it are invalid. */
static rsh_status check_readable(rsh_exec *e) {
    for (int64_t i = 1; i < e->npeers; i++)
        if (e->peers[i].due[e->stage] >= 0)
            RSH_TRY(rshi_comm_verdict(e->comm, e->comm->ops->check_peer(e->comm, e->peers[i].rank, 0)));
    return RSH_OK;
}

/* ---- moves ---- */

/* Looks up the addresses of a peer's parts.  Returns true if all parts have an address. */
static bool look_up_peer(rsh_exec *e, const rshi_peer *p) {
    bool all = true;
    for (int64_t k = 0; k < rshi_parts_all(&p->parts); k++) {
        e->base[p->parts.number + k] = e->comm->ops->reach(e->comm, p->rank, p->parts.table[k].data);
        all = all && e->base[p->parts.number + k];
    }
    return all;
}

/* Looks up the addresses of this rank's parts and of those of every peer that the stage reads.  A part without elements
 * has no address, and no move reads it.  A peer that gives up publishes other memory, which this rank may not be able
 * to reach.  It has left before, so if an address is missing, the peers are checked once more. */
static rsh_status look_up_sources(rsh_exec *e) {
    bool all = true;
    RSH_TRY(check_readable(e));
    look_up_peer(e, &e->peers[0]);
    for (int64_t i = 1; i < e->npeers; i++)
        if (e->peers[i].due[e->stage] >= 0) all = look_up_peer(e, &e->peers[i]) && all;
    return all ? RSH_OK : check_readable(e);
}

void rshi_exec_look_up_peers(rsh_exec *e) {
    for (int64_t i = 0; i < e->npeers; i++) look_up_peer(e, &e->peers[i]);
}

static void run_slabs(rsh_exec *e) {
    const rshi_program *g = &e->program;
    rshi_slabs_run(g, g->stage_start[e->stage], g->stage_start[e->stage + 1], e->base, e->pointers);
    rshi_copy_fence();
}

/* Runs moves of the stage whose peers are ready, until it is time to poll the messages again. */
static rsh_status run_some_slabs(rsh_exec *e, bool *moved) {
    const rshi_program *g = &e->program;
    if (e->slab < 0) {
        bool there = true;
        e->missing = -1;
        RSH_TRY(await_all(e, e->stage, false, &there));
        if (!there) return RSH_OK;
        RSH_TRY(look_up_sources(e));
        e->slab = g->stage_start[e->stage];
    }
    double end = rshi_seconds() + SLICE;
    while (e->slab < g->stage_start[e->stage + 1] && rshi_seconds() < end) {
        int64_t start = e->slab;
        e->slab = rshi_min(start + AT_ONCE, g->stage_start[e->stage + 1]);
        rshi_slabs_run(g, start, e->slab, e->base, e->pointers);
        *moved = true;
    }
    return RSH_OK;
}

/* ---- messages ---- */

/* Called after everything has been polled: continues if there was progress.  Otherwise waits or, if `may_wait` is
 * false, returns. */
static rsh_status continue_or_wait(rsh_exec *e, bool moved, bool may_wait, bool *there) {
    if (moved) {
        rshi_exec_note_progress(e);
        return RSH_OK;
    }
    *there = may_wait;
    e->looked = true;
    if (e->comm->node) return rshi_exec_rest(e, may_wait);
    return may_wait ? rshi_messages_wait(e->messages) : RSH_OK;
}

static bool stage_is_done(const rsh_exec *e) {
    return e->slab == e->program.stage_start[e->stage + 1] && rshi_messages_received(e->messages, e->stage);
}

/* Runs moves and messages of one stage.  Also sends messages of this stage and of earlier ones. */
static rsh_status run_moves_and_messages(rsh_exec *e, bool may_wait, bool *there) {
    for (;;) {
        bool moved = false;
        RSH_TRY(rshi_messages_step(e->messages, e->stage, e->base, &moved));
        RSH_TRY(run_some_slabs(e, &moved));
        if (stage_is_done(e)) break;
        RSH_TRY(continue_or_wait(e, moved, may_wait, there));
        if (!*there) return RSH_OK;
    }
    rshi_copy_fence();
    e->slab = -1;
    e->missing = -1;
    return RSH_OK;
}

/* Sends the remaining messages. */
static rsh_status send_the_rest(rsh_exec *e, bool may_wait, bool *there) {
    while (!rshi_messages_done(e->messages)) {
        bool moved = false;
        RSH_TRY(rshi_messages_step(e->messages, e->stage, e->base, &moved));
        if (!rshi_messages_done(e->messages)) RSH_TRY(continue_or_wait(e, moved, may_wait, there));
        if (!*there) return RSH_OK;
    }
    return RSH_OK;
}

/* ---- a run ---- */

static rsh_status run_moves(rsh_exec *e, bool may_wait, bool *there) {
    RSH_TRY(await_all(e, e->stage, may_wait, there));
    if (!*there) return RSH_OK;
    RSH_TRY(look_up_sources(e));
    run_slabs(e);
    return RSH_OK;
}

static rsh_status run_stage(rsh_exec *e, bool may_wait, bool *there) {
    if (e->team) RSH_TRY(rshi_team_run(e, may_wait, there));
    else RSH_TRY(e->messages ? run_moves_and_messages(e, may_wait, there) : run_moves(e, may_wait, there));
    if (!*there) return RSH_OK;
    if (!e->team) RSH_TRY(check_readable(e));
    rshi_exec_note_progress(e);
    e->stage++;
    e->comm->ops->post(e->comm, e->flag, rshi_flag_value(e, e->start, e->stage));
    if (e->stage < e->stages) return RSH_OK;
    rshi_shadows_drain(&e->shadows);
    e->state = RSHI_COPIED;
    return RSH_OK;
}

/* Waits for the ranks that read this one.  With messages over a wire, a rank must not sleep on a flag.  After a run of
 * a team, no rank reads any more. */
static rsh_status await_readers(rsh_exec *e, bool may_wait, bool *there) {
    if (e->team) return RSH_OK;
    if (!e->messages || !e->comm->node) return await_all(e, RSHI_READERS, may_wait, there);
    for (;;) {
        bool gone = true;
        e->missing = -1;
        RSH_TRY(await_all(e, RSHI_READERS, false, &gone));
        if (!gone) RSH_TRY(continue_or_wait(e, false, may_wait, there));
        if (gone || !*there) return RSH_OK;
    }
}

static rsh_status finish_run(rsh_exec *e, bool may_wait, bool *there) {
    if (e->messages) RSH_TRY(send_the_rest(e, may_wait, there));
    if (*there) RSH_TRY(await_readers(e, may_wait, there));
    if (!*there) return RSH_OK;
    e->runs++;
    rshi_exec_come_to_rest(e);
    e->seconds = rshi_seconds() - e->begun;
    return RSH_OK;
}

/* ---- progress ---- */

/* Advances the run as far as possible.  A refused run is left to its own test or wait, which report the error to the
 * caller. */
static rsh_status advance_run(rsh_exec *e, bool may_wait, bool *there) {
    rsh_status st = rshi_exec_still_good(e);
    while (!st && *there && e->state == RSHI_RUNNING) st = run_stage(e, may_wait, there);
    if (!st && *there && e->state == RSHI_COPIED) st = finish_run(e, may_wait, there);
    if (!st || !rshi_exec_can_refuse(e, st)) return st;
    rshi_exec_refuse(e, st);
    *there = true;
    return RSH_OK;
}

static rsh_status advance_and_report(rsh_exec *e, bool may_wait, bool *done) {
    bool there = true;
    rsh_status refused = RSH_OK, st = advance_run(e, may_wait, &there);
    if (!st && there && e->state == RSHI_REFUSED) st = rshi_exec_finish_refused(e, may_wait, &there, &refused);
    *done = e->state == RSHI_IDLE;
    return st ? rshi_exec_give_up(e, st) : refused;
}

/* Advances all runs of this comm, because a peer may be waiting for another run than this one. */
static rsh_status advance_all_runs(rsh_exec *e, bool may_wait, bool *done) {
    for (rsh_exec *x = e->clients->begun, *next; x; x = next) {
        next = x->next_begun;
        bool there = true;
        rsh_status other = x == e ? RSH_OK : advance_run(x, false, &there);
        if (other) rshi_exec_give_up(x, other);
        if (other) break; /* the comm has failed; `e` will get the error itself */
    }
    e->looked = true;
    rsh_status st = advance_and_report(e, false, done);
    if (st || *done) return st;
    st = rshi_exec_rest(e, may_wait);
    return st ? rshi_exec_give_up(e, st) : RSH_OK;
}

static rsh_status wait_among_others(rsh_exec *e) {
    rsh_status st = RSH_OK;
    for (bool done = false; !st && !done;) st = advance_all_runs(e, true, &done);
    return st;
}

static void begin_messages(rsh_exec *e) {
    e->slab = -1;
    look_up_peer(e, &e->peers[0]);
    rshi_messages_begin(e->messages);
}

/* Finishes another run with the same tag.  Tags are reused after about 30,000 binds, and an old exec may still have the
 * tag; two runs with one tag would take each other's messages.  All ranks begin runs in the same order, so all finish
 * the same run first. */
static rsh_status finish_namesake(const rsh_exec *e) {
    for (rsh_exec *x = e->clients->begun; x; x = x->next_begun)
        if (x->messages && rshi_messages_tag(x->messages) == rshi_messages_tag(e->messages)) return rsh_exec_wait(x);
    return RSH_OK;
}

static void enter_run(rsh_exec *e) {
    e->begun = rshi_seconds();
    e->stage = 0;
    e->state = RSHI_RUNNING;
    e->refuser = false;
    e->next_begun = e->clients->begun;
    e->clients->begun = e;
    rshi_exec_note_progress(e);
}

static rsh_status check_idle(const rsh_exec *e) {
    RSH_NEEDS(e);
    RSH_TRY(rshi_comm_own(e->comm));
    RSH_TRY(rshi_exec_still_good(e));
    RSH_REQUIRE(e->state == RSHI_IDLE, RSH_EBUSY, "a run of this exec is in progress; wait for it first");
    return RSH_OK;
}

rsh_status rsh_exec_begin(rsh_exec *e) {
    RSH_TRY(check_idle(e));
    if (e->messages && e->comm->node) RSH_TRY(finish_namesake(e));
    enter_run(e);
    rshi_shadows_fill(&e->shadows);
    e->comm->ops->post(e->comm, e->flag, rshi_flag_value(e, e->start, 0));
    if (e->team) rshi_team_come(e);
    if (e->messages) begin_messages(e);
    return RSH_OK;
}

rsh_status rsh_exec_test(rsh_exec *e, bool *done) {
    RSH_NEEDS(e);
    RSH_NEEDS(done);
    RSH_TRY(rshi_comm_own(e->comm));
    if (e->state != RSHI_IDLE) return advance_all_runs(e, false, done);
    *done = true;
    return rshi_exec_still_good(e);
}

rsh_status rsh_exec_wait(rsh_exec *e) {
    RSH_NEEDS(e);
    RSH_TRY(rshi_comm_own(e->comm));
    bool done, alone = e->clients->begun == e && !e->next_begun;
    if (e->state == RSHI_IDLE) return rshi_exec_still_good(e);
    return alone ? advance_and_report(e, true, &done) : wait_among_others(e);
}

rsh_status rsh_exec_run(rsh_exec *e) {
    RSH_TRY(rsh_exec_begin(e));
    return rsh_exec_wait(e);
}

/* Checks that parts with elements have memory. */
static rsh_status check_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const rshi_parts *self = &e->peers[0].parts;
    RSH_REQUIRE((src || !self->nsrc) && (dst || !self->ndst), RSH_EVALUE,
                "run_on: expected memory for %lld source and %lld destination parts, got NULL", (long long)self->nsrc,
                (long long)self->ndst);
    for (int64_t k = 0; k < self->nsrc + self->ndst; k++) {
        const rsh_memory *m = k < self->nsrc ? &src[k] : &dst[k - self->nsrc];
        RSH_REQUIRE(!e->data[k] || m->data, RSH_EVALUE, "%s part %lld has no memory",
                    k < self->nsrc ? "source" : "destination", (long long)(k < self->nsrc ? k : k - self->nsrc));
    }
    return rshi_exec_check_memory(e, src, dst);
}

/* Refuses a run that this rank cannot take part in, and that the other ranks have begun or will begin. */
static rsh_status refuse_run(rsh_exec *e, rsh_status status) {
    enter_run(e);
    if (e->messages) return rshi_exec_give_up(e, status);
    e->refuser = true;
    rshi_exec_refuse(e, rshi_fail(status, "rank %d: %s", e->comm->rank, rsh_error_detail()));
    return rsh_exec_wait(e);
}

rsh_status rsh_exec_run_on(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    RSH_TRY(check_idle(e));
    rsh_status st = check_data(e, src, dst);
    if (!st) st = rshi_exec_show_data(e, src, dst);
    st = st ? refuse_run(e, st) : rsh_exec_run(e);
    rshi_exec_show_data(e, NULL, NULL); /* cannot fail: everything was allocated at bind */
    return st;
}

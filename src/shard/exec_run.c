/* Run: the same for every engine and every plan.
 *
 * A rank goes through the stages of the plan.  In each it runs its moves, once the peers that they read are ready, and
 * takes the messages of the stage; then its flag tells who reads it, and what it passes on may be sent.  Nothing is
 * allocated.
 *
 * Where there are only moves a rank sleeps on its peers' flags.  Where messages come over a wire there is more than one
 * thing to wait for, and somebody must drive the wire: the rank looks at everything in turn, with moves in between as
 * long as there are any, and takes ever longer rests. */
#include "shard/clients.h"
#include "shard/exec.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#define TURN 20e-6     /* seconds of moves between two looks at the messages */
#define SPINS 50       /* looks in vain before the core is offered to others */
#define YIELDS 200     /* and before the rank sleeps between them */
#define NAP 50000      /* nanoseconds of a sleep, at most */
#define ASKING 2e-3    /* seconds between two questions whether the others still live */
#define OVERTAKING                                                                                                     \
    0.1 /* seconds that messages of a rank that has left may take longer than its farewell, where a wire has several   \
           ways */
#define A_LOOK 0.01    /* of them that one look in vain is worth, at most: a wire is driven by looks, not by time */

/* ---- flags ---- */

/* Values of a rank's flag in the run at hand: `done` 0 when its source is ready, 1 + s when stage s is done, and one
 * more than when all are for a rank that refuses the run. */
static uint64_t mark(const rsh_exec *e, uint64_t start, int done) {
    return start + e->runs * (uint64_t)(e->stages + 2) + 1 + (uint64_t)done;
}

static uint64_t value_of(const rshi_flag *flag) {
    return atomic_load_explicit(&((rshi_flag *)flag)->value, memory_order_acquire);
}

/* Until a peer's flag is at a mark; without `block` the answer may be "not yet". */
static rsh_status await_mark(rsh_exec *e, const rshi_peer *p, uint64_t target, bool block, bool *there) {
    if (value_of(p->flag) >= target) return RSH_OK;
    if (block) return rshi_comm_verdict(e->comm, e->comm->ops->wait(e->comm, p->rank, p->flag, target));
    *there = false;
    e->missing = p->rank;
    return RSH_OK;
}

/* The same for what a peer is waited for.  A peer that refuses the run stays in it until this rank has seen that, so
 * that its flag goes no further before. */
static rsh_status await(rsh_exec *e, int64_t i, int what, bool block, bool *there) {
    const rshi_peer *p = &e->peers[i];
    if (p->due[what] < 0) return RSH_OK;
    uint64_t target = mark(e, p->start, p->due[what]), seen = value_of(p->flag);
    if (seen < target) {
        e->late[what] = i;
        RSH_TRY(await_mark(e, p, target, block, there));
        seen = value_of(p->flag);
    }
    return seen == mark(e, p->start, e->stages + 1) ? e->comm->ops->refusal(e->comm, p->rank) : RSH_OK;
}

/* All peers, the one first that was last to come in the run before: where ranks share cores they tend to come in the
 * same order, and a rank that sleeps until the last one is there finds all the others without sleeping again. */
static rsh_status await_all(rsh_exec *e, int what, bool block, bool *there) {
    int64_t first = e->late[what];
    for (int64_t i = first; i > 0; i--) RSH_TRY(await(e, i, what, block, there));
    for (int64_t i = e->npeers - 1; i > first; i--) RSH_TRY(await(e, i, what, block, there));
    return RSH_OK;
}

/* A peer whose flag is there stays until this rank has read it, unless it lost patience; then its memory is its own
 * again, and what was read is anything. Asked before reading, and after. */
static rsh_status check_readable(rsh_exec *e) {
    for (int64_t i = 1; i < e->npeers; i++)
        if (e->peers[i].due[e->stage] >= 0)
            RSH_TRY(rshi_comm_verdict(e->comm, e->comm->ops->check_peer(e->comm, e->peers[i].rank, 0)));
    return RSH_OK;
}

/* ---- moves ---- */

/* True: each part has an address. */
static bool look_up_peer(rsh_exec *e, const rshi_peer *p) {
    bool all = true;
    for (int64_t k = 0; k < p->parts.nsrc + p->parts.ndst; k++) {
        e->base[p->parts.number + k] = e->comm->ops->reach(e->comm, p->rank, p->parts.table[k].data);
        all = all && e->base[p->parts.number + k];
    }
    return all;
}

/* Addresses of the parts of every peer that the stage reads, and of this rank's own.  A part without elements has none,
 * and no move reads it.  A peer that gives up shows other memory, which this rank may not reach, but it has left
 * before: so where an address is missing the peers are asked once more. */
static rsh_status look_up(rsh_exec *e) {
    bool all = true;
    RSH_TRY(check_readable(e));
    look_up_peer(e, &e->peers[0]);
    for (int64_t i = 1; i < e->npeers; i++)
        if (e->peers[i].due[e->stage] >= 0) all = look_up_peer(e, &e->peers[i]) && all;
    return all ? RSH_OK : check_readable(e);
}

static void run_slabs(rsh_exec *e) {
    const rshi_program *g = &e->program;
    for (int64_t i = g->stage_start[e->stage]; i < g->stage_start[e->stage + 1]; i++)
        rshi_slab_run(g, &g->slabs[i], e->base, e->pointers);
    rshi_copy_fence();
}

/* As many moves of the stage as fill the gap between two looks at the messages, once the peers that they read are
 * ready. */
static rsh_status run_some_slabs(rsh_exec *e, bool *moved) {
    const rshi_program *g = &e->program;
    if (e->slab < 0) {
        bool there = true;
        e->missing = -1;
        RSH_TRY(await_all(e, e->stage, false, &there));
        if (!there) return RSH_OK;
        RSH_TRY(look_up(e));
        e->slab = g->stage_start[e->stage];
    }
    double end = rshi_seconds() + TURN;
    while (e->slab < g->stage_start[e->stage + 1] && rshi_seconds() < end) {
        rshi_slab_run(g, &g->slabs[e->slab++], e->base, e->pointers);
        *moved = true;
    }
    return RSH_OK;
}

/* ---- messages ---- */

/* Is somebody that this rank waits for no longer there? */
static rsh_status check_peers(rsh_exec *e, double waited) {
    int peers[3], n = e->messages ? rshi_messages_awaited(e->messages, peers) : 0;
    if (e->missing >= 0) peers[n++] = e->missing;
    for (int i = 0; i < n; i++) RSH_TRY(e->comm->ops->check_peer(e->comm, peers[i], waited));
    return RSH_OK;
}

/* What a rank sent before it left still counts, so that there is one more look before a suspicion becomes a verdict; on
 * a wire, looks for a while.  Time alone does not count: on a busy machine much of it passes without a look. */
static rsh_status ask(rsh_exec *e, double waited) {
    rsh_status st = check_peers(e, waited);
    bool first = !e->suspects;
    e->looked = false;
    e->suspects = st != RSH_OK;
    if (first) e->lost = (rshi_watch){0};
    double lost = rshi_watch_look(&e->lost, A_LOOK);
    if (first || (e->comm->node && lost < OVERTAKING)) return RSH_OK;
    return rshi_comm_verdict(e->comm, st);
}

/* Nothing has moved: rest a little, and now and then ask whether the others still live.  A rank that only tests offers
 * its core too: where there are more ranks than cores, those that test in a loop would use up the time of those that
 * have something to send. */
static rsh_status rest(rsh_exec *e, bool block) {
    if (e->looks++ < SPINS) return RSH_OK;
    if (e->looks < SPINS + YIELDS) {
        sched_yield();
        return RSH_OK;
    }
    double waited = rshi_watch_look(&e->watch, RSHI_WATCH_STEP);
    if (e->looked && (e->suspects || waited - e->asked > ASKING)) {
        e->asked = waited;
        RSH_TRY(ask(e, waited));
    }
    if (block) nanosleep(&(struct timespec){0, NAP}, NULL);
    else sched_yield();
    return RSH_OK;
}

static void note_progress(rsh_exec *e) {
    e->looks = 0;
    e->watch = (rshi_watch){0};
    e->asked = 0;
    e->suspects = false;
}

/* After a look at everything: go on looking if something moved; if not, wait, or without `block` give up for now. */
static rsh_status look_again(rsh_exec *e, bool moved, bool block, bool *there) {
    if (moved) {
        note_progress(e);
        return RSH_OK;
    }
    *there = block;
    e->looked = true;
    if (e->comm->node) return rest(e, block);
    return block ? rshi_messages_wait(e->messages) : RSH_OK;
}

static bool stage_is_done(const rsh_exec *e) {
    return e->slab == e->program.stage_start[e->stage + 1] && rshi_messages_received(e->messages, e->stage);
}

/* Moves and messages of one stage, and messages on their way out of it and of earlier ones. */
static rsh_status run_both(rsh_exec *e, bool block, bool *there) {
    for (;;) {
        bool moved = false;
        RSH_TRY(rshi_messages_step(e->messages, e->stage, e->base, &moved));
        RSH_TRY(run_some_slabs(e, &moved));
        if (stage_is_done(e)) break;
        RSH_TRY(look_again(e, moved, block, there));
        if (!*there) return RSH_OK;
    }
    rshi_copy_fence();
    e->slab = -1;
    e->missing = -1;
    return RSH_OK;
}

/* What is still on its way out. */
static rsh_status send_the_rest(rsh_exec *e, bool block, bool *there) {
    while (!rshi_messages_done(e->messages)) {
        bool moved = false;
        RSH_TRY(rshi_messages_step(e->messages, e->stage, e->base, &moved));
        if (!rshi_messages_done(e->messages)) RSH_TRY(look_again(e, moved, block, there));
        if (!*there) return RSH_OK;
    }
    return RSH_OK;
}

/* ---- a run ---- */

static rsh_status run_moves(rsh_exec *e, bool block, bool *there) {
    RSH_TRY(await_all(e, e->stage, block, there));
    if (!*there) return RSH_OK;
    RSH_TRY(look_up(e));
    run_slabs(e);
    return RSH_OK;
}

static rsh_status run_stage(rsh_exec *e, bool block, bool *there) {
    RSH_TRY(e->messages ? run_both(e, block, there) : run_moves(e, block, there));
    if (!*there) return RSH_OK;
    RSH_TRY(check_readable(e));
    note_progress(e);
    e->stage++;
    e->comm->ops->post(e->comm, e->flag, mark(e, e->start, e->stage));
    if (e->stage < e->stages) return RSH_OK;
    rshi_shadows_drain(&e->shadows);
    e->state = RSHI_COPIED;
    return RSH_OK;
}

/* On a wire that has to be driven nobody sleeps on a flag. */
static rsh_status await_readers(rsh_exec *e, bool block, bool *there) {
    if (!e->messages || !e->comm->node) return await_all(e, RSHI_READERS, block, there);
    for (;;) {
        bool gone = true;
        e->missing = -1;
        RSH_TRY(await_all(e, RSHI_READERS, false, &gone));
        if (!gone) RSH_TRY(look_again(e, false, block, there));
        if (gone || !*there) return RSH_OK;
    }
}

static void come_to_rest(rsh_exec *e) {
    rsh_exec **at = &e->clients->begun;
    while (*at != e) at = &(*at)->next_begun;
    *at = e->next_begun;
    e->state = RSHI_IDLE;
}

static rsh_status finish(rsh_exec *e, bool block, bool *there) {
    if (e->messages) RSH_TRY(send_the_rest(e, block, there));
    if (*there) RSH_TRY(await_readers(e, block, there));
    if (!*there) return RSH_OK;
    e->runs++;
    come_to_rest(e);
    e->seconds = rshi_seconds() - e->begun;
    return RSH_OK;
}

/* ---- refusals ---- */

/* Where all neighbours have flags a run that a rank refuses ends in step: the flag of that rank goes to the end of the
 * run, whoever waits for it hears why and does the same, and each stays until its neighbours have ended the run too.
 * So nobody misses it, and exec and comm stay good.  Ranks that need nothing of one that refused may complete the run.
 * Messages have no such way out: there the comm is given up. */
static bool can_refuse(const rsh_exec *e, rsh_status status) {
    return !e->comm->dead && !e->messages && e->state != RSHI_REFUSED && status != RSH_EMISMATCH;
}

/* A rank has room for one sentence, and may still be in another run that was refused: then that one's is good enough.
 */
static void refuse(rsh_exec *e, rsh_status status) {
    bool room = true;
    for (const rsh_exec *x = e->clients->begun; x; x = x->next_begun) room = room && x->state != RSHI_REFUSED;
    if (room) e->comm->ops->refuse(e->comm, status, rsh_error_detail());
    e->state = RSHI_REFUSED;
    e->comm->ops->post(e->comm, e->flag, mark(e, e->start, e->stages + 1));
}

/* Every neighbour of the rank that began it has looked at that rank's flag before it ends the run, and refuses too.
 * Who only passes it on may have neighbours that had done all they had to do with it before, and have just ended. */
static rsh_status finish_refused(rsh_exec *e, bool block, bool *there, rsh_status *refused) {
    int done = e->stages + e->refuser;
    for (int64_t i = 1; i < e->npeers; i++)
        RSH_TRY(await_mark(e, &e->peers[i], mark(e, e->peers[i].start, done), block, there));
    if (!*there) return RSH_OK;
    e->runs++;
    e->refusals++;
    come_to_rest(e);
    *refused = e->comm->ops->refusal(e->comm, e->comm->rank);
    return RSH_OK;
}

/* ---- failures ---- */

/* A rank that gives up still lets those finish who read its memory. */
static rsh_status give_up(rsh_exec *e, rsh_status status) {
    char detail[RSHI_DETAIL_BYTES];
    if (e->state == RSHI_REFUSED) status = e->comm->ops->refusal(e->comm, e->comm->rank); /* what came first */
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    rshi_comm_abandon(e->comm, status);
    rshi_linger linger = rshi_linger_new(e->comm, e->begun);
    if (e->messages) rshi_messages_give_up(e->messages, &linger);
    for (int64_t i = 1; i < e->npeers; i++) {
        const rshi_peer *p = &e->peers[i];
        if (p->due[RSHI_READERS] >= 0)
            rshi_linger_for(&linger, p->rank, p->flag, mark(e, p->start, p->due[RSHI_READERS]));
    }
    come_to_rest(e);
    if (linger.reader < 0)
        rshi_set_detail(detail);
    else
        rshi_fail(status, "%.900s; %.2g seconds later rank %d may still read this rank's memory", detail,
                  linger.watch.waited, linger.reader);
    return status;
}

static rsh_status still_good(const rsh_exec *e) {
    if (!e->comm->dead) return RSH_OK;
    return rshi_fail(e->comm->dead, "%s", e->comm->dead_detail);
}

/* ---- progress ---- */

/* As far as it goes.  A run that was refused waits for its own test or wait, which tell the caller. */
static rsh_status advance(rsh_exec *e, bool block, bool *there) {
    rsh_status st = still_good(e);
    while (!st && *there && e->state == RSHI_RUNNING) st = run_stage(e, block, there);
    if (!st && *there && e->state == RSHI_COPIED) st = finish(e, block, there);
    if (!st || !can_refuse(e, st)) return st;
    refuse(e, st);
    *there = true;
    return RSH_OK;
}

static rsh_status go_on(rsh_exec *e, bool block, bool *done) {
    bool there = true;
    rsh_status refused = RSH_OK, st = advance(e, block, &there);
    if (!st && there && e->state == RSHI_REFUSED) st = finish_refused(e, block, &there, &refused);
    *done = e->state == RSHI_IDLE;
    return st ? give_up(e, st) : refused;
}

/* Others may be under way on this comm, and a peer may be waiting for one of them: nobody looks at one run alone. */
static rsh_status look_at_all(rsh_exec *e, bool block, bool *done) {
    for (rsh_exec *x = e->clients->begun, *next; x; x = next) {
        next = x->next_begun;
        bool there = true;
        rsh_status other = x == e ? RSH_OK : advance(x, false, &there);
        if (other) give_up(x, other);
        if (other) break; /* the comm is no longer good, as `e` will find */
    }
    e->looked = true;
    rsh_status st = go_on(e, false, done);
    if (st || *done) return st;
    st = rest(e, block);
    return st ? give_up(e, st) : RSH_OK;
}

static rsh_status wait_among_others(rsh_exec *e) {
    rsh_status st = RSH_OK;
    for (bool done = false; !st && !done;) st = look_at_all(e, true, &done);
    return st;
}

static void begin_messages(rsh_exec *e) {
    e->slab = -1;
    look_up_peer(e, &e->peers[0]);
    rshi_messages_begin(e->messages);
}

/* After some 30,000 binds tags are used again, and an old exec may still have its own: two runs of one tag would take
 * one another's messages.  All ranks begin runs in the same order, so they all finish the same one of the two first. */
static rsh_status finish_namesake(const rsh_exec *e) {
    for (rsh_exec *x = e->clients->begun; x; x = x->next_begun)
        if (x->messages && rshi_messages_tag(x->messages) == rshi_messages_tag(e->messages)) return rsh_exec_wait(x);
    return RSH_OK;
}

static void enter(rsh_exec *e) {
    e->begun = rshi_seconds();
    e->stage = 0;
    e->state = RSHI_RUNNING;
    e->refuser = false;
    e->next_begun = e->clients->begun;
    e->clients->begun = e;
    note_progress(e);
}

static rsh_status check_idle(const rsh_exec *e) {
    RSH_NEEDS(e);
    RSH_TRY(rshi_comm_own(e->comm));
    RSH_TRY(still_good(e));
    RSH_REQUIRE(e->state == RSHI_IDLE, RSH_EBUSY, "a run of this exec is under way: wait for it first");
    return RSH_OK;
}

rsh_status rsh_exec_begin(rsh_exec *e) {
    RSH_TRY(check_idle(e));
    if (e->messages && e->comm->node) RSH_TRY(finish_namesake(e));
    enter(e);
    rshi_shadows_fill(&e->shadows);
    e->comm->ops->post(e->comm, e->flag, mark(e, e->start, 0));
    if (e->messages) begin_messages(e);
    return RSH_OK;
}

rsh_status rsh_exec_test(rsh_exec *e, bool *done) {
    RSH_NEEDS(e);
    RSH_NEEDS(done);
    RSH_TRY(rshi_comm_own(e->comm));
    if (e->state != RSHI_IDLE) return look_at_all(e, false, done);
    *done = true;
    return still_good(e);
}

rsh_status rsh_exec_wait(rsh_exec *e) {
    RSH_NEEDS(e);
    RSH_TRY(rshi_comm_own(e->comm));
    bool done, alone = e->clients->begun == e && !e->next_begun;
    if (e->state == RSHI_IDLE) return still_good(e);
    return alone ? go_on(e, true, &done) : wait_among_others(e);
}

rsh_status rsh_exec_run(rsh_exec *e) {
    RSH_TRY(rsh_exec_begin(e));
    return rsh_exec_wait(e);
}

/* Parts with elements need memory. */
static rsh_status check_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const rshi_parts *self = &e->peers[0].parts;
    RSH_REQUIRE((src || !self->nsrc) && (dst || !self->ndst), RSH_EVALUE,
                "run_on needs memory for %lld source and %lld destination parts", (long long)self->nsrc,
                (long long)self->ndst);
    for (int64_t k = 0; k < self->nsrc + self->ndst; k++) {
        const rsh_memory *m = k < self->nsrc ? &src[k] : &dst[k - self->nsrc];
        RSH_REQUIRE(!e->bound[k] || m->data, RSH_EVALUE, "%s part %lld has no memory",
                    k < self->nsrc ? "source" : "destination", (long long)(k < self->nsrc ? k : k - self->nsrc));
    }
    return rshi_exec_check_memory(e, src, dst);
}

/* A run that this rank cannot take part in, and that the others have begun or will. */
static rsh_status refuse_run(rsh_exec *e, rsh_status status) {
    enter(e);
    if (e->messages) return give_up(e, status);
    e->refuser = true;
    refuse(e, rshi_fail(status, "rank %d: %s", e->comm->rank, rsh_error_detail()));
    return rsh_exec_wait(e);
}

rsh_status rsh_exec_run_on(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    RSH_TRY(check_idle(e));
    rsh_status st = check_data(e, src, dst);
    if (!st) st = rshi_exec_show_data(e, src, dst);
    st = st ? refuse_run(e, st) : rsh_exec_run(e);
    rshi_exec_show_data(e, NULL, NULL); /* all that it takes was there at bind */
    return st;
}

rsh_status rsh_exec_get_stats(const rsh_exec *e, rsh_exec_stats *out) {
    RSH_NEEDS(e);
    RSH_NEEDS(out);
    const rshi_program *g = &e->program;
    *out = (rsh_exec_stats){
        .runs = e->runs - e->refusals,
        .bytes_local = g->bytes_local,
        .bytes_shared = g->bytes_shared,
        .seconds = e->seconds,
    };
    if (e->messages) {
        out->bytes_wire = rshi_messages_bytes_far(e->messages);
        out->bytes_shared += rshi_messages_bytes_near(e->messages);
        out->bytes_local += rshi_messages_bytes_local(e->messages);
    }
    out->bytes_shadow = rshi_shadows_bytes(&e->shadows);
    out->contiguous = g->kernels[RSHI_KERNEL_CONTIGUOUS];
    out->rows = g->kernels[RSHI_KERNEL_ROWS];
    out->strided = g->kernels[RSHI_KERNEL_STRIDED];
    out->transposed = g->kernels[RSHI_KERNEL_TRANSPOSE];
    out->converted = g->kernels[RSHI_KERNEL_CONVERT];
    out->reduced = g->kernels[RSHI_KERNEL_REDUCE];
    out->filled = g->kernels[RSHI_KERNEL_FILL];
    return RSH_OK;
}

/* Team: the members arrive, some of them make the moves of all, and the others sleep.
 *
 * The phase flag has three values for each run: members are arriving; all have arrived, and a few of them move; the run
 * is over.  Jobs are taken from one counter.  A job is a span of the slabs of some neighbouring members, one member
 * after the other.  Spans are so short that cache lines fetched for the first member are still cached when the last one
 * reads next to them. */
#include "shard/team.h"

#include "shard/binding.h"
#include "shard/exec_run.h"

#define NEIGHBOURS   32                   /* members whose moves are in one job */
#define SPAN         ((int64_t)32 << 10)  /* bytes of each of them in a job, approximately */
#define MOST_SOURCES RSHI_WEAVE_MOST      /* sources of a move, at most; a mover has room for them on its stack */
#define PATIENT_BYTES ((int64_t)1 << 20)  /* bytes of all members together; during larger moves members sleep */
#define MOST_PROCESSES 32                 /* most processes in a team; each has a program of the moves of all */
#define MOST_TASKS   ((int64_t)1 << 10)
#define LOOKS        100                  /* polls of a member of a small team before it yields */
#define FEW_PEERS    8
#define EPOCH        ((uint64_t)1 << 32)

/* Data that all members share.  Members of the struct that are marked "threads" are not used by processes. */
struct rshi_team {
    rshi_flag phase;                       /* phase of the current run; see phase_value */
    rshi_flag known;                      /* 1 + the last run for which all new addresses were looked up */
    /* number of members that have arrived, with a count of runs in the upper bits */
    _Alignas(64) _Atomic uint64_t come;
    _Alignas(64) _Atomic int64_t next;    /* the next job to take */
    _Alignas(64) _Atomic int64_t done;    /* number of jobs that are done */
    _Atomic int64_t looked_up;            /* number of members whose addresses were looked up in this run */
    atomic_int movers;
    atomic_bool moved;                    /* true: some member published other memory than in the previous run */
    _Atomic uint64_t speaker;             /* 1 + the last run for which a member began to write a refusal */
    _Atomic uint64_t refused;             /* 1 + the last run that was refused; its reason: */
    rshi_refusal refusal;
    atomic_int mover;                     /* the rank that was the last to begin moving */
    /* lookups needed before the moves of this run; written by the last member to arrive */
    int64_t lookups;
    /* number of runs on other memory than the run before; written by the last member to arrive */
    uint64_t shown;
    atomic_int users;
    rsh_exec *member[];                   /* threads: the exec of each member */
};

enum { OPEN, ALL_HERE, OVER, PHASES };

static uint64_t phase_value(const rsh_exec *e, int phase) { return e->runs * PHASES + (uint64_t)phase; }
static bool is_phase(const rsh_exec *e, int phase) { return rshi_flag_read(&e->team->phase) >= phase_value(e, phase); }

/* ---- bind ---- */

void rshi_team_show(const rsh_comm *comm, rshi_bind_card *mine) {
    if (!comm->here->world->map->one_process) rshi_cores_mark(mine->cores);
}

/* Counts the cores of all ranks.  Processes may be bound to separate cores, and each knows only its own. */
static int cores_of_all(const rsh_comm *c) {
    uint64_t all[RSHI_CORE_WORDS] = {0};
    int n = 0;
    if (c->here->world->map->one_process) return c->here->world->patience.cores;
    for (int r = 0; r < c->size; r++)
        for (int i = 0; i < RSHI_CORE_WORDS; i++) all[i] |= ((const rshi_bind_card *)rshi_comm_card(c, r))->cores[i];
    for (int i = 0; i < RSHI_CORE_WORDS; i++) n += __builtin_popcountll(all[i]);
    return n;
}

/* Returns whether other processes may make this rank's moves, and whether these are small enough.  Shadows of its
 * destinations take memory. */
static bool suits_processes(const rsh_exec *e) {
    const rshi_parts *own = &e->peers[0].parts;
    int64_t size = e->comm->size, room = PATIENT_BYTES / size;
    if (!e->shadow) return false;
    if (size > MOST_PROCESSES || e->program.ntasks > MOST_TASKS / size || rshi_plan_has_ceiling(e->plan)) return false;
    for (int64_t k = 0; k < own->nsrc + own->ndst; k++) {
        if (e->out_of_reach[k]) return false;
        if (k >= own->nsrc) room -= (int64_t)(e->extents[k].end - e->extents[k].start);
    }
    return room >= 0;
}

static bool is_possible(const rsh_exec *e) {
    const rsh_comm *c = e->comm;
    if (c->node || c->here->size < c->size || e->stages > 1 || e->messages) return false;
    if (e->program.most_sources > MOST_SOURCES || c->size <= e->team_share.cores) return false;
    return e->team_share.one_process || suits_processes(e);
}

static int64_t count_due(const rsh_exec *e, int what) {
    int64_t n = 0;
    for (int64_t i = 1; i < e->npeers; i++) n += e->peers[i].due[what] >= 0;
    return n;
}

static size_t team_bytes(const rsh_exec *e) {
    return sizeof *e->team + (size_t)e->comm->size * sizeof *e->team->member;
}

/* Publishes the memory that all ranks use; rank 0 allocates it. */
static rsh_status bring_memory(rsh_exec *e, rshi_team_card *mine) {
    e->team = e->comm->ops->shared_alloc(e->comm, team_bytes(e));
    if (!e->team) return rshi_nomem();
    atomic_init(&e->team->users, e->comm->size);
    atomic_init(&e->team->moved, true);
    return e->comm->ops->publish(e->comm, e->team, team_bytes(e), &mine->team);
}

/* Lets other processes read and write this rank's parts.  A process that is stopped in the middle of its moves may
 * continue after this rank has given up, so it never writes the caller's memory, but a shadow. */
static rsh_status open_parts(rsh_exec *e) {
    const rshi_parts *own = &e->peers[0].parts;
    for (int64_t k = 0; k < own->nsrc + own->ndst; k++)
        if (e->shadow[k] == RSHI_NOT_READ) e->shadow[k] = 0;
    RSH_TRY(rshi_joint_new(e->plan, e->comm, &e->joint));
    return rshi_exec_show_data(e, NULL, NULL);
}

/* Closes the parts if there is no team after all: this rank then makes its own moves. */
static void close_parts(rsh_exec *e) {
    const rshi_parts *own = &e->peers[0].parts;
    rshi_joint_free(e->joint);
    e->joint = NULL;
    rshi_shadows_free(&e->shadows);
    e->shadows = (rshi_shadows){0};
    for (int64_t k = 0; k < own->nsrc + own->ndst; k++) e->shadow[k] = 0;
    rshi_exec_show_data(e, NULL, NULL); /* cannot fail: publishes the same as before */
}

rsh_status rshi_team_offer(rsh_exec *e, rshi_team_card *mine) {
    rsh_comm *c = e->comm;
    e->team_share = (rshi_team_share){.one_process = c->here->world->map->one_process, .cores = cores_of_all(c)};
    if (!is_possible(e)) return RSH_OK;
    if (e->npeers > 1) RSH_TRY(RSHI_GROW(e->peers, c->size, &e->peers_room));
    if (!e->team_share.one_process) RSH_TRY(open_parts(e));
    *mine = (rshi_team_card){.possible = true,
                             .start = e->start,
                             .sources = count_due(e, 0),
                             .readers = count_due(e, RSHI_READERS),
                             .slabs = e->joint ? e->joint->program.nslabs : e->program.nslabs,
                             .bytes = (int64_t)e->program.footprint};
    RSH_TRY(c->ops->publish(c, e->flag, sizeof *e->flag, &mine->flag));
    return c->rank ? RSH_OK : bring_memory(e, mine);
}

static const rshi_team_card *card_of(const rsh_exec *e, int rank) { return rshi_comm_card(e->comm, rank); }
static bool is_member(const rshi_team_card *card) { return card->sources || card->readers; }

/* Does the rank of this card read all `read` ranks that are read, and do all `reading` ranks read it? */
static bool meets_all(const rshi_team_card *card, int64_t read, int64_t reading) {
    if (card->sources && card->sources != read - (card->readers > 0)) return false;
    return !card->readers || card->readers == reading - (card->sources > 0);
}

/* Returns the number of members; 0: the ranks are not a team. */
static int64_t count_members(const rsh_exec *e) {
    int64_t read = 0, reading = 0, n = 0;
    for (int r = 0; r < e->comm->size; r++) {
        const rshi_team_card *card = card_of(e, r);
        if (!card->possible) return 0;
        read += card->readers > 0;
        reading += card->sources > 0;
        n += is_member(card);
    }
    for (int r = 0; r < e->comm->size; r++)
        if (!meets_all(card_of(e, r), read, reading)) return 0;
    return n;
}

/* Divides the moves into jobs.  All ranks compute the same numbers. */
static void plan_jobs(rsh_exec *e) {
    rshi_team_share *s = &e->team_share;
    int64_t slabs = 1;
    s->bytes = 0;
    for (int r = 0; r < e->comm->size; r++) {
        slabs = rshi_max(slabs, card_of(e, r)->slabs);
        s->bytes += card_of(e, r)->bytes;
        if (r < e->comm->rank) s->index += is_member(card_of(e, r));
    }
    int64_t programs = e->joint ? 1 : s->members;
    s->groups = rshi_ceil_div(programs, NEIGHBOURS);
    s->spans = rshi_max(1, rshi_min(slabs, s->bytes / programs / SPAN));
}

/* Adds members that do not read one another as peers too.  A run ends for all members or for none, so each member is
 * waited for by all.  The list has room for them. */
static void add_peers(rsh_exec *e, const int *peer_of) {
    for (int r = 0; r < e->comm->size; r++) {
        if (peer_of[r] || !is_member(card_of(e, r))) continue;
        rshi_peer *p = &e->peers[e->npeers++];
        *p = rshi_peer_of(r);
        p->flag = e->comm->ops->reach(e->comm, r, card_of(e, r)->flag);
        p->start = card_of(e, r)->start;
    }
}

/* Frees the memory of a team that no other rank has seen.  If the exchange itself failed, another rank may have seen
 * it, and the memory stays. */
static void free_unseen_team(rsh_exec *e) {
    if (!e->team || e->comm->dead) return;
    e->comm->ops->shared_free(e->comm, e->team, team_bytes(e));
    e->team = NULL;
}

void rshi_team_join(rsh_exec *e, const int *peer_of, rsh_status bound) {
    if (bound) {
        free_unseen_team(e);
        return;
    }
    if (card_of(e, 0)->possible) e->team = e->comm->ops->reach(e->comm, 0, card_of(e, 0)->team);
    e->team_share.members = count_members(e);
    if (!e->team_share.members || !is_member(card_of(e, e->comm->rank))) {
        if (e->joint) close_parts(e);
        rshi_team_drop(e);
        return;
    }
    add_peers(e, peer_of);
    plan_jobs(e);
    if (!e->joint) e->team->member[e->team_share.index] = e;
}

void rshi_team_drop(rsh_exec *e) {
    if (e->team) e->comm->ops->shared_let_go(e->comm, e->team, team_bytes(e), &e->team->users, !e->comm->rank);
    rshi_joint_free(e->joint);
    e->team = NULL;
    e->joint = NULL;
    if (e->team_share.come) rshi_shadows_abandon(&e->shadows);
}

/* ---- jobs ---- */

static void move_span(const rshi_program *g, char *const *base, int64_t span, int64_t spans) {
    const char *pointers[MOST_SOURCES];
    rshi_slabs_run(g, g->nslabs * span / spans, g->nslabs * (span + 1) / spans, base, pointers);
}

static void move_job(const rsh_exec *e, int64_t job) {
    const rshi_team_share *s = &e->team_share;
    int64_t first = job % s->groups * NEIGHBOURS, end = rshi_min(first + NEIGHBOURS, s->members);
    for (int64_t i = first; i < end; i++) {
        const rsh_exec *m = e->team->member[i];
        move_span(&m->program, m->base, job / s->groups, s->spans);
    }
}

static void look_up_member(const rsh_exec *e, int64_t member) {
    rshi_team *c = e->team;
    rshi_exec_look_up_peers(c->member[member]);
    if (atomic_fetch_add_explicit(&c->looked_up, 1, memory_order_acq_rel) + 1 == c->lookups)
        rshi_flag_post(&c->known, e->runs + 1, true);
}

static rsh_status no_check(void *ctx, double waited) {
    (void)ctx, (void)waited;
    return RSH_OK;
}

/* Runs a job.  Addresses are looked up first: no move begins before all of them are known. */
static bool do_job(const rsh_exec *e, int64_t job) {
    rshi_team *c = e->team;
    if (job < c->lookups) {
        look_up_member(e, job);
        return true;
    }
    if (c->lookups) rshi_flag_wait(&c->known, e->runs + 1, &e->comm->here->world->patience, no_check, NULL);
    move_job(e, job - c->lookups);
    return true;
}

/* Returns a member that is known to have left, after waiting for so many seconds; NULL: none. */
static const rshi_peer *find_lost(const rsh_exec *e, double waited) {
    for (int64_t i = 1; i < e->npeers; i++)
        if (e->comm->ops->check_peer(e->comm, e->peers[i].rank, waited)) return &e->peers[i];
    return NULL;
}

/* Returns whether all members are there.  Checks the usual case first: no rank has left, member or not. */
static bool all_are_there(const rsh_exec *e) { return !e->comm->ops->check_peer(e->comm, -1, 0) || !find_lost(e, 0); }

/* Runs a job of a team of processes.  The other members wait for a process that has a job, so all still publish the
 * same memory as when they arrived.  But if this process was stopped for a long time, others may have given up waiting
 * for it.  Such a member leaves first and then reuses its memory, so data read from it are invalid.  Returns false in
 * that case: the job is not done, and the run will never complete. */
static bool do_joint_job(const rsh_exec *e, int64_t job) {
    rshi_joint *j = e->joint;
    atomic_store_explicit(&e->team->mover, e->comm->rank, memory_order_relaxed);
    if (j->shown != e->team->shown) rshi_joint_look_up(j);
    j->shown = e->team->shown;
    if (!all_are_there(e)) return false;
    move_span(&j->program, j->base, job, e->team_share.spans);
    return all_are_there(e);
}

/* Ends the run; called by the member that finishes the last job.  Opens the next run and wakes the others. */
static void finish_team_run(const rsh_exec *e) {
    rshi_team *c = e->team;
    uint64_t epoch = atomic_load_explicit(&c->come, memory_order_relaxed) / EPOCH;
    atomic_store_explicit(&c->come, (epoch + 1) * EPOCH, memory_order_release);
    rshi_flag_post(&c->phase, phase_value(e, OVER), e->team_share.one_process);
}

/* Makes moves, on as many members as there are cores. */
static void move_jobs(const rsh_exec *e) {
    rshi_team *c = e->team;
    int64_t all = c->lookups + e->team_share.spans * e->team_share.groups, mine = 0;
    if (atomic_fetch_add_explicit(&c->movers, 1, memory_order_relaxed) >= e->team_share.cores) return;
    for (int64_t job; (job = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < all;)
        mine += e->joint ? do_joint_job(e, job) : do_job(e, job);
    rshi_copy_fence();
    if (mine && atomic_fetch_add_explicit(&c->done, mine, memory_order_acq_rel) + mine == all)
        finish_team_run(e);
}

/* ---- arriving and leaving ---- */

/* Resets the counters: all members have arrived, so none of them is still in the previous run. */
static void begin_team_run(const rsh_exec *e) {
    rshi_team *c = e->team;
    bool moved = atomic_exchange_explicit(&c->moved, false, memory_order_relaxed);
    c->lookups = moved && !e->joint ? e->team_share.members : 0;
    c->shown += moved;
    atomic_store_explicit(&c->looked_up, 0, memory_order_relaxed);
    atomic_store_explicit(&c->next, 0, memory_order_relaxed);
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->movers, 0, memory_order_relaxed);
    rshi_flag_post_to(&c->phase, phase_value(e, ALL_HERE), (int)rshi_max(1, e->team_share.cores - 1),
                      e->team_share.one_process);
}

void rshi_team_come(rsh_exec *e) {
    rshi_team *c = e->team;
    if (e->shown_anew) atomic_store_explicit(&c->moved, true, memory_order_relaxed);
    e->shown_anew = false;
    e->team_share.come = true;
    uint64_t before = atomic_fetch_add_explicit(&c->come, 1, memory_order_acq_rel);
    e->team_share.epoch = before / EPOCH;
    if ((int64_t)(before % EPOCH) + 1 == e->team_share.members) begin_team_run(e);
}

/* Takes back the arrival of this rank; returns true if the run had not begun. */
static bool take_back_arrival(rsh_exec *e) {
    const rshi_team_share *s = &e->team_share;
    uint64_t come = atomic_load_explicit(&e->team->come, memory_order_relaxed);
    while (come / EPOCH == s->epoch && (int64_t)(come % EPOCH) < s->members)
        if (atomic_compare_exchange_weak_explicit(&e->team->come, &come, come - 1, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Is there a member that has not arrived and that last ran on this core? */
static bool core_is_wanted(const rsh_exec *e) {
    for (int64_t i = 1; i < e->npeers; i++) {
        const rshi_peer *p = &e->peers[i];
        if (rshi_flag_read(p->flag) < rshi_flag_value(e, p->start, 0) && rshi_flag_is_near(p->flag)) return true;
    }
    return false;
}

/* Polls for a moment instead of yielding.  If all other members on this core have arrived, a yield would only switch to
 * another waiting member, and in a short run two such switches take as long as the run. */
static void poll_for_phase(const rsh_exec *e, int phase) {
    if (e->team_share.bytes > PATIENT_BYTES || e->npeers > FEW_PEERS) return;
    for (int i = 0; i < LOOKS && !is_phase(e, phase) && !core_is_wanted(e); i++) rshi_relax();
}

/* Returns an error if there is a reason to give up a run that has begun.  The others wait for the rank that moves. */
static rsh_status check_members(void *ctx, double waited) {
    const rsh_exec *e = ctx;
    double enough = e->comm->here->world->patience.nap / 2; /* finds ranks that have left, not ranks that are late */
    for (int64_t i = 1; i < e->npeers; i++)
        RSH_TRY(e->comm->ops->check_peer(e->comm, e->peers[i].rank, waited < enough ? waited : enough));
    int mover = atomic_load_explicit(&e->team->mover, memory_order_relaxed);
    return e->comm->ops->check_peer(e->comm, mover == e->comm->rank ? e->peers[1].rank : mover, waited);
}

/* Finishes a run that has begun.  With threads this cannot fail. */
static rsh_status finish_begun_run(rsh_exec *e, const rshi_patience *p) {
    if (!is_phase(e, OVER)) move_jobs(e);
    poll_for_phase(e, OVER);
    return rshi_flag_wait(&e->team->phase, phase_value(e, OVER), p, e->joint ? check_members : no_check, e);
}

static rshi_patience patience_of(const rsh_exec *e) {
    rshi_patience p = e->comm->here->world->patience;
    p.spins = 0;
    if (e->team_share.bytes > PATIENT_BYTES) p.yields = 0;
    return p;
}

/* Leaves the team.  Does not wait for a run of processes that has begun, because one of them may be stopped. */
void rshi_team_leave(rsh_exec *e) {
    if (!e->team || !e->team_share.come) return;
    rshi_patience p = patience_of(e);
    bool left = take_back_arrival(e) || is_phase(e, OVER);
    if (!left && !e->joint) left = !finish_begun_run(e, &p);
    e->team_share.come = !left;
}

/* Returns whether this member is the first to refuse the run.  Several members may refuse it at once; the first one
 * writes its message. */
static bool is_first_to_refuse(rshi_team *c, uint64_t run) {
    uint64_t seen = atomic_load_explicit(&c->speaker, memory_order_relaxed);
    while (seen < run)
        if (atomic_compare_exchange_weak(&c->speaker, &seen, run)) return true;
    return false;
}

/* Refuses a run.  It is over when every member has refused it by its own flag.  Until then no member is in the next
 * run, so the message stays valid. */
void rshi_team_refuse(rsh_exec *e) {
    rshi_team *c = e->team;
    if (!c) return;
    rshi_team_leave(e);
    if (is_phase(e, OVER) || !is_first_to_refuse(c, e->runs + 1)) return;
    c->refusal = *e->refusal;
    atomic_store_explicit(&c->refused, e->runs + 1, memory_order_release);
    rshi_flag_post(&c->phase, phase_value(e, OVER), e->team_share.one_process);
}

/* ---- waiting ---- */

typedef struct wait_for_all {
    rsh_exec *e;
    const rshi_peer *missing; /* a member that has not begun the run; NULL: none */
    double waited;
} wait_for_all;

static const rshi_peer *find_missing(const rsh_exec *e) {
    for (int64_t i = 1; i < e->npeers; i++)
        if (rshi_flag_read(e->peers[i].flag) < rshi_flag_value(e, e->peers[i].start, 0)) return &e->peers[i];
    return NULL;
}

/* After a sleep: finds a missing member.  If there is none, a member may have arrived and left again. */
static rsh_status find_missing_after_sleep(void *ctx, double waited) {
    wait_for_all *w = ctx;
    if (waited <= 0) return RSH_OK;
    w->missing = find_missing(w->e);
    if (w->missing) return RSH_EBUSY;
    for (int64_t i = 1; i < w->e->npeers; i++)
        RSH_TRY(w->e->comm->ops->check_peer(w->e->comm, w->e->peers[i].rank, waited));
    return RSH_OK;
}

/* Waits for a missing member by its own flag, which also tells if it will never arrive. */
static rsh_status await_all(rsh_exec *e, const rshi_patience *p) {
    for (;;) {
        wait_for_all w = {.e = e};
        bool there;
        poll_for_phase(e, ALL_HERE);
        rsh_status st = rshi_flag_wait(&e->team->phase, phase_value(e, ALL_HERE), p, find_missing_after_sleep, &w);
        if (!st || !w.missing) return rshi_comm_verdict(e->comm, st);
        RSH_TRY(rshi_exec_await_value(e, w.missing, rshi_flag_value(e, w.missing->start, 0), true, &there));
    }
}

/* Waits for the end of the run.  Makes the moves that it can, even if it may not wait. */
static rsh_status await_end(rsh_exec *e, const rshi_patience *p, bool may_wait, bool *there) {
    if (may_wait) RSH_TRY(rshi_comm_verdict(e->comm, finish_begun_run(e, p)));
    else if (!is_phase(e, OVER)) move_jobs(e);
    *there = is_phase(e, OVER);
    return RSH_OK;
}

/* Finds the rank that this one waits for, for callers that test instead of waiting. */
static void note_missing(rsh_exec *e) {
    const rshi_peer *missing = find_missing(e);
    if (!missing) missing = find_lost(e, e->asked);
    e->missing = missing ? missing->rank : -1;
}

rsh_status rshi_team_run(rsh_exec *e, bool may_wait, bool *there) {
    rshi_patience p = patience_of(e);
    e->missing = -1;
    if (may_wait) RSH_TRY(await_all(e, &p));
    bool begun = *there = is_phase(e, ALL_HERE);
    if (begun) RSH_TRY(await_end(e, &p, may_wait, there));
    if (!*there && (!begun || e->joint)) note_missing(e);
    if (!*there) return RSH_OK;
    if (atomic_load_explicit(&e->team->refused, memory_order_acquire) == e->runs + 1)
        return rshi_refusal_tell(&e->team->refusal);
    e->team_share.come = false;
    return RSH_OK;
}

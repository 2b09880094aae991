/* Team: who comes, who moves, and who sleeps.
 *
 * The turn flag has three values for each run: members come; all have come, and a few of them move; it is over.  Jobs
 * are taken from one counter.  A job is a span of the slabs of some neighbouring members, one member after the other:
 * spans are short enough for what the first of them fetched to be near when the last reads beside it. */
#include "shard/team.h"

#include "shard/exec_run.h"

#define NEIGHBOURS   32                   /* members in a job */
#define SPAN         ((int64_t)32 << 10)  /* bytes of each of them, about */
#define MOST_SOURCES RSHI_WEAVE_MOST      /* of a move: room on a mover's stack */
#define PATIENT_BYTES ((int64_t)1 << 20)  /* of all members: larger moves are slept through */
#define EPOCH        ((uint64_t)1 << 32)

struct rshi_team {
    rshi_flag turn;                       /* see turn_of */
    rshi_flag known;                      /* 1 + the last run whose new addresses were all looked up */
    _Alignas(64) _Atomic uint64_t come;   /* members that have, and above them a count of runs */
    _Alignas(64) _Atomic int64_t next;    /* job */
    _Alignas(64) _Atomic int64_t done;    /* jobs */
    _Atomic int64_t looked_up;            /* members' addresses, in this run */
    atomic_int movers;
    atomic_bool moved;                    /* some member shows other memory than in the run before */
    _Atomic uint64_t speaker;             /* 1 + the run whose refusal a member began to write down last */
    _Atomic uint64_t refused;             /* 1 + the run that was refused last, and why: */
    rshi_refusal refusal;
    int64_t lookups;                      /* before the moves of this run; written by the last to come */
    atomic_int refs;
    size_t bytes;
    rsh_exec *member[];
};

enum { OPEN, ALL_HERE, OVER, TURNS };

static uint64_t turn_of(const rsh_exec *e, int turn) { return e->runs * TURNS + (uint64_t)turn; }
static bool is_turn(const rsh_exec *e, int turn) { return rshi_flag_read(&e->team->turn) >= turn_of(e, turn); }

/* ---- bind ---- */

static bool is_possible(const rsh_exec *e) {
    const rsh_comm *c = e->comm;
    const rshi_world *w = c->here->world;
    bool crowd = !c->node && c->here->size == c->size && w->map->one_process && c->size > w->patience.cores;
    return crowd && e->stages == 1 && !e->messages && e->program.most_sources <= MOST_SOURCES;
}

static int64_t count_due(const rsh_exec *e, int what) {
    int64_t n = 0;
    for (int64_t i = 1; i < e->npeers; i++) n += e->peers[i].due[what] >= 0;
    return n;
}

/* Rank 0 brings the memory; each rank has a reference to it. */
static rsh_status bring_memory(rsh_exec *e, rshi_team_card *mine) {
    size_t bytes = sizeof *e->team + (size_t)e->comm->size * sizeof *e->team->member;
    e->team = mine->team = rshi_alloc_data(bytes, true);
    if (!e->team) return rshi_nomem();
    e->team->bytes = bytes;
    atomic_init(&e->team->refs, e->comm->size);
    atomic_init(&e->team->moved, true);
    return RSH_OK;
}

rsh_status rshi_team_offer(rsh_exec *e, rshi_team_card *mine) {
    if (!is_possible(e)) return RSH_OK;
    if (e->npeers > 1) RSH_TRY(RSHI_GROW(e->peers, e->comm->size, &e->peers_room));
    *mine = (rshi_team_card){.possible = true,
                             .flag = e->flag,
                             .start = e->start,
                             .sources = count_due(e, 0),
                             .readers = count_due(e, RSHI_READERS),
                             .slabs = e->program.nslabs,
                             .bytes = (int64_t)e->program.footprint};
    return e->comm->rank ? RSH_OK : bring_memory(e, mine);
}

static const rshi_team_card *card_of(const rsh_exec *e, int rank) { return rshi_comm_card(e->comm, rank); }
static bool is_member(const rshi_team_card *card) { return card->sources || card->readers; }

/* Does it read all of `read` ranks that anybody reads, and do all of `reading` ranks read it? */
static bool meets_all(const rshi_team_card *card, int64_t read, int64_t reading) {
    if (card->sources && card->sources != read - (card->readers > 0)) return false;
    return !card->readers || card->readers == reading - (card->sources > 0);
}

/* 0: they are none. */
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

/* All ranks come to the same numbers. */
static void plan_jobs(rsh_exec *e) {
    rshi_team_share *s = &e->team_share;
    int64_t slabs = 1;
    s->bytes = 0;
    for (int r = 0; r < e->comm->size; r++) {
        slabs = rshi_max(slabs, card_of(e, r)->slabs);
        s->bytes += card_of(e, r)->bytes;
        if (r < e->comm->rank) s->index += is_member(card_of(e, r));
    }
    s->groups = rshi_ceil_div(s->members, NEIGHBOURS);
    s->spans = rshi_max(1, rshi_min(slabs, s->bytes / s->members / SPAN));
}

/* Members that do not read one another are peers too: a run ends for all of them or for none, so that each is waited
 * for by all.  There is room for them. */
static void add_peers(rsh_exec *e, const int *peer_of) {
    for (int r = 0; r < e->comm->size; r++) {
        if (peer_of[r] || !is_member(card_of(e, r))) continue;
        rshi_peer *p = &e->peers[e->npeers++];
        *p = rshi_peer_of(r);
        p->flag = card_of(e, r)->flag;
        p->start = card_of(e, r)->start;
    }
}

/* Nobody else has seen it, unless the exchange itself failed; then it stays. */
static void withdraw(rsh_exec *e) {
    if (!e->team || e->comm->dead) return;
    rshi_free_data(e->team, e->team->bytes);
    e->team = NULL;
}

void rshi_team_join(rsh_exec *e, const int *peer_of, rsh_status bound) {
    if (bound) {
        withdraw(e);
        return;
    }
    e->team = card_of(e, 0)->team;
    if (!e->team) return;
    e->team_share = (rshi_team_share){.members = count_members(e), .cores = e->comm->here->world->patience.cores};
    if (!e->team_share.members || !is_member(card_of(e, e->comm->rank))) {
        rshi_team_drop(e);
        return;
    }
    add_peers(e, peer_of);
    plan_jobs(e);
    e->team->member[e->team_share.index] = e;
}

void rshi_team_drop(rsh_exec *e) {
    rshi_team *c = e->team;
    e->team = NULL;
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) rshi_free_data(c, c->bytes);
}

/* ---- jobs ---- */

static void move_span(const rsh_exec *m, int64_t span, int64_t spans) {
    const char *pointers[MOST_SOURCES];
    int64_t n = m->program.nslabs;
    rshi_slabs_run(&m->program, n * span / spans, n * (span + 1) / spans, m->base, pointers);
}

static void move_job(const rsh_exec *e, int64_t job) {
    const rshi_team_share *s = &e->team_share;
    int64_t first = job % s->groups * NEIGHBOURS, end = rshi_min(first + NEIGHBOURS, s->members);
    for (int64_t i = first; i < end; i++) move_span(e->team->member[i], job / s->groups, s->spans);
}

static void look_up(const rsh_exec *e, int64_t member) {
    rshi_team *c = e->team;
    rshi_exec_look_up_peers(c->member[member]);
    if (atomic_fetch_add_explicit(&c->looked_up, 1, memory_order_acq_rel) + 1 == c->lookups)
        rshi_flag_post(&c->known, e->runs + 1, true);
}

static rsh_status go_on(void *ctx, double waited) {
    (void)ctx, (void)waited;
    return RSH_OK;
}

/* Addresses come first: no move begins before all are known. */
static void do_job(const rsh_exec *e, int64_t job) {
    rshi_team *c = e->team;
    if (job < c->lookups) {
        look_up(e, job);
        return;
    }
    if (c->lookups) rshi_flag_wait(&c->known, e->runs + 1, &e->comm->here->world->patience, go_on, NULL);
    move_job(e, job - c->lookups);
}

/* Who finishes the last job lets members come to the next run, and wakes them. */
static void finish(rshi_team *c, uint64_t over) {
    uint64_t epoch = atomic_load_explicit(&c->come, memory_order_relaxed) / EPOCH;
    atomic_store_explicit(&c->come, (epoch + 1) * EPOCH, memory_order_release);
    rshi_flag_post(&c->turn, over, true);
}

/* As many move as there are cores. */
static void move(const rsh_exec *e) {
    rshi_team *c = e->team;
    int64_t all = c->lookups + e->team_share.spans * e->team_share.groups, mine = 0;
    if (atomic_fetch_add_explicit(&c->movers, 1, memory_order_relaxed) >= e->team_share.cores) return;
    for (int64_t job; (job = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < all; mine++)
        do_job(e, job);
    rshi_copy_fence();
    if (mine && atomic_fetch_add_explicit(&c->done, mine, memory_order_acq_rel) + mine == all)
        finish(c, turn_of(e, OVER));
}

/* ---- coming and going ---- */

/* Nobody is left in the run before: who comes to this one has left it. */
static void begin(const rsh_exec *e) {
    rshi_team *c = e->team;
    bool moved = atomic_exchange_explicit(&c->moved, false, memory_order_relaxed);
    c->lookups = moved ? e->team_share.members : 0;
    atomic_store_explicit(&c->looked_up, 0, memory_order_relaxed);
    atomic_store_explicit(&c->next, 0, memory_order_relaxed);
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->movers, 0, memory_order_relaxed);
    rshi_flag_post_to(&c->turn, turn_of(e, ALL_HERE), (int)rshi_max(1, e->team_share.cores - 1), true);
}

void rshi_team_come(rsh_exec *e) {
    rshi_team *c = e->team;
    if (e->shown_anew) atomic_store_explicit(&c->moved, true, memory_order_relaxed);
    e->shown_anew = false;
    e->team_share.come = true;
    uint64_t before = atomic_fetch_add_explicit(&c->come, 1, memory_order_acq_rel);
    e->team_share.epoch = before / EPOCH;
    if ((int64_t)(before % EPOCH) + 1 == e->team_share.members) begin(e);
}

/* True: this rank was not missed. */
static bool take_back(rsh_exec *e) {
    const rshi_team_share *s = &e->team_share;
    uint64_t come = atomic_load_explicit(&e->team->come, memory_order_relaxed);
    while (come / EPOCH == s->epoch && (int64_t)(come % EPOCH) < s->members)
        if (atomic_compare_exchange_weak_explicit(&e->team->come, &come, come - 1, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Nothing can go wrong any more. */
static void see_it_through(rsh_exec *e, const rshi_patience *p) {
    if (!is_turn(e, OVER)) move(e);
    rshi_flag_wait(&e->team->turn, turn_of(e, OVER), p, go_on, NULL);
}

static rshi_patience patience_of(const rsh_exec *e) {
    rshi_patience p = e->comm->here->world->patience;
    if (e->team_share.bytes > PATIENT_BYTES) p.yields = 0;
    return p;
}

void rshi_team_leave(rsh_exec *e) {
    if (!e->team || !e->team_share.come) return;
    rshi_patience p = patience_of(e);
    if (!take_back(e)) see_it_through(e, &p);
    e->team_share.come = false;
}

/* Several may refuse a run at once; one of them speaks. */
static bool is_first(rshi_team *c, uint64_t run) {
    uint64_t seen = atomic_load_explicit(&c->speaker, memory_order_relaxed);
    while (seen < run)
        if (atomic_compare_exchange_weak(&c->speaker, &seen, run)) return true;
    return false;
}

/* A run that is refused is over for all, once every member has said so by its own flag: until then nobody is in the
 * next one, and the sentence stays. */
void rshi_team_refuse(rsh_exec *e) {
    rshi_team *c = e->team;
    if (!c) return;
    rshi_team_leave(e);
    if (is_turn(e, OVER) || !is_first(c, e->runs + 1)) return;
    c->refusal = *e->refusal;
    atomic_store_explicit(&c->refused, e->runs + 1, memory_order_release);
    rshi_flag_post(&c->turn, turn_of(e, OVER), true);
}

/* ---- waiting ---- */

typedef struct wait_for_all {
    rsh_exec *e;
    const rshi_peer *missing; /* a member that has not begun the run; NULL: none was found */
    double waited;
} wait_for_all;

static const rshi_peer *find_missing(const rsh_exec *e) {
    for (int64_t i = 1; i < e->npeers; i++)
        if (rshi_flag_read(e->peers[i].flag) < rshi_flag_value(e, e->peers[i].start, 0)) return &e->peers[i];
    return NULL;
}

/* After a nap in vain: who is missing?  If nobody is, somebody may have come and left again. */
static rsh_status look_around(void *ctx, double waited) {
    wait_for_all *w = ctx;
    if (waited <= 0) return RSH_OK;
    w->missing = find_missing(w->e);
    if (w->missing) return RSH_EBUSY;
    for (int64_t i = 1; i < w->e->npeers; i++)
        RSH_TRY(w->e->comm->ops->check_peer(w->e->comm, w->e->peers[i].rank, waited));
    return RSH_OK;
}

/* A member that is long in coming is waited for by its own flag, which tells if it never will. */
static rsh_status await_all(rsh_exec *e, const rshi_patience *p) {
    for (;;) {
        wait_for_all w = {.e = e};
        bool there;
        rsh_status st = rshi_flag_wait(&e->team->turn, turn_of(e, ALL_HERE), p, look_around, &w);
        if (!st || !w.missing) return rshi_comm_verdict(e->comm, st);
        RSH_TRY(rshi_exec_await_value(e, w.missing, rshi_flag_value(e, w.missing->start, 0), true, &there));
    }
}

/* It moves what it can, also where it may not wait. */
static void await_end(rsh_exec *e, const rshi_patience *p, bool may_wait, bool *there) {
    if (may_wait) see_it_through(e, p);
    else if (!is_turn(e, OVER)) move(e);
    *there = is_turn(e, OVER);
}

/* A member that came and has left again. */
static const rshi_peer *find_lost(const rsh_exec *e) {
    for (int64_t i = 1; i < e->npeers; i++)
        if (e->comm->ops->check_peer(e->comm, e->peers[i].rank, 0)) return &e->peers[i];
    return NULL;
}

static void note_missing(rsh_exec *e, bool *there) {
    const rshi_peer *missing = find_missing(e);
    if (!missing) missing = find_lost(e);
    e->missing = missing ? missing->rank : -1;
    *there = false;
}

rsh_status rshi_team_run(rsh_exec *e, bool may_wait, bool *there) {
    rshi_patience p = patience_of(e);
    e->missing = -1;
    if (may_wait) RSH_TRY(await_all(e, &p));
    if (is_turn(e, ALL_HERE)) await_end(e, &p, may_wait, there);
    else note_missing(e, there);
    if (!*there) return RSH_OK;
    if (atomic_load_explicit(&e->team->refused, memory_order_acquire) == e->runs + 1)
        return rshi_refusal_tell(&e->team->refusal);
    e->team_share.come = false;
    return RSH_OK;
}

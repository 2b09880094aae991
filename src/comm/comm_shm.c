/* Engine `shm`: ranks are processes of one machine and read one another's arenas.
 *
 * As with threads, everything collective is made of meetings at a board that all can see: each rank lays something on
 * its place, says that it has arrived, and goes on when all have.  Here the board lies in the arena of one rank; the
 * memory outlives that rank for as long as anybody maps it, so a rank's death takes nothing away but the rank. */
#include "comm/shm.h"

#include <stdio.h>
#include <string.h>

/* ---- who is missing ---- */

static bool is_gone(const rshi_shm_group *g, int rank) {
    return atomic_load_explicit(&g->seats[rank].gone, memory_order_acquire);
}

/* Has a rank left, or its process ended?  Asking the kernel is for those who have slept: a rank that leaves in order
 * wakes its peers. */
static bool is_lost(const rshi_shm_comm *c, int rank, double waited) {
    if (is_gone(c->group, rank)) return true;
    return waited >= c->world->patience.nap / 2 && rshi_world_ended(c->world, c->member[rank]);
}

/* A rank left with RSH_EPEER because of another one: its sentence already names that one. */
static rsh_status report_lost(const rshi_shm_comm *c, int rank) {
    const rshi_shm_seat *seat = &c->group->seats[rank];
    int name = rshi_comm_called(&c->base, rank);
    if (!is_gone(c->group, rank)) return rshi_fail(RSH_EPEER, "rank %d has died", name);
    if (seat->status == RSH_OK) return rshi_fail(RSH_EPEER, "rank %d has left", name);
    if (seat->status == RSH_EPEER && *seat->detail)
        return rshi_fail(RSH_EPEER, "%.*s", RSHI_DETAIL_BYTES - 1, seat->detail);
    return rshi_fail(RSH_EPEER, "rank %d failed with %s: %.900s", name, rsh_status_name(seat->status), seat->detail);
}

static rsh_status report_late(const rshi_shm_comm *c, int rank, double waited) {
    return rshi_fail(RSH_ETIMEOUT, "rank %d let this rank wait for %.3g seconds (RESHARD_TIMEOUT is %g)",
                     rshi_comm_called(&c->base, rank), waited, c->world->patience.timeout);
}

/* The lowest rank that is lost, or -1. */
static int find_lost(const rshi_shm_comm *c, double waited) {
    for (int r = 0; r < c->base.size; r++)
        if (is_lost(c, r, waited)) return r;
    return -1;
}

/* The lowest rank that has not come to the meeting, or -1. */
static int find_missing(const rshi_shm_comm *c) {
    for (int r = 0; r < c->base.size; r++)
        if (atomic_load_explicit(&c->group->seats[r].arrived, memory_order_acquire) < c->meetings) return r;
    return -1;
}

/* A meeting that is not complete never will be when a rank is lost, be it one that had come and gave up waiting. */
static rsh_status doubt_meeting(void *ctx, double waited) {
    const rshi_shm_comm *c = ctx;
    int lost = find_lost(c, waited);
    if (lost >= 0) return report_lost(c, lost);
    if (waited < c->world->patience.timeout) return RSH_OK;
    int missing = find_missing(c);
    return missing >= 0 ? report_late(c, missing, waited) : RSH_OK;
}

typedef struct waiting {
    const rshi_shm_comm *comm;
    int peer;
    bool idle; /* this rank does nothing else until the peer's flag is there */
} waiting;

/* Is the peer at a meeting that this rank has not come to?  It leaves the meeting when this rank comes, which waits for
 * it here.  What it posted before it went there is seen after this look. */
static bool is_elsewhere(const waiting *w) {
    return atomic_load_explicit(&w->comm->group->seats[w->peer].arrived, memory_order_acquire) > w->comm->meetings;
}

static rsh_status doubt_peer(void *ctx, double waited) {
    const waiting *w = ctx;
    if (is_lost(w->comm, w->peer, waited)) return report_lost(w->comm, w->peer);
    if (w->idle && is_elsewhere(w)) return rshi_report_elsewhere(&w->comm->base, w->peer);
    return waited < w->comm->world->patience.timeout ? RSH_OK : report_late(w->comm, w->peer, waited);
}

static rsh_status doubt_all(const rshi_shm_comm *c, double waited) {
    int lost = find_lost(c, waited);
    if (lost >= 0) return report_lost(c, lost);
    return waited < c->world->patience.timeout ? RSH_OK : rshi_report_all_late(waited, c->world->patience.timeout);
}

static rsh_status doubt(rsh_comm *comm, int peer, double waited) {
    waiting w = {rshi_shm_comm_of(comm), peer, false};
    return peer < 0 ? doubt_all(w.comm, waited) : doubt_peer(&w, waited);
}

rsh_status rshi_shm_wait(rsh_comm *comm, int peer, rshi_flag *flag, uint64_t target) {
    const rshi_shm_comm *c = rshi_shm_comm_of(comm);
    waiting w = {c, peer, true};
    return rshi_flag_wait(flag, target, &c->world->patience, doubt_peer, &w);
}

/* ---- meetings ---- */

rsh_status rshi_shm_meet(rshi_shm_comm *c, const void *from, size_t bytes) {
    rshi_shm_group *g = c->group;
    rshi_shm_seat *seat = &g->seats[c->base.rank];
    uint64_t meeting = ++c->meetings;
    seat->bytes[meeting & 1] = bytes;
    if (bytes) memcpy(seat->laid[meeting & 1], from, bytes);
    atomic_store_explicit(&seat->arrived, meeting, memory_order_release);
    if (atomic_fetch_add_explicit(&g->arrivals, 1, memory_order_acq_rel) + 1 < c->base.size)
        return rshi_flag_wait(&g->met, meeting, &c->world->patience, doubt_meeting, c);
    if (atomic_load_explicit(&g->departures, memory_order_acquire)) return report_lost(c, find_lost(c, 0));
    atomic_store_explicit(&g->arrivals, 0, memory_order_relaxed);
    rshi_flag_post(&g->met, meeting, false);
    return RSH_OK;
}

const void *rshi_shm_laid(const rshi_shm_comm *c, int r) { return c->group->seats[r].laid[c->meetings & 1]; }
size_t rshi_shm_laid_bytes(const rshi_shm_comm *c, int r) { return c->group->seats[r].bytes[c->meetings & 1]; }

/* One meeting's worth of an allgather: `bytes` of each rank's block, `step` bytes from one rank's to the next one's. */
static rsh_status gather_piece(rshi_shm_comm *c, const void *mine, char *all, size_t bytes, size_t step) {
    RSH_TRY(rshi_shm_meet(c, mine, bytes));
    for (int r = 0; r < c->base.size; r++)
        RSH_REQUIRE(rshi_shm_laid_bytes(c, r) == rshi_shm_laid_bytes(c, 0), RSH_EMISMATCH,
                    "allgather: rank 0 gives %zu bytes, rank %d %zu", rshi_shm_laid_bytes(c, 0), r,
                    rshi_shm_laid_bytes(c, r));
    for (int r = 0; r < c->base.size; r++)
        if (bytes) memcpy(all + (size_t)r * step, rshi_shm_laid(c, r), bytes);
    return RSH_OK;
}

static size_t piece_at(size_t at, size_t bytes) { return bytes - at < RSHI_SHM_BLOCK ? bytes - at : RSHI_SHM_BLOCK; }

/* `mine` may lie in `all`: a piece is laid on the board before its place is written. */
static rsh_status allgather(rsh_comm *comm, const void *mine, void *all, size_t bytes) {
    size_t at = 0;
    do {
        size_t n = piece_at(at, bytes);
        RSH_TRY(gather_piece(rshi_shm_comm_of(comm), (const char *)mine + at, (char *)all + at, n, bytes));
        at += n;
    } while (at < bytes);
    return RSH_OK;
}

static rsh_status bcast(rsh_comm *comm, int root, void *data, size_t bytes) {
    rshi_shm_comm *c = rshi_shm_comm_of(comm);
    for (size_t at = 0; at < bytes; at += RSHI_SHM_BLOCK) {
        size_t n = piece_at(at, bytes);
        RSH_TRY(rshi_shm_meet(c, (char *)data + at, comm->rank == root ? n : 0));
        if (comm->rank != root) memcpy((char *)data + at, rshi_shm_laid(c, root), n);
    }
    return RSH_OK;
}

/* ---- memory and flags ---- */

static void *shared_alloc(rsh_comm *c, size_t bytes) {
    return rshi_arena_alloc(rshi_shm_comm_of(c)->world->arena, bytes, true);
}

static void shared_free(rsh_comm *c, void *p, size_t bytes) {
    rshi_arena_free(rshi_shm_comm_of(c)->world->arena, p, bytes);
}

/* A block of data holds its arena, which may outlive the comm. */
typedef struct block {
    rshi_arena *arena;
    void *data;
    size_t bytes;
} block;

static void release_block(void *owner) {
    block *b = owner;
    rshi_account_live(b->arena->owner, -(int64_t)b->bytes);
    rshi_arena_free(b->arena, b->data, b->bytes);
    rshi_arena_drop(b->arena);
    rshi_free(b);
}

static rsh_status data_alloc(rsh_comm *c, size_t bytes, bool zero, rshi_data *out) {
    rshi_arena *arena = rshi_shm_comm_of(c)->world->arena;
    block *b = RSHI_NEW(block);
    void *data = b ? rshi_arena_alloc(arena, bytes, zero) : NULL;
    if (!data) {
        rshi_free(b);
        return rshi_nomem();
    }
    rshi_account_live(arena->owner, (int64_t)bytes);
    *b = (block){rshi_arena_hold(arena), data, bytes};
    *out = (rshi_data){data, release_block, b};
    return RSH_OK;
}

static bool is_shared(rsh_comm *c, const void *p) { return rshi_arena_has(rshi_shm_comm_of(c)->world->arena, p); }

/* In a handle, `a` is an offset into the rank's arena or an address of its process, `b` says which. */
enum { IN_ARENA = 1, PRIVATE = 2 };

static rsh_status publish(rsh_comm *c, const void *p, size_t bytes, rshi_handle *out) {
    (void)bytes;
    const rshi_arena *arena = rshi_shm_comm_of(c)->world->arena;
    *out = rshi_arena_has(arena, p) ? (rshi_handle){rshi_arena_offset(arena, p), IN_ARENA}
                                    : (rshi_handle){(uintptr_t)p, PRIVATE};
    return RSH_OK;
}

static void *reach(rsh_comm *comm, int peer, rshi_handle h) {
    const rshi_shm_comm *c = rshi_shm_comm_of(comm);
    if (h.b == IN_ARENA) return rshi_world_at(c->world, c->member[peer], h.a);
    return peer == comm->rank ? (void *)(uintptr_t)h.a : NULL;
}

static rshi_flag *flag_take(rsh_comm *c) { return rshi_world_flag_take(rshi_shm_comm_of(c)->world); }
static void flag_give(rsh_comm *c, rshi_flag *flag) { rshi_world_flag_give(rshi_shm_comm_of(c)->world, flag); }

static void post(rsh_comm *c, rshi_flag *flag, uint64_t value) {
    (void)c;
    rshi_flag_post(flag, value, false);
}

static void refuse(rsh_comm *c, rsh_status status, const char *detail) {
    rshi_shm_seat *seat = &rshi_shm_comm_of(c)->group->seats[c->rank];
    seat->refused = status;
    snprintf(seat->refusal, sizeof seat->refusal, "%s", detail);
}

static rsh_status refusal(rsh_comm *c, int peer) {
    const rshi_shm_seat *seat = &rshi_shm_comm_of(c)->group->seats[peer];
    rshi_set_detail(seat->refusal);
    return seat->refused;
}

/* ---- coming and going ---- */

void rshi_shm_leave(rsh_comm *comm, rsh_status status, const char *detail) {
    rshi_shm_group *g = rshi_shm_comm_of(comm)->group;
    rshi_shm_seat *seat = &g->seats[comm->rank];
    if (atomic_load_explicit(&seat->gone, memory_order_relaxed)) return;
    seat->status = status;
    snprintf(seat->detail, sizeof seat->detail, "%s", detail);
    atomic_store_explicit(&seat->gone, true, memory_order_release);
    atomic_fetch_add_explicit(&g->departures, 1, memory_order_acq_rel);
    rshi_flag_rouse(&g->met, false);
}

static void close_comm(rsh_comm *comm) {
    rshi_shm_comm *c = rshi_shm_comm_of(comm);
    rshi_shm_staging_free(c);
    rshi_shm_group_close(c->world, c->group, comm->size, c->maker == comm->rank);
    rshi_world_drop(c->world);
    rshi_free(c->member);
    rshi_free(c);
}

static const rshi_comm_ops ops = {
    .name = "shm",
    .allgather = allgather,
    .bcast = bcast,
    .exchange = rshi_shm_exchange,
    .split = rshi_shm_split,
    .shared_alloc = shared_alloc,
    .shared_free = shared_free,
    .data_alloc = data_alloc,
    .is_shared = is_shared,
    .publish = publish,
    .reach = reach,
    .flag_take = flag_take,
    .flag_give = flag_give,
    .wait = rshi_shm_wait,
    .post = post,
    .doubt = doubt,
    .refuse = refuse,
    .refusal = refusal,
    .leave = rshi_shm_leave,
    .close = close_comm,
};

rshi_shm_comm *rshi_shm_comm_new(rshi_world *w, int rank, int size, int *member, int maker) {
    rshi_shm_comm *c = member ? RSHI_NEW(rshi_shm_comm) : NULL;
    if (!c || rshi_comm_init(&c->base, &ops, rank, size)) {
        rshi_free(c);
        rshi_free(member);
        return NULL;
    }
    w->refs++;
    c->world = w;
    c->member = member;
    c->maker = maker;
    return c;
}

void rshi_shm_comm_discard(rshi_shm_comm *c) {
    if (!c) return;
    rshi_comm_fini(&c->base);
    rshi_world_drop(c->world);
    rshi_free(c->member);
    rshi_free(c);
}

/* ---- the first comm of a world ---- */

static rsh_status make_comm(rshi_world *w, rshi_shm_comm **out) {
    int *member = rshi_alloc((size_t)w->size, sizeof *member);
    for (int r = 0; member && r < w->size; r++) member[r] = r;
    *out = rshi_shm_comm_new(w, w->rank, w->size, member, 0);
    return *out ? RSH_OK : rshi_nomem();
}

rsh_status rshi_shm_prepare(int rank, int size, rshi_shm_comm **out) {
    rshi_world *w;
    RSH_TRY(rshi_world_new(rank, size, &w));
    rsh_status st = make_comm(w, out);
    rshi_world_drop(w); /* the comm holds it */
    return st;
}

rsh_status rshi_shm_join(rshi_shm_comm *c, const char *name, double patience, rsh_comm **out) {
    int rank = c->base.rank, size = c->base.size;
    bool begun = false;
    rsh_status st = rshi_world_meet(name, patience, c->world, &c->group, &begun);
    if (!st) {
        *out = &c->base;
        return RSH_OK;
    }
    rshi_shm_comm_discard(c);
    if (!begun) rshi_world_excuse(name, rank, size, st);
    return st;
}

rsh_status rsh_comm_shm(const char *name, int rank, int size, rsh_comm **out) {
    RSH_REQUIRE(name && out && size >= 1 && rank >= 0 && rank < size, RSH_EVALUE,
                "rank %d of %d ranks of the job \"%.100s\"", rank, size, name ? name : "(none)");
    rshi_shm_comm *c;
    rsh_status st = rshi_shm_prepare(rank, size, &c);
    if (!st) return rshi_shm_join(c, name, c->world->patience.timeout, out);
    rshi_world_excuse(name, rank, size, st);
    return st;
}

/* Engine `threads`: ranks are threads of this process and read one another's memory.
 *
 * Everything collective is made of meetings: each rank lays something on its place of a board, says that it has
 * arrived, and goes on when all have.  The last to arrive opens the door for the others, so a meeting costs one atomic
 * addition a rank and one flag, and ranks that sleep are woken by one call. */
#include "comm/threads.h"

#include <stdio.h>
#include <string.h>

/* ---- who is missing ---- */

/* A rank left with RSH_EPEER because of another one: its sentence already names that one. */
static rsh_status report_gone(const rshi_thread_comm *c, int rank) {
    const rshi_seat *seat = &c->group->seats[rank];
    int name = rshi_comm_called(&c->base, rank);
    if (seat->status == RSH_OK) return rshi_fail(RSH_EPEER, "rank %d has left", name);
    if (seat->status == RSH_EPEER && *seat->detail) return rshi_fail(RSH_EPEER, "%s", seat->detail);
    return rshi_fail(RSH_EPEER, "rank %d failed with %s: %s", name, rsh_status_name(seat->status), seat->detail);
}

static bool is_gone(const rshi_group *g, int rank) {
    return atomic_load_explicit(&g->seats[rank].gone, memory_order_acquire);
}

static rsh_status report_late(const rshi_thread_comm *c, int rank, double waited) {
    return rshi_fail(RSH_ETIMEOUT, "rank %d let this rank wait for %.3g seconds (RESHARD_TIMEOUT is %g)",
                     rshi_comm_called(&c->base, rank), waited, c->group->patience.timeout);
}

/* The lowest rank that has left, or -1.  The short way for the usual case. */
static int find_gone(const rshi_group *g) {
    if (!atomic_load_explicit(&g->departures, memory_order_acquire)) return -1;
    for (int r = 0; r < g->size; r++)
        if (is_gone(g, r)) return r;
    return -1;
}

/* The lowest rank that has not come to the meeting, or -1. */
static int find_missing(const rshi_group *g, uint64_t meeting) {
    for (int r = 0; r < g->size; r++)
        if (atomic_load_explicit(&g->seats[r].arrived, memory_order_acquire) < meeting) return r;
    return -1;
}

/* A meeting that is not complete never will be when a rank has left, be it one that had come and gave up waiting. */
static rsh_status doubt_meeting(void *ctx, double waited) {
    const rshi_thread_comm *c = ctx;
    const rshi_group *g = c->group;
    int gone = find_gone(g);
    if (gone >= 0) return report_gone(c, gone);
    if (waited < g->patience.timeout) return RSH_OK;
    int missing = find_missing(g, c->meetings);
    return missing >= 0 ? report_late(c, missing, waited) : RSH_OK;
}

typedef struct waiting {
    const rshi_thread_comm *comm;
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
    const rshi_group *g = w->comm->group;
    if (is_gone(g, w->peer)) return report_gone(w->comm, w->peer);
    if (w->idle && is_elsewhere(w)) return rshi_report_elsewhere(&w->comm->base, w->peer);
    return waited < g->patience.timeout ? RSH_OK : report_late(w->comm, w->peer, waited);
}

static rsh_status doubt_all(const rshi_thread_comm *c, double waited) {
    int gone = find_gone(c->group);
    if (gone >= 0) return report_gone(c, gone);
    return waited < c->group->patience.timeout ? RSH_OK : rshi_report_all_late(waited, c->group->patience.timeout);
}

static rsh_status doubt(rsh_comm *comm, int peer, double waited) {
    waiting w = {rshi_thread_comm_of(comm), peer, false};
    return peer < 0 ? doubt_all(w.comm, waited) : doubt_peer(&w, waited);
}

/* ---- meetings ---- */

static void lay(rshi_laid *place, const void *from, size_t bytes) {
    place->bytes = bytes;
    place->from = bytes > RSHI_LAID_BYTES ? from : place->small;
    if (bytes && bytes <= RSHI_LAID_BYTES) memcpy(place->small, from, bytes);
}

rsh_status rshi_threads_meet(rshi_thread_comm *c, const void *from, size_t bytes) {
    rshi_group *g = c->group;
    rshi_seat *seat = &g->seats[c->base.rank];
    uint64_t meeting = ++c->meetings;
    lay(&seat->laid[meeting & 1], from, bytes);
    atomic_store_explicit(&seat->arrived, meeting, memory_order_release);
    if (atomic_fetch_add_explicit(&g->arrivals, 1, memory_order_acq_rel) + 1 < g->size)
        return rshi_flag_wait(&g->met, meeting, &g->patience, doubt_meeting, c);
    int gone = find_gone(g);
    if (gone >= 0) return report_gone(c, gone);
    atomic_store_explicit(&g->arrivals, 0, memory_order_relaxed);
    rshi_flag_post(&g->met, meeting, true);
    return RSH_OK;
}

const rshi_laid *rshi_threads_laid(const rshi_thread_comm *c, int r) {
    return &c->group->seats[r].laid[c->meetings & 1];
}

/* Blocks that were only pointed to belong to their ranks again after another meeting. */
static rsh_status hand_back(rshi_thread_comm *c, size_t bytes) {
    return bytes > RSHI_LAID_BYTES ? rshi_threads_meet(c, NULL, 0) : RSH_OK;
}

static void take(const rshi_laid *laid, void *to) {
    if (laid->bytes && to != laid->from) memcpy(to, laid->from, laid->bytes);
}

static rsh_status allgather(rsh_comm *comm, const void *mine, void *all, size_t bytes) {
    rshi_thread_comm *c = rshi_thread_comm_of(comm);
    RSH_TRY(rshi_threads_meet(c, mine, bytes));
    for (int r = 0; r < comm->size; r++) {
        size_t theirs = rshi_threads_laid(c, r)->bytes;
        RSH_REQUIRE(theirs == rshi_threads_laid(c, 0)->bytes, RSH_EMISMATCH,
                    "allgather: rank 0 gives %zu bytes, rank %d %zu", rshi_threads_laid(c, 0)->bytes, r, theirs);
    }
    for (int r = 0; r < comm->size; r++) take(rshi_threads_laid(c, r), (char *)all + (size_t)r * bytes);
    return hand_back(c, bytes);
}

static rsh_status bcast(rsh_comm *comm, int root, void *data, size_t bytes) {
    rshi_thread_comm *c = rshi_thread_comm_of(comm);
    RSH_TRY(rshi_threads_meet(c, data, bytes));
    take(rshi_threads_laid(c, root), data);
    return hand_back(c, bytes);
}

/* ---- memory and flags ---- */

static void *shared_alloc(rsh_comm *c, size_t bytes) {
    (void)c;
    return rshi_alloc_data(bytes, true);
}

static void shared_free(rsh_comm *c, void *p, size_t bytes) {
    (void)c;
    rshi_free_data(p, bytes);
}

static rsh_status publish(rsh_comm *c, const void *p, size_t bytes, rshi_handle *out) {
    (void)c;
    *out = (rshi_handle){(uintptr_t)p, bytes};
    return RSH_OK;
}

static void *reach(rsh_comm *c, int peer, rshi_handle h) {
    (void)c, (void)peer;
    return (void *)(uintptr_t)h.a;
}

static rsh_status wait(rsh_comm *c, int peer, rshi_flag *flag, uint64_t target) {
    waiting w = {rshi_thread_comm_of(c), peer, true};
    return rshi_flag_wait(flag, target, &w.comm->group->patience, doubt_peer, &w);
}

static void post(rsh_comm *c, rshi_flag *flag, uint64_t value) {
    (void)c;
    rshi_flag_post(flag, value, true);
}

static void refuse(rsh_comm *c, rsh_status status, const char *detail) {
    rshi_seat *seat = &rshi_thread_comm_of(c)->group->seats[c->rank];
    seat->refused = status;
    snprintf(seat->refusal, sizeof seat->refusal, "%s", detail);
}

static rsh_status refusal(rsh_comm *c, int peer) {
    const rshi_seat *seat = &rshi_thread_comm_of(c)->group->seats[peer];
    rshi_set_detail(seat->refusal);
    return seat->refused;
}

/* ---- coming and going ---- */

static void leave(rsh_comm *c, rsh_status status, const char *detail) {
    rshi_group *g = rshi_thread_comm_of(c)->group;
    rshi_seat *seat = &g->seats[c->rank];
    if (atomic_load_explicit(&seat->gone, memory_order_relaxed)) return;
    seat->status = status;
    snprintf(seat->detail, sizeof seat->detail, "%s", detail);
    atomic_store_explicit(&seat->gone, true, memory_order_release);
    atomic_fetch_add_explicit(&g->departures, 1, memory_order_acq_rel);
    rshi_flag_rouse(&g->met, true);
}

static void close_comm(rsh_comm *c) {
    rshi_group *g = rshi_thread_comm_of(c)->group;
    rshi_free(rshi_thread_comm_of(c)->spare);
    if (atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) == 1) rshi_threads_group_free(g);
    rshi_free(c);
}

static const rshi_comm_ops ops = {
    .name = "threads",
    .allgather = allgather,
    .bcast = bcast,
    .exchange = rshi_threads_exchange,
    .split = rshi_threads_split,
    .shared_alloc = shared_alloc,
    .shared_free = shared_free,
    .publish = publish,
    .reach = reach,
    .flag_take = rshi_threads_flag_take,
    .flag_give = rshi_threads_flag_give,
    .wait = wait,
    .post = post,
    .doubt = doubt,
    .refuse = refuse,
    .refusal = refusal,
    .leave = leave,
    .close = close_comm,
};

static size_t group_bytes(int size) { return sizeof(rshi_group) + (size_t)size * sizeof(rshi_seat); }

rshi_group *rshi_threads_group_new(int size, rshi_patience patience) {
    rshi_group *g = rshi_alloc_data(group_bytes(size), true);
    if (!g) return NULL;
    g->size = size;
    g->patience = patience;
    atomic_init(&g->refs, size);
    return g;
}

void rshi_threads_group_free(rshi_group *g) {
    if (!g) return;
    rshi_threads_flags_free(g);
    rshi_free_data(g, group_bytes(g->size));
}

rshi_thread_comm *rshi_threads_comm_new(int rank, int size) {
    rshi_thread_comm *c = RSHI_NEW(rshi_thread_comm);
    if (!c) return NULL;
    if (!rshi_comm_init(&c->base, &ops, rank, size)) return c;
    rshi_free(c);
    return NULL;
}

void rshi_threads_comm_discard(rshi_thread_comm *c) {
    if (!c) return;
    rshi_comm_fini(&c->base);
    rshi_free(c);
}

static rsh_status make_comms(rshi_group *g, rsh_comm **comms) {
    for (int r = 0; r < g->size; r++) {
        rshi_thread_comm *c = rshi_threads_comm_new(r, g->size);
        if (!c) {
            while (r--) rshi_threads_comm_discard(rshi_thread_comm_of(comms[r]));
            return rshi_nomem();
        }
        c->group = g;
        comms[r] = &c->base;
    }
    return RSH_OK;
}

rsh_status rsh_comm_threads(int n, rsh_comm **comms) {
    RSH_REQUIRE(n >= 1 && comms, RSH_EVALUE, "a comm of %d ranks at %p", n, (void *)comms);
    double timeout;
    RSH_TRY(rshi_read_timeout(&timeout));
    rshi_group *g = rshi_threads_group_new(n, rshi_patience_for(n, true, timeout));
    if (!g) return rshi_nomem();
    rsh_status st = make_comms(g, comms);
    if (!st) return RSH_OK;
    rshi_threads_group_free(g);
    memset(comms, 0, (size_t)n * sizeof *comms);
    return st;
}

/* Board: shared memory through which the ranks of a node synchronize.
 *
 * Every collective operation consists of rounds: each rank writes to its slot, announces that it has arrived, and
 * continues when all have arrived.  The last rank to arrive completes the round for the others, so a round costs one
 * atomic addition per rank and one flag, and sleeping ranks are woken by one call.  If ranks are processes, the board
 * is in the arena of one of them.  That memory stays valid as long as any rank maps it, so it survives the death of its
 * rank. */
#include "node/impl.h"

#include <stdio.h>
#include <string.h>

static const rshi_patience *patience_of(const rshi_node *n) { return &n->world->patience; }
static int reported_rank(const rshi_node *n, int r) { return n->names ? n->names[r] : r; }

/* ---- missing ranks ---- */

static bool is_gone(const rshi_node *n, int rank) {
    return atomic_load_explicit(&n->board->slots[rank].gone, memory_order_acquire);
}

/* Decides whether to ask the kernel if a rank is alive: only after a sleep, because a rank that leaves normally wakes
 * its peers. */
static bool asks_kernel(const rshi_node *n, double waited) {
    return n->world->map->has_ended && waited >= patience_of(n)->nap / 2;
}

/* Has a rank left, or its process ended? */
static bool is_lost(const rshi_node *n, int rank, double waited) {
    return is_gone(n, rank) || (asks_kernel(n, waited) && n->world->map->has_ended(n->world, n->member[rank]));
}

/* Returns the error for a lost rank.  If that rank left with RSH_EPEER, its error message already names the rank that
 * failed first. */
static rsh_status report_lost(const rshi_node *n, int rank) {
    const rshi_board_slot *slot = &n->board->slots[rank];
    int name = reported_rank(n, rank);
    if (!is_gone(n, rank)) return rshi_fail(RSH_EPEER, "rank %d has died", name);
    if (slot->status == RSH_OK) return rshi_fail(RSH_EPEER, "rank %d has left", name);
    if (slot->status == RSH_EPEER && *slot->detail)
        return rshi_fail(RSH_EPEER, "%.*s", RSHI_DETAIL_BYTES - 1, slot->detail);
    return rshi_fail(RSH_EPEER, "rank %d failed with %s: %.900s", name, rsh_status_name(slot->status), slot->detail);
}

static rsh_status report_late(const rshi_node *n, int rank, double waited) {
    return rshi_fail(RSH_ETIMEOUT, "rank %d did not answer for %.3g seconds (RESHARD_TIMEOUT is %g)",
                     reported_rank(n, rank), waited, patience_of(n)->timeout);
}

static rsh_status report_elsewhere(const rshi_node *n, int peer) {
    return rshi_fail(RSH_EMISMATCH,
                     "ranks are in different calls: this rank is in a run and waits for rank %d, which is in a "
                     "different "
                     "collective call and waits for this rank",
                     reported_rank(n, peer));
}

/* Returns the lowest rank that is lost, or -1.  Returns early in the usual case. */
static int find_lost(const rshi_node *n, double waited) {
    if (!asks_kernel(n, waited) && !atomic_load_explicit(&n->board->departures, memory_order_acquire)) return -1;
    for (int r = 0; r < n->size; r++)
        if (is_lost(n, r, waited)) return r;
    return -1;
}

/* Returns the lowest rank that has not arrived at the round, or -1. */
static int find_missing(const rshi_node *n) {
    for (int r = 0; r < n->size; r++)
        if (atomic_load_explicit(&n->board->slots[r].arrived, memory_order_acquire) < n->rounds) return r;
    return -1;
}

/* Fails if a rank is lost: the round cannot complete then, even if that rank had arrived before it gave up. */
static rsh_status check_round(void *ctx, double waited) {
    const rshi_node *n = ctx;
    int lost = find_lost(n, waited);
    if (lost >= 0) return report_lost(n, lost);
    RSH_TRY(rshi_interrupt_check(waited));
    if (waited < patience_of(n)->timeout) return RSH_OK;
    int missing = find_missing(n);
    return missing >= 0 ? report_late(n, missing, waited) : RSH_OK;
}

typedef struct waiting {
    const rshi_node *node;
    int peer;
    bool idle; /* true: this rank does nothing else until the peer's flag is raised */
} waiting;

/* Has the peer arrived at a round that this rank has not reached?  Then each waits for the other.  Everything that the
 * peer posted before is visible after this check. */
static bool is_elsewhere(const waiting *w) {
    return atomic_load_explicit(&w->node->board->slots[w->peer].arrived, memory_order_acquire) > w->node->rounds;
}

static rsh_status check_one(void *ctx, double waited) {
    const waiting *w = ctx;
    if (is_lost(w->node, w->peer, waited)) return report_lost(w->node, w->peer);
    if (w->idle && is_elsewhere(w)) return report_elsewhere(w->node, w->peer);
    RSH_TRY(rshi_interrupt_check(waited));
    return waited < patience_of(w->node)->timeout ? RSH_OK : report_late(w->node, w->peer, waited);
}

static rsh_status check_all(const rshi_node *n, double waited) {
    double timeout = patience_of(n)->timeout;
    int lost = find_lost(n, waited);
    if (lost >= 0) return report_lost(n, lost);
    RSH_TRY(rshi_interrupt_check(waited));
    return waited < timeout ? RSH_OK : rshi_report_all_late(waited, timeout);
}

rsh_status rshi_node_check_peer(rshi_node *n, int peer, double waited) {
    waiting w = {n, peer, false};
    return peer < 0 ? check_all(n, waited) : check_one(&w, waited);
}

rsh_status rshi_node_wait(rshi_node *n, int peer, rshi_flag *flag, uint64_t target) {
    waiting w = {n, peer, true};
    return rshi_flag_wait(flag, target, patience_of(n), check_one, &w);
}

/* ---- rounds ---- */

rsh_status rshi_node_round(rshi_node *n, const void *from, size_t bytes) {
    rshi_board *b = n->board;
    rshi_board_slot *slot = &b->slots[n->rank];
    uint64_t round = ++n->rounds;
    rshi_block *block = &slot->block[round & 1];
    block->bytes = bytes;
    if (bytes) memcpy(block->data, from, bytes);
    atomic_store_explicit(&slot->arrived, round, memory_order_release);
    if (atomic_fetch_add_explicit(&b->arrivals, 1, memory_order_acq_rel) + 1 < n->size)
        return rshi_flag_wait(&b->met, round, patience_of(n), check_round, n);
    int lost = find_lost(n, 0);
    if (lost >= 0) return report_lost(n, lost);
    atomic_store_explicit(&b->arrivals, 0, memory_order_relaxed);
    rshi_flag_post(&b->met, round, patience_of(n)->one_process);
    return RSH_OK;
}

const rshi_block *rshi_node_block(const rshi_node *n, int r) { return &n->board->slots[r].block[n->rounds & 1]; }

void rshi_node_leave(rshi_node *n, rsh_status status, const char *detail) {
    rshi_board *b = n->board;
    rshi_board_slot *slot = &b->slots[n->rank];
    if (atomic_load_explicit(&slot->gone, memory_order_relaxed)) return;
    slot->status = status;
    snprintf(slot->detail, sizeof slot->detail, "%s", detail);
    atomic_store_explicit(&slot->gone, true, memory_order_release);
    atomic_fetch_add_explicit(&b->departures, 1, memory_order_acq_rel);
    rshi_flag_rouse(&b->met, patience_of(n)->one_process);
}

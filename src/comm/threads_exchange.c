/* Exchange of the engine `threads`: each rank lays its lists on the board, receivers copy straight out of the senders'
 * memory.
 *
 * Two meetings: one at which the lists are there, and after the copying one that gives senders their memory back and
 * tells everybody whether all lists matched.  Every rank checks its own sends and its own receives against the other
 * side's list, so each mismatch is found by at least one rank, and nobody waits for a message that will not come. */
#include "comm/mismatch.h"
#include "comm/threads.h"

#include <string.h>

/* A list of messages by peer, in the order given for each: those for p are list[order[start[p]]] .. list[order[start[p
 * + 1] - 1]]. */
typedef struct sorted {
    const rsh_message *list;
    int64_t *start; /* [size + 2], owned; the last entry is room for sorting */
    int64_t *order; /* [n], in the same block */
} sorted;

/* What a rank lays on the board for an exchange. */
typedef struct lists {
    rsh_status status; /* not RSH_OK: the rank has no memory, so nobody exchanges anything */
    sorted send, recv;
} lists;

_Static_assert(sizeof(lists) <= RSHI_LAID_BYTES, "lists are laid on the board themselves");
_Static_assert(sizeof(rshi_mismatch) <= RSHI_LAID_BYTES, "findings are laid on the board themselves");

/* Counting sort: stable, and a peer's messages are found without a search. */
static rsh_status sort_by_peer(int size, int64_t n, const rsh_message *list, sorted *out) {
    int64_t *start = rshi_calloc((size_t)size + 2 + (size_t)n, sizeof *start);
    if (!start) return rshi_nomem();
    int64_t *order = start + size + 2;
    for (int64_t i = 0; i < n; i++) start[list[i].peer + 2]++;
    for (int p = 2; p < size + 2; p++) start[p] += start[p - 1];
    for (int64_t i = 0; i < n; i++) order[start[list[i].peer + 1]++] = i;
    *out = (sorted){list, start, order};
    return RSH_OK;
}

static int64_t count_of(const sorted *s, int peer) { return s->start[peer + 1] - s->start[peer]; }
static const rsh_message *message_of(const sorted *s, int peer, int64_t i) {
    return &s->list[s->order[s->start[peer] + i]];
}

static lists read_lists(const rshi_thread_comm *c, int r) {
    lists l;
    memcpy(&l, rshi_threads_laid(c, r)->from, sizeof l);
    return l;
}

/* Do the messages of one ordered pair agree? */
static bool pair_agrees(const sorted *send, int from, const sorted *recv, int to, rshi_mismatch *found) {
    int64_t n = count_of(send, to), expected = count_of(recv, from);
    if (n != expected) {
        *found = (rshi_mismatch){RSHI_MISMATCH_COUNT, from, to, 0, (uint64_t)n, (uint64_t)expected};
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        size_t sent = message_of(send, to, i)->bytes, room = message_of(recv, from, i)->bytes;
        if (sent == room) continue;
        *found = (rshi_mismatch){RSHI_MISMATCH_BYTES, from, to, i, sent, room};
        return false;
    }
    return true;
}

static void copy_pair(const sorted *send, int from, const sorted *recv, int to) {
    int64_t n = count_of(recv, from);
    for (int64_t i = 0; i < n; i++) {
        const rsh_message *source = message_of(send, to, i), *target = message_of(recv, from, i);
        if (source->bytes && source->data != target->data) memmove(target->data, source->data, source->bytes);
    }
}

/* Check everything that concerns this rank, then receive.  Ranks start with different peers, so as not to read the same
 * memory all at once. */
static rshi_mismatch receive_all(const rshi_thread_comm *c, const lists *mine) {
    int me = c->base.rank, size = c->base.size;
    rshi_mismatch found = {0};
    for (int p = 0; p < size; p++) {
        if (!count_of(&mine->send, p) && !count_of(&mine->recv, p)) continue;
        lists theirs = read_lists(c, p);
        if (!pair_agrees(&mine->send, me, &theirs.recv, p, &found)) return found;
        if (!pair_agrees(&theirs.send, p, &mine->recv, me, &found)) return found;
    }
    for (int k = 0; k < size; k++) {
        int p = (me + k) % size;
        if (!count_of(&mine->recv, p)) continue;
        lists theirs = read_lists(c, p);
        copy_pair(&theirs.send, p, &mine->recv, me);
    }
    return found;
}

static rsh_status check_findings(const rshi_thread_comm *c) {
    for (int r = 0; r < c->base.size; r++) {
        rshi_mismatch f;
        memcpy(&f, rshi_threads_laid(c, r)->from, sizeof f);
        if (f.wrong) return rshi_mismatch_report(&f);
    }
    return RSH_OK;
}

static rsh_status check_ready(const rshi_thread_comm *c) {
    for (int r = 0; r < c->base.size; r++) {
        rsh_status status = read_lists(c, r).status;
        RSH_REQUIRE(!status, status, "exchange: rank %d had no memory for its lists of messages", r);
    }
    return RSH_OK;
}

rsh_status rshi_threads_exchange(rsh_comm *comm, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                 const rsh_message *recv) {
    rshi_thread_comm *c = rshi_thread_comm_of(comm);
    lists mine = {0};
    rsh_status st;
    mine.status = sort_by_peer(comm->size, nsend, send, &mine.send);
    if (!mine.status) mine.status = sort_by_peer(comm->size, nrecv, recv, &mine.recv);
    RSH_GOTO(rshi_threads_meet(c, &mine, sizeof mine));
    RSH_GOTO(check_ready(c));
    rshi_mismatch found = receive_all(c, &mine);
    RSH_GOTO(rshi_threads_meet(c, &found, sizeof found));
    RSH_GOTO(check_findings(c));
out:
    rshi_free(mine.send.start);
    rshi_free(mine.recv.start);
    return st;
}

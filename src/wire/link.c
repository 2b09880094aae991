/* Link: waits on a wire with a time limit, and the messages of these waits.
 *
 * A wait tests its messages, yields, then sleeps; after every sleep it checks for farewells.  No wait lasts longer than
 * RESHARD_TIMEOUT without progress.  A rank of the same node that was killed sends no farewell, but its node
 * notices. */
#include "wire/wire.h"

#include <time.h>

#define AWAKE 0.002      /* seconds of yielding before the first sleep */
#define SHORT_NAP 20000L /* nanoseconds of the first sleeps */
#define LONG_NAP 1000000L
#define CANCELLING 0.1  /* seconds that cancelled messages may take to stop */
#define DESK 65536      /* bytes of the desk; more if there are many ranks */
#define PLACE 256       /* bytes of the desk for each rank, at least */

/* ---- a wait ---- */

double rshi_vigil_waited(rshi_vigil *v) { return rshi_watch_look(&v->watch, RSHI_WATCH_STEP); }

bool rshi_vigil_rest(rshi_vigil *v, const rshi_patience *p) {
    if (++v->looks < p->spins) return false;
    if (rshi_vigil_waited(v) < AWAKE && rshi_yield()) return v->looks % 64 == 0;
    v->nap = v->nap ? (v->nap * 2 < LONG_NAP ? v->nap * 2 : LONG_NAP) : SHORT_NAP;
    nanosleep(&(struct timespec){0, v->nap}, NULL);
    return true;
}

/* ---- messages ---- */

rsh_status rshi_link_send(rshi_link *l, int peer, int tag, const void *data, size_t bytes, rshi_link_request *out) {
    *out = (rshi_link_request){.peer = peer};
    RSH_TRY(rshi_link_broken(l->wire.send(l->wire.ctx, peer, tag, data, bytes, &out->request)));
    out->pending = true;
    return RSH_OK;
}

rsh_status rshi_link_recv(rshi_link *l, int peer, int tag, void *data, size_t bytes, rshi_link_request *out) {
    *out = (rshi_link_request){.peer = peer};
    RSH_TRY(rshi_link_broken(l->wire.recv(l->wire.ctx, peer, tag, data, bytes, &out->request)));
    out->pending = true;
    return RSH_OK;
}

rsh_status rshi_link_test(rshi_link *l, rsh_wire_request *request, bool *done) {
    return rshi_link_broken(l->wire.test(l->wire.ctx, request, done));
}

rsh_status rshi_link_test_all(rshi_link *l, int64_t n, rshi_link_request *requests, int64_t *left) {
    *left = 0;
    for (int64_t i = n; i--;) {
        if (!requests[i].pending) continue;
        bool done = false;
        RSH_TRY(rshi_link_test(l, &requests[i].request, &done));
        requests[i].pending = !done;
        *left += !done;
    }
    return RSH_OK;
}

bool rshi_link_cancel(rshi_link *l, int64_t n, rshi_link_request *requests) {
    int64_t left;
    rshi_vigil v = {0};
    for (;;) {
        left = 0;
        for (int64_t i = 0; i < n; i++) {
            if (requests[i].pending) requests[i].pending = !l->wire.cancel(l->wire.ctx, &requests[i].request);
            left += requests[i].pending;
        }
        if (!left || rshi_vigil_waited(&v) > CANCELLING) return !left;
        rshi_vigil_rest(&v, &l->patience);
    }
}

/* ---- waiting for messages ---- */

/* Records some ranks that this one waits for, to answer calls; returns the first of them. */
static int await_pending(rshi_link *l, int64_t n, const rshi_link_request *requests) {
    int first = -1, noted = 0;
    for (int64_t i = 0; i < n && noted < RSHI_AWAITED; i++) {
        if (!requests[i].pending) continue;
        if (first < 0) first = requests[i].peer;
        rshi_link_await(l, requests[i].peer);
        noted++;
    }
    return first;
}

rsh_status rshi_link_rest(rshi_link *l, rshi_vigil *v, int64_t n, const rshi_link_request *requests) {
    if (v->reason) return v->reason;
    if (!rshi_vigil_rest(v, &l->patience)) return RSH_OK;
    int peer = await_pending(l, n, requests);
    double waited = rshi_vigil_waited(v);
    v->reason = rshi_link_check_peer(l, -1, l->steps + 1, 0);
    if (!v->reason) v->reason = rshi_interrupt_check(waited);
    if (!v->reason && waited >= l->patience.timeout) v->reason = rshi_link_check_peer(l, peer, l->steps + 1, waited);
    return RSH_OK;
}

rsh_status rshi_link_finish(rshi_link *l, int64_t n, rshi_link_request *requests) {
    rshi_vigil v = {0};
    for (int64_t before = n, left;;) {
        RSH_TRY(rshi_link_test_all(l, n, requests, &left));
        if (!left) return RSH_OK;
        if (left < before) v = (rshi_vigil){0};
        before = left;
        RSH_TRY(rshi_link_rest(l, &v, n, requests));
    }
}

/* ---- construction ---- */

static void free_link(rshi_link *l) {
    if (!l) return;
    rshi_free(l->farewells);
    rshi_free(l->mine);
    rshi_free(l->desk);
    rshi_free(l->roll);
    rshi_free(l->cards);
    rshi_free(l);
}

static rsh_status make_link(const rsh_wire *wire, rshi_link **out) {
    double timeout;
    size_t size = (size_t)wire->size;
    rshi_link *l = *out = RSHI_NEW(rshi_link);
    if (!l) return rshi_nomem();
    RSH_TRY(rshi_settings_check());
    RSH_TRY(rshi_read_timeout(&timeout));
    *l = (rshi_link){.wire = *wire, .speaker = -1, .patience = rshi_patience_for(wire->size, false, timeout)};
    l->desk_bytes = size * PLACE > DESK ? size * PLACE : DESK;
    l->farewells = rshi_calloc(size, sizeof *l->farewells);
    l->mine = rshi_calloc(2 * size, sizeof *l->mine);
    l->roll = rshi_calloc(size, sizeof *l->roll);
    l->desk = rshi_alloc(l->desk_bytes, 1);
    l->cards = rshi_calloc(size, RSHI_LINK_CARD);
    l->piece = RSHI_LINK_PIECE;
    return l->farewells && l->mine && l->roll && l->desk && l->cards ? RSH_OK : rshi_nomem();
}

rsh_status rshi_link_new(const rsh_wire *wire, rshi_link **out) {
    rshi_link *l = NULL;
    rsh_status st = make_link(wire, &l);
    if (st) {
        bool gone = rshi_link_excuse(l, wire, st);
        wire->close(wire->ctx, false);
        if (gone) free_link(l);
        return st;
    }
    *out = l;
    return RSH_OK;
}

/* Returns whether all others have left normally and received this rank's farewell.  Returns false if one has failed, or
 * after RESHARD_TIMEOUT. */
static bool part_in_order(rshi_link *l) {
    rshi_vigil v = {0};
    int64_t left = 0;
    while (l->speaker < 0) {
        if (rshi_link_test_all(l, 2 * (int64_t)l->wire.size, l->mine, &left)) return false;
        if (!left && l->heard == l->wire.size - 1) return true;
        if (rshi_vigil_rest(&v, &l->patience) && rshi_link_check_peer(l, -1, 0, rshi_vigil_waited(&v))) return false;
    }
    return false;
}

/* Counts the messages that still use memory of the link.  Farewells, calls and answers may still arrive and are not
 * cancelled. */
static int64_t count_pending(rshi_link *l) {
    int64_t left = 0, more = 0;
    rshi_link_cancel(l, RSHI_LINK_REQUESTS, l->requests);
    rshi_link_cancel(l, 1, &l->hearing);
    for (int i = 0; i < RSHI_LINK_REQUESTS; i++) left += l->requests[i].pending;
    left += l->hearing.pending;
    if (rshi_link_test_all(l, 2 * (int64_t)l->wire.size, l->mine, &more)) return left + 1;
    left += more;
    for (int r = 0; r < l->wire.size; r++) {
        if (rshi_link_test_all(l, 1, &l->roll[r].calling, &more)) return left + 1;
        left += more;
        if (rshi_link_test_all(l, 1, &l->roll[r].answering, &more)) return left + 1;
        left += more;
    }
    return left;
}

/* Closes the link.  Messages to a dead rank keep their memory, because it is not known when the wire stops using it. */
void rshi_link_close(rshi_link *l) {
    bool orderly = l->status == RSH_OK && part_in_order(l);
    bool used = count_pending(l) > 0;
    l->wire.close(l->wire.ctx, orderly);
    if (!used) free_link(l);
}

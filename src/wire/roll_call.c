/* Roll call of a link: finds the missing rank when a wait has timed out.
 *
 * The rank that this one waits for may itself wait for another.  So this rank calls all others, and waiting ranks
 * answer with the ranks that they wait for.  Following these answers from this rank leads to ranks that do not answer:
 * those are not waiting, at least not on this comm.  A roll call costs a message to every rank and one back, and half a
 * second. */
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

#define ANSWERING 0.5 /* seconds to wait for answers */
#define LATELY 0.1    /* seconds after which a record of this rank's waiting is out of date */
#define VALID 2.0     /* seconds during which answers stay valid */
#define NAMED 4       /* most ranks that are named in an error message */

/* ---- recording waits ---- */

/* Records that this rank waits for `peer`, in place of the oldest record. */
void rshi_link_await(rshi_link *l, int peer) {
    rshi_awaited *place = &l->awaited[0];
    for (int i = 0; i < RSHI_AWAITED; i++) {
        rshi_awaited *a = &l->awaited[i];
        if (a->when && a->rank == peer) {
            place = a;
            break;
        }
        if (a->when < place->when) place = a;
    }
    *place = (rshi_awaited){peer, rshi_seconds()};
}

static void list_awaited(const rshi_link *l, int64_t ranks[RSHI_AWAITED]) {
    double last = 0;
    for (int i = 0; i < RSHI_AWAITED; i++) last = l->awaited[i].when > last ? l->awaited[i].when : last;
    for (int i = 0; i < RSHI_AWAITED; i++)
        ranks[i] = l->awaited[i].when && l->awaited[i].when >= last - LATELY ? l->awaited[i].rank : -1;
}

/* ---- calls and answers ---- */

/* Returns whether the request is free, so that its earlier message is complete. */
static rsh_status is_request_free(rshi_link *l, rshi_link_request *p, bool *yes) {
    int64_t left;
    RSH_TRY(rshi_link_test_all(l, 1, p, &left));
    *yes = !left;
    return RSH_OK;
}

rsh_status rshi_link_answer(rshi_link *l) {
    for (;;) {
        int peer;
        bool yes;
        RSH_TRY(rshi_link_hear(l, RSHI_TAG_CALL, sizeof(uint64_t), &peer));
        if (peer < 0) return RSH_OK;
        rshi_roll *r = &l->roll[peer];
        RSH_TRY(is_request_free(l, &r->answering, &yes));
        if (!yes) continue; /* the rank has not even received the answer to its last call */
        memcpy(&r->mine.call, l->ear, sizeof r->mine.call);
        list_awaited(l, r->mine.awaits);
        RSH_TRY(rshi_link_send(l, peer, RSHI_TAG_ANSWER, &r->mine, sizeof r->mine, &r->answering));
    }
}

static rsh_status hear_answers(rshi_link *l) {
    for (;;) {
        int peer;
        RSH_TRY(rshi_link_hear(l, RSHI_TAG_ANSWER, sizeof(rshi_answer), &peer));
        if (peer < 0) return RSH_OK;
        memcpy(&l->roll[peer].theirs, l->ear, sizeof l->roll[peer].theirs);
    }
}

static rsh_status call_all(rshi_link *l) {
    l->calls++;
    for (int r = 0; r < l->wire.size; r++) {
        rshi_roll *at = &l->roll[r];
        bool yes;
        RSH_TRY(is_request_free(l, &at->calling, &yes));
        if (r == l->wire.rank || !yes) continue;
        at->call = l->calls;
        RSH_TRY(rshi_link_send(l, r, RSHI_TAG_CALL, &at->call, sizeof at->call, &at->calling));
    }
    return RSH_OK;
}

/* ---- finding the missing rank ---- */

static bool has_answered(const rshi_link *l, int r) { return l->roll[r].theirs.call == l->calls; }

static bool mark_awaited(rshi_link *l, const int64_t ranks[RSHI_AWAITED]) {
    bool more = false;
    for (int i = 0; i < RSHI_AWAITED; i++) {
        if (ranks[i] < 0 || ranks[i] >= l->wire.size || l->roll[ranks[i]].awaited) continue;
        l->roll[ranks[i]].awaited = more = true;
    }
    return more;
}

/* Finds the ranks that this one waits for, directly or indirectly, and that do not answer; returns their number. */
static int find_missing(rshi_link *l, int first[NAMED]) {
    int64_t own[RSHI_AWAITED];
    int size = l->wire.size, n = 0;
    for (int r = 0; r < size; r++) l->roll[r].awaited = l->roll[r].followed = false;
    list_awaited(l, own);
    for (bool more = mark_awaited(l, own); more;) {
        more = false;
        for (int r = 0; r < size; r++) {
            rshi_roll *at = &l->roll[r];
            if (!at->awaited || at->followed || r == l->wire.rank || !has_answered(l, r)) continue;
            at->followed = true;
            more = mark_awaited(l, at->theirs.awaits) || more;
        }
    }
    for (int r = 0; r < size; r++) {
        if (!l->roll[r].awaited || r == l->wire.rank || has_answered(l, r)) continue;
        if (n < NAMED) first[n] = r;
        n++;
    }
    return n;
}

/* Calls the other ranks, which may call at the same time. */
rsh_status rshi_link_call(rshi_link *l) {
    rshi_vigil v = {0};
    int first[NAMED];
    if (l->calls && rshi_seconds() - l->last_call < VALID) return RSH_OK;
    RSH_TRY(call_all(l));
    while (rshi_vigil_waited(&v) < ANSWERING) {
        RSH_TRY(hear_answers(l));
        if (!find_missing(l, first)) break;
        RSH_TRY(rshi_link_hear_farewells(l));
        RSH_TRY(rshi_link_answer(l));
        rshi_vigil_rest(&v, &l->patience);
    }
    l->last_call = rshi_seconds();
    return RSH_OK;
}

/* Writes a list such as "rank 1", "ranks 1, 4 and 5" or "ranks 1, 2, 3, 4 and 12 more". */
static void list_ranks(int n, const int ranks[NAMED], char *text, size_t room) {
    size_t at = (size_t)snprintf(text, room, n == 1 ? "rank" : "ranks");
    int named = n < NAMED ? n : NAMED;
    for (int i = 0; i < named; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%d", !i ? " " : i == n - 1 ? " and " : ", ", ranks[i]);
    if (n > named) snprintf(text + at, room - at, " and %d more", n - named);
}

rsh_status rshi_link_report_late(rshi_link *l, double waited) {
    int first[NAMED];
    char who[96];
    double timeout = l->patience.timeout;
    int n = find_missing(l, first);
    if (n == 1)
        return rshi_fail(RSH_ETIMEOUT, "rank %d did not answer for %.3g seconds (RESHARD_TIMEOUT is %g)", first[0],
                         waited, timeout);
    if (!n)
        return rshi_fail(RSH_ETIMEOUT,
                         "timed out after %.3g seconds (RESHARD_TIMEOUT is %g); every rank it is waiting for is "
                         "waiting as well, "
                         "so the missing rank is unknown",
                         waited, timeout);
    list_ranks(n, first, who, sizeof who);
    return rshi_fail(RSH_ETIMEOUT,
                     "%s did not answer within %.3g seconds (RESHARD_TIMEOUT is %g); it is unknown "
                     "which of them is missing",
                     who, waited, timeout);
}

/* Farewells of a link: sends and receives them, and determines how waiting ranks react. */
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

#define HEARING 10.0 /* seconds in which the rest of a farewell must arrive */
#define ASKING 0.03  /* seconds between two checks of the node, which asks the kernel */
#define GRACE 0.2    /* seconds in which a farewell may still arrive from a rank whose end the node has noticed */
#define PARTING 0.1  /* seconds to send a farewell if there is no link */

/* ---- receiving ---- */

/* Receives, at l->ear, a message whose arrival was announced. */
static rsh_status receive_now(rshi_link *l, int peer, int tag, size_t bytes) {
    rshi_vigil v = {0};
    int64_t left = 1;
    RSH_REQUIRE(!l->hearing.pending, RSH_EPEER, "rank %d left in the middle of a message", l->hearing.peer);
    RSH_TRY(rshi_link_recv(l, peer, tag, l->ear, bytes, &l->hearing));
    for (;;) {
        RSH_TRY(rshi_link_test_all(l, 1, &l->hearing, &left));
        if (!left) return RSH_OK;
        rshi_vigil_rest(&v, &l->patience);
        if (rshi_vigil_waited(&v) < HEARING) continue;
        rshi_link_cancel(l, 1, &l->hearing);
        return rshi_fail(RSH_EPEER, "rank %d left in the middle of a message", peer);
    }
}

rsh_status rshi_link_hear(rshi_link *l, int tag, size_t bytes, int *peer) {
    *peer = -1;
    RSH_TRY(rshi_link_broken(l->wire.probe(l->wire.ctx, tag, peer)));
    return *peer < 0 ? RSH_OK : receive_now(l, *peer, tag, bytes);
}

static void record_farewell(rshi_link *l, int peer, const rshi_farewell_words *w, const char *sentence) {
    if (!l->farewells[peer].heard) l->heard++;
    l->farewells[peer] = (rshi_farewell){true, (rsh_status)w->status, w->steps};
    if (!w->status || l->speaker >= 0) return;
    l->speaker = peer;
    snprintf(l->sentence, sizeof l->sentence, "%s", sentence);
}

rsh_status rshi_link_hear_farewells(rshi_link *l) {
    for (;;) {
        int peer;
        rshi_farewell_words w;
        RSH_TRY(rshi_link_hear(l, RSHI_TAG_FAREWELL, sizeof w, &peer));
        if (peer < 0) return RSH_OK;
        memcpy(&w, l->ear, sizeof w);
        RSH_REQUIRE(w.sentence_bytes <= sizeof l->ear, RSH_EPEER, "rank %d uses a different version of the library",
                    peer);
        if (w.sentence_bytes) RSH_TRY(receive_now(l, peer, RSHI_TAG_SENTENCE, w.sentence_bytes));
        l->ear[w.sentence_bytes ? w.sentence_bytes - 1 : 0] = 0;
        record_farewell(l, peer, &w, l->ear);
    }
}

/* ---- reasons to stop waiting ---- */

static bool is_missed(const rshi_link *l, int r, uint64_t steps) {
    return l->farewells[r].heard && l->farewells[r].steps < steps;
}

/* Finds a rank that has gone.  A rank that failed takes precedence over one that left normally, because its message
 * says more. */
static int find_missed(const rshi_link *l, uint64_t steps) {
    if (!l->heard) return -1;
    if (l->speaker >= 0 && is_missed(l, l->speaker, steps)) return l->speaker;
    for (int r = 0; r < l->wire.size; r++)
        if (is_missed(l, r, steps)) return r;
    return -1;
}

/* Reports a rank that has gone.  Only the message of the first failure was kept; later failures follow from it.  If
 * that rank left with RSH_EPEER, its message names the rank that failed first. */
static rsh_status report_missed(const rshi_link *l, int r) {
    const rshi_farewell *f = &l->farewells[r];
    if (f->status == RSH_OK) return rshi_fail(RSH_EPEER, "rank %d has left", r);
    if (l->farewells[l->speaker].status == RSH_EPEER && *l->sentence)
        return rshi_fail(RSH_EPEER, "%.*s", RSHI_DETAIL_BYTES - 1, l->sentence);
    return rshi_fail(RSH_EPEER, "rank %d failed with %s: %.900s", l->speaker,
                     rsh_status_name(l->farewells[l->speaker].status), l->sentence);
}

/* Checks for a rank of this node that has gone without a farewell.  A rank that leaves normally sends it first, but the
 * wire may be slower than the node, so each such rank gets some time.  A pause between two checks does not use up that
 * time. */
static rsh_status check_neighbours(rshi_link *l) {
    rsh_status st = RSH_OK;
    int suspect = 0;
    double now = rshi_seconds();
    if (now - l->asked < ASKING) return RSH_OK;
    l->asked = now;
    const rshi_neighbours *near = &l->neighbours;
    for (int i = 0; i < near->n && !st; i++)
        if (near->names[i] != l->wire.rank && !l->farewells[near->names[i]].heard) {
            st = near->check(near->ctx, i, 0.9 * l->patience.timeout);
            suspect = i + 1;
        }
    if (!st) return l->suspect = 0, RSH_OK;
    if (l->suspect != suspect) l->missed = (rshi_watch){0};
    l->suspect = suspect;
    return rshi_watch_look(&l->missed, 2 * ASKING) < GRACE ? RSH_OK : st;
}

/* Fails after a timeout.  Other ranks time out at about the same time; if one has given up meanwhile, its message says
 * more, and is used. */
static rsh_status fail_after_timeout(rshi_link *l, uint64_t steps, double seconds) {
    if (l->said) return rshi_report_all_late(seconds, l->patience.timeout);
    RSH_TRY(rshi_link_call(l));
    if (l->speaker >= 0 && is_missed(l, l->speaker, steps)) return report_missed(l, l->speaker);
    return rshi_link_report_late(l, seconds);
}

rsh_status rshi_link_check_peer(rshi_link *l, int peer, uint64_t steps, double seconds) {
    if (peer >= 0) rshi_link_await(l, peer);
    RSH_TRY(rshi_link_hear_farewells(l));
    RSH_TRY(rshi_link_answer(l));
    int missed = peer < 0 ? find_missed(l, steps) : is_missed(l, peer, steps) ? peer : -1;
    if (missed >= 0) return report_missed(l, missed);
    RSH_TRY(check_neighbours(l));
    RSH_TRY(rshi_interrupt_check(seconds));
    return seconds < l->patience.timeout ? RSH_OK : fail_after_timeout(l, steps, seconds);
}

/* ---- sending ---- */

void rshi_link_leave(rshi_link *l, rsh_status status, const char *detail) {
    if (l->said) return;
    l->said = true;
    l->status = status;
    snprintf(l->detail, sizeof l->detail, "%s", detail);
    l->words = (rshi_farewell_words){status, l->steps, status ? strlen(l->detail) + 1 : 0};
    for (int r = 0; r < l->wire.size; r++) {
        if (r == l->wire.rank || rshi_link_send(l, r, RSHI_TAG_FAREWELL, &l->words, sizeof l->words, &l->mine[2 * r]))
            continue;
        if (status) rshi_link_send(l, r, RSHI_TAG_SENTENCE, l->detail, l->words.sentence_bytes, &l->mine[2 * r + 1]);
    }
}

/* Detail of a farewell from a rank that has no memory for its own message.  It is static, because the wire may read it
 * at any later time. */
static const char no_memory[] = "out of memory for a comm";
static const rshi_farewell_words no_words = {RSH_ENOMEM, 0, sizeof no_memory};

/* Sends a farewell to one rank, with a short time limit. */
static bool excuse_to(const rsh_wire *wire, int r, const rshi_farewell_words *words, const char *detail) {
    rshi_link l = {.wire = *wire, .patience = {.spins = 100, .timeout = HEARING}};
    rshi_link_request requests[2] = {0};
    int64_t left = 2;
    rshi_vigil v = {0};
    if (!rshi_link_send(&l, r, RSHI_TAG_FAREWELL, words, sizeof *words, &requests[0]))
        rshi_link_send(&l, r, RSHI_TAG_SENTENCE, detail, words->sentence_bytes, &requests[1]);
    while (!rshi_link_test_all(&l, 2, requests, &left) && left && rshi_vigil_waited(&v) < PARTING)
        rshi_vigil_rest(&v, &l.patience);
    return !left || rshi_link_cancel(&l, 2, requests);
}

bool rshi_link_excuse(rshi_link *l, const rsh_wire *wire, rsh_status status) {
    char detail[RSHI_DETAIL_BYTES];
    bool gone = true;
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    if (l) {
        memcpy(l->detail, detail, sizeof detail);
        l->words = (rshi_farewell_words){status, 0, strlen(detail) + 1};
    }
    for (int r = 0; r < wire->size; r++)
        if (r != wire->rank && !excuse_to(wire, r, l ? &l->words : &no_words, l ? l->detail : no_memory)) gone = false;
    rshi_set_detail(detail);
    return gone;
}

/* Line: waits on a wire that end, and farewells that end them.
 *
 * A wait tests its messages, yields, then naps; at every nap it looks for farewells.  Nobody waits for longer than
 * RESHARD_TIMEOUT without progress.  A rank of the same node that was killed says no farewell, but its comm knows. */
#include "comm/line.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define AWAKE 0.002      /* seconds of yielding before the first nap */
#define SHORT_NAP 20000L /* nanoseconds */
#define LONG_NAP 1000000L
#define HEARING 10.0 /* seconds in which the rest of a farewell must come */
#define ASKING 0.03  /* seconds between two questions to the node's comm, which asks the kernel */
#define GRACE 0.2    /* seconds in which the farewell of a rank that its node misses may still come */

/* ---- a wait ---- */

typedef struct vigil {
    int looks;
    rshi_watch watch;
    long nap;
} vigil;

static double waited(vigil *v) { return rshi_watch_look(&v->watch, RSHI_WATCH_STEP); }

/* Let others work for a moment.  True: it is time to look around. */
static bool rest(vigil *v, const rshi_patience *p) {
    if (++v->looks < p->spins) return false;
    if (waited(v) < AWAKE) {
        sched_yield();
        return v->looks % 64 == 0;
    }
    v->nap = v->nap ? (v->nap * 2 < LONG_NAP ? v->nap * 2 : LONG_NAP) : SHORT_NAP;
    nanosleep(&(struct timespec){0, v->nap}, NULL);
    return true;
}

/* ---- messages ---- */

/* A wire that fails leaves ranks out of step: the sentence stays, the status says that the comm is of no more use. */
static rsh_status broken(rsh_status st) { return st ? RSH_EPEER : RSH_OK; }

rsh_status rshi_line_send(rshi_line *l, int peer, int tag, const void *data, size_t bytes, rshi_parcel *out) {
    *out = (rshi_parcel){.peer = peer};
    RSH_TRY(broken(l->wire.send(l->wire.ctx, peer, tag, data, bytes, &out->request)));
    out->pending = true;
    return RSH_OK;
}

rsh_status rshi_line_recv(rshi_line *l, int peer, int tag, void *data, size_t bytes, rshi_parcel *out) {
    *out = (rshi_parcel){.peer = peer};
    RSH_TRY(broken(l->wire.recv(l->wire.ctx, peer, tag, data, bytes, &out->request)));
    out->pending = true;
    return RSH_OK;
}

rsh_status rshi_line_test(rshi_line *l, rsh_wire_request *request, bool *done) {
    return broken(l->wire.test(l->wire.ctx, request, done));
}

void rshi_line_cancel(rshi_line *l, int64_t n, rshi_parcel *parcels) {
    for (int64_t i = 0; i < n; i++)
        if (parcels[i].pending) l->wire.cancel(l->wire.ctx, &parcels[i].request);
    for (int64_t i = 0; i < n; i++) parcels[i].pending = false;
}

/* Test all that are pending; how many still are, and the first of them. */
static rsh_status test_all(rshi_line *l, int64_t n, rshi_parcel *parcels, int64_t *left, int64_t *first) {
    *left = 0;
    for (int64_t i = n; i--;) {
        if (!parcels[i].pending) continue;
        bool done = false;
        RSH_TRY(rshi_line_test(l, &parcels[i].request, &done));
        parcels[i].pending = !done;
        if (done) continue;
        ++*left;
        *first = i;
    }
    return RSH_OK;
}

/* What was under way when a rank left may be complete all the same, so the tests have the last word. */
rsh_status rshi_line_finish(rshi_line *l, int64_t n, rshi_parcel *parcels) {
    vigil v = {0};
    rsh_status st = RSH_OK, doubted = RSH_OK;
    for (int64_t before = n, left, first = 0;;) {
        RSH_GOTO(test_all(l, n, parcels, &left, &first));
        if (!left) return RSH_OK;
        RSH_GOTO(doubted);
        if (left < before) v = (vigil){0};
        before = left;
        if (!rest(&v, &l->patience)) continue;
        doubted = rshi_line_doubt(l, -1, l->steps + 1, 0);
        if (!doubted && waited(&v) >= l->patience.timeout)
            doubted = rshi_line_doubt(l, parcels[first].peer, l->steps + 1, waited(&v));
    }
out:
    rshi_line_cancel(l, n, parcels);
    return st;
}

/* ---- hearing farewells ---- */

/* A message that is on its way already. */
static rsh_status receive_now(rshi_line *l, int peer, int tag, void *data, size_t bytes) {
    vigil v = {0};
    rshi_parcel parcel;
    RSH_TRY(rshi_line_recv(l, peer, tag, data, bytes, &parcel));
    for (;;) {
        bool done = false;
        rsh_status st = rshi_line_test(l, &parcel.request, &done);
        if (done || st) return st;
        rest(&v, &l->patience);
        if (waited(&v) < HEARING) continue;
        rshi_line_cancel(l, 1, &parcel);
        return rshi_fail(RSH_EPEER, "rank %d left in the middle of a word", peer);
    }
}

static void note_farewell(rshi_line *l, int peer, const rshi_farewell_words *w, const char *sentence) {
    if (!l->farewells[peer].heard) l->heard++;
    l->farewells[peer] = (rshi_farewell){true, (rsh_status)w->status, w->steps};
    if (!w->status || l->speaker >= 0) return;
    l->speaker = peer;
    snprintf(l->sentence, sizeof l->sentence, "%s", sentence);
}

static rsh_status hear_one(rshi_line *l, int peer) {
    rshi_farewell_words w;
    char sentence[RSHI_DETAIL_BYTES] = "";
    RSH_TRY(receive_now(l, peer, RSHI_TAG_FAREWELL, &w, sizeof w));
    RSH_REQUIRE(w.sentence_bytes <= sizeof sentence, RSH_EPEER, "rank %d uses another version of the library", peer);
    if (w.sentence_bytes) RSH_TRY(receive_now(l, peer, RSHI_TAG_SENTENCE, sentence, w.sentence_bytes));
    sentence[sizeof sentence - 1] = 0;
    note_farewell(l, peer, &w, sentence);
    return RSH_OK;
}

static rsh_status hear_all(rshi_line *l) {
    for (;;) {
        int peer = -1;
        RSH_TRY(broken(l->wire.probe(l->wire.ctx, RSHI_TAG_FAREWELL, &peer)));
        if (peer < 0) return RSH_OK;
        RSH_TRY(hear_one(l, peer));
    }
}

/* ---- doubts ---- */

static bool is_missed(const rshi_line *l, int r, uint64_t steps) {
    return l->farewells[r].heard && l->farewells[r].steps < steps;
}

/* A rank that failed explains more than one that has left. */
static int find_missed(const rshi_line *l, uint64_t steps) {
    if (!l->heard) return -1;
    if (l->speaker >= 0 && is_missed(l, l->speaker, steps)) return l->speaker;
    for (int r = 0; r < l->wire.size; r++)
        if (is_missed(l, r, steps)) return r;
    return -1;
}

/* Only the first failure's sentence was kept; others are its echo.  One that left with RSH_EPEER names the rank that
 * began. */
static rsh_status report_missed(const rshi_line *l, int r) {
    const rshi_farewell *f = &l->farewells[r];
    if (f->status == RSH_OK) return rshi_fail(RSH_EPEER, "rank %d has left", r);
    if (l->farewells[l->speaker].status == RSH_EPEER && *l->sentence)
        return rshi_fail(RSH_EPEER, "%.*s", RSHI_DETAIL_BYTES - 1, l->sentence);
    return rshi_fail(RSH_EPEER, "rank %d failed with %s: %.900s", l->speaker,
                     rsh_status_name(l->farewells[l->speaker].status), l->sentence);
}

/* A near rank that its node's comm misses and that has said no farewell.  One that leaves in order says it first, but
 * the wire may be slower: each such rank has its own time for it, which a pause between two looks does not use up. */
static rsh_status doubt_near(rshi_line *l) {
    rsh_status st = RSH_OK;
    int suspect = 0;
    double now = rshi_seconds();
    if (now - l->asked < ASKING) return RSH_OK;
    l->asked = now;
    for (int i = 0; l->near && i < l->near->size && !st; i++)
        if (i != l->near->rank && !l->farewells[l->near_called[i]].heard) {
            st = l->near->ops->doubt(l->near, i, 0.9 * l->patience.timeout);
            suspect = i + 1;
        }
    if (!st) return l->suspect = 0, RSH_OK;
    if (l->suspect != suspect) l->missed = (rshi_watch){0};
    l->suspect = suspect;
    return rshi_watch_look(&l->missed, 2 * ASKING) < GRACE ? RSH_OK : st;
}

static rsh_status report_late(const rshi_line *l, int peer, double seconds) {
    if (peer < 0) return rshi_report_all_late(seconds, l->patience.timeout);
    return rshi_fail(RSH_ETIMEOUT, "rank %d let this rank wait for %.3g seconds (RESHARD_TIMEOUT is %g)", peer, seconds,
                     l->patience.timeout);
}

rsh_status rshi_line_doubt(rshi_line *l, int peer, uint64_t steps, double seconds) {
    RSH_TRY(hear_all(l));
    int missed = peer < 0 ? find_missed(l, steps) : is_missed(l, peer, steps) ? peer : -1;
    if (missed >= 0) return report_missed(l, missed);
    RSH_TRY(doubt_near(l));
    return seconds < l->patience.timeout ? RSH_OK : report_late(l, peer, seconds);
}

/* ---- coming and going ---- */

void rshi_line_leave(rshi_line *l, rsh_status status, const char *detail) {
    if (l->said) return;
    l->said = true;
    l->status = status;
    snprintf(l->detail, sizeof l->detail, "%s", detail);
    l->words = (rshi_farewell_words){status, l->steps, status ? strlen(l->detail) + 1 : 0};
    for (int r = 0; r < l->wire.size; r++) {
        if (r == l->wire.rank || rshi_line_send(l, r, RSHI_TAG_FAREWELL, &l->words, sizeof l->words, &l->mine[2 * r]))
            continue;
        if (status) rshi_line_send(l, r, RSHI_TAG_SENTENCE, l->detail, l->words.sentence_bytes, &l->mine[2 * r + 1]);
    }
}

/* Without memory for a line: words from the stack, and a moment for them to go. */
static void excuse(const rsh_wire *wire, rsh_status status) {
    rshi_line l = {.wire = *wire, .patience = {.spins = 100, .timeout = HEARING}};
    rshi_parcel parcels[2];
    char detail[RSHI_DETAIL_BYTES];
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    rshi_farewell_words words = {status, 0, strlen(detail) + 1};
    for (int r = 0; r < wire->size; r++) {
        if (r == wire->rank || rshi_line_send(&l, r, RSHI_TAG_FAREWELL, &words, sizeof words, &parcels[0])) continue;
        int n = rshi_line_send(&l, r, RSHI_TAG_SENTENCE, detail, words.sentence_bytes, &parcels[1]) ? 1 : 2;
        int64_t left = n, first;
        vigil v = {0};
        while (!test_all(&l, n, parcels, &left, &first) && left && waited(&v) < 0.1) rest(&v, &l.patience);
        rshi_line_cancel(&l, n, parcels);
    }
    rshi_set_detail(detail);
}

static void free_line(rshi_line *l) {
    if (!l) return;
    rshi_free(l->farewells);
    rshi_free(l->mine);
    rshi_free(l);
}

static rsh_status make_line(const rsh_wire *wire, rshi_line **out) {
    double timeout;
    RSH_TRY(rshi_read_timeout(&timeout));
    rshi_line *l = *out = RSHI_NEW(rshi_line);
    if (!l) return rshi_nomem();
    *l = (rshi_line){.wire = *wire, .speaker = -1, .patience = rshi_patience_for(wire->size, false, timeout)};
    l->farewells = rshi_calloc((size_t)wire->size, sizeof *l->farewells);
    l->mine = rshi_calloc(2 * (size_t)wire->size, sizeof *l->mine);
    return l->farewells && l->mine ? RSH_OK : rshi_nomem();
}

rsh_status rshi_line_new(const rsh_wire *wire, rshi_line **out) {
    rshi_line *l = NULL;
    rsh_status st = make_line(wire, &l);
    if (st) {
        free_line(l);
        excuse(wire, st);
        wire->close(wire->ctx, false);
        return st;
    }
    *out = l;
    return RSH_OK;
}

/* Have all others left in order, and heard that this rank has?  False as soon as one has not, or after RESHARD_TIMEOUT.
 */
static bool part_in_order(rshi_line *l) {
    vigil v = {0};
    int64_t left = 0, first;
    while (l->speaker < 0) {
        if (test_all(l, 2 * (int64_t)l->wire.size, l->mine, &left, &first)) return false;
        if (!left && l->heard == l->wire.size - 1) return true;
        if (rest(&v, &l->patience) && rshi_line_doubt(l, -1, 0, waited(&v))) return false;
    }
    return false;
}

/* A farewell that is still under way to a rank that is dead keeps its memory: there is no telling when the wire lets go
 * of it. */
void rshi_line_close(rshi_line *l) {
    int64_t left = 0, first;
    bool orderly = l->status == RSH_OK && part_in_order(l);
    if (!orderly && test_all(l, 2 * (int64_t)l->wire.size, l->mine, &left, &first))
        left = 0; /* a wire that fails holds nothing */
    l->wire.close(l->wire.ctx, orderly);
    if (!left) free_line(l);
}

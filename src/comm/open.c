/* Open: the exchange with which every collective call begins.
 *
 * Each rank sends a small record that describes its call.  All ranks read the same records and so come to the same
 * conclusion.  Texts are sent only if something is wrong, from the one or two ranks concerned. */
#include "comm/comm.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 48
#define QUOTE_BYTES 400 /* bytes per quotation; two quotations fit into an error message */
#define ERROR_BYTES 320 /* bytes per error text; two of them, with two names, fit into an error message */

typedef rshi_opening opening;

/* The description of a call, from a rank that differs. */
typedef struct words {
    char operation[NAME_BYTES];
    char what[QUOTE_BYTES];
    char error[ERROR_BYTES]; /* the rank's last error since its last collective call; empty: none */
} words;

void rshi_comm_abandon(rsh_comm *c, rsh_status status) {
    if (c->dead) return;
    c->dead = status;
    snprintf(c->dead_detail, sizeof c->dead_detail, "%s", rsh_error_detail());
    c->ops->leave(c, status, c->dead_detail);
}

rsh_status rshi_comm_verdict(rsh_comm *c, rsh_status status) {
    if (status == RSH_EPEER || status == RSH_ETIMEOUT) rshi_comm_abandon(c, status);
    return status;
}

static uint64_t hash_text(const char *text) { return rshi_hash(text, strlen(text), 0); }

/* The lowest rank that has an error, or -1. */
static int find_refusal(const rsh_comm *c) {
    for (int r = 0; r < c->size; r++)
        if (c->openings[r].status) return r;
    return -1;
}

/* The lowest rank whose record differs from that of rank 0, or -1. */
static int find_difference(const rsh_comm *c) {
    for (int r = 1; r < c->size; r++)
        if (memcmp(&c->openings[r], &c->openings[0], offsetof(opening, card)) != 0) return r;
    return -1;
}

static rsh_status receive_from_rank(rsh_comm *c, int from, void *text, size_t bytes) {
    return rshi_comm_verdict(c, c->ops->bcast(c, from, text, bytes));
}

static rsh_status forward_refusal(rsh_comm *c, int from) {
    char sentence[RSHI_DETAIL_BYTES];
    snprintf(sentence, sizeof sentence, "%s", c->rank == from ? rsh_error_detail() : "");
    RSH_TRY(receive_from_rank(c, from, sentence, sizeof sentence));
    return rshi_fail((rsh_status)c->openings[from].status, "rank %d: %s", from, sentence);
}

static void truncate_quote(const char *text, char *to, size_t bytes) {
    if (snprintf(to, bytes, "%s", text) >= (int)bytes) memcpy(to + bytes - 4, "...", 4);
}

static void describe_call(const rsh_comm *c, words *w, const char *operation, const char *what) {
    snprintf(w->operation, sizeof w->operation, "%s", operation);
    truncate_quote(what ? what : "", w->what, sizeof w->what);
    truncate_quote(rshi_sentences() != c->sentences ? rsh_error_detail() : "", w->error, sizeof w->error);
}

/* Makes the message for different calls.  If one rank failed alone and went on to its next collective call, the message
 * says why. */
static rsh_status explain_calls(const rsh_comm *c, int other, const words *a, const words *b) {
    char first[ERROR_BYTES + 64] = "", second[ERROR_BYTES + 64] = "";
    if (*a->error) snprintf(first, sizeof first, "; the last error of rank 0: %s", a->error);
    if (*b->error) snprintf(second, sizeof second, "; the last error of rank %d: %s", other, b->error);
    return rshi_fail(RSH_EMISMATCH,
                     "ranks are in different calls: rank 0 in %s (call %llu), rank %d in %s (call %llu)%s%s",
                     a->operation, (unsigned long long)c->openings[0].calls, other, b->operation,
                     (unsigned long long)c->openings[other].calls, first, second);
}

static rsh_status explain_difference(rsh_comm *c, int other, const char *operation, const char *what) {
    words a, b;
    describe_call(c, &a, operation, what);
    describe_call(c, &b, operation, what);
    RSH_TRY(receive_from_rank(c, 0, &a, sizeof a));
    RSH_TRY(receive_from_rank(c, other, &b, sizeof b));
    const opening *first = &c->openings[0], *second = &c->openings[other];
    if (first->operation != second->operation || first->calls != second->calls)
        return explain_calls(c, other, &a, &b);
    if (strcmp(a.what, b.what) == 0)
        return rshi_fail(RSH_EMISMATCH,
                         "ranks passed different arguments to %s: rank 0 and rank %d both passed %s, but with "
                         "different layouts or options",
                         a.operation, other, *a.what ? a.what : "something");
    return rshi_fail(RSH_EMISMATCH, "ranks passed different arguments to %s: rank 0 passed %s, rank %d passed %s",
                     a.operation,
                     *a.what ? a.what : "nothing", other, *b.what ? b.what : "nothing");
}

static rsh_status compare_openings(rsh_comm *c, const char *operation, const char *what) {
    int difference = find_difference(c);
    /* all ranks have the same error, and each has the message */
    if (difference < 0) return (rsh_status)c->openings[c->rank].status;
    int refusal = find_refusal(c);
    return refusal >= 0 ? forward_refusal(c, refusal) : explain_difference(c, difference, operation, what);
}

static rsh_status conclude_opening(rsh_comm *c, const char *operation, const char *what) {
    rsh_status st = compare_openings(c, operation, what);
    c->sentences = rshi_sentences();
    c->refused = st != RSH_OK;
    return st;
}

/* Exchanges the records.  A comm that has failed permanently returns its old error. */
static rsh_status exchange_openings(rsh_comm *c, opening *me, rsh_status mine) {
    RSH_TRY(rshi_comm_own(c));
    if (c->dead) {
        rshi_set_detail(c->dead_detail);
        return c->dead;
    }
    me->calls = c->calls++;
    me->status = (uint64_t)mine;
    if (mine) me->fingerprint = hash_text(rsh_error_detail());
    return rshi_comm_verdict(c, c->ops->allgather(c, me, c->openings, sizeof *me));
}

rsh_status rshi_comm_open_with(rsh_comm *c, const char *operation, uint64_t fingerprint, const char *what,
                               rsh_status mine, const void *card, size_t bytes) {
    opening me = {.operation = hash_text(operation), .fingerprint = fingerprint};
    memcpy(me.card, card, bytes);
    RSH_TRY(exchange_openings(c, &me, mine));
    return conclude_opening(c, operation, what);
}

rsh_status rshi_comm_open(rsh_comm *c, const char *operation, uint64_t fingerprint, const char *what, rsh_status mine) {
    return rshi_comm_open_with(c, operation, fingerprint, what, mine, "", 0);
}

static bool same_call(const rsh_comm *c) {
    for (int r = 0; r < c->size; r++)
        if (c->openings[r].operation != c->openings[0].operation || c->openings[r].calls != c->openings[0].calls)
            return false;
    return true;
}

/* `word` may differ between ranks here but not in rshi_comm_open, so calls of the two functions must never match, even
 * with equal names. */
rsh_status rshi_comm_open_word(rsh_comm *c, const char *operation, uint64_t word, rsh_status mine, bool *same) {
    opening me = {.operation = ~hash_text(operation), .fingerprint = word};
    RSH_TRY(exchange_openings(c, &me, mine));
    *same = find_difference(c) < 0;
    bool words_differ = !*same && find_refusal(c) < 0 && same_call(c);
    if (!words_differ) return conclude_opening(c, operation, NULL);
    c->sentences = rshi_sentences();
    c->refused = false;
    return RSH_OK;
}

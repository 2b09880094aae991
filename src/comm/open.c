/* Open: the exchange with which every collective call begins.
 *
 * Each rank says in a small record what it is about to do.  All ranks read the same records and so come to the same
 * conclusion; only when that is not "go on" do texts travel, from the one or two ranks whose words matter. */
#include "comm/comm.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 48
#define QUOTE_BYTES 400 /* two of them fit into a sentence */

typedef rshi_opening opening;

/* What a rank that differs has to say. */
typedef struct words {
    char operation[NAME_BYTES];
    char what[QUOTE_BYTES];
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

/* The lowest rank that refuses, or -1. */
static int find_refusal(const rsh_comm *c) {
    for (int r = 0; r < c->size; r++)
        if (c->openings[r].status) return r;
    return -1;
}

/* The lowest rank that says something else than rank 0, or -1. */
static int find_difference(const rsh_comm *c) {
    for (int r = 1; r < c->size; r++)
        if (memcmp(&c->openings[r], &c->openings[0], offsetof(opening, card)) != 0) return r;
    return -1;
}

static rsh_status hear(rsh_comm *c, int from, void *text, size_t bytes) {
    return rshi_comm_verdict(c, c->ops->bcast(c, from, text, bytes));
}

static rsh_status forward_refusal(rsh_comm *c, int from) {
    char sentence[RSHI_DETAIL_BYTES];
    snprintf(sentence, sizeof sentence, "%s", c->rank == from ? rsh_error_detail() : "");
    RSH_TRY(hear(c, from, sentence, sizeof sentence));
    return rshi_fail((rsh_status)c->openings[from].status, "rank %d: %s", from, sentence);
}

static void speak(words *w, const char *operation, const char *what) {
    snprintf(w->operation, sizeof w->operation, "%s", operation);
    int n = snprintf(w->what, sizeof w->what, "%s", what ? what : "");
    if (n >= QUOTE_BYTES) memcpy(w->what + QUOTE_BYTES - 4, "...", 4);
}

static rsh_status explain_difference(rsh_comm *c, int other, const char *operation, const char *what) {
    words a, b;
    speak(&a, operation, what);
    speak(&b, operation, what);
    RSH_TRY(hear(c, 0, &a, sizeof a));
    RSH_TRY(hear(c, other, &b, sizeof b));
    const opening *first = &c->openings[0], *second = &c->openings[other];
    if (first->operation != second->operation || first->calls != second->calls)
        return rshi_fail(
            RSH_EMISMATCH, "ranks are in different calls: rank 0 in %s (call %llu), rank %d in %s (call %llu)",
            a.operation, (unsigned long long)first->calls, other, b.operation, (unsigned long long)second->calls);
    if (strcmp(a.what, b.what) == 0)
        return rshi_fail(RSH_EMISMATCH,
                         "ranks ask %s for different things: rank 0 and rank %d both for %s, but not from the same "
                         "layout with the same options",
                         a.operation, other, *a.what ? a.what : "something");
    return rshi_fail(RSH_EMISMATCH, "ranks ask %s for different things: rank 0 for %s, rank %d for %s", a.operation,
                     *a.what ? a.what : "one", other, *b.what ? b.what : "another");
}

static rsh_status settle(rsh_comm *c, const char *operation, const char *what) {
    int difference = find_difference(c);
    if (difference < 0) return (rsh_status)c->openings[c->rank].status; /* all refuse alike: each has the sentence */
    int refusal = find_refusal(c);
    return refusal >= 0 ? forward_refusal(c, refusal) : explain_difference(c, difference, operation, what);
}

/* Hear what every rank has to say; a comm that has failed for good is not asked any more. */
static rsh_status hear_all(rsh_comm *c, opening *me, rsh_status mine) {
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
    RSH_TRY(hear_all(c, &me, mine));
    return settle(c, operation, what);
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

/* Words that differ are no error here and one in rshi_comm_open, so the two must never take one another for the same
 * call, whatever their names. */
rsh_status rshi_comm_open_word(rsh_comm *c, const char *operation, uint64_t word, rsh_status mine, bool *same) {
    opening me = {.operation = ~hash_text(operation), .fingerprint = word};
    RSH_TRY(hear_all(c, &me, mine));
    *same = find_difference(c) < 0;
    return !*same && find_refusal(c) < 0 && same_call(c) ? RSH_OK : settle(c, operation, NULL);
}

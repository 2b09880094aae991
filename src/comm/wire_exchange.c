/* Exchange on a wire: first do all lists match?, then all messages at once.
 *
 * Every message has a number made of who sends it, who receives it, its place among those of the pair and its size.  If
 * the numbers of all sends and all receives of all ranks have the same sum, the lists match (or 128 bits have met by
 * chance), and that takes one allgather of the ranks' differences. Only when they do not match do the ranks compare
 * pair by pair, to say where.  Long messages go in pieces. */
#include "comm/hybrid.h"
#include "comm/mismatch.h"

#include <string.h>

#define AT_ONCE 64 /* sizes in a message of the comparison */

/* What a rank lays on the board. */
typedef struct card {
    int64_t status;         /* not RSH_OK: the rank has no memory, so nobody exchanges anything */
    uint64_t difference[2]; /* sum over its sends less sum over its receives */
} card;

_Static_assert(sizeof(card) <= RSHI_HYBRID_ENTRY && sizeof(rshi_mismatch) <= RSHI_HYBRID_ENTRY,
               "cards and findings are laid on the board");

typedef struct exchange {
    rshi_hybrid *h;
    int64_t nsend, nrecv;
    const rsh_message *send, *recv;
    int64_t *seen;        /* [size], owned: messages of a peer counted so far */
    rshi_parcel *parcels; /* owned */
    int64_t used;
} exchange;

/* ---- memory ---- */

static int64_t count_pieces(const exchange *x, int64_t n, const rsh_message *list) {
    int64_t pieces = 0, most = (int64_t)x->h->message;
    for (int64_t i = 0; i < n; i++)
        if (list[i].peer != x->h->base.rank) pieces += rshi_ceil_div((int64_t)list[i].bytes, most);
    return pieces;
}

static rsh_status take_memory(exchange *x) {
    x->seen = rshi_alloc((size_t)x->h->base.size, sizeof *x->seen);
    x->parcels = rshi_calloc((size_t)(count_pieces(x, x->nsend, x->send) + count_pieces(x, x->nrecv, x->recv)),
                             sizeof *x->parcels);
    return x->seen && x->parcels ? RSH_OK : rshi_nomem();
}

/* ---- do the lists match? ---- */

static void add_messages(const exchange *x, bool sending, uint64_t sum[2]) {
    int64_t n = sending ? x->nsend : x->nrecv;
    const rsh_message *list = sending ? x->send : x->recv;
    uint64_t me = (uint64_t)x->h->base.rank;
    memset(x->seen, 0, (size_t)x->h->base.size * sizeof *x->seen);
    for (int64_t i = 0; i < n; i++) {
        uint64_t peer = (uint64_t)list[i].peer;
        const uint64_t who[4] = {sending ? me : peer, sending ? peer : me, (uint64_t)x->seen[peer]++, list[i].bytes};
        for (int k = 0; k < 2; k++) {
            uint64_t number = rshi_hash(who, sizeof who, (uint64_t)k);
            sum[k] += sending ? number : -number;
        }
    }
}

static rsh_status lay_cards(exchange *x, rsh_status prepared) {
    card mine = {.status = prepared};
    if (!prepared) {
        add_messages(x, true, mine.difference);
        add_messages(x, false, mine.difference);
    }
    return rshi_line_allgather(x->h->line, &mine, x->h->board, sizeof mine);
}

static rsh_status read_cards(const exchange *x, bool *match) {
    const card *cards = (const card *)x->h->board;
    uint64_t sum[2] = {0};
    for (int r = 0; r < x->h->base.size; r++) {
        RSH_REQUIRE(!cards[r].status, (rsh_status)cards[r].status,
                    "exchange: rank %d had no memory for its lists of messages", r);
        for (int k = 0; k < 2; k++) sum[k] += cards[r].difference[k];
    }
    *match = !sum[0] && !sum[1];
    return RSH_OK;
}

/* ---- where do they not? ---- */

/* Words to one rank and from another, at the same time. */
static rsh_status trade(rshi_line *l, int to, const void *mine, size_t bytes, int from, void *theirs, size_t expected) {
    rshi_parcel parcels[2] = {0};
    rsh_status st = RSH_OK;
    if (expected) st = rshi_line_recv(l, from, RSHI_TAG_COMPARE, theirs, expected, &parcels[0]);
    if (!st && bytes) st = rshi_line_send(l, to, RSHI_TAG_COMPARE, mine, bytes, &parcels[1]);
    if (!st) return rshi_line_finish(l, 2, parcels);
    rshi_line_cancel(l, 2, parcels);
    return st;
}

static int64_t count_of(int64_t n, const rsh_message *list, int peer) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += list[i].peer == peer;
    return count;
}

/* The next sizes of messages with `peer`; *at is where to look on. */
static int64_t next_sizes(int64_t n, const rsh_message *list, int peer, int64_t *at, uint64_t *sizes) {
    int64_t count = 0;
    for (; *at < n && count < AT_ONCE; ++*at)
        if (list[*at].peer == peer) sizes[count++] = list[*at].bytes;
    return count;
}

static void compare_sizes(rshi_mismatch *found, int from, int to, int64_t first, int64_t n, const uint64_t *sent,
                          const uint64_t *expected) {
    for (int64_t i = 0; i < n && !found->wrong; i++)
        if (sent[i] != expected[i])
            *found = (rshi_mismatch){RSHI_MISMATCH_BYTES, from, to, first + i, sent[i], expected[i]};
}

/* Tell `to` the sizes of what this rank sends there, and compare those of `from` with what this rank receives. */
static rsh_status compare_with(const exchange *x, int to, int from, rshi_mismatch *found) {
    rshi_line *l = x->h->line;
    uint64_t mine[AT_ONCE], theirs[AT_ONCE], expected[AT_ONCE];
    int64_t sent = count_of(x->nsend, x->send, to), wanted = count_of(x->nrecv, x->recv, from), coming = 0, at_send = 0,
            at_recv = 0;
    RSH_TRY(trade(l, to, &sent, sizeof sent, from, &coming, sizeof coming));
    if (coming != wanted && !found->wrong)
        *found = (rshi_mismatch){RSHI_MISMATCH_COUNT, from, x->h->base.rank, 0, (uint64_t)coming, (uint64_t)wanted};
    for (int64_t first = 0; first < rshi_max(sent, coming); first += AT_ONCE) {
        int64_t n = next_sizes(x->nsend, x->send, to, &at_send, mine),
                come = rshi_max(rshi_min(coming - first, AT_ONCE), 0);
        RSH_TRY(trade(l, to, mine, (size_t)n * sizeof *mine, from, theirs, (size_t)come * sizeof *theirs));
        int64_t both = rshi_min(next_sizes(x->nrecv, x->recv, from, &at_recv, expected), come);
        compare_sizes(found, from, x->h->base.rank, first, both, theirs, expected);
    }
    return RSH_OK;
}

/* All ranks trade with the ranks at the same distance. */
static rsh_status explain(const exchange *x) {
    int me = x->h->base.rank, size = x->h->base.size;
    rshi_mismatch found = {0};
    for (int k = 0; k < size; k++) RSH_TRY(compare_with(x, (me + k) % size, (me - k + size) % size, &found));
    rshi_line_step(x->h->line);
    RSH_TRY(rshi_line_allgather(x->h->line, &found, x->h->board, sizeof found));
    for (const rshi_mismatch *f = (const rshi_mismatch *)x->h->board; f < (const rshi_mismatch *)x->h->board + size;
         f++)
        if (f->wrong) return rshi_mismatch_report(f);
    return rshi_fail(RSH_EMISMATCH, "exchange: the ranks' lists of messages do not match");
}

/* ---- moving ---- */

static rsh_status begin_message(exchange *x, const rsh_message *m, bool sending) {
    rshi_line *l = x->h->line;
    for (size_t at = 0; at < m->bytes; at += x->h->message) {
        size_t n = m->bytes - at < x->h->message ? m->bytes - at : x->h->message;
        rshi_parcel *p = &x->parcels[x->used++];
        RSH_TRY(sending ? rshi_line_send(l, m->peer, RSHI_TAG_EXCHANGE, (char *)m->data + at, n, p)
                        : rshi_line_recv(l, m->peer, RSHI_TAG_EXCHANGE, (char *)m->data + at, n, p));
    }
    return RSH_OK;
}

/* Messages of this rank to itself, in order; the lists match. */
static void copy_own(const exchange *x) {
    int me = x->h->base.rank;
    for (int64_t i = 0, j = 0; i < x->nsend; i++) {
        if (x->send[i].peer != me) continue;
        while (x->recv[j].peer != me) j++;
        const rsh_message *to = &x->recv[j++];
        if (to->bytes && to->data != x->send[i].data) memmove(to->data, x->send[i].data, to->bytes);
    }
}

static rsh_status begin_all(exchange *x) {
    int me = x->h->base.rank;
    for (int64_t i = 0; i < x->nrecv; i++)
        if (x->recv[i].peer != me) RSH_TRY(begin_message(x, &x->recv[i], false));
    for (int64_t i = 0; i < x->nsend; i++)
        if (x->send[i].peer != me) RSH_TRY(begin_message(x, &x->send[i], true));
    return RSH_OK;
}

static rsh_status move_all(exchange *x) {
    rsh_status st = begin_all(x);
    if (st) {
        rshi_line_cancel(x->h->line, x->used, x->parcels);
        return st;
    }
    copy_own(x);
    RSH_TRY(rshi_line_finish(x->h->line, x->used, x->parcels));
    rshi_line_step(x->h->line);
    return RSH_OK;
}

rsh_status rshi_hybrid_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                const rsh_message *recv) {
    exchange x = {.h = rshi_hybrid_of(c), .nsend = nsend, .nrecv = nrecv, .send = send, .recv = recv};
    bool match = false;
    rsh_status st;
    RSH_GOTO(lay_cards(&x, take_memory(&x)));
    RSH_GOTO(read_cards(&x, &match));
    st = match ? move_all(&x) : explain(&x);
out:
    rshi_free(x.seen);
    rshi_free(x.parcels);
    return st;
}

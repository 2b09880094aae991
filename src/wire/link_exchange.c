/* Exchange on a wire: first checks that all lists match, then sends the messages in pieces.
 *
 * Every message has a hash of its sender, its receiver, its index among those of the pair, and its size.  If the hashes
 * of all sends and all receives of all ranks have the same sum, the lists match (except for a collision of 128 bits).
 * That takes one allgather of the ranks' differences.  Only if they do not match, the ranks compare pair by pair, to
 * report where.
 *
 * Messages are sent in pieces through memory of the library, several at once, in the order of the shift from sender to
 * receiver.  This cannot deadlock: consider the first piece of the lowest shift that has not arrived; everything that
 * its sender sends before it has arrived, and everything that its receiver receives before it, so both have room for
 * it. */
#include "wire/wire.h"

#include <string.h>

#define AT_ONCE 64            /* sizes in one message of the comparison */
#define ROOM ((int64_t)2 << 20) /* bytes of pieces in flight in one direction */
#define AT_LEAST 8            /* pieces in flight, at least, even if they are large */

/* The first record that a rank sends. */
typedef struct card {
    int64_t status;         /* if not RSH_OK: the rank is out of memory, and nothing is exchanged */
    uint64_t difference[2]; /* sum over its sends minus sum over its receives */
} card;

_Static_assert(sizeof(card) <= RSHI_LINK_CARD && sizeof(rshi_mismatch) <= RSHI_LINK_CARD,
               "cards and mismatches must fit");

/* A piece in flight. */
typedef struct piece {
    int64_t message;
    size_t at, bytes;
} piece;

/* All messages of a rank in one direction, except those to itself. */
typedef struct stream {
    bool sending;
    const rsh_message *list;
    int64_t *order;        /* [messages], owned: the messages in the order of their shifts */
    int64_t messages, next; /* number of messages, and the index in `order` of the message with the next piece */
    size_t at;
    /* Pieces form a queue: number i is at index i modulo `places`. */
    int64_t places, begun, ended;
    size_t size;          /* bytes of each place */
    piece *pieces;        /* [places], owned: the pieces in flight */
    rshi_link_request *requests; /* [places], in exchange.requests */
    char *room;           /* [places * size], owned: memory of the pieces */
} stream;

typedef struct exchange {
    rshi_link *l;
    int64_t nsend, nrecv;
    const rsh_message *send, *recv;
    int64_t *seen;        /* [size], owned: number of messages of each peer counted so far */
    rshi_link_request *requests; /* [out.places + in.places], owned */
    stream out, in;
} exchange;

/* ---- memory ---- */

static int shift_of(const exchange *x, const stream *s, int peer) {
    int size = x->l->wire.size, me = x->l->wire.rank;
    return s->sending ? (peer - me + size) % size : (me - peer + size) % size;
}

/* Sorts messages by shift with a counting sort, whose counts are in `seen`.  A rank's messages to itself have shift 0;
 * they are omitted. */
static void put_in_order(exchange *x, stream *s, int64_t n) {
    int64_t *start = x->seen, own;
    memset(start, 0, (size_t)x->l->wire.size * sizeof *start);
    for (int64_t i = 0; i < n; i++) start[shift_of(x, s, s->list[i].peer)]++;
    own = start[0];
    for (int64_t k = 0, sum = -own; k < x->l->wire.size; k++) {
        int64_t count = start[k];
        start[k] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t to = start[shift_of(x, s, s->list[i].peer)]++;
        if (to >= 0) s->order[to] = i;
    }
    s->messages = n - own;
}

/* Chooses the number of places: enough for all pieces, or as many as fill ROOM, but at least AT_LEAST. */
static void choose_places(const exchange *x, stream *s) {
    int64_t pieces = 0, most = (int64_t)x->l->piece, longest = 1;
    for (int64_t i = 0; i < s->messages; i++) {
        int64_t bytes = (int64_t)s->list[s->order[i]].bytes;
        pieces += rshi_ceil_div(bytes, most);
        longest = rshi_max(longest, rshi_min(bytes, most));
    }
    s->size = (size_t)longest;
    s->places = rshi_min(rshi_max(pieces, 1), rshi_max(ROOM / longest, AT_LEAST));
}

static rsh_status alloc_stream(exchange *x, stream *s, bool sending, int64_t n, const rsh_message *list) {
    *s = (stream){.sending = sending, .list = list};
    s->order = rshi_alloc((size_t)n, sizeof *s->order);
    if (!s->order) return rshi_nomem();
    put_in_order(x, s, n);
    choose_places(x, s);
    s->pieces = rshi_alloc((size_t)s->places, sizeof *s->pieces);
    s->room = rshi_alloc((size_t)s->places, s->size);
    return s->pieces && s->room ? RSH_OK : rshi_nomem();
}

static rsh_status alloc_exchange(exchange *x) {
    x->seen = rshi_alloc((size_t)x->l->wire.size, sizeof *x->seen);
    if (!x->seen) return rshi_nomem();
    RSH_TRY(alloc_stream(x, &x->out, true, x->nsend, x->send));
    RSH_TRY(alloc_stream(x, &x->in, false, x->nrecv, x->recv));
    x->requests = rshi_calloc((size_t)(x->out.places + x->in.places), sizeof *x->requests);
    if (!x->requests) return rshi_nomem();
    x->out.requests = x->requests;
    x->in.requests = x->requests + x->out.places;
    return RSH_OK;
}

/* Frees the exchange.  If `used`, some messages could not be cancelled, so their buffers stay. */
static void free_exchange(exchange *x, bool used) {
    rshi_free(x->seen);
    rshi_free(x->requests);
    for (stream *s = &x->out;; s = &x->in) {
        rshi_free(s->order);
        rshi_free(s->pieces);
        if (!used) rshi_free(s->room);
        if (s == &x->in) return;
    }
}

/* ---- comparing the sums ---- */

static void add_messages(const exchange *x, bool sending, uint64_t sum[2]) {
    int64_t n = sending ? x->nsend : x->nrecv;
    const rsh_message *list = sending ? x->send : x->recv;
    uint64_t me = (uint64_t)x->l->wire.rank;
    memset(x->seen, 0, (size_t)x->l->wire.size * sizeof *x->seen);
    for (int64_t i = 0; i < n; i++) {
        uint64_t peer = (uint64_t)list[i].peer;
        const uint64_t who[4] = {sending ? me : peer, sending ? peer : me, (uint64_t)x->seen[peer]++, list[i].bytes};
        for (int k = 0; k < 2; k++) {
            uint64_t number = rshi_hash(who, sizeof who, (uint64_t)k);
            sum[k] += sending ? number : -number;
        }
    }
}

static rsh_status trade_cards(exchange *x, rsh_status prepared) {
    card mine = {.status = prepared};
    if (!prepared) {
        add_messages(x, true, mine.difference);
        add_messages(x, false, mine.difference);
    }
    return rshi_link_allgather(x->l, &mine, x->l->cards, sizeof mine);
}

static rsh_status read_cards(const exchange *x, bool *match) {
    const card *cards = (const card *)x->l->cards;
    uint64_t sum[2] = {0};
    for (int r = 0; r < x->l->wire.size; r++) {
        RSH_REQUIRE(!cards[r].status, (rsh_status)cards[r].status,
                    "exchange: rank %d ran out of memory for its message lists", r);
        for (int k = 0; k < 2; k++) sum[k] += cards[r].difference[k];
    }
    *match = !sum[0] && !sum[1];
    return RSH_OK;
}

/* ---- finding the mismatch ---- */

/* Sends to one rank and receives from another, at the same time. */
static rsh_status exchange_sizes(rshi_link *l, int to, const void *mine, size_t bytes, int from, void *theirs,
                                 size_t expected) {
    char *out = l->desk, *in = l->desk + AT_ONCE * sizeof(uint64_t);
    rsh_status st = RSH_OK;
    memcpy(out, mine, bytes);
    if (expected) st = rshi_link_recv(l, from, RSHI_TAG_COMPARE, in, expected, &l->requests[0]);
    if (!st && bytes) st = rshi_link_send(l, to, RSHI_TAG_COMPARE, out, bytes, &l->requests[1]);
    if (!st) st = rshi_link_finish(l, 2, l->requests);
    if (st) rshi_link_cancel(l, 2, l->requests);
    else memcpy(theirs, in, expected);
    return st;
}

static int64_t count_with_peer(int64_t n, const rsh_message *list, int peer) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += list[i].peer == peer;
    return count;
}

/* Lists the next sizes of messages with `peer`; *at is where the search continues. */
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

/* Sends `to` the sizes of this rank's messages to it, and compares those of `from` with this rank's receives. */
static rsh_status compare_with(const exchange *x, int to, int from, rshi_mismatch *found) {
    rshi_link *l = x->l;
    uint64_t mine[AT_ONCE], theirs[AT_ONCE], expected[AT_ONCE];
    int64_t sent = count_with_peer(x->nsend, x->send, to), wanted = count_with_peer(x->nrecv, x->recv, from);
    int64_t coming = 0, at_send = 0, at_recv = 0;
    RSH_TRY(exchange_sizes(l, to, &sent, sizeof sent, from, &coming, sizeof coming));
    if (coming != wanted && !found->wrong)
        *found = (rshi_mismatch){RSHI_MISMATCH_COUNT, from, x->l->wire.rank, 0, (uint64_t)coming, (uint64_t)wanted};
    for (int64_t first = 0; first < rshi_max(sent, coming); first += AT_ONCE) {
        int64_t n = next_sizes(x->nsend, x->send, to, &at_send, mine),
                come = rshi_max(rshi_min(coming - first, AT_ONCE), 0);
        RSH_TRY(exchange_sizes(l, to, mine, (size_t)n * sizeof *mine, from, theirs, (size_t)come * sizeof *theirs));
        int64_t both = rshi_min(next_sizes(x->nrecv, x->recv, from, &at_recv, expected), come);
        compare_sizes(found, from, x->l->wire.rank, first, both, theirs, expected);
    }
    return RSH_OK;
}

/* Finds the mismatch.  In each step all ranks compare with the ranks at the same distance. */
static rsh_status report_mismatch(const exchange *x) {
    int me = x->l->wire.rank, size = x->l->wire.size;
    rshi_mismatch found = {0};
    for (int k = 0; k < size; k++) RSH_TRY(compare_with(x, (me + k) % size, (me - k + size) % size, &found));
    rshi_link_step(x->l);
    RSH_TRY(rshi_link_allgather(x->l, &found, x->l->cards, sizeof found));
    for (const rshi_mismatch *f = (const rshi_mismatch *)x->l->cards; f < (const rshi_mismatch *)x->l->cards + size;
         f++)
        if (f->wrong) return rshi_mismatch_report(f);
    return rshi_fail(RSH_EMISMATCH, "exchange: message lists of the ranks do not match");
}

/* ---- moving ---- */

/* Copies the messages of this rank to itself, in order; the lists are known to match. */
static void copy_own(const exchange *x) {
    int me = x->l->wire.rank;
    for (int64_t i = 0, j = 0; i < x->nsend; i++) {
        if (x->send[i].peer != me) continue;
        while (x->recv[j].peer != me) j++;
        const rsh_message *to = &x->recv[j++];
        if (to->bytes && to->data != x->send[i].data) memmove(to->data, x->send[i].data, to->bytes);
    }
}

/* Begins pieces while there are free places. */
static rsh_status begin_pieces(exchange *x, stream *s, bool *moved) {
    while (s->next < s->messages && s->begun - s->ended < s->places) {
        const rsh_message *m = &s->list[s->order[s->next]];
        size_t left = m->bytes - s->at, n = left < x->l->piece ? left : x->l->piece;
        int64_t place = s->begun % s->places;
        char *room = s->room + (size_t)place * s->size;
        if (n) {
            s->pieces[place] = (piece){s->order[s->next], s->at, n};
            if (s->sending) memcpy(room, (char *)m->data + s->at, n);
            RSH_TRY((s->sending ? rshi_link_send(x->l, m->peer, RSHI_TAG_EXCHANGE, room, n, &s->requests[place])
                                : rshi_link_recv(x->l, m->peer, RSHI_TAG_EXCHANGE, room, n, &s->requests[place])));
            s->begun++;
            *moved = true;
        }
        s->at += n;
        if (s->at == m->bytes) s->next++, s->at = 0;
    }
    return RSH_OK;
}

/* Ends the pieces that are complete, in order; copies received pieces to their destination. */
static rsh_status end_pieces(exchange *x, stream *s, bool *moved) {
    for (; s->ended < s->begun; s->ended++) {
        int64_t place = s->ended % s->places, left;
        RSH_TRY(rshi_link_test_all(x->l, 1, &s->requests[place], &left));
        if (left) return RSH_OK;
        const piece *p = &s->pieces[place];
        if (!s->sending) memcpy((char *)s->list[p->message].data + p->at, s->room + (size_t)place * s->size, p->bytes);
        *moved = true;
    }
    return RSH_OK;
}

static bool is_done(const stream *s) { return s->next == s->messages && s->ended == s->begun; }

static rsh_status move_pieces(exchange *x) {
    rshi_vigil v = {0};
    copy_own(x);
    for (;;) {
        bool moved = false;
        RSH_TRY(begin_pieces(x, &x->in, &moved));
        RSH_TRY(begin_pieces(x, &x->out, &moved));
        RSH_TRY(end_pieces(x, &x->in, &moved));
        RSH_TRY(end_pieces(x, &x->out, &moved));
        if (is_done(&x->in) && is_done(&x->out)) break;
        if (moved) v = (rshi_vigil){0};
        else RSH_TRY(rshi_link_rest(x->l, &v, x->out.places + x->in.places, x->requests));
    }
    rshi_link_step(x->l);
    return RSH_OK;
}

rsh_status rshi_link_exchange(rshi_link *l, int64_t nsend, const rsh_message *send, int64_t nrecv,
                              const rsh_message *recv) {
    exchange x = {.l = l, .nsend = nsend, .nrecv = nrecv, .send = send, .recv = recv};
    bool match = false, used = false;
    rsh_status st;
    RSH_GOTO(trade_cards(&x, alloc_exchange(&x)));
    RSH_GOTO(read_cards(&x, &match));
    st = match ? move_pieces(&x) : report_mismatch(&x);
    if (st && match) used = !rshi_link_cancel(x.l, x.out.places + x.in.places, x.requests);
out:
    free_exchange(&x, used);
    return st;
}

/* Exchange of a node: receivers copy from the senders' memory.
 *
 * Each rank writes its lists to memory that its peers can reach.  Messages in such memory (for threads, all messages)
 * are read in place, which takes one round and a final one.  All other messages of a rank form one stream in the order
 * of its list.  The stream passes through a staging buffer of two halves: while receivers read one half, the sender
 * fills the other, and one round per half keeps them in step.  Every rank compares its sends and receives with the
 * other side's lists, so at least one rank finds each mismatch.  That rank still takes part in all rounds, and the
 * final round tells all ranks. */
#include "node/impl.h"

#include <string.h>

#define HALF ((uint64_t)1 << 20)

typedef struct entry {
    uint64_t bytes;
    uint64_t order;     /* index in the caller's list */
    bool direct;        /* read in place */
    rshi_handle handle; /* if direct: handle of the data */
    uint64_t at;        /* if not direct: offset in the stream */
} entry;

/* Lists sorted by peer, in one block: entries for p are list[start[p]] .. list[start[p + 1] - 1]. */
typedef struct sorted {
    const int64_t *start; /* [size + 1] */
    const entry *list;
} sorted;

/* The record that a rank writes to the board for an exchange. */
typedef struct card {
    rsh_status status; /* if not RSH_OK: the rank is out of memory, and nothing is exchanged */
    rshi_handle lists;
    rshi_handle staging; /* handle of the staging buffer, if the rank has a stream */
    uint64_t staged;     /* bytes of the rank's stream */
    int64_t nsend, nrecv;
} card;

typedef struct exchange {
    rshi_node *n;
    const rsh_message *send, *recv;
    card mine;
    char *block; /* this rank's lists */
    size_t bytes;
} exchange;

void rshi_staging_free(rshi_node *n) {
    if (n->staging) n->world->map->free(n->world, n->staging, 2 * HALF);
    n->staging = NULL;
}

/* ---- lists ---- */

static size_t side_bytes(int size, int64_t n) {
    return ((size_t)size + 2) * sizeof(int64_t) + (size_t)n * sizeof(entry);
}

/* Returns the sends or the receives in a block that a rank wrote. */
static sorted side_of(const exchange *x, const char *block, const card *k, bool recv) {
    int size = x->n->size;
    if (recv) block += side_bytes(size, k->nsend);
    return (sorted){(const int64_t *)block, (const entry *)(block + ((size_t)size + 2) * sizeof(int64_t))};
}

static int64_t count_of(const sorted *s, int peer) { return s->start[peer + 1] - s->start[peer]; }
static const entry *entry_of(const sorted *s, int peer, int64_t i) { return &s->list[s->start[peer] + i]; }

static card card_of(const exchange *x, int r) {
    card k;
    memcpy(&k, rshi_node_block(x->n, r)->data, sizeof k);
    return k;
}

static sorted peer_side(const exchange *x, int r, bool recv) {
    card k = card_of(x, r);
    return side_of(x, rshi_node_reach(x->n, r, k.lists), &k, recv);
}

/* Sorts messages by peer with a counting sort.  It is stable, and a peer's messages are then found without a search. */
static void sort_by_peer(int size, int64_t n, const rsh_message *list, char *block) {
    int64_t *start = (int64_t *)block;
    entry *sorted = (entry *)(block + ((size_t)size + 2) * sizeof(int64_t));
    memset(start, 0, ((size_t)size + 2) * sizeof *start);
    for (int64_t i = 0; i < n; i++) start[list[i].peer + 2]++;
    for (int p = 2; p < size + 2; p++) start[p] += start[p - 1];
    for (int64_t i = 0; i < n; i++)
        sorted[start[list[i].peer + 1]++] = (entry){.bytes = list[i].bytes, .order = (uint64_t)i};
}

/* Returns whether receivers can read the message for rank p in place.  Messages to this rank itself are always read in
 * place. */
static bool is_direct(const exchange *x, int p, const void *data) {
    const rshi_mapping *map = x->n->world->map;
    return p == x->n->rank || !map->is_shared || map->is_shared(x->n->world, data);
}

/* Determines where receivers find each message. */
static void place_sends(exchange *x) {
    const rshi_world *w = x->n->world;
    sorted s = side_of(x, x->block, &x->mine, false);
    entry *list = (entry *)s.list;
    for (int p = 0; p < x->n->size; p++)
        for (int64_t i = s.start[p]; i < s.start[p + 1]; i++) {
            const void *data = x->send[list[i].order].data;
            list[i].direct = is_direct(x, p, data);
            list[i].handle = w->map->publish(w, data);
            list[i].at = x->mine.staged;
            if (!list[i].direct) x->mine.staged += list[i].bytes;
        }
}

static rsh_status alloc_staging(exchange *x) {
    rshi_world *w = x->n->world;
    if (!x->n->staging) x->n->staging = w->map->alloc(w, 2 * HALF, false);
    return x->n->staging ? rshi_node_publish(x->n, x->n->staging, &x->mine.staging) : rshi_nomem();
}

static rsh_status write_lists(exchange *x) {
    rshi_world *w = x->n->world;
    size_t sends = side_bytes(x->n->size, x->mine.nsend);
    x->bytes = sends + side_bytes(x->n->size, x->mine.nrecv);
    x->block = w->map->alloc(w, x->bytes, false);
    if (!x->block) return rshi_nomem();
    sort_by_peer(x->n->size, x->mine.nsend, x->send, x->block);
    sort_by_peer(x->n->size, x->mine.nrecv, x->recv, x->block + sends);
    place_sends(x);
    if (x->mine.staged) RSH_TRY(alloc_staging(x));
    return rshi_node_publish(x->n, x->block, &x->mine.lists);
}

/* ---- comparing ---- */

/* Do the messages of one ordered pair agree? */
static bool pair_agrees(const sorted *send, int from, const sorted *recv, int to, rshi_mismatch *found) {
    int64_t n = count_of(send, to), expected = count_of(recv, from);
    if (n != expected) {
        *found = (rshi_mismatch){RSHI_MISMATCH_COUNT, from, to, 0, (uint64_t)n, (uint64_t)expected};
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t sent = entry_of(send, to, i)->bytes, room = entry_of(recv, from, i)->bytes;
        if (sent == room) continue;
        *found = (rshi_mismatch){RSHI_MISMATCH_BYTES, from, to, i, sent, room};
        return false;
    }
    return true;
}

static rshi_mismatch compare_with_peers(const exchange *x) {
    int me = x->n->rank;
    rshi_mismatch found = {0};
    sorted send = side_of(x, x->block, &x->mine, false), recv = side_of(x, x->block, &x->mine, true);
    for (int p = 0; p < x->n->size; p++) {
        if (!count_of(&send, p) && !count_of(&recv, p)) continue;
        sorted their_send = peer_side(x, p, false), their_recv = peer_side(x, p, true);
        if (!pair_agrees(&send, me, &their_recv, p, &found) || !pair_agrees(&their_send, p, &recv, me, &found)) break;
    }
    return found;
}

/* ---- moving ---- */

/* Computes the part of a message that is in this round's half of the stream: its bytes [from, from + n). */
static uint64_t part_in_round(const entry *e, uint64_t round, uint64_t *from) {
    uint64_t lo = round * HALF, hi = lo + HALF, end = e->at + e->bytes;
    uint64_t first = e->at > lo ? e->at : lo, last = end < hi ? end : hi;
    *from = first - e->at;
    return first < last ? last - first : 0;
}

static char *half_of(char *staging, uint64_t round) { return staging + (round & 1) * HALF; }

static void fill_half(const exchange *x, uint64_t round) {
    sorted s = side_of(x, x->block, &x->mine, false);
    for (int64_t i = 0; i < x->mine.nsend; i++) {
        const entry *e = &s.list[i];
        uint64_t from, n = e->direct ? 0 : part_in_round(e, round, &from);
        if (n) memcpy(half_of(x->n->staging, round) + (e->at + from) % HALF, (char *)x->send[e->order].data + from, n);
    }
}

static void copy_direct(char *to, const char *from, uint64_t bytes) {
    if (bytes && to != from) memmove(to, from, bytes);
}

static void receive_from(const exchange *x, int p, uint64_t round) {
    card k = card_of(x, p);
    sorted send = peer_side(x, p, false), recv = side_of(x, x->block, &x->mine, true);
    char *staging = k.staged ? rshi_node_reach(x->n, p, k.staging) : NULL;
    for (int64_t i = 0; i < count_of(&recv, p); i++) {
        const entry *e = entry_of(&send, x->n->rank, i);
        char *to = x->recv[entry_of(&recv, p, i)->order].data;
        uint64_t from, n = e->direct ? 0 : part_in_round(e, round, &from);
        if (n) memcpy(to + from, half_of(staging, round) + (e->at + from) % HALF, n);
        if (e->direct && !round) copy_direct(to, rshi_node_reach(x->n, p, e->handle), e->bytes);
    }
}

/* Receives what is staged in this round.  Ranks start with different peers, so that they do not all read the same
 * memory at once. */
static void receive_round(const exchange *x, uint64_t round) {
    int size = x->n->size;
    for (int k = 0; k < size; k++) receive_from(x, (x->n->rank + k) % size, round);
}

/* Computes the number of rounds of the longest stream. */
static rsh_status check_cards(const exchange *x, uint64_t *rounds) {
    *rounds = 1;
    for (int r = 0; r < x->n->size; r++) {
        card k = card_of(x, r);
        RSH_REQUIRE(!k.status, k.status, "exchange: rank %d ran out of memory for its message lists", r);
        uint64_t n = (k.staged + HALF - 1) / HALF;
        if (n > *rounds) *rounds = n;
    }
    return RSH_OK;
}

/* Runs the rounds.  Every round overwrites the records on the board, so they are written again each time. */
static rsh_status exchange_rounds(exchange *x, rshi_mismatch *found) {
    uint64_t rounds;
    if (!x->mine.status) fill_half(x, 0);
    RSH_TRY(rshi_node_round(x->n, &x->mine, sizeof x->mine));
    RSH_TRY(check_cards(x, &rounds));
    *found = compare_with_peers(x);
    for (uint64_t k = 0; k < rounds; k++) {
        if (k) {
            fill_half(x, k);
            RSH_TRY(rshi_node_round(x->n, &x->mine, sizeof x->mine));
        }
        if (!found->wrong) receive_round(x, k);
    }
    return RSH_OK;
}

static rsh_status agree_on_mismatch(exchange *x, const rshi_mismatch *found) {
    RSH_TRY(rshi_node_round(x->n, found, sizeof *found));
    for (int r = 0; r < x->n->size; r++) {
        rshi_mismatch f;
        memcpy(&f, rshi_node_block(x->n, r)->data, sizeof f);
        if (f.wrong) return rshi_mismatch_report(&f);
    }
    return RSH_OK;
}

rsh_status rshi_node_exchange(rshi_node *n, int64_t nsend, const rsh_message *send, int64_t nrecv,
                              const rsh_message *recv) {
    exchange x = {.n = n, .send = send, .recv = recv, .mine = {.nsend = nsend, .nrecv = nrecv}};
    rshi_mismatch found;
    x.mine.status = write_lists(&x);
    rsh_status st = exchange_rounds(&x, &found);
    if (!st) st = agree_on_mismatch(&x, &found);
    if (x.block) n->world->map->free(n->world, x.block, x.bytes);
    return st;
}

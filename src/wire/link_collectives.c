/* Collectives on a link: allgather by recursive doubling, bcast along a binomial tree.  Messages are in the link's desk
 * buffer, in several rounds if they do not fit. */
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

/* Fails if messages that could not be cancelled after an earlier failure still use the desk. */
static rsh_status clear_desk(rshi_link *l) {
    for (int i = 0; i < RSHI_LINK_REQUESTS; i++)
        RSH_REQUIRE(!l->requests[i].pending, RSH_EPEER,
                    "an earlier call on this comm failed; free it and make a new one");
    return RSH_OK;
}

static rsh_status finish_step(rshi_link *l, rsh_status begun) {
    if (!begun) begun = rshi_link_finish(l, RSHI_LINK_REQUESTS, l->requests);
    if (begun) rshi_link_cancel(l, RSHI_LINK_REQUESTS, l->requests);
    return begun;
}

/* ---- allgather ---- */

/* Blocks of `count` consecutive ranks that end with rank `last`, with wrap-around: one or two ranges of the desk. */
typedef struct stretch {
    size_t at, bytes;
} stretch;

static int stretches(int size, int last, int count, size_t bytes, stretch out[2]) {
    int from = ((last - count + 1) % size + size) % size, before_end = from + count > size ? size - from : count;
    out[0] = (stretch){(size_t)from * bytes, (size_t)before_end * bytes};
    out[1] = (stretch){0, (size_t)(count - before_end) * bytes};
    return out[1].bytes ? 2 : 1;
}

/* One step of recursive doubling.  This rank has the `have` blocks that end with its own.  It sends `count` of them to
 * the rank `have` positions ahead, and receives the `count` blocks before them. */
static rsh_status double_up(rshi_link *l, size_t bytes, int have, int count) {
    int size = l->wire.size, to = (l->wire.rank + have) % size, from = (l->wire.rank - have + size) % size;
    stretch s[2];
    int used = 0;
    rsh_status st = RSH_OK;
    for (int i = 0, n = stretches(size, from, count, bytes, s); i < n && !st; i++)
        st = rshi_link_recv(l, from, RSHI_TAG_ALLGATHER, l->desk + s[i].at, s[i].bytes, &l->requests[used++]);
    for (int i = 0, n = stretches(size, l->wire.rank, count, bytes, s); i < n && !st; i++)
        st = rshi_link_send(l, to, RSHI_TAG_ALLGATHER, l->desk + s[i].at, s[i].bytes, &l->requests[used++]);
    return finish_step(l, st);
}

/* Gathers blocks that fit on the desk. */
static rsh_status gather_round(rshi_link *l, const void *mine, size_t bytes) {
    int size = l->wire.size;
    memcpy(l->desk + (size_t)l->wire.rank * bytes, mine, bytes);
    for (int have = 1, count; have < size; have += count) {
        count = have < size - have ? have : size - have;
        RSH_TRY(double_up(l, bytes, have, count));
    }
    return RSH_OK;
}

rsh_status rshi_link_allgather(rshi_link *l, const void *mine, void *all, size_t bytes) {
    size_t size = (size_t)l->wire.size, most = l->desk_bytes / size;
    if (!bytes) return RSH_OK;
    RSH_TRY(clear_desk(l));
    RSH_TRY(rshi_link_check_peer(l, -1, l->steps + 1,
                            0)); /* ranks that have given up in this step may have sent their blocks before */
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < most ? bytes - at : most;
        RSH_TRY(gather_round(l, (const char *)mine + at, n));
        for (size_t r = 0; r < size; r++) memcpy((char *)all + r * bytes + at, l->desk + r * n, n);
    }
    rshi_link_step(l);
    return RSH_OK;
}

/* ---- bcast ---- */

/* Forwards along the binomial tree.  Places are counted from the root; the parent of a place clears its lowest set bit,
 * and the children set one lower bit. */
static rsh_status forward_to_children(rshi_link *l, int root, int place, int lowest, size_t bytes) {
    int used = 0, size = l->wire.size;
    rsh_status st = RSH_OK;
    for (int bit = lowest >> 1; bit && !st; bit >>= 1)
        if (place + bit < size)
            st = rshi_link_send(l, (place + bit + root) % size, RSHI_TAG_BCAST, l->desk, bytes, &l->requests[used++]);
    return finish_step(l, st);
}

static rsh_status bcast_round(rshi_link *l, int root, char *data, size_t bytes) {
    int size = l->wire.size, place = (l->wire.rank - root + size) % size, lowest = 1;
    while (lowest < size && !(place & lowest)) lowest <<= 1;
    if (place)
        RSH_TRY(finish_step(l, rshi_link_recv(l, (place - lowest + root) % size, RSHI_TAG_BCAST, l->desk, bytes,
                                         &l->requests[0])));
    memcpy(place ? data : l->desk, place ? l->desk : data, bytes);
    return forward_to_children(l, root, place, lowest, bytes);
}

rsh_status rshi_link_bcast(rshi_link *l, int root, void *data, size_t bytes) {
    if (!bytes) return RSH_OK;
    RSH_TRY(clear_desk(l));
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < l->desk_bytes ? bytes - at : l->desk_bytes;
        RSH_TRY(bcast_round(l, root, (char *)data + at, n));
    }
    rshi_link_step(l);
    return RSH_OK;
}

rsh_status rshi_link_agree(rshi_link *l, rsh_status mine, void *board) {
    int64_t *all = board, me = mine;
    char sentence[RSHI_DETAIL_BYTES];
    snprintf(sentence, sizeof sentence, "%s", mine ? rsh_error_detail() : "");
    RSH_TRY(rshi_link_allgather(l, &me, all, sizeof me));
    for (int r = 0; r < l->wire.size; r++) {
        rsh_status status = (rsh_status)all[r];
        if (!status) continue;
        RSH_TRY(rshi_link_bcast(l, r, sentence, sizeof sentence));
        return r == l->wire.rank ? rshi_fail(status, "%s", sentence)
                                 : rshi_fail(status, "rank %d: %.1000s", r, sentence);
    }
    return RSH_OK;
}

/* Channel: between ranks that can read one another's memory a chunk is handed over with two flags: sent, and taken. */
#include "shard/channel.h"

#include <string.h>

/* What a peer needs of this rank. */
typedef struct rshi_end {
    int64_t peer;
    rshi_handle sent, taken;
    uint64_t sent_at, taken_at;
    int64_t bytes; /* of the chunk on its way */
} rshi_end;

typedef struct rshi_ends {
    rshi_handle chunk;
    int64_t n;
    rshi_end end[]; /* by peer */
} rshi_ends;

/* ---- opening ---- */

static rsh_status take_flag(rsh_comm *comm, rshi_flag **flag, uint64_t *at, rshi_handle *handle, uint64_t *shown_at) {
    *flag = comm->ops->flag_take(comm);
    if (!*flag) return rshi_nomem();
    *at = *shown_at = atomic_load(&(*flag)->value);
    return comm->ops->publish(comm, *flag, sizeof **flag, handle);
}

static rsh_status open_end(rsh_comm *comm, rshi_channel *ch, rshi_end *end, unsigned char uses) {
    end->peer = ch->peer;
    if (uses & RSHI_SENDS) RSH_TRY(take_flag(comm, &ch->sent, &ch->sent_at, &end->sent, &end->sent_at));
    if (uses & RSHI_RECEIVES) RSH_TRY(take_flag(comm, &ch->taken, &ch->taken_at, &end->taken, &end->taken_at));
    return RSH_OK;
}

/* The chunk is scratch memory, unless peers can read only what the engine gave. */
static char *take_chunk(const rshi_channels *c) {
    size_t bytes = (size_t)c->chunk_bytes;
    return c->comm->ops->is_shared ? c->comm->ops->shared_alloc(c->comm, bytes) : rshi_alloc_scratch(bytes);
}

static void give_chunk(rshi_channels *c) {
    if (!c->chunk) return;
    if (c->comm->ops->is_shared)
        c->comm->ops->shared_free(c->comm, c->chunk, (size_t)c->chunk_bytes);
    else
        rshi_free_scratch(c->chunk, (size_t)c->chunk_bytes);
}

static rsh_status take_memory(rshi_channels *c, int64_t n) {
    rsh_comm *comm = c->comm;
    c->handles = rshi_calloc((size_t)comm->size, sizeof *c->handles);
    c->list = rshi_calloc((size_t)n, sizeof *c->list);
    c->ends_bytes = sizeof(rshi_ends) + (size_t)n * sizeof(rshi_end);
    c->ends = comm->ops->shared_alloc(comm, c->ends_bytes);
    if (!c->handles || !c->list || !c->ends) return rshi_nomem();
    if (!n) return RSH_OK;
    c->chunk = take_chunk(c);
    return c->chunk ? comm->ops->publish(comm, c->chunk, (size_t)c->chunk_bytes, &c->ends->chunk) : rshi_nomem();
}

rsh_status rshi_channels_open(rshi_channels *c, rsh_comm *comm, const unsigned char *uses, int64_t chunk_bytes) {
    int64_t n = 0;
    for (int r = 0; r < comm->size; r++) n += uses[r] != 0;
    *c = (rshi_channels){.comm = comm, .chunk_bytes = chunk_bytes};
    RSH_TRY(take_memory(c, n));
    for (int r = 0; r < comm->size; r++) {
        if (!uses[r]) continue;
        rshi_channel *ch = &c->list[c->n];
        ch->peer = r;
        RSH_TRY(open_end(comm, ch, &c->ends->end[c->n++], uses[r]));
    }
    c->ends->n = n;
    return RSH_OK;
}

rsh_status rshi_channels_exchange(rshi_channels *c) {
    const rshi_comm_ops *ops = c->comm->ops;
    rshi_handle mine;
    RSH_TRY(ops->publish(c->comm, c->ends, c->ends_bytes, &mine));
    return rshi_comm_verdict(c->comm, ops->allgather(c->comm, &mine, c->handles, sizeof mine));
}

static const rshi_end *find_end(const rshi_ends *ends, int peer) {
    int64_t lo = 0, hi = ends->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (ends->end[mid].peer < peer)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ends->n && ends->end[lo].peer == peer ? &ends->end[lo] : NULL;
}

static rsh_status connect_one(rsh_comm *comm, rshi_channel *ch, rshi_handle handle) {
    const rshi_comm_ops *ops = comm->ops;
    const rshi_ends *ends = ops->reach(comm, ch->peer, handle);
    RSH_REQUIRE(ends, RSH_EUNSUP, "rank %d cannot reach the memory of rank %d", comm->rank, ch->peer);
    ch->end = find_end(ends, comm->rank);
    RSH_REQUIRE(ch->end, RSH_ERUNTIME, "rank %d has messages for rank %d, which knows of none", comm->rank, ch->peer);
    if (ch->sent) ch->peer_taken = ops->reach(comm, ch->peer, ch->end->taken);
    if (ch->taken) ch->peer_sent = ops->reach(comm, ch->peer, ch->end->sent);
    ch->chunk = ops->reach(comm, ch->peer, ends->chunk);
    bool whole = ch->chunk && (!ch->sent || ch->peer_taken) && (!ch->taken || ch->peer_sent);
    RSH_REQUIRE(whole, RSH_EUNSUP, "rank %d cannot reach the messages of rank %d", comm->rank, ch->peer);
    ch->peer_taken_at = ch->end->taken_at;
    ch->peer_sent_at = ch->end->sent_at;
    return RSH_OK;
}

rsh_status rshi_channels_connect(rshi_channels *c) {
    for (int64_t i = 0; i < c->n; i++) RSH_TRY(connect_one(c->comm, &c->list[i], c->handles[c->list[i].peer]));
    return RSH_OK;
}

void rshi_channels_close(rshi_channels *c) {
    rsh_comm *comm = c->comm;
    for (int64_t i = 0; i < c->n; i++) {
        if (c->list[i].sent) comm->ops->flag_give(comm, c->list[i].sent);
        if (c->list[i].taken) comm->ops->flag_give(comm, c->list[i].taken);
    }
    if (c->ends) comm->ops->shared_free(comm, c->ends, c->ends_bytes);
    give_chunk(c);
    rshi_free(c->handles);
    rshi_free(c->list);
    *c = (rshi_channels){0};
}

/* ---- handing over ---- */

static rsh_status await(rsh_comm *comm, int peer, rshi_flag *flag, uint64_t target, bool block, bool *there) {
    if (atomic_load_explicit(&flag->value, memory_order_acquire) >= target) return RSH_OK;
    if (block) return rshi_comm_verdict(comm, comm->ops->wait(comm, peer, flag, target));
    *there = false;
    return RSH_OK;
}

void rshi_channel_send(rshi_channels *c, rshi_channel *to, int64_t bytes) {
    c->ends->end[to - c->list].bytes = bytes;
    to->peer_taken_at++;
    c->comm->ops->post(c->comm, to->sent, ++to->sent_at);
}

rsh_status rshi_channel_arrived(rshi_channels *c, rshi_channel *to, bool block, bool *there) {
    return await(c->comm, to->peer, to->peer_taken, to->peer_taken_at, block, there);
}

rsh_status rshi_channel_take(rshi_channels *c, rshi_channel *from, char *into, bool block, bool *there) {
    RSH_TRY(await(c->comm, from->peer, from->peer_sent, from->peer_sent_at + 1, block, there));
    if (!*there) return RSH_OK;
    from->peer_sent_at++;
    memcpy(into, from->chunk, (size_t)from->end->bytes);
    c->comm->ops->post(c->comm, from->taken, ++from->taken_at);
    return RSH_OK;
}

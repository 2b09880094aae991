/* Channel: a path for messages to one peer.  Inside a node it uses flags and shared memory, between nodes the wire. */
#include "shard/channel.h"

/* The position of a message in its sender's buffer. */
typedef struct note {
    int64_t at, bytes;
} note;

/* What a channel shares with its peer, if both are on the same node. */
typedef struct rshi_end {
    int64_t peer;
    rshi_handle sent, taken;
    uint64_t sent_at, taken_at; /* flag values when the channel was opened */
    note notes[RSHI_WINDOW];    /* positions of the last messages, by number since then */
} rshi_end;

typedef struct rshi_ends {
    rshi_handle buffer;
    int64_t n;
    rshi_end end[]; /* [peers] */
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

/* Allocates the buffer, which counts as scratch even if it is in shared memory. */
static char *take_buffer(const rshi_channels *c) {
    size_t bytes = (size_t)c->buffer_bytes;
    if (!c->comm->ops->is_shared) return rshi_alloc_scratch(bytes);
    char *buffer = c->comm->ops->shared_alloc(c->comm, bytes);
    if (buffer) rshi_count_scratch(c->buffer_bytes);
    return buffer;
}

static void give_buffer(rshi_channels *c) {
    if (!c->buffer) return;
    if (!c->comm->ops->is_shared) {
        rshi_free_scratch(c->buffer, (size_t)c->buffer_bytes);
        return;
    }
    rshi_count_scratch(-c->buffer_bytes);
    c->comm->ops->shared_free(c->comm, c->buffer, (size_t)c->buffer_bytes);
}

/* Allocates the channels; only peers on this node have an end. */
static rsh_status alloc_channels(rshi_channels *c, int64_t n, int64_t near) {
    rsh_comm *comm = c->comm;
    c->list = rshi_calloc((size_t)n, sizeof *c->list);
    c->ends_bytes = sizeof(rshi_ends) + (size_t)near * sizeof(rshi_end);
    c->ends = comm->ops->shared_alloc(comm, c->ends_bytes);
    c->buffer = take_buffer(c);
    if (!c->list || !c->ends || !c->buffer) return rshi_nomem();
    return comm->ops->publish(comm, c->buffer, (size_t)c->buffer_bytes, &c->ends->buffer);
}

rsh_status rshi_channels_open(rshi_channels *c, rsh_comm *comm, const unsigned char *uses, int64_t buffer_bytes) {
    int64_t n = 0, near = 0;
    for (int r = 0; r < comm->size; r++) n += uses[r] != 0, near += uses[r] && rshi_comm_near(comm, comm->rank, r);
    *c = (rshi_channels){.comm = comm, .buffer_bytes = buffer_bytes};
    RSH_TRY(alloc_channels(c, n, near));
    for (int r = 0; r < comm->size; r++) {
        if (!uses[r]) continue;
        rshi_channel *ch = &c->list[c->n++];
        *ch = (rshi_channel){.peer = r, .near = rshi_comm_near(comm, comm->rank, r)};
        if (!ch->near) continue;
        ch->mine = &c->ends->end[c->ends->n++];
        RSH_TRY(open_end(comm, ch, ch->mine, uses[r]));
    }
    return RSH_OK;
}

rsh_status rshi_channels_show(const rshi_channels *c, rshi_handle *out) {
    return c->comm->ops->publish(c->comm, c->ends, c->ends_bytes, out);
}

static const rshi_end *find_end(const rshi_ends *ends, int peer) {
    int64_t i = rshi_find(ends->end, ends->n, sizeof *ends->end, peer);
    return i < 0 ? NULL : &ends->end[i];
}

rsh_status rshi_channel_connect(rshi_channels *c, rshi_channel *ch, rshi_handle shown) {
    rsh_comm *comm = c->comm;
    const rshi_comm_ops *ops = comm->ops;
    if (!ch->near) return RSH_OK;
    const rshi_ends *ends = ops->reach(comm, ch->peer, shown);
    RSH_REQUIRE(ends, RSH_EUNSUP, "rank %d cannot map the memory of rank %d", comm->rank, ch->peer);
    ch->end = find_end(ends, comm->rank);
    RSH_REQUIRE(ch->end, RSH_ERUNTIME, "rank %d has messages for rank %d, but that rank expects none",
                                       comm->rank, ch->peer);
    if (ch->sent) ch->peer_taken = ops->reach(comm, ch->peer, ch->end->taken);
    if (ch->taken) ch->peer_sent = ops->reach(comm, ch->peer, ch->end->sent);
    ch->buffer = ops->reach(comm, ch->peer, ends->buffer);
    bool whole = ch->buffer && (!ch->sent || ch->peer_taken) && (!ch->taken || ch->peer_sent);
    RSH_REQUIRE(whole, RSH_EUNSUP, "rank %d cannot map the message buffers of rank %d", comm->rank, ch->peer);
    ch->peer_taken_at = ch->end->taken_at;
    ch->peer_sent_at = ch->end->sent_at;
    return RSH_OK;
}

void rshi_channels_close(rshi_channels *c, bool used) {
    rsh_comm *comm = c->comm;
    for (int64_t i = 0; i < c->n; i++) {
        if (c->list[i].sent) comm->ops->flag_give(comm, c->list[i].sent);
        if (c->list[i].taken) comm->ops->flag_give(comm, c->list[i].taken);
    }
    if (c->ends) comm->ops->shared_free(comm, c->ends, c->ends_bytes);
    if (!used) give_buffer(c);
    if (used) comm->ops->keep(comm);
    rshi_free(c->list);
    *c = (rshi_channels){0};
}

/* ---- sending and receiving ---- */

static bool flag_reached(rshi_flag *flag, uint64_t number) {
    return atomic_load_explicit(&flag->value, memory_order_acquire) >= number;
}

rsh_status rshi_pending_send(rshi_channels *c, rshi_channel *to, const char *data, int64_t bytes, rshi_pending *out) {
    rsh_comm *comm = c->comm;
    *out = (rshi_pending){.channel = to, .bytes = bytes};
    if (!to->near)
        return rshi_comm_verdict(comm, comm->ops->send(comm, to->peer, c->tag, data, (size_t)bytes, &out->request));
    out->number = ++to->peer_taken_at;
    to->mine->notes[(to->sent_at - to->mine->sent_at) % RSHI_WINDOW] = (note){data - c->buffer, bytes};
    comm->ops->post(comm, to->sent, ++to->sent_at);
    return RSH_OK;
}

static rsh_status test_request(rsh_comm *comm, rshi_pending *p, bool *done) {
    *done = false;
    return rshi_comm_verdict(comm, comm->ops->test(comm, &p->request, done));
}

rsh_status rshi_pending_is_gone(rshi_channels *c, rshi_pending *p, bool *gone) {
    if (!p->channel->near) return test_request(c->comm, p, gone);
    *gone = flag_reached(p->channel->peer_taken, p->number);
    return RSH_OK;
}

rsh_status rshi_pending_expect(rshi_channels *c, rshi_channel *from, char *into, int64_t bytes, size_t footprint,
                              rshi_pending *out) {
    rsh_comm *comm = c->comm;
    *out = (rshi_pending){.channel = from, .bytes = bytes, .footprint = footprint};
    out->rest = (rshi_aside){.dst = into, .left = (size_t)bytes};
    if (from->near) {
        out->number = ++from->peer_sent_at;
        return RSH_OK;
    }
    rsh_status st =
        rshi_comm_verdict(comm, comm->ops->recv(comm, from->peer, c->tag, into, (size_t)bytes, &out->request));
    if (st) out->channel = NULL;
    return st;
}

/* A sender keeps its messages until they are taken.  Fails if it gave up, because then its buffer may have been
 * overwritten. */
static rsh_status check_sender(rsh_comm *comm, int peer) {
    return rshi_comm_verdict(comm, comm->ops->check_peer(comm, peer, 0));
}

rsh_status rshi_pending_has_come(rshi_channels *c, rshi_pending *p, bool *there) {
    rshi_channel *from = p->channel;
    if (!from->near) return test_request(c->comm, p, there);
    *there = p->rest.src || flag_reached(from->peer_sent, p->number);
    if (!*there || p->rest.src) return RSH_OK;
    RSH_TRY(check_sender(c->comm, from->peer));
    const note *n = &from->end->notes[(p->number - 1 - from->end->sent_at) % RSHI_WINDOW];
    RSH_REQUIRE(n->bytes == p->bytes, RSH_ERUNTIME, "rank %d sent %lld bytes, expected %lld", from->peer,
                (long long)n->bytes, (long long)p->bytes);
    p->rest.src = from->buffer + n->at;
    return RSH_OK;
}

rsh_status rshi_pending_take(rshi_channels *c, rshi_pending *p) {
    rshi_channel *from = p->channel;
    if (!from->near) return RSH_OK;
    rshi_aside_end(&p->rest, p->footprint);
    RSH_TRY(check_sender(c->comm, from->peer));
    c->comm->ops->post(c->comm, from->taken, ++from->taken_at);
    return RSH_OK;
}

bool rshi_pending_cancel(rshi_channels *c, rshi_pending *p) {
    return p->channel->near || c->comm->ops->cancel(c->comm, &p->request);
}

void rshi_pending_await_reader(const rshi_pending *p, rshi_reader_wait *readers) {
    rshi_reader_wait_for(readers, p->channel->peer, p->channel->peer_taken, p->number);
}

rsh_status rshi_pending_wait(rshi_channels *c, const rshi_pending *p, bool sent) {
    rshi_channel *ch = p->channel;
    return rshi_comm_verdict(c->comm,
                             c->comm->ops->wait(c->comm, ch->peer, sent ? ch->peer_taken : ch->peer_sent, p->number));
}

/* Messages: the order in which they are sent and received.
 *
 * All messages of a plan have a position in one order, of which every rank knows its own messages: order of the stream
 * (stages ascend in it), round, shift from sender to receiver.  A rank sends in this order, up to a window at once, as
 * far as its buffer has room and the stages before are complete on it.  It expects messages in this order, as far ahead
 * as the other buffer has room for whole rounds.  Both buffers are released in the same order.
 *
 * This cannot deadlock.  Consider the first message, over all ranks, that has not arrived.  Everything that its sender
 * sent before has arrived, so the sender has room for it.  Everything of earlier stages has arrived everywhere, so
 * stages complete and it may be sent.  Everything that its receiver expects before has arrived, so it can be unpacked
 * and makes room: the message is expected, or about to be.  A message counts as arrived when it is at the receiver, not
 * when it is combined with others; otherwise two reductions could wait for each other's contributions.  Messages of
 * equal position have different senders and different receivers.  A rank that holds a message back has others in
 * progress that have not arrived, so the sender of the first message does not hold it back.
 *
 * Between nodes it may be impossible to stop a message once it has begun.  So it is always in a buffer, never in the
 * caller's memory, and after a failure a buffer that the wire still uses stays allocated until the process ends.
 *
 * A rank that sleeps waits for one message: the oldest that it is sending or the next that it expects, whichever comes
 * first in the order.  By the same argument at least one rank can always continue. */
#include "shard/messages.h"

#include "shard/channel.h"
#include "shard/streams.h"

#include <sched.h>

#define GRACE 0.2  /* seconds within which messages between nodes must complete or stop after a failure */
#define A_LOOK 0.05 /* seconds counted between two polls, at most: this process may have been suspended */
#define ALIGN 16   /* bytes: alignment of messages in a buffer */

/* A ring buffer.  Positions only increase; a block at position p is at offset p modulo `size` and is never split. */
typedef struct ring {
    int64_t size, head, tail;
} ring;

/* A message that is being sent. */
typedef struct outgoing {
    rshi_pending pending;
    int64_t end; /* the ring's head after this message */
    int64_t order, round;
    int shift;
} outgoing;

/* An expected round of a stream, with one message of each contributor. */
typedef struct incoming {
    const rshi_stream *stream;
    rshi_packet packet;
    char *messages; /* where the messages arrive, `apart` bytes from one another */
    int64_t apart, end;
    int64_t arrived;      /* number of contributors whose message has arrived, in their order */
    rshi_pending *pending; /* [most_shifts], the requests */
} incoming;

struct rshi_messages {
    rsh_comm *comm;
    rshi_streams streams;
    rshi_channels channels;
    int *channel_of; /* owned: the channel of each rank */
    char *buffer;     /* owned: buffer for incoming messages */
    ring to_send, to_take;
    rshi_pending *pending; /* owned */
    /* Both lists are queues: number i is at index i modulo RSHI_WINDOW. */
    outgoing out[RSHI_WINDOW];
    int64_t out_first, out_end;
    incoming in[RSHI_WINDOW];
    int64_t in_first, in_end;
    bool carries;              /* true: while the last message was packed, a part of an incoming one was copied too */
    int64_t next_out, next_in; /* the next stream to send from, and the next to expect from; streams.n: none */
};

/* ---- rings ---- */

static int64_t ring_take(ring *r, int64_t bytes) {
    if (r->head == r->tail) r->head = r->tail = rshi_ceil_div(r->head, r->size) * r->size;
    int64_t lap = r->head / r->size * r->size, at = rshi_ceil_div(r->head - lap, ALIGN) * ALIGN;
    if (at + bytes > r->size) lap += r->size, at = 0;
    if (lap + at + bytes - r->tail > r->size) return -1;
    r->head = lap + at + bytes;
    return at;
}

static void ring_give(ring *r, int64_t end) { r->tail = rshi_max(r->tail, end); }

/* ---- opening and closing ---- */

static int sender(const rshi_messages *m, const rshi_stream *stream, int64_t k) {
    return (m->comm->rank - stream->shifts[k] + m->comm->size) % m->comm->size;
}

static int receiver(const rshi_messages *m, const rshi_stream *stream) {
    return (m->comm->rank + stream->shift) % m->comm->size;
}

static void list_uses(const rshi_messages *m, unsigned char *uses) {
    for (int64_t i = 0; i < m->streams.n; i++) {
        const rshi_stream *stream = &m->streams.list[i];
        if (stream->shift)
            uses[receiver(m, stream)] |= RSHI_SENDS;
        else
            for (int64_t k = 0; k < stream->nshifts; k++) uses[sender(m, stream, k)] |= RSHI_RECEIVES;
    }
}

static rsh_status open_channels(rshi_messages *m, const rsh_plan *plan) {
    unsigned char *uses = rshi_calloc((size_t)m->comm->size, 1);
    if (!uses) return rshi_nomem();
    list_uses(m, uses);
    rsh_status st = rshi_channels_open(&m->channels, m->comm, uses, rshi_plan_send_bytes(plan));
    rshi_free(uses);
    return st;
}

static rsh_status alloc_buffers(rshi_messages *m, const rsh_plan *plan) {
    m->to_send.size = rshi_plan_send_bytes(plan);
    m->to_take.size = rshi_plan_recv_bytes(plan);
    m->channel_of = rshi_calloc((size_t)m->comm->size, sizeof *m->channel_of);
    m->pending = rshi_calloc((size_t)m->streams.most_shifts, RSHI_WINDOW * sizeof *m->pending);
    m->buffer = rshi_alloc_scratch((size_t)m->to_take.size);
    if (!m->channel_of || !m->pending || !m->buffer) return rshi_nomem();
    for (int64_t i = 0; i < m->channels.n; i++) m->channel_of[m->channels.list[i].peer] = (int)i;
    for (int64_t i = 0; i < RSHI_WINDOW; i++) m->in[i].pending = m->pending + i * m->streams.most_shifts;
    return RSH_OK;
}

rsh_status rshi_messages_new(const rsh_plan *plan, const rsh_share *share, rsh_comm *comm, bool all,
                             const rshi_parts *own, rshi_messages **out) {
    rshi_messages *m = RSHI_NEW(rshi_messages);
    if (!m) return rshi_nomem();
    rsh_status st;
    m->comm = comm;
    m->channels.comm = comm;
    RSH_GOTO(rshi_streams_build(&m->streams, plan, share, comm, all, own));
    if (!m->streams.n) goto out;
    RSH_GOTO(rshi_plan_messages_fit(plan));
    RSH_GOTO(open_channels(m, plan));
    RSH_GOTO(alloc_buffers(m, plan));
    *out = m;
    m = NULL;
out:
    rshi_messages_free(m);
    return st;
}

rsh_status rshi_messages_show(const rshi_messages *m, rshi_handle *out) {
    return m ? rshi_channels_show(&m->channels, out) : RSH_OK;
}

int rshi_messages_peer(const rshi_messages *m, int64_t i) { return i < m->channels.n ? m->channels.list[i].peer : -1; }

rsh_status rshi_messages_connect(rshi_messages *m, int64_t i, rshi_handle shown) {
    return rshi_channel_connect(&m->channels, &m->channels.list[i], shown);
}

void rshi_messages_set_tag(rshi_messages *m, int tag) { m->channels.tag = tag; }
int rshi_messages_tag(const rshi_messages *m) { return m->channels.tag; }

static rshi_channel *channel_to(rshi_messages *m, int rank) { return &m->channels.list[m->channel_of[rank]]; }
static outgoing *out_at(rshi_messages *m, int64_t i) { return &m->out[i % RSHI_WINDOW]; }
static incoming *in_at(rshi_messages *m, int64_t i) { return &m->in[i % RSHI_WINDOW]; }

static void cancel_pending(rshi_messages *m, rshi_pending *l, int64_t *left) {
    if (!l->channel) return;
    if (rshi_pending_cancel(&m->channels, l)) l->channel = NULL;
    else ++*left;
}

/* Cancels messages between nodes; returns the number that cannot be stopped. */
static int64_t cancel_far(rshi_messages *m) {
    int64_t left = 0;
    for (int64_t i = m->out_first; i < m->out_end; i++) cancel_pending(m, &out_at(m, i)->pending, &left);
    for (int64_t i = m->in_first; i < m->in_end; i++)
        for (int64_t k = 0; k < in_at(m, i)->stream->nshifts; k++) cancel_pending(m, &in_at(m, i)->pending[k], &left);
    return left;
}

void rshi_messages_free(rshi_messages *m) {
    if (!m) return;
    bool used = cancel_far(m) > 0;
    rshi_channels_close(&m->channels, used);
    rshi_streams_free(&m->streams);
    if (!used) rshi_free_scratch(m->buffer, (size_t)m->to_take.size);
    rshi_free(m->pending);
    rshi_free(m->channel_of);
    rshi_free(m);
}

/* ---- sending ---- */

/* Returns the first stream at or after i that has something left to send.  `within`: only streams of that order. */
static int64_t find_out(const rshi_messages *m, int64_t i, int64_t within) {
    const rshi_stream *list = m->streams.list;
    for (; i < m->streams.n && (within < 0 || list[i].order == within); i++)
        if (list[i].shift && !rshi_stream_done(&list[i])) return i;
    return -1;
}

/* Advances to the next stream to send from.  Streams of one order alternate; then comes the next order. */
static void advance_out(rshi_messages *m) {
    int64_t order = m->streams.list[m->next_out].order, start = m->next_out;
    int64_t next = find_out(m, m->next_out + 1, order);
    if (next < 0) {
        while (start > 0 && m->streams.list[start - 1].order == order) start--;
        next = find_out(m, start, order);
    }
    if (next < 0) next = find_out(m, m->next_out + 1, -1);
    m->next_out = next < 0 ? m->streams.n : next;
}

static rsh_status release_sent(rshi_messages *m, bool *moved) {
    while (m->out_first < m->out_end) {
        outgoing *o = out_at(m, m->out_first);
        bool gone;
        RSH_TRY(rshi_pending_is_gone(&m->channels, &o->pending, &gone));
        if (!gone) return RSH_OK;
        ring_give(&m->to_send, o->end);
        m->out_first++;
        *moved = true;
    }
    return RSH_OK;
}

/* Packs the next message; NULL: there is no room. */
static const char *pack_next(rshi_messages *m, rshi_stream *stream, char *const *base, rshi_aside *aside,
                              rshi_packet *p) {
    rshi_stream_next(&m->streams, stream, base, p);
    int64_t at = ring_take(&m->to_send, p->bytes);
    if (at < 0) {
        rshi_stream_undo(stream, p);
        return NULL;
    }
    rshi_packet_pack(&m->streams, stream, p, base, m->channels.buffer + at, aside);
    return m->channels.buffer + at;
}

/* Packing reads memory and unpacking writes it, so they are faster when interleaved.  If packing could be interleaved
 * with an incoming message but none has arrived, the last place in the buffer is kept free for a message that will be
 * packed together with the next arrival. */
static bool should_hold_back(const rshi_messages *m, const rshi_stream *stream, const rshi_aside *aside) {
    int64_t room = m->to_send.size - (m->to_send.head - m->to_send.tail);
    bool more_comes = m->in_first < m->in_end, others_are_out = m->out_first < m->out_end;
    return m->carries && !aside->left && more_comes && others_are_out && room < 2 * stream->slot;
}

static rsh_status send_one(rshi_messages *m, int stage, char *const *base, rshi_aside *aside, bool *moved) {
    if (m->next_out == m->streams.n || m->out_end - m->out_first == RSHI_WINDOW) return RSH_OK;
    rshi_stream *stream = &m->streams.list[m->next_out];
    rshi_channel *to = channel_to(m, receiver(m, stream));
    rshi_packet p;
    size_t left = aside->left;
    if (stream->stage > stage || (to->near && should_hold_back(m, stream, aside))) return RSH_OK;
    const char *data = pack_next(m, stream, base, aside, &p);
    if (!data) return RSH_OK;
    if (left) m->carries = aside->left < left;
    outgoing *o = out_at(m, m->out_end);
    *o = (outgoing){.end = m->to_send.head, .order = stream->order, .round = p.round, .shift = stream->shift};
    RSH_TRY(rshi_pending_send(&m->channels, to, data, p.bytes, &o->pending));
    m->out_end++;
    advance_out(m);
    *moved = true;
    return RSH_OK;
}

/* ---- receiving ---- */

static int64_t find_in(const rshi_messages *m, int64_t i) {
    while (i < m->streams.n && m->streams.list[i].shift) i++;
    return i;
}

/* Finds the place for the next round; returns false if there is no room yet. */
static bool place_next_round(rshi_messages *m, rshi_stream *stream, char *const *base, incoming *r) {
    *r = (incoming){.stream = stream, .pending = r->pending};
    rshi_stream_next(&m->streams, stream, base, &r->packet);
    r->apart = rshi_min(stream->slot, rshi_ceil_div(r->packet.bytes, ALIGN) * ALIGN);
    if (!channel_to(m, sender(m, stream, 0))->near) r->packet.whole = NULL;
    r->messages = r->packet.whole;
    if (!r->messages) {
        int64_t at = ring_take(&m->to_take, (stream->nshifts - 1) * r->apart + r->packet.bytes);
        if (at < 0) rshi_stream_undo(stream, &r->packet);
        if (at < 0) return false;
        r->messages = m->buffer + at;
    }
    r->end = m->to_take.head;
    return true;
}

static rsh_status expect_more(rshi_messages *m, char *const *base) {
    while (m->next_in < m->streams.n && m->in_end - m->in_first < RSHI_WINDOW) {
        rshi_stream *stream = &m->streams.list[m->next_in];
        incoming *r = in_at(m, m->in_end);
        if (!place_next_round(m, stream, base, r)) return RSH_OK;
        m->in_end++;
        for (int64_t k = 0; k < stream->nshifts; k++) r->pending[k].channel = NULL;
        size_t footprint = r->packet.whole ? m->streams.footprint : 0;
        for (int64_t k = 0; k < stream->nshifts; k++)
            RSH_TRY(rshi_pending_expect(&m->channels, channel_to(m, sender(m, stream, k)), r->messages + k * r->apart,
                                       r->packet.bytes, footprint, &r->pending[k]));
        if (rshi_stream_done(stream)) m->next_in = find_in(m, m->next_in + 1);
    }
    return RSH_OK;
}

/* Receives messages of the oldest round, and unpacks them when it is complete. */
static rsh_status receive_round(rshi_messages *m, int stage, char *const *base, bool *moved) {
    if (m->in_first == m->in_end) return RSH_OK;
    incoming *r = in_at(m, m->in_first);
    for (; r->arrived < r->stream->nshifts; r->arrived++) {
        bool there;
        RSH_TRY(rshi_pending_has_come(&m->channels, &r->pending[r->arrived], &there));
        if (!there) return RSH_OK;
        RSH_TRY(rshi_pending_take(&m->channels, &r->pending[r->arrived]));
        *moved = true;
    }
    /* the elements with which they will be combined have not arrived yet */
    if (r->stream->stage > stage) return RSH_OK;
    if (!r->packet.whole) rshi_packet_unpack(&m->streams, r->stream, &r->packet, base, r->messages, r->apart);
    ring_give(&m->to_take, r->end);
    m->in_first++;
    *moved = true;
    return RSH_OK;
}

/* ---- both ---- */

void rshi_messages_begin(rshi_messages *m) {
    rshi_streams_rewind(&m->streams);
    int64_t first = find_out(m, 0, -1);
    m->next_out = first < 0 ? m->streams.n : first;
    m->next_in = find_in(m, 0);
}

/* Finds a message that has arrived and will be written with streaming stores.  It is copied while the next message is
 * packed, because one waits for writes and the other for reads.  NULL: none. */
static rsh_status find_aside(rshi_messages *m, rshi_aside **aside) {
    incoming *r = m->in_first < m->in_end ? in_at(m, m->in_first) : NULL;
    if (!r || !r->packet.whole || !rshi_copy_is_large(m->streams.footprint)) return RSH_OK;
    bool there;
    RSH_TRY(rshi_pending_has_come(&m->channels, r->pending, &there));
    if (there) *aside = &r->pending->rest;
    return RSH_OK;
}

rsh_status rshi_messages_step(rshi_messages *m, int stage, char *const *base, bool *moved) {
    rshi_aside none = {0}, *aside = &none;
    RSH_TRY(expect_more(m, base));
    RSH_TRY(release_sent(m, moved));
    RSH_TRY(find_aside(m, &aside));
    RSH_TRY(send_one(m, stage, base, aside, moved));
    return receive_round(m, stage, base, moved);
}

bool rshi_messages_received(const rshi_messages *m, int stage) {
    if (m->in_first < m->in_end) return m->in[m->in_first % RSHI_WINDOW].stream->stage > stage;
    return m->next_in == m->streams.n || m->streams.list[m->next_in].stage > stage;
}

bool rshi_messages_done(const rshi_messages *m) {
    return m->out_first == m->out_end && m->next_out == m->streams.n && m->in_first == m->in_end &&
           m->next_in == m->streams.n;
}

/* Does the oldest outgoing message precede the next expected one? */
static bool out_is_first(rshi_messages *m) {
    if (m->out_first == m->out_end || m->in_first == m->in_end) return m->out_first < m->out_end;
    const outgoing *o = out_at(m, m->out_first);
    const incoming *r = in_at(m, m->in_first);
    if (o->order != r->stream->order) return o->order < r->stream->order;
    if (o->round != r->packet.round) return o->round < r->packet.round;
    return o->shift < r->stream->shifts[r->arrived];
}

rsh_status rshi_messages_wait(rshi_messages *m) {
    if (out_is_first(m)) return rshi_pending_wait(&m->channels, &out_at(m, m->out_first)->pending, true);
    const incoming *r = in_at(m, m->in_first);
    return rshi_pending_wait(&m->channels, &r->pending[r->arrived], false);
}

int rshi_messages_awaited(rshi_messages *m, int peers[2]) {
    int n = 0;
    if (m->out_first < m->out_end) peers[n++] = out_at(m, m->out_first)->pending.channel->peer;
    if (m->in_first == m->in_end) return n;
    const incoming *r = in_at(m, m->in_first);
    if (r->arrived < r->stream->nshifts) peers[n++] = r->pending[r->arrived].channel->peer;
    return n;
}

/* Waits a little for messages to other nodes, because their receivers may still be running. */
static void wait_for_far(rshi_messages *m, outgoing *o, rshi_watch *waited) {
    bool gone = false;
    while (!gone && rshi_watch_look(waited, A_LOOK) < GRACE)
        if (rshi_pending_is_gone(&m->channels, &o->pending, &gone)) break;
    if (gone) o->pending.channel = NULL;
}

/* Gives up all messages.  Those that cannot be stopped stay in the queues; rshi_messages_free tries again. */
void rshi_messages_give_up(rshi_messages *m, rshi_reader_wait *readers) {
    rshi_watch waited = {0};
    for (int64_t i = m->in_first; i < m->in_end; i++)
        for (int64_t k = 0; k < in_at(m, i)->arrived; k++) in_at(m, i)->pending[k].channel = NULL;
    for (int64_t i = m->out_first; i < m->out_end; i++) {
        outgoing *o = out_at(m, i);
        if (o->pending.channel->near)
            rshi_pending_await_reader(&o->pending, readers);
        else
            wait_for_far(m, o, &waited);
    }
    int64_t left = cancel_far(m);
    for (; left && rshi_watch_look(&waited, A_LOOK) < GRACE; left = cancel_far(m)) sched_yield();
    if (left) return;
    m->in_first = m->in_end;
    m->out_first = m->out_end;
}

uint64_t rshi_messages_bytes_near(const rshi_messages *m) { return m->streams.bytes_near; }
uint64_t rshi_messages_bytes_far(const rshi_messages *m) { return m->streams.bytes_far; }
uint64_t rshi_messages_bytes_local(const rshi_messages *m) { return m->streams.in.bytes_local; }

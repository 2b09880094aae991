/* Messages: which chunk is sent and received when.
 *
 * All messages of a plan have a place in one order that every rank knows its share of: order of the flow, round, shift from sender to receiver.
 * A rank sends in this order and receives in this order, one after the other, and where it must wait it waits for the earlier of the two.  So of
 * all messages that have not arrived, the first can always go: its sender has nothing else on its way and its receiver nothing else to wait for.
 * Messages of equal place have different senders and different receivers; there a rank sends before it waits to receive. */
#include "shard/messages.h"

#include "shard/channel.h"
#include "shard/flow.h"

struct rshi_messages {
    rsh_comm *comm;
    rshi_flows flows;
    rshi_channels channels;
    int *channel_of; /* owned, by rank */
    char *chunk;     /* owned: where messages arrive */
    int64_t chunk_bytes;
    int64_t out, out_round; /* the flow to send next, or that is being sent; flows.n: all were */
    bool on_its_way;
    int64_t in, in_round, in_slot; /* the flow to receive from next, and whose contribution */
};

/* ---- opening and closing ---- */

static int sender(const rshi_messages *m, const rshi_flow *w, int64_t slot) {
    return (m->comm->rank - w->shifts[slot] + m->comm->size) % m->comm->size;
}

static int receiver(const rshi_messages *m, const rshi_flow *w) { return (m->comm->rank + w->shift) % m->comm->size; }

static void list_uses(const rshi_messages *m, unsigned char *uses) {
    for (int64_t i = 0; i < m->flows.n; i++) {
        const rshi_flow *w = &m->flows.list[i];
        if (w->shift)
            uses[receiver(m, w)] |= RSHI_SENDS;
        else
            for (int64_t k = 0; k < w->nshifts; k++) uses[sender(m, w, k)] |= RSHI_RECEIVES;
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

static rsh_status take_memory(rshi_messages *m, const rsh_plan *plan) {
    m->channel_of = rshi_calloc((size_t)m->comm->size, sizeof *m->channel_of);
    if (!m->channel_of) return rshi_nomem();
    for (int64_t i = 0; i < m->channels.n; i++) m->channel_of[m->channels.list[i].peer] = (int)i;
    if (!m->channels.n) return RSH_OK;
    m->chunk_bytes = rshi_plan_recv_bytes(plan);
    m->chunk = rshi_alloc_scratch((size_t)m->chunk_bytes);
    return m->chunk ? RSH_OK : rshi_nomem();
}

rsh_status rshi_messages_new(const rsh_plan *plan, rsh_comm *comm, const rshi_finder *own, rshi_program *local, rshi_messages **out) {
    rshi_messages *m = RSHI_NEW(rshi_messages);
    if (!m) return rshi_nomem();
    rsh_status st;
    m->comm = comm;
    RSH_GOTO(rshi_flows_build(&m->flows, plan, comm->rank, comm->size, own, local));
    RSH_GOTO(open_channels(m, plan));
    RSH_GOTO(take_memory(m, plan));
    *out = m;
    m = NULL;
out:
    rshi_messages_free(m);
    return st;
}

rsh_status rshi_messages_exchange(rshi_messages *m) { return rshi_channels_exchange(&m->channels); }
rsh_status rshi_messages_connect(rshi_messages *m) { return rshi_channels_connect(&m->channels); }

void rshi_messages_free(rshi_messages *m) {
    if (!m) return;
    rshi_channels_close(&m->channels);
    rshi_flows_free(&m->flows);
    rshi_free_scratch(m->chunk, (size_t)m->chunk_bytes);
    rshi_free(m->channel_of);
    rshi_free(m);
}

/* ---- sending ---- */

static rshi_channel *channel_to(rshi_messages *m, int rank) { return &m->channels.list[m->channel_of[rank]]; }

/* The first flow at or after i that has something left to send; `within`: of that order only. */
static int64_t next_out(const rshi_messages *m, int64_t i, int64_t within) {
    const rshi_flow *list = m->flows.list;
    for (; i < m->flows.n && (within < 0 || list[i].order == within); i++)
        if (list[i].shift && !rshi_flow_done(&list[i])) return i;
    return -1;
}

/* Flows of one order take turns; then comes the next order. */
static void advance_out(rshi_messages *m) {
    int64_t order = m->flows.list[m->out].order, start = m->out;
    int64_t next = next_out(m, m->out + 1, order);
    if (next < 0) {
        while (start > 0 && m->flows.list[start - 1].order == order) start--;
        next = next_out(m, start, order);
        m->out_round++;
    }
    if (next < 0) {
        next = next_out(m, m->out + 1, -1);
        m->out_round = 0;
    }
    m->out = next < 0 ? m->flows.n : next;
}

static int stage_of(const rshi_messages *m, int64_t flow) { return flow < m->flows.n ? m->flows.list[flow].stage : 2; }

/* What stage 1 passes on must have come in stage 0. */
static bool may_send(const rshi_messages *m) {
    return !m->on_its_way && m->out < m->flows.n && (!stage_of(m, m->out) || stage_of(m, m->in));
}

static rsh_status try_to_send(rshi_messages *m, char *const *base, bool *moved) {
    if (m->on_its_way) {
        bool there = true;
        RSH_TRY(rshi_channel_arrived(&m->channels, channel_to(m, receiver(m, &m->flows.list[m->out])), false, &there));
        if (!there) return RSH_OK;
        m->on_its_way = false;
        advance_out(m);
        *moved = true;
    }
    if (!may_send(m)) return RSH_OK;
    rshi_flow *w = &m->flows.list[m->out];
    rshi_channel_send(&m->channels, channel_to(m, receiver(m, w)), rshi_flow_pack(&m->flows, w, base, m->channels.chunk));
    *moved = m->on_its_way = true;
    return RSH_OK;
}

/* ---- receiving ---- */

static int64_t next_in(const rshi_messages *m, int64_t i) {
    while (i < m->flows.n && m->flows.list[i].shift) i++;
    return i;
}

static void advance_in(rshi_messages *m, char *const *base) {
    rshi_flow *w = &m->flows.list[m->in];
    if (++m->in_slot < w->nshifts) return;
    rshi_flow_unpack(&m->flows, w, base, m->chunk);
    m->in_slot = 0;
    m->in_round++;
    if (!rshi_flow_done(w)) return;
    m->in = next_in(m, m->in + 1);
    m->in_round = 0;
}

static rsh_status receive(rshi_messages *m, char *const *base, bool block, bool *moved) {
    bool there = true;
    if (m->in == m->flows.n) return RSH_OK;
    const rshi_flow *w = &m->flows.list[m->in];
    rshi_channel *from = channel_to(m, sender(m, w, m->in_slot));
    RSH_TRY(rshi_channel_take(&m->channels, from, m->chunk + m->in_slot * w->slot, block, &there));
    if (!there) return RSH_OK;
    advance_in(m, base);
    *moved = true;
    return RSH_OK;
}

/* ---- both ---- */

/* Does the message on its way come before the next one to receive? */
static bool out_is_first(const rshi_messages *m) {
    if (!m->on_its_way || m->in == m->flows.n) return m->on_its_way;
    const rshi_flow *x = &m->flows.list[m->out], *y = &m->flows.list[m->in];
    if (x->order != y->order) return x->order < y->order;
    if (m->out_round != m->in_round) return m->out_round < m->in_round;
    return x->shift < y->shifts[m->in_slot];
}

static rsh_status wait_for_the_earlier(rshi_messages *m, char *const *base) {
    bool there = true;
    if (!out_is_first(m)) return receive(m, base, true, &there);
    return rshi_channel_arrived(&m->channels, channel_to(m, receiver(m, &m->flows.list[m->out])), true, &there);
}

void rshi_messages_begin(rshi_messages *m) {
    int64_t first;
    rshi_flows_rewind(&m->flows);
    first = next_out(m, 0, -1);
    m->out = first < 0 ? m->flows.n : first;
    m->in = next_in(m, 0);
    m->out_round = m->in_round = m->in_slot = 0;
}

rsh_status rshi_messages_go_on(rshi_messages *m, char *const *base, bool block, bool *done) {
    for (;;) {
        bool moved = false;
        RSH_TRY(try_to_send(m, base, &moved));
        RSH_TRY(receive(m, base, false, &moved));
        *done = m->out == m->flows.n && m->in == m->flows.n;
        if (*done || (!moved && !block)) return RSH_OK;
        if (!moved) RSH_TRY(wait_for_the_earlier(m, base));
    }
}

void rshi_messages_give_up(rshi_messages *m) {
    bool there = true;
    if (m->on_its_way) rshi_channel_arrived(&m->channels, channel_to(m, receiver(m, &m->flows.list[m->out])), true, &there);
    m->on_its_way = false;
}

uint64_t rshi_messages_bytes(const rshi_messages *m) { return m->flows.bytes; }
uint64_t rshi_messages_bytes_local(const rshi_messages *m) { return m->flows.in.bytes_local; }

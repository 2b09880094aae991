/* Packet: the next part of a stream that fits into one message, packed or unpacked.
 *
 * A task is packed row by row.  It is cut along the outermost dim whose single steps fit into a message; the inner dims
 * are packed whole. */
#include "shard/streams.h"

/* A slab in a message: its task, and its position in the message. */
typedef struct packed_slab {
    const rshi_stream_item *item;
    const rshi_task *task;
    rshi_slab slab; /* slab.dst is not used: slabs are sent in the order of the stream */
    int64_t at;     /* bytes from the start of the message */
} packed_slab;

void rshi_streams_rewind(rshi_streams *streams) {
    for (int64_t i = 0; i < streams->n; i++) {
        rshi_stream *stream = &streams->list[i];
        stream->next = (rshi_stream_cursor){.item = stream->first, .task = streams->items[stream->first].first};
        stream->round = 0;
    }
}

/* Chooses the dim to cut, and computes the bytes of one step along it. */
static int choose_dim(const rshi_move *m, int64_t slot, int64_t *step) {
    int d = m->nd - 1;
    while (d > 0 && *step * m->n[d] <= slot) *step *= m->n[d--];
    return d;
}

static void advance_cursor(const rshi_streams *streams, const rshi_stream *stream, const packed_slab *c,
                    rshi_stream_cursor *p) {
    int64_t outer = 1;
    for (int d = 0; d < c->slab.first; d++) outer *= c->task->move.n[d];
    p->at = c->slab.i1;
    if (p->at < c->task->move.n[c->slab.first]) return;
    p->at = 0;
    if (++p->outer < outer) return;
    p->outer = 0;
    if (++p->task < c->item->last) return;
    if (++p->item < stream->last) p->task = streams->items[p->item].first;
}

/* Finds the next slab that fits into a message of which `used` bytes are full.  Returns false if none fits, or if the
 * stream has ended. */
static bool next_slab(const rshi_streams *streams, const rshi_stream *stream, rshi_stream_cursor *p, int64_t *used,
                      packed_slab *c) {
    if (p->item == stream->last) return false;
    c->item = &streams->items[p->item];
    c->task = &(stream->shift ? &streams->out : &streams->in)->tasks[p->task];
    int64_t step = (int64_t)rsh_dtype_size(c->item->wire);
    c->at = rshi_ceil_div(*used, step) * step;
    int d = choose_dim(&c->task->move, stream->slot, &step);
    int64_t n = rshi_min((stream->slot - c->at) / step, c->task->move.n[d] - p->at);
    if (n <= 0) return false;
    c->slab = (rshi_slab){.task = p->task, .outer = p->outer, .i0 = p->at, .i1 = p->at + n, .first = d};
    *used = c->at + n * step;
    advance_cursor(streams, stream, c, p);
    return true;
}

/* ---- moving ---- */

/* Writes the strides of the slab's dims; returns the bytes from the task's first element to the slab's. */
static int64_t slab_strides(const packed_slab *c, const int64_t *strides, int64_t *out) {
    const rshi_move *m = &c->task->move;
    const rshi_slab *s = &c->slab;
    for (int d = s->first; d < m->nd; d++) out[d - s->first] = strides[d];
    return s->i0 * strides[s->first] + rshi_outer_offset(m, strides, s->first, s->outer);
}

static void packed_strides(const rshi_move *m, int64_t size, int64_t *out) {
    for (int d = m->nd - 1; d >= 0; d--) {
        out[d] = size;
        size *= m->n[d];
    }
}

static rshi_move move_of(const packed_slab *c) {
    const rshi_move *whole = &c->task->move;
    rshi_move m = {.nd = whole->nd - c->slab.first, .divisor = 1};
    m.n[0] = c->slab.i1 - c->slab.i0;
    for (int d = 1; d < m.nd; d++) m.n[d] = whole->n[c->slab.first + d];
    return m;
}

/* Finds the slab in this rank's own memory, as a sender and as a receiver; writes the strides of its dims. */
static char *find_source(const rshi_streams *streams, const packed_slab *c, char *const *base, int64_t *strides) {
    int64_t number = c->task->first_source + c->item->own;
    const rshi_source *s = &streams->out.sources[number];
    return base[s->part] + s->offset + slab_strides(c, streams->out.strides + number * RSHI_MOVE_DIMS, strides);
}

static char *find_destination(const packed_slab *c, char *const *base, int64_t *strides) {
    const rshi_task *t = c->task;
    return base[t->part] + t->offset + slab_strides(c, t->move.ds, strides);
}

/* ---- cutting ---- */

/* Are elements with these strides in packed order? */
static bool is_packed(const rshi_move *m, const int64_t *strides, int64_t size) {
    for (int d = m->nd - 1; d >= 0; d--) {
        if (m->n[d] > 1 && strides[d] != size) return false;
        size *= m->n[d];
    }
    return true;
}

/* Returns the destination of the slab if it needs no unpacking, or NULL. */
static char *find_whole(const packed_slab *c, char *const *base) {
    int64_t strides[RSHI_MOVE_DIMS];
    const rshi_move *t = &c->task->move;
    if (t->to != c->item->wire || t->nsrc > 1 || t->divisor > 1) return NULL;
    char *found = find_destination(c, base, strides);
    rshi_move m = move_of(c);
    return is_packed(&m, strides, (int64_t)rsh_dtype_size(c->item->wire)) ? found : NULL;
}

void rshi_stream_next(const rshi_streams *streams, rshi_stream *stream, char *const *base, rshi_packet *out) {
    *out = (rshi_packet){.from = stream->next, .round = stream->round++};
    packed_slab first, c;
    int64_t n = 0;
    for (; next_slab(streams, stream, &stream->next, &out->bytes, &c); n++)
        if (!n) first = c;
    if (n == 1 && !stream->shift) out->whole = find_whole(&first, base);
}

void rshi_stream_undo(rshi_stream *stream, const rshi_packet *p) {
    stream->next = p->from;
    stream->round = p->round;
}

/* ---- packing ---- */

static void pack_slab(const rshi_streams *streams, const packed_slab *c, char *const *base, char *message,
                 rshi_aside *aside) {
    int64_t strides[RSHI_MOVE_DIMS];
    rshi_move m = move_of(c);
    m.nsrc = 1;
    m.ss = strides;
    m.from = c->task->move.from;
    m.to = c->item->wire;
    m.aside = streams->cold ? aside : NULL;
    packed_strides(&m, (int64_t)rsh_dtype_size(m.to), m.ds);
    const char *src = find_source(streams, c, base, strides);
    rshi_move_prepare(&m, 0);
    rshi_move_run(&m, 0, 0, m.n[0], message + c->at, &src);
}

void rshi_packet_pack(const rshi_streams *streams, const rshi_stream *stream, const rshi_packet *p, char *const *base,
                       char *message, rshi_aside *aside) {
    rshi_stream_cursor at = p->from;
    int64_t used = 0;
    packed_slab c;
    while (next_slab(streams, stream, &at, &used, &c)) pack_slab(streams, &c, base, message, aside);
}

/* Returns one source of an incoming slab: a message, or this rank's own memory. */
static const char *incoming_source(const rshi_streams *streams, const packed_slab *c, const rshi_move *m, int i,
                              char *const *base, const char *messages, int64_t apart) {
    int64_t number = c->task->first_source + i, *strides = streams->strides + (int64_t)i * RSHI_MOVE_DIMS;
    const rshi_source *s = &streams->in.sources[number];
    if (s->part >= 0)
        return base[s->part] + s->offset + slab_strides(c, streams->in.strides + number * RSHI_MOVE_DIMS, strides);
    packed_strides(m, (int64_t)rsh_dtype_size(m->from), strides);
    return messages + (-1 - s->part) * apart + c->at;
}

static void unpack_slab(const rshi_streams *streams, const packed_slab *c, char *const *base, const char *messages,
                   int64_t apart) {
    const rshi_task *t = c->task;
    rshi_move m = move_of(c);
    m.nsrc = t->move.nsrc;
    m.ss = streams->strides;
    m.from = c->item->wire;
    m.to = t->move.to;
    m.op = t->move.op;
    m.divisor = t->move.divisor;
    char *dst = find_destination(c, base, m.ds);
    for (int i = 0; i < m.nsrc; i++) streams->pointers[i] = incoming_source(streams, c, &m, i, base, messages, apart);
    rshi_move_prepare(&m, streams->footprint);
    rshi_move_run(&m, 0, 0, m.n[0], dst, streams->pointers);
}

void rshi_packet_unpack(const rshi_streams *streams, const rshi_stream *stream, const rshi_packet *p, char *const *base,
                         const char *messages, int64_t apart) {
    rshi_stream_cursor at = p->from;
    int64_t used = 0;
    packed_slab c;
    while (next_slab(streams, stream, &at, &used, &c)) unpack_slab(streams, &c, base, messages, apart);
}

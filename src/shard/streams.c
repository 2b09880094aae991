/* Streams: groups transfers between ranks into streams. */
#include "shard/streams.h"

#include "shard/route.h"

#include <stdlib.h>

/* ---- transfers to items ---- */

typedef struct building {
    rshi_streams *streams;
    const rshi_parts *own;
    rshi_location *location; /* owned: locations of the sources of the current transfer */
    int64_t room;
} building;

static int shift_between(const rshi_streams *streams, int64_t from, int64_t to) {
    return (int)((to - from + streams->comm->size) % streams->comm->size);
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static rsh_status list_shifts(rshi_streams *streams, const rsh_transfer *t, rshi_stream_item *item) {
    RSH_TRY(RSHI_GROW(streams->shifts, streams->nshifts + t->nsrc, &streams->shifts_room));
    item->shifts = streams->nshifts;
    for (int64_t i = 0; i < t->nsrc; i++) {
        if (t->src[i].rank != t->dst.rank)
            streams->shifts[streams->nshifts++] = shift_between(streams, t->src[i].rank, t->dst.rank);
        if (t->src[i].rank == streams->comm->rank) item->own = (int)i;
    }
    item->nshifts = streams->nshifts - item->shifts;
    int *list = streams->shifts + item->shifts;
    qsort(list, (size_t)item->nshifts, sizeof *list, by_value);
    for (int64_t i = 1; i < item->nshifts; i++)
        RSH_REQUIRE(list[i] != list[i - 1], RSH_ERUNTIME,
                    "invalid plan: one rank sends two contributions to the same element of rank %lld",
                    (long long)t->dst.rank);
    return RSH_OK;
}

/* Computes the offset of the first element in a dense destination part.  Transfers are disjoint, so no two have the
 * same offset. */
static rsh_status find_offset(const building *b, const rsh_transfer *t, int64_t *offset) {
    int64_t rounds[RSH_MAX_LOOPS], dense = 1;
    rsh_part part;
    if (t->dst.in_scratch) return rsh_transfer_offsets(t, &t->dst, &dense, offset, rounds);
    RSH_TRY(rsh_layout_part(rshi_plan_dst(b->streams->plan, t->tensor), t->dst.rank, t->dst.part, &part));
    return rsh_transfer_offsets(t, &t->dst, part.strides, offset, rounds);
}

/* Locates one end of a transfer.  Parts of other ranks have no memory here; the part number of a contributor encodes
 * the slot of its elements: -1 is slot 0. */
static rshi_location locate_end(const building *b, const rshi_stream_item *item, const rsh_transfer *t,
                            const rsh_transfer_end *end) {
    static const int64_t none[RSH_MAX_NDIM];
    const rshi_streams *streams = b->streams;
    if (end->rank == streams->comm->rank) return rshi_parts_find(b->own, t->tensor, end);
    int shift = shift_between(streams, end->rank, t->dst.rank);
    const int *list = streams->shifts + item->shifts,
              *found = bsearch(&shift, list, (size_t)item->nshifts, sizeof *list, by_value);
    return (rshi_location){found ? -1 - (found - list) : -1, none};
}

static rsh_status add_task(building *b, const rshi_stream_item *item, const rsh_transfer *t, rshi_program *g) {
    RSH_TRY(RSHI_GROW(b->location, t->nsrc, &b->room));
    for (int64_t i = 0; i < t->nsrc; i++) b->location[i] = locate_end(b, item, t, &t->src[i]);
    rshi_location dst = locate_end(b, item, t, &t->dst);
    return rshi_program_add(g, t, &dst, b->location);
}

/* A single element becomes one dim of extent 1, so that there is a dim to cut. */
static void ensure_a_dim(rshi_program *g, rshi_task *t) {
    if (t->move.nd) return;
    t->move.nd = 1;
    t->move.n[0] = 1;
    t->move.ds[0] = 0;
    for (int i = 0; i < t->move.nsrc; i++) g->strides[(t->first_source + i) * RSHI_MOVE_DIMS] = 0;
}

static void count_bytes(rshi_streams *streams, const rsh_transfer *t) {
    uint64_t bytes = (uint64_t)(t->count * t->element_bytes);
    for (int64_t i = 0; i < t->nsrc; i++) {
        if (t->src[i].rank == streams->comm->rank) continue;
        if (rshi_comm_near(streams->comm, (int)t->src[i].rank, streams->comm->rank))
            streams->bytes_near += bytes;
        else
            streams->bytes_far += bytes;
    }
}

static rsh_status add_item(building *b, const rsh_transfer *t) {
    rshi_streams *streams = b->streams;
    bool out = t->dst.rank != streams->comm->rank;
    rshi_program *g = out ? &streams->out : &streams->in;
    RSH_TRY(RSHI_GROW(streams->items, streams->nitems + 1, &streams->items_room));
    rshi_stream_item *item = &streams->items[streams->nitems];
    *item = (rshi_stream_item){.stage = t->stage,
                      .shift = shift_between(streams, streams->comm->rank, t->dst.rank),
                      .tensor = t->tensor,
                      .part = t->dst.in_scratch ? -1 : t->dst.part};
    item->wire = t->element_bytes == (int64_t)rsh_dtype_size(t->from) ? t->from : t->to;
    item->first = g->ntasks;
    RSH_TRY(list_shifts(streams, t, item));
    RSH_TRY(find_offset(b, t, &item->offset));
    RSH_TRY(add_task(b, item, t, g));
    item->last = g->ntasks;
    for (int64_t i = item->first; i < item->last; i++) ensure_a_dim(g, &g->tasks[i]);
    if (!out) count_bytes(streams, t);
    streams->nitems++;
    return RSH_OK;
}

/* Adds the transfers of a list that are not read in place. */
static rsh_status add_items(building *b, const rsh_transfer *list, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!rshi_route_direct(b->streams->comm, b->streams->all, &list[i])) RSH_TRY(add_item(b, &list[i]));
    return RSH_OK;
}

/* ---- items to streams ---- */

static int compare_shifts(const rshi_streams *streams, const rshi_stream_item *x, const rshi_stream_item *y) {
    for (int64_t i = 0; i < x->nshifts && i < y->nshifts; i++) {
        int a = streams->shifts[x->shifts + i], b = streams->shifts[y->shifts + i];
        if (a != b) return a - b;
    }
    return (x->nshifts > y->nshifts) - (x->nshifts < y->nshifts);
}

/* Compares items by stage and contributors, as seen from the destination. */
static int by_order(const rshi_streams *streams, const rshi_stream_item *x, const rshi_stream_item *y) {
    return x->stage != y->stage ? x->stage - y->stage : compare_shifts(streams, x, y);
}

static int by_place(const void *a, const void *b, void *ctx) {
    const rshi_stream_item *x = a, *y = b;
    int order = by_order(ctx, x, y);
    if (order) return order;
    if (x->shift != y->shift) return x->shift - y->shift;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* If a message still has FOUR bytes, four messages in progress are faster than one of four times the size.  If it has
 * TWO bytes, two are faster. */
#define FOUR ((int64_t)64 << 10)
#define TWO ((int64_t)16 << 10)
/* Bytes of a message between nodes.  Wires send messages below 64 KiB at once, but ask the other side before they send
 * larger ones; if both directions are busy, the answer takes long. */
#define FAR ((int64_t)60 << 10)

/* Returns the size of the largest message.  The receiver holds one message of each contributor, and several such rounds
 * if the messages then are still large enough.  Slots are aligned for any element. */
static int64_t slot_bytes(const rsh_plan *plan, int64_t nshifts, bool far) {
    int64_t n = rshi_min(rshi_plan_send_bytes(plan), rshi_plan_recv_bytes(plan) / nshifts), whole = 16;
    n /= n / 4 >= FOUR ? 4 : n / 2 >= TWO ? 2 : 1;
    if (far) n = rshi_min(n, FAR);
    while (whole > n && whole > 1) whole /= 2;
    return n < 16 ? rshi_min(n, whole) : n / 16 * 16;
}

/* Is any contributor on another node than the destination? */
static bool is_far(const rshi_streams *streams, const rshi_stream *stream) {
    int size = streams->comm->size, to = (streams->comm->rank + stream->shift) % size;
    for (int64_t i = 0; i < stream->nshifts; i++)
        if (!rshi_comm_near(streams->comm, (to - stream->shifts[i] + size) % size, to)) return true;
    return false;
}

static void add_stream(rshi_streams *streams, int64_t first, int64_t order) {
    const rshi_stream_item *item = &streams->items[first];
    rshi_stream *stream = &streams->list[streams->n++];
    *stream = (rshi_stream){.order = order, .stage = item->stage, .shift = item->shift, .first = first};
    stream->nshifts = item->nshifts;
    stream->shifts = streams->shifts + item->shifts;
    stream->slot = slot_bytes(streams->plan, item->nshifts, is_far(streams, stream));
    streams->most_shifts = rshi_max(streams->most_shifts, item->nshifts);
}

static rsh_status make_streams(rshi_streams *streams) {
    int64_t order = 0;
    streams->list = rshi_alloc((size_t)streams->nitems, sizeof *streams->list);
    if (!streams->list) return rshi_nomem();
    if (streams->nitems) qsort_r(streams->items, (size_t)streams->nitems, sizeof *streams->items, by_place, streams);
    for (int64_t i = 0; i < streams->nitems; i++) {
        const rshi_stream_item *item = &streams->items[i];
        bool other = i && by_order(streams, item - 1, item);
        order += other;
        if (!i || other || item[-1].shift != item->shift) add_stream(streams, i, order);
        rshi_stream *stream = &streams->list[streams->n - 1];
        stream->last = i + 1;
        RSH_REQUIRE(stream->slot >= (int64_t)rsh_dtype_size(item->wire), RSH_ERUNTIME,
                    "messages of %lld bytes are too small for one element of dtype %s", (long long)stream->slot,
                    rsh_dtype_name(item->wire));
    }
    return RSH_OK;
}

static rsh_status alloc_pointers(rshi_streams *streams) {
    size_t n = (size_t)rshi_max(streams->in.most_sources, 1);
    streams->pointers = rshi_alloc(n, sizeof *streams->pointers);
    streams->strides = rshi_alloc(n, RSHI_MOVE_DIMS * sizeof *streams->strides);
    return streams->pointers && streams->strides ? RSH_OK : rshi_nomem();
}

rsh_status rshi_streams_build(rshi_streams *streams, const rsh_plan *plan, const rsh_share *share, const rsh_comm *comm,
                            bool all, const rshi_parts *own) {
    building b = {.streams = streams, .own = own};
    *streams = (rshi_streams){.comm = comm, .plan = plan, .all = all};
    rsh_status st = add_items(&b, share->receives, share->nreceives);
    if (!st) st = add_items(&b, share->sends, share->nsends);
    rshi_free(b.location);
    size_t writers = (size_t)rshi_route_writers(comm, plan);
    streams->footprint = streams->in.footprint * writers;
    streams->cold = rshi_copy_is_large(streams->out.footprint * writers);
    if (!st) st = make_streams(streams);
    return st ? st : alloc_pointers(streams);
}

void rshi_streams_free(rshi_streams *streams) {
    rshi_program_free(&streams->in);
    rshi_program_free(&streams->out);
    rshi_free(streams->items);
    rshi_free(streams->shifts);
    rshi_free(streams->list);
    rshi_free(streams->pointers);
    rshi_free(streams->strides);
    *streams = (rshi_streams){0};
}

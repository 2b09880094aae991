/* Comms on wires: ranks of one node use their node's comm, others the line.
 *
 * Where all ranks are on one node everything goes by that node's comm, and the wire only stands by for the end. */
#include "comm/hybrid.h"

#include <stdio.h>
#include <string.h>

rsh_status rsh_wire_fail(rsh_status status, const char *sentence) {
    if (!sentence) sentence = "a wire failed and did not say why";
    RSH_REQUIRE((unsigned)status <= RSH_EBUSY, RSH_EVALUE, "%d, which is not a status: %s", (int)status, sentence);
    return rshi_fail(status, "%s", sentence);
}

static rsh_comm *near_of(rsh_comm *c) { return rshi_hybrid_of(c)->near; }
static rshi_line *line_of(rsh_comm *c) { return rshi_hybrid_of(c)->line; }

/* ---- among all ---- */

static rsh_status allgather(rsh_comm *c, const void *mine, void *all, size_t bytes) {
    return rshi_line_allgather(line_of(c), mine, all, bytes);
}
static rsh_status bcast(rsh_comm *c, int root, void *data, size_t bytes) {
    return rshi_line_bcast(line_of(c), root, data, bytes);
}

static rsh_status near_allgather(rsh_comm *c, const void *mine, void *all, size_t bytes) {
    return near_of(c)->ops->allgather(near_of(c), mine, all, bytes);
}

static rsh_status near_bcast(rsh_comm *c, int root, void *data, size_t bytes) {
    return near_of(c)->ops->bcast(near_of(c), root, data, bytes);
}

static rsh_status near_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                const rsh_message *recv) {
    return near_of(c)->ops->exchange(near_of(c), nsend, send, nrecv, recv);
}

/* ---- memory and flags: the node's ---- */

static void *shared_alloc(rsh_comm *c, size_t bytes) { return near_of(c)->ops->shared_alloc(near_of(c), bytes); }
static void shared_free(rsh_comm *c, void *p, size_t bytes) { near_of(c)->ops->shared_free(near_of(c), p, bytes); }

static rsh_status data_alloc(rsh_comm *c, size_t bytes, bool zero, rshi_data *out) {
    return near_of(c)->ops->data_alloc(near_of(c), bytes, zero, out);
}

static bool is_shared(rsh_comm *c, const void *p) { return near_of(c)->ops->is_shared(near_of(c), p); }

static rsh_status publish(rsh_comm *c, const void *p, size_t bytes, rshi_handle *out) {
    return near_of(c)->ops->publish(near_of(c), p, bytes, out);
}

static bool is_near(const rsh_comm *c, int peer) { return rshi_comm_near(c, c->rank, peer); }

static void *reach(rsh_comm *c, int peer, rshi_handle h) {
    return is_near(c, peer) ? near_of(c)->ops->reach(near_of(c), rshi_hybrid_of(c)->place[peer], h) : NULL;
}

static rshi_flag *flag_take(rsh_comm *c) { return near_of(c)->ops->flag_take(near_of(c)); }
static void flag_give(rsh_comm *c, rshi_flag *flag) { near_of(c)->ops->flag_give(near_of(c), flag); }

static void post(rsh_comm *c, rshi_flag *flag, uint64_t value) { near_of(c)->ops->post(near_of(c), flag, value); }

/* ---- doubts and messages ---- */

static rsh_status doubt(rsh_comm *c, int peer, double waited) {
    bool near = peer >= 0 && is_near(c, peer);
    if (!c->node) return near_of(c)->ops->doubt(near_of(c), peer, waited);
    if (!near || waited) RSH_TRY(rshi_line_doubt(line_of(c), peer, UINT64_MAX, waited));
    return near ? near_of(c)->ops->doubt(near_of(c), rshi_hybrid_of(c)->place[peer], waited) : RSH_OK;
}

/* A wait for a flag. */
typedef struct watch {
    rsh_comm *comm;
    int peer;
} watch;

static rsh_status doubt_watched(void *ctx, double waited) {
    const watch *w = ctx;
    return doubt(w->comm, w->peer, waited > 0 ? waited : 1e-9); /* more than 0: the line is looked at too */
}

/* Where there are other nodes, who sleeps on a flag still answers them. */
static rsh_status wait(rsh_comm *c, int peer, rshi_flag *flag, uint64_t target) {
    rshi_hybrid *h = rshi_hybrid_of(c);
    RSH_REQUIRE(is_near(c, peer), RSH_ERUNTIME, "a flag of rank %d, which is on another node, is out of sight", peer);
    if (!c->node) return h->near->ops->wait(h->near, h->place[peer], flag, target);
    return rshi_flag_wait(flag, target, &h->patience, doubt_watched, &(watch){c, peer});
}

static void refuse(rsh_comm *c, rsh_status status, const char *detail) {
    near_of(c)->ops->refuse(near_of(c), status, detail);
}

static rsh_status refusal(rsh_comm *c, int peer) {
    return near_of(c)->ops->refusal(near_of(c), rshi_hybrid_of(c)->place[peer]);
}

static rsh_status send_to(rsh_comm *c, int peer, int tag, const void *data, size_t bytes, rsh_wire_request *out) {
    rshi_parcel parcel;
    RSH_TRY(rshi_line_send(line_of(c), peer, tag, data, bytes, &parcel));
    *out = parcel.request;
    return RSH_OK;
}

static rsh_status receive_from(rsh_comm *c, int peer, int tag, void *data, size_t bytes, rsh_wire_request *out) {
    rshi_parcel parcel;
    RSH_TRY(rshi_line_recv(line_of(c), peer, tag, data, bytes, &parcel));
    *out = parcel.request;
    return RSH_OK;
}

static rsh_status test(rsh_comm *c, rsh_wire_request *request, bool *done) {
    return rshi_line_test(line_of(c), request, done);
}
static bool cancel(rsh_comm *c, rsh_wire_request *request) {
    return line_of(c)->wire.cancel(line_of(c)->wire.ctx, request);
}
static void keep(rsh_comm *c) { line_of(c)->kept = true; }

/* ---- coming and going ---- */

/* The line first: a rank that the node's comm misses has already said farewell. */
static void leave(rsh_comm *c, rsh_status status, const char *detail) {
    rshi_line_leave(line_of(c), status, detail);
    near_of(c)->ops->leave(near_of(c), status, detail);
}

static void free_hybrid(rshi_hybrid *h) {
    rshi_free(h->node);
    rshi_free(h->place);
    rshi_free(h->called);
    rshi_free(h->board);
    rshi_free(h);
}

/* The line waits for the others and asks the node's comm about them.  Shared memory that the wire still uses stays
 * mapped, and with it the node's comm, which this rank has left. */
static void close_comm(rsh_comm *c) {
    rshi_hybrid *h = rshi_hybrid_of(c);
    bool keep = h->line->kept && h->near->ops->is_shared;
    rshi_line_close(h->line);
    if (!keep) rsh_comm_free(h->near);
    free_hybrid(h);
}

static const rshi_comm_ops hybrid_ops = {
    .allgather = allgather,
    .bcast = bcast,
    .exchange = rshi_hybrid_exchange,
    .split = rshi_hybrid_split,
    .shared_alloc = shared_alloc,
    .shared_free = shared_free,
    .data_alloc = data_alloc,
    .is_shared = is_shared,
    .publish = publish,
    .reach = reach,
    .flag_take = flag_take,
    .flag_give = flag_give,
    .wait = wait,
    .post = post,
    .doubt = doubt,
    .refuse = refuse,
    .refusal = refusal,
    .send = send_to,
    .recv = receive_from,
    .test = test,
    .cancel = cancel,
    .keep = keep,
    .leave = leave,
    .close = close_comm,
};

static void choose_ops(rshi_hybrid *h, bool one_node) {
    h->ops = hybrid_ops;
    h->ops.name = h->name;
    if (!h->near->ops->data_alloc) h->ops.data_alloc = NULL;
    if (!h->near->ops->is_shared) h->ops.is_shared = NULL;
    if (!one_node) return;
    h->ops.allgather = near_allgather;
    h->ops.bcast = near_bcast;
    h->ops.exchange = near_exchange;
    h->ops.send = NULL;
    h->ops.recv = NULL;
    h->ops.test = NULL;
    h->ops.cancel = NULL;
    h->ops.keep = NULL;
}

int rshi_number_nodes(int size, int64_t *node) {
    int nodes = 0;
    for (int r = 0; r < size; r++) { /* [0, r) are numbered */
        int64_t old = node[r], number = nodes++;
        for (int s = r; s < size; s++)
            if (node[s] == old) node[s] = -1 - number;
        while (r + 1 < size && node[r + 1] < 0) r++;
    }
    for (int r = 0; r < size; r++) node[r] = -1 - node[r];
    return nodes;
}

/* Where everybody is in its node. */
static void place_ranks(rshi_hybrid *h, int rank, int size) {
    int *count = (int *)h->board; /* [nodes], zero */
    for (int r = 0; r < size; r++) {
        h->place[r] = count[h->node[r]]++;
        if (h->node[r] == h->node[rank]) h->called[h->place[r]] = r;
    }
}

static rsh_status take_memory(rshi_hybrid *h, int size) {
    h->node = rshi_alloc((size_t)size, sizeof *h->node);
    h->place = rshi_calloc((size_t)size, sizeof *h->place);
    h->called = rshi_calloc((size_t)size, sizeof *h->called);
    h->board = rshi_calloc((size_t)size, RSHI_HYBRID_ENTRY);
    return h->node && h->place && h->called && h->board ? RSH_OK : rshi_nomem();
}

rsh_status rshi_hybrid_new(rshi_line *line, rsh_comm *near, const int64_t *node, rsh_comm **out) {
    int size = line->wire.size, rank = line->wire.rank;
    rshi_hybrid *h = RSHI_NEW(rshi_hybrid);
    if (!h) return rshi_nomem();
    rsh_status st = take_memory(h, size);
    if (!st) st = rshi_comm_init(&h->base, &h->ops, rank, size);
    if (st) {
        free_hybrid(h);
        return st;
    }
    memcpy(h->node, node, (size_t)size * sizeof *h->node);
    bool one_node = rshi_number_nodes(size, h->node) == 1;
    place_ranks(h, rank, size);
    snprintf(h->name, sizeof h->name, "%s", line->wire.name ? line->wire.name : "wire");
    h->line = line;
    h->near = near;
    h->message = RSHI_EXCHANGE_PIECE;
    h->patience = rshi_patience_for(near->size, !near->ops->is_shared, line->patience.timeout);
    choose_ops(h, one_node);
    if (!one_node) h->base.node = h->node;
    near->called = h->called;
    line->near = near;
    line->near_called = h->called;
    *out = &h->base;
    return RSH_OK;
}

rsh_status rshi_comm_hybrid(const rsh_wire *wire, rsh_comm *near, const int64_t *node, rsh_comm **out) {
    rshi_line *line = NULL;
    rsh_status st = rshi_line_new(wire, &line);
    if (!st) st = rshi_hybrid_new(line, near, node, out);
    if (!st) return RSH_OK;
    if (line) {
        rshi_line_leave(line, st, rsh_error_detail());
        rshi_line_close(line);
    }
    near->ops->leave(near, st, rsh_error_detail());
    rsh_comm_free(near);
    return st;
}

/* Ops: implements each operation of a comm by its node or by its link.
 *
 * Memory and flags belong to the node.  If all ranks are on one node, everything else uses the node too, and a wire is
 * only used when the comm is freed. */
#include "comm/impl.h"

#include <string.h>

static rshi_world *world_of(rsh_comm *c) { return c->here->world; }
static bool is_near(const rsh_comm *c, int peer) { return rshi_comm_near(c, c->rank, peer); }
static int place_of(const rsh_comm *c, int peer) { return c->place ? c->place[peer] : peer; }

/* ---- collectives ---- */

static rsh_status node_allgather(rsh_comm *c, const void *mine, void *all, size_t bytes) {
    return rshi_node_allgather(c->here, mine, all, bytes);
}
static rsh_status link_allgather(rsh_comm *c, const void *mine, void *all, size_t bytes) {
    return rshi_link_allgather(c->link, mine, all, bytes);
}

static rsh_status node_bcast(rsh_comm *c, int root, void *data, size_t bytes) {
    return rshi_node_bcast(c->here, root, data, bytes);
}
static rsh_status link_bcast(rsh_comm *c, int root, void *data, size_t bytes) {
    return rshi_link_bcast(c->link, root, data, bytes);
}

static rsh_status node_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                const rsh_message *recv) {
    return rshi_node_exchange(c->here, nsend, send, nrecv, recv);
}
static rsh_status link_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                const rsh_message *recv) {
    return rshi_link_exchange(c->link, nsend, send, nrecv, recv);
}

/* ---- memory and flags of the node ---- */

static void *shared_alloc(rsh_comm *c, size_t bytes) { return world_of(c)->map->alloc(world_of(c), bytes, true); }
static void shared_free(rsh_comm *c, void *p, size_t bytes) { world_of(c)->map->free(world_of(c), p, bytes); }

static void shared_let_go(rsh_comm *c, void *p, size_t bytes, atomic_int *users, bool mine) {
    rshi_world_let_go(world_of(c), p, bytes, users, mine);
}

static rsh_status data_alloc(rsh_comm *c, size_t bytes, bool zero, rshi_data *out) {
    return world_of(c)->map->alloc_data(world_of(c), bytes, zero, out);
}

static bool is_shared(rsh_comm *c, const void *p) { return world_of(c)->map->is_shared(world_of(c), p); }

static rsh_status publish(rsh_comm *c, const void *p, size_t bytes, rshi_handle *out) {
    (void)bytes;
    return rshi_node_publish(c->here, p, out);
}

static void *reach(rsh_comm *c, int peer, rshi_handle h) {
    return is_near(c, peer) ? rshi_node_reach(c->here, place_of(c, peer), h) : NULL;
}

static rshi_flag *flag_take(rsh_comm *c) { return rshi_world_flag_take(world_of(c)); }
static void flag_give(rsh_comm *c, rshi_flag *flag) { rshi_world_flag_give(world_of(c), flag); }

static void post(rsh_comm *c, rshi_flag *flag, uint64_t value) {
    rshi_flag_post(flag, value, world_of(c)->map->one_process);
}

/* ---- checking that other ranks are alive ---- */

static rsh_status check_peer(rsh_comm *c, int peer, double waited) {
    bool near = peer >= 0 && is_near(c, peer);
    if (!c->node) return rshi_node_check_peer(c->here, peer, waited);
    if (!near || waited) RSH_TRY(rshi_link_check_peer(c->link, peer, UINT64_MAX, waited));
    return near ? rshi_node_check_peer(c->here, c->place[peer], waited) : RSH_OK;
}

/* State of a wait for a flag. */
typedef struct watch {
    rsh_comm *comm;
    int peer;
} watch;

static rsh_status check_watched(void *ctx, double waited) {
    const watch *w = ctx;
    return check_peer(w->comm, w->peer, waited > 0 ? waited : 1e-9); /* more than 0, so that the link is checked too */
}

/* Waits for a flag.  If there are other nodes, a rank that sleeps on a flag still answers their messages. */
static rsh_status wait(rsh_comm *c, int peer, rshi_flag *flag, uint64_t target) {
    if (!c->node) return rshi_node_wait(c->here, peer, flag, target);
    RSH_REQUIRE(is_near(c, peer), RSH_ERUNTIME, "cannot read the flag of rank %d, which is on another node", peer);
    return rshi_flag_wait(flag, target, &c->patience, check_watched, &(watch){c, peer});
}

/* ---- messages between nodes, by the link ---- */

static rsh_status send_to(rsh_comm *c, int peer, int tag, const void *data, size_t bytes, rsh_wire_request *out) {
    rshi_link_request request;
    RSH_TRY(rshi_link_send(c->link, peer, tag, data, bytes, &request));
    *out = request.request;
    return RSH_OK;
}

static rsh_status receive_from(rsh_comm *c, int peer, int tag, void *data, size_t bytes, rsh_wire_request *out) {
    rshi_link_request request;
    RSH_TRY(rshi_link_recv(c->link, peer, tag, data, bytes, &request));
    *out = request.request;
    return RSH_OK;
}

static rsh_status test(rsh_comm *c, rsh_wire_request *request, bool *done) {
    return rshi_link_test(c->link, request, done);
}
static bool cancel(rsh_comm *c, rsh_wire_request *request) {
    return c->link->wire.cancel(c->link->wire.ctx, request);
}
static void keep(rsh_comm *c) { c->link->kept = true; }

/* ---- leaving ---- */

/* Leaves the link first: when the node notices that this rank left, its farewell has been sent. */
static void leave(rsh_comm *c, rsh_status status, const char *detail) {
    if (c->link) rshi_link_leave(c->link, status, detail);
    rshi_node_leave(c->here, status, detail);
}

/* Frees the link before the node: the link waits for the other ranks and asks the node about them.  If the wire still
 * uses shared memory, that memory and the node stay, although this rank has left. */
static void close_comm(rsh_comm *c) {
    bool keep = c->link && c->link->kept && world_of(c)->map->is_shared;
    if (c->link) rshi_link_close(c->link);
    if (!keep) rshi_node_free(c->here);
    rshi_comm_shell_free(c);
}

static const rshi_comm_ops by_node = {
    .allgather = node_allgather,
    .bcast = node_bcast,
    .exchange = node_exchange,
    .split = rshi_comm_split_node,
    .shared_alloc = shared_alloc,
    .shared_free = shared_free,
    .shared_let_go = shared_let_go,
    .data_alloc = data_alloc,
    .is_shared = is_shared,
    .publish = publish,
    .reach = reach,
    .flag_take = flag_take,
    .flag_give = flag_give,
    .wait = wait,
    .post = post,
    .check_peer = check_peer,
    .leave = leave,
    .close = close_comm,
};

static void add_link(rshi_comm_ops *ops) {
    ops->allgather = link_allgather;
    ops->bcast = link_bcast;
    ops->exchange = link_exchange;
    ops->send = send_to;
    ops->recv = receive_from;
    ops->test = test;
    ops->cancel = cancel;
    ops->keep = keep;
}

void rshi_comm_choose_ops(rsh_comm *c) {
    const rshi_mapping *map = world_of(c)->map;
    c->table = by_node;
    c->table.name = c->name;
    if (!map->alloc_data) c->table.data_alloc = NULL;
    if (!map->is_shared) c->table.is_shared = NULL;
    if (c->link) c->table.split = rshi_comm_split_link;
    if (c->node) add_link(&c->table);
    c->ops = &c->table;
}

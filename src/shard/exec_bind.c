/* Bind: a plan becomes an exec. */
#include "shard/exec.h"
#include "shard/route.h"

#include <string.h>

/* ---- parts ---- */

/* Entries of a rank's table: sources of all tensors, then destinations. */
static rsh_status count_entries(const rsh_plan *plan, int64_t rank, rshi_peer *p) {
    int64_t n = rsh_plan_ntensors(plan), next = 0;
    p->first = rshi_alloc((size_t)(2 * n + 2), sizeof *p->first);
    if (!p->first) return rshi_nomem();
    for (int64_t t = 0; t < n; t++) p->first[t] = next, next += rsh_layout_nparts(rshi_plan_src(plan, t), rank);
    p->nsrc = p->first[n] = next;
    for (int64_t t = 0; t < n; t++) p->first[n + 1 + t] = next, next += rsh_layout_nparts(rshi_plan_dst(plan, t), rank);
    p->first[2 * n + 1] = next;
    p->ndst = next - p->nsrc;
    return RSH_OK;
}

static rsh_status add_peer(rsh_exec *e, int rank, rshi_peer **out) {
    if (e->npeers == e->peers_room) {
        int64_t room = e->peers_room ? 2 * e->peers_room : 4;
        rshi_peer *grown = rshi_realloc(e->peers, (size_t)room, sizeof *grown);
        if (!grown) return rshi_nomem();
        e->peers = grown;
        e->peers_room = room;
    }
    rshi_peer *p = &e->peers[e->npeers];
    *p = (rshi_peer){.rank = rank};
    for (int s = 0; s <= RSHI_STAGES; s++) p->due[s] = -1;
    RSH_TRY(count_entries(e->plan, rank, p));
    p->number = e->nparts;
    e->nparts += p->nsrc + p->ndst;
    e->peer_of[rank] = (int)++e->npeers;
    *out = p;
    return RSH_OK;
}

/* The peer of a rank; made and reached at the first question. */
static rsh_status peer_at(rsh_exec *e, int64_t rank, rshi_peer **out) {
    if (e->peer_of[rank]) {
        *out = &e->peers[e->peer_of[rank] - 1];
        return RSH_OK;
    }
    rshi_peer *p;
    RSH_TRY(add_peer(e, (int)rank, &p));
    const rshi_card *c = &e->cards[rank];
    p->flag = e->comm->ops->reach(e->comm, p->rank, c->flag);
    p->table = e->comm->ops->reach(e->comm, p->rank, c->table);
    p->start = c->start;
    RSH_REQUIRE(p->flag && p->table, RSH_EUNSUP, "rank %d cannot reach the memory of rank %d", e->comm->rank, p->rank);
    *out = p;
    return RSH_OK;
}

static rsh_status find(void *ctx, int64_t rank, bool dst, int64_t tensor, int64_t part, int64_t *number,
                       const int64_t **strides) {
    rsh_exec *e = ctx;
    rshi_peer *p;
    RSH_TRY(peer_at(e, rank, &p));
    int64_t n = rsh_plan_ntensors(e->plan), entry = p->first[dst ? n + 1 + tensor : tensor] + part;
    if (rank != e->comm->rank) p->due[e->reading] = e->reading;
    *number = p->number + entry;
    *strides = p->table[entry].strides;
    return RSH_OK;
}

static bool is_read(void *ctx, const rshi_edge *edge) {
    rsh_exec *e = ctx;
    e->reading = edge->stage;
    return rshi_route_direct(e->comm, e->all_by_message, edge);
}

static rsh_status note_reader(void *ctx, const rshi_edge *edge) {
    rsh_exec *e = ctx;
    rshi_peer *p;
    if (!rshi_route_direct(e->comm, e->all_by_message, edge)) return RSH_OK;
    RSH_TRY(peer_at(e, edge->dst->rank, &p));
    p->due[RSHI_READERS] = (int)rshi_max(p->due[RSHI_READERS], edge->stage + 1);
    return RSH_OK;
}

/* ---- bind: what this rank brings ---- */

static rsh_status check_ranks(const rsh_plan *plan, const rsh_comm *comm) {
    int64_t n;
    const int64_t *ranks = rshi_plan_ranks(plan, &n);
    RSH_REQUIRE(!n || ranks[n - 1] < comm->size, RSH_EVALUE, "the layouts name rank %lld; the comm has ranks 0 to %d",
                (long long)ranks[n - 1], comm->size - 1);
    return RSH_OK;
}

static rsh_status note_lent(void *ctx, const rshi_edge *edge) {
    rsh_exec *e = ctx;
    if (!rshi_route_direct(e->comm, e->all_by_message, edge)) return RSH_OK;
    const int64_t *first = e->peers[0].first + (edge->from_dst ? rsh_plan_ntensors(e->plan) + 1 : 0);
    for (int64_t i = 0; i < edge->nsrc; i++)
        if (edge->src[i].rank == e->comm->rank) e->lent[first[edge->tensor] + edge->src[i].part] = 0;
    return RSH_OK;
}

/* Which parts others read where they lie, where the engine cannot show them all memory. */
static rsh_status find_lent(rsh_exec *e, int64_t n) {
    if (!e->comm->ops->is_shared || e->all_by_message) return RSH_OK;
    e->lent = rshi_alloc((size_t)n, sizeof *e->lent);
    if (!e->lent) return rshi_nomem();
    for (int64_t k = 0; k < n; k++) e->lent[k] = -1;
    return rshi_plan_sends(e->plan, e->comm->rank, note_lent, e);
}

/* Tell where a part lies; one that others read and cannot reach is shown as its shadow. */
static rsh_status show_part(rsh_exec *e, const rsh_layout *l, int64_t part, int64_t k, const rshi_part *p, bool dst) {
    char *data = p->data;
    if (data && e->lent && e->lent[k] >= 0 && !e->comm->ops->is_shared(e->comm, data))
        RSH_TRY(rshi_shadow_use(&e->shadows, e->comm, &e->lent[k], l, part, p, dst, &data));
    return e->comm->ops->publish(e->comm, data, 0, &e->table[k].data);
}

/* Take one side's parts of this rank. */
static rsh_status take_side(rsh_exec *e, const rshi_peer *self, const rsh_memory *memory, bool dst) {
    int64_t n = rsh_plan_ntensors(e->plan), skip = dst ? self->nsrc : 0;
    for (int64_t t = 0; t < n; t++) {
        const rsh_layout *l = dst ? rshi_plan_dst(e->plan, t) : rshi_plan_src(e->plan, t);
        int64_t k = self->first[dst ? n + 1 + t : t], end = self->first[(dst ? n + 1 + t : t) + 1];
        for (int64_t i = 0; k + i < end; i++) {
            rshi_part part;
            rsh_status st = rshi_part_take(l, e->comm->rank, i, memory ? &memory[k + i - skip] : NULL, &part);
            if (st) return st;
            if (dst && memory && memory[k + i - skip].strides)
                RSH_TRY(rshi_part_check_written(l, e->comm->rank, i, &part));
            e->extents[k + i] = rshi_part_extent(l, e->comm->rank, i, &part, dst);
            e->extents[k + i].part = k + i;
            for (int d = 0; d < RSH_MAX_NDIM; d++) e->table[k + i].strides[d] = part.strides[d];
            e->bound[k + i] = part.data;
        }
    }
    return RSH_OK;
}

static rsh_status take_parts(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const rshi_peer *self = &e->peers[0];
    int64_t n = self->nsrc + self->ndst;
    e->extents = rshi_alloc((size_t)(2 * n), sizeof *e->extents);
    if (!e->extents) return rshi_nomem();
    RSH_TRY(take_side(e, self, src, false));
    RSH_TRY(take_side(e, self, dst, true));
    return rshi_exec_check_memory(e, NULL, NULL);
}

static rsh_status show_data_side(rsh_exec *e, const rsh_memory *memory, bool dst) {
    const rshi_peer *self = &e->peers[0];
    int64_t n = rsh_plan_ntensors(e->plan), skip = dst ? self->nsrc : 0;
    const int64_t *first = self->first + (dst ? n + 1 : 0);
    for (int64_t t = 0; t < n; t++)
        for (int64_t k = first[t]; k < first[t + 1]; k++) {
            rshi_part part = {.data = e->bound[k]};
            if (part.data && memory) part.data = memory[k - skip].data;
            memcpy(part.strides, e->table[k].strides, sizeof part.strides);
            RSH_TRY(
                show_part(e, dst ? rshi_plan_dst(e->plan, t) : rshi_plan_src(e->plan, t), k - first[t], k, &part, dst));
        }
    return RSH_OK;
}

rsh_status rshi_exec_show_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    rshi_shadows_rest(&e->shadows);
    RSH_TRY(show_data_side(e, src, false));
    return show_data_side(e, dst, true);
}

/* Everything that needs no other rank. */
static rsh_status prepare(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    rshi_peer *self;
    RSH_TRY(check_ranks(e->plan, e->comm));
    e->peer_of = rshi_calloc((size_t)e->comm->size, sizeof *e->peer_of);
    e->cards = rshi_calloc((size_t)e->comm->size, sizeof *e->cards);
    if (!e->peer_of || !e->cards) return rshi_nomem();
    RSH_TRY(add_peer(e, e->comm->rank, &self));
    int64_t n = self->nsrc + self->ndst;
    e->table_bytes = (size_t)(n + 1) * sizeof *e->table;
    e->table = self->table = e->comm->ops->shared_alloc(e->comm, e->table_bytes);
    e->bound = rshi_calloc((size_t)n, sizeof *e->bound);
    e->flag = self->flag = e->comm->ops->flag_take(e->comm);
    if (!e->table || !e->bound || !e->flag) return rshi_nomem();
    e->start = atomic_load(&e->flag->value);
    RSH_TRY(find_lent(e, n));
    return take_parts(e, src, dst);
}

/* Shadows and messages, once it is known what travels how. */
static rsh_status take_scratch(rsh_exec *e) {
    RSH_TRY(rshi_exec_show_data(e, NULL, NULL));
    if (!e->comm->node && !e->all_by_message) return RSH_OK;
    return rshi_messages_new(e->plan, e->comm, e->all_by_message, &(rshi_finder){.find = find, .ctx = e}, &e->messages);
}

/* ---- bind: with the others ---- */

/* Do others read a part of this rank that they cannot reach?  Such parts go by messages: they stay in the caches on
 * their way and take little memory. */
static bool wants_messages(const rsh_exec *e) {
    const rshi_peer *self = &e->peers[0];
    for (int64_t k = 0; e->lent && k < self->nsrc + self->ndst; k++)
        if (e->lent[k] >= 0 && e->bound[k] && !e->comm->ops->is_shared(e->comm, e->bound[k])) return true;
    return false;
}

/* Does any rank want them?  Collective. */
static rsh_status ask_all(rsh_exec *e, bool mine, bool *any) {
    unsigned char *said = (unsigned char *)e->cards; /* which are not there yet, and larger */
    RSH_TRY(rshi_comm_verdict(e->comm, e->comm->ops->allgather(e->comm, &(unsigned char){mine}, said, 1)));
    *any = false;
    for (int r = 0; r < e->comm->size; r++) *any = *any || said[r];
    return RSH_OK;
}

/* All by messages, after all. */
static rsh_status change_to_messages(rsh_exec *e) {
    rshi_messages_free(e->messages);
    e->messages = NULL;
    rshi_free(e->lent);
    e->lent = NULL;
    e->all_by_message = true;
    return rshi_comm_open(e->comm, "bind: messages", 0, NULL, take_scratch(e));
}

static rsh_status exchange_cards(rsh_exec *e) {
    rshi_card mine = {.start = e->start};
    RSH_TRY(e->comm->ops->publish(e->comm, e->flag, sizeof *e->flag, &mine.flag));
    RSH_TRY(e->comm->ops->publish(e->comm, e->table, e->table_bytes, &mine.table));
    RSH_TRY(rshi_messages_show(e->messages, &mine.messages));
    return rshi_comm_verdict(e->comm, e->comm->ops->allgather(e->comm, &mine, e->cards, sizeof mine));
}

/* The moves that read memory of peers, and who reads this rank's. */
static rsh_status meet_peers(rsh_exec *e) {
    RSH_TRY(rshi_program_add(&e->program, e->plan, e->comm->rank,
                             &(rshi_finder){.find = find, .ctx = e, .wants = is_read}));
    return e->all_by_message ? RSH_OK : rshi_plan_sends(e->plan, e->comm->rank, note_reader, e);
}

static rsh_status connect_messages(rsh_exec *e) {
    int peer;
    for (int64_t i = 0; e->messages && (peer = rshi_messages_peer(e->messages, i)) >= 0; i++)
        RSH_TRY(rshi_messages_connect(e->messages, i, e->cards[peer].messages));
    return RSH_OK;
}

static rsh_status compile(rsh_exec *e) {
    RSH_TRY(connect_messages(e));
    RSH_TRY(meet_peers(e));
    RSH_TRY(rshi_program_finish(&e->program));
    e->base = rshi_calloc((size_t)e->nparts, sizeof *e->base);
    e->pointers = rshi_alloc((size_t)rshi_max(e->program.most_sources, 1), sizeof *e->pointers);
    return e->base && e->pointers ? RSH_OK : rshi_nomem();
}

static rsh_status bind_all(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const char *what = rsh_plan_ntensors(e->plan) ? rsh_layout_text(rsh_plan_to(e->plan, 0)) : "";
    rsh_status st = prepare(e, src, dst);
    bool choose = e->comm->ops->is_shared && !e->all_by_message, messages = !st && choose && wants_messages(e);
    if (!st && !messages) st = take_scratch(e);
    RSH_TRY(rshi_comm_open(e->comm, "bind", rsh_plan_fingerprint(e->plan), what, st));
    if (choose) RSH_TRY(ask_all(e, messages, &messages));
    if (messages) RSH_TRY(change_to_messages(e));
    int tag = rshi_comm_tag(e->comm); /* by ranks without messages too, so that it is the same everywhere */
    if (e->messages) rshi_messages_set_tag(e->messages, tag);
    RSH_TRY(exchange_cards(e));
    return rshi_comm_open(e->comm, "bind: ready", 0, NULL, compile(e));
}

rsh_status rsh_exec_bind(const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src, const rsh_memory *dst,
                         rsh_exec **out) {
    RSH_REQUIRE(comm, RSH_EVALUE, "bind needs a comm");
    if (!plan || !out)
        return rshi_comm_open(comm, "bind", 0, NULL,
                              rshi_fail(RSH_EVALUE, "bind needs a plan and a place for the result"));
    rsh_exec *e = RSHI_NEW(rsh_exec);
    if (!e) return rshi_comm_open(comm, "bind", rsh_plan_fingerprint(plan), NULL, RSH_ENOMEM);
    e->plan = plan;
    e->comm = comm;
    e->stages = rshi_plan_stages(plan);
    e->all_by_message = rshi_plan_messages(plan);
    comm->execs++;
    rsh_status st = bind_all(e, src, dst);
    if (st)
        rsh_exec_free(e);
    else
        *out = e;
    return st;
}

void rsh_exec_free(rsh_exec *e) {
    if (!e || rshi_comm_own(e->comm)) return; /* a forked child has no part in it */
    rsh_comm *comm = e->comm;
    if (e->state != RSHI_IDLE) rsh_exec_wait(e); /* peers count on a run that was begun */
    if (e->table) e->comm->ops->shared_free(e->comm, e->table, e->table_bytes);
    if (e->flag) e->comm->ops->flag_give(e->comm, e->flag);
    for (int64_t i = 0; i < e->npeers; i++) rshi_free(e->peers[i].first);
    rshi_messages_free(e->messages);
    rshi_program_free(&e->program);
    rshi_free(e->peers);
    rshi_free(e->peer_of);
    rshi_free(e->cards);
    rshi_free(e->base);
    rshi_free(e->pointers);
    rshi_free(e->bound);
    rshi_free(e->extents);
    rshi_free(e->lent);
    rshi_shadows_free(&e->shadows);
    rshi_free(e);
    rshi_comm_exec_gone(comm);
}


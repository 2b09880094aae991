/* Binding: turns a plan into an exec.
 *
 * A rank computes its share of the plan and its own parts, and publishes them in the opening exchange.  After that it
 * knows its peers: the ranks that it reads, and those that read it.  Each transfer that the rank reads in place becomes
 * a move; the other transfers have already become messages. */
#include "shard/binding.h"

#include "shard/exec_run.h"
#include "shard/team.h"
#include "shard/route.h"

typedef rshi_binding binding;
typedef rshi_bind_card card;

void rshi_binding_end(rshi_binding *b) {
    rsh_share_free(b->share);
    rshi_free(b->peer_of);
    rshi_free(b->src);
    *b = (rshi_binding){0};
}

static bool is_direct(const binding *b, const rsh_transfer *t) {
    return rshi_route_direct(b->e->comm, b->e->all_by_message, t);
}

/* ---- this rank's part of the bind ---- */

static rsh_status check_ranks(const rsh_plan *plan, const rsh_comm *comm) {
    int64_t n;
    const int64_t *ranks = rshi_plan_ranks(plan, &n);
    RSH_REQUIRE(!n || ranks[n - 1] < comm->size, RSH_EVALUE, "layouts name rank %lld, but the comm has ranks 0 to %d",
                (long long)ranks[n - 1], comm->size - 1);
    return RSH_OK;
}

static rsh_status add_peer(binding *b, int rank, rshi_peer **out) {
    rsh_exec *e = b->e;
    RSH_TRY(RSHI_GROW(e->peers, e->npeers + 1, &e->peers_room));
    rshi_peer *p = &e->peers[e->npeers];
    *p = rshi_peer_of(rank);
    b->peer_of[rank] = (int)++e->npeers;
    *out = p;
    return RSH_OK;
}

/* Adds this rank as its own first peer. */
static rsh_status add_self(binding *b) {
    rsh_exec *e = b->e;
    rshi_peer *self;
    RSH_TRY(add_peer(b, e->comm->rank, &self));
    e->own_first = rshi_alloc((size_t)(2 * rsh_plan_ntensors(e->plan) + 2), sizeof *e->own_first);
    if (!e->own_first) return rshi_nomem();
    rshi_parts_count(&self->parts, e->plan, e->comm->rank, e->own_first);
    int64_t n = self->parts.nsrc + self->parts.ndst;
    e->nparts = rshi_parts_all(&self->parts);
    e->table_bytes = sizeof *e->refusal + (size_t)(e->nparts + 1) * sizeof *e->table;
    e->refusal = e->comm->ops->shared_alloc(e->comm, e->table_bytes);
    e->extents = rshi_alloc((size_t)(2 * n), sizeof *e->extents);
    e->data = rshi_calloc((size_t)n, sizeof *e->data + sizeof *e->out_of_reach);
    e->flag = self->flag = e->comm->ops->flag_take(e->comm);
    if (!e->refusal || !e->extents || !e->data || !e->flag) return rshi_nomem();
    self->parts.table = e->table = (rshi_shown_part *)(e->refusal + 1);
    e->out_of_reach = (bool *)(e->data + n);
    e->start = atomic_load(&e->flag->value) + RSHI_REFUSED_VALUES;
    return RSH_OK;
}

static rsh_status take_share(binding *b) {
    rsh_exec *e = b->e;
    rsh_share_free(b->share);
    b->share = NULL;
    return rshi_plan_share(e->plan, e->comm->rank, rshi_route_sends(e->comm, e->all_by_message), &b->share);
}

/* Computes the share of the plan, and lists this rank's parts. */
static rsh_status prepare_share_and_parts(binding *b, const rshi_taken_parts *parts) {
    rsh_exec *e = b->e;
    RSH_TRY(check_ranks(e->plan, e->comm));
    b->peer_of = rshi_calloc((size_t)e->comm->size, sizeof *b->peer_of);
    if (!b->peer_of) return rshi_nomem();
    RSH_TRY(take_share(b));
    RSH_TRY(add_self(b));
    rshi_exec_set_parts(e, parts);
    RSH_TRY(rshi_exec_take_scratch(e));
    return rshi_exec_find_read(e, b->share);
}

/* Makes shadows and messages, now that it is known which transfers use them, and publishes their handles. */
static rsh_status publish_handles(binding *b, card *mine) {
    rsh_exec *e = b->e;
    RSH_TRY(rshi_exec_show_data(e, NULL, NULL));
    RSH_TRY(rshi_exec_show_scratch(e));
    if (e->comm->node || e->all_by_message)
        RSH_TRY(rshi_messages_new(e->plan, b->share, e->comm, e->all_by_message, &e->peers[0].parts, &e->messages));
    RSH_TRY(e->comm->ops->publish(e->comm, e->flag, sizeof *e->flag, &mine->flag));
    RSH_TRY(e->comm->ops->publish(e->comm, e->table, e->table_bytes, &mine->table));
    return rshi_messages_show(e->messages, &mine->messages);
}

rsh_status rshi_binding_begin(rshi_binding *b, rsh_exec *e, const rshi_taken_parts *parts, rshi_bind_card *mine) {
    *b = (binding){.e = e};
    RSH_TRY(prepare_share_and_parts(b, parts));
    mine->start = e->start;
    rshi_foreign_show(e->comm, parts, mine);
    rshi_team_show(e->comm, mine);
    mine->wants_messages = rshi_exec_wants_messages(e);
    return mine->wants_messages ? RSH_OK : publish_handles(b, mine);
}

/* ---- with the others ---- */

/* Returns the record that a rank sent when it opened the bind. */
static const card *card_of(const binding *b, int64_t rank) { return rshi_comm_card(b->e->comm, rank); }

static bool anybody_wants_messages(const binding *b) {
    for (int r = 0; r < b->e->comm->size; r++)
        if (card_of(b, r)->wants_messages) return true;
    return false;
}

/* Sends everything by messages if other ranks read a part that they cannot reach: message buffers stay in the caches
 * and take little memory. */
static rsh_status change_to_messages(binding *b, card *mine) {
    rsh_exec *e = b->e;
    rshi_messages_free(e->messages);
    e->messages = NULL;
    rshi_free(e->shadow);
    e->shadow = NULL;
    e->all_by_message = true;
    mine->wants_messages = false;
    rsh_status st = take_share(b);
    if (!st) st = publish_handles(b, mine);
    return rshi_comm_open_with(e->comm, "bind: messages", 0, NULL, st, mine, sizeof *mine);
}

/* Returns the peer for a rank; creates it and finds its memory on first use. */
static rsh_status peer_at(binding *b, int64_t rank, rshi_peer **out) {
    rsh_comm *comm = b->e->comm;
    if (b->peer_of[rank]) {
        *out = &b->e->peers[b->peer_of[rank] - 1];
        return RSH_OK;
    }
    RSH_TRY(add_peer(b, (int)rank, out));
    rshi_peer *p = *out;
    p->flag = comm->ops->reach(comm, p->rank, card_of(b, rank)->flag);
    p->parts.table = comm->ops->reach(comm, p->rank, card_of(b, rank)->table);
    p->start = card_of(b, rank)->start;
    RSH_REQUIRE(p->flag && p->parts.table, RSH_EUNSUP, "rank %d cannot map the memory of rank %d", comm->rank,
                p->rank);
    return RSH_OK;
}

/* Finds the ranks that this rank reads, and in which stages. */
static rsh_status find_sources(binding *b) {
    for (int64_t i = 0; i < b->share->nreceives; i++) {
        const rsh_transfer *t = &b->share->receives[i];
        if (!is_direct(b, t)) continue;
        for (int64_t k = 0; k < t->nsrc; k++) {
            rshi_peer *p;
            if (t->src[k].rank == b->e->comm->rank) continue;
            RSH_TRY(peer_at(b, t->src[k].rank, &p));
            p->due[t->stage] = t->stage;
        }
    }
    return RSH_OK;
}

/* Finds the ranks that read this rank, and the last stage in which they do. */
static rsh_status find_readers(binding *b) {
    for (int64_t i = 0; i < b->share->nsends; i++) {
        const rsh_transfer *t = &b->share->sends[i];
        rshi_peer *p;
        if (!is_direct(b, t)) continue;
        RSH_TRY(peer_at(b, t->dst.rank, &p));
        p->due[RSHI_READERS] = (int)rshi_max(p->due[RSHI_READERS], t->stage + 1);
    }
    return RSH_OK;
}

/* Numbers the parts of all peers, one peer after the other. */
static rsh_status number_peers_parts(binding *b) {
    rsh_exec *e = b->e;
    int64_t each = 2 * rsh_plan_ntensors(e->plan) + 2;
    e->peers_first = rshi_alloc((size_t)(e->npeers * each), sizeof *e->peers_first);
    if (!e->peers_first) return rshi_nomem();
    for (int64_t i = 1; i < e->npeers; i++) {
        rshi_parts *p = &e->peers[i].parts;
        rshi_parts_count(p, e->plan, e->peers[i].rank, e->peers_first + i * each);
        p->number = e->nparts;
        e->nparts += rshi_parts_all(p);
    }
    return RSH_OK;
}

static rsh_status connect_messages(binding *b) {
    rshi_messages *m = b->e->messages;
    int peer;
    for (int64_t i = 0; m && (peer = rshi_messages_peer(m, i)) >= 0; i++)
        RSH_TRY(rshi_messages_connect(m, i, card_of(b, peer)->messages));
    return RSH_OK;
}

/* ---- transfers to moves ---- */

static rshi_location locate_end(const binding *b, int64_t tensor, const rsh_transfer_end *end) {
    return rshi_parts_find(&b->e->peers[b->peer_of[end->rank] - 1].parts, tensor, end);
}

static rsh_status add_moves(binding *b, const rsh_transfer *list, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const rsh_transfer *t = &list[i];
        if (!is_direct(b, t)) continue;
        RSH_TRY(RSHI_GROW(b->src, t->nsrc, &b->room));
        for (int64_t k = 0; k < t->nsrc; k++) b->src[k] = locate_end(b, t->tensor, &t->src[k]);
        rshi_location dst = locate_end(b, t->tensor, &t->dst);
        RSH_TRY(rshi_program_add(&b->e->program, t, &dst, b->src));
    }
    return RSH_OK;
}

static rsh_status compile_program(binding *b) {
    rsh_exec *e = b->e;
    RSH_TRY(connect_messages(b));
    RSH_TRY(find_sources(b));
    RSH_TRY(find_readers(b));
    RSH_TRY(number_peers_parts(b));
    RSH_TRY(add_moves(b, b->share->copies, b->share->ncopies));
    RSH_TRY(add_moves(b, b->share->receives, b->share->nreceives));
    RSH_TRY(rshi_program_finish(&e->program, rshi_route_writers(e->comm, e->plan)));
    e->base = rshi_calloc((size_t)e->nparts, sizeof *e->base);
    e->pointers = rshi_alloc((size_t)rshi_max(e->program.most_sources, 1), sizeof *e->pointers);
    return e->base && e->pointers ? RSH_OK : rshi_nomem();
}

rsh_status rshi_binding_complete(rshi_binding *b, rshi_bind_card *mine) {
    rsh_exec *e = b->e;
    if (anybody_wants_messages(b)) RSH_TRY(change_to_messages(b, mine));
    int tag = rshi_comm_tag(e->comm); /* also on ranks without messages, so that tags are the same everywhere */
    if (e->messages) rshi_messages_set_tag(e->messages, tag);
    rsh_status st = rshi_foreign_suspected(e->comm) ? rshi_foreign_check(e) : RSH_OK;
    rshi_team_card team = {0};
    if (!st) st = compile_program(b);
    if (!st) st = rshi_team_offer(e, &team);
    st = rshi_comm_open_with(e->comm, "bind: ready", 0, NULL, st, &team, sizeof team);
    rshi_team_join(e, b->peer_of, st);
    return st;
}

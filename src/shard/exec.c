/* Exec: a plan bound to a comm and to memory.
 *
 * Each rank pulls: it copies from its peers' memory straight into its own destination.  A rank has one flag that rises through a run: source ready, stage 0
 * done, stage 1 done.  Before it reads a peer it waits for that peer's flag; before it returns it waits until everybody who reads its memory is
 * done.  Nothing else is exchanged, and nothing is allocated.
 *
 * With message transport a rank does only its local moves like this and knows no peers; see messages.c for the rest. */
#include "comm/comm.h"
#include "shard/memory.h"
#include "shard/messages.h"
#include "shard/program.h"
#include "shard/shadow.h"

#include <string.h>

/* What a rank shows its peers: where its parts lie, sources then destinations. */
typedef struct shown_part {
    rshi_handle data;
    int64_t strides[RSH_MAX_NDIM];
} shown_part;

/* How a peer finds a rank's flag and table. */
typedef struct card {
    rshi_handle flag, table;
    uint64_t start; /* the flag's value at bind */
} card;

typedef struct peer {
    int rank;
    rshi_flag *flag;
    uint64_t start;
    shown_part *table;
    int64_t nsrc, ndst;
    int64_t number;   /* of its first part; sources, then destinations */
    int64_t *first;   /* owned: per tensor the first entry of its sources (0..n) and destinations (n+1..2n+1) */
    bool read[2];     /* does this rank read it in stage s? */
    bool reads[2];    /* does it read this rank in stage s? */
} peer;

enum { IDLE, WAITING, COPIED }; /* before begin; source announced, stage `stage` is next; all stages done, readers may be left */

struct rsh_exec {
    const rsh_plan *plan;
    rsh_comm *comm;
    int stages;
    rshi_program program;
    rshi_messages *messages; /* owned; NULL: ranks read one another's memory */
    peer *peers; /* owned; the first is this rank itself */
    int64_t npeers, peers_room;
    int *peer_of;      /* owned: by rank, index + 1 into peers; 0: none */
    card *cards;       /* owned: by rank, during bind */
    shown_part *table; /* shared memory */
    size_t table_bytes;
    rshi_flag *flag;
    uint64_t start, runs;
    char **base; /* owned: by part number */
    int64_t nparts;
    const char **pointers; /* owned: most_sources */
    void **bound;          /* owned: data of this rank's parts as bound */
    int64_t *lent;         /* owned: by part of this rank, -1 or, where others read it, the number of its shadow; NULL: peers reach all memory */
    rshi_shadows shadows;
    int state, stage;
    int64_t late[3]; /* the peer that was waited for last, by stage and (2) among readers: where the next wait begins */
    double begun, seconds;
};

/* ---- parts ---- */

/* Entries of a rank's table: sources of all tensors, then destinations. */
static rsh_status count_entries(const rsh_plan *plan, int64_t rank, peer *p) {
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

static rsh_status add_peer(rsh_exec *e, int rank, peer **out) {
    if (e->npeers == e->peers_room) {
        int64_t room = e->peers_room ? 2 * e->peers_room : 4;
        peer *grown = rshi_realloc(e->peers, (size_t)room, sizeof *grown);
        if (!grown) return rshi_nomem();
        e->peers = grown;
        e->peers_room = room;
    }
    peer *p = &e->peers[e->npeers];
    *p = (peer){.rank = rank};
    RSH_TRY(count_entries(e->plan, rank, p));
    p->number = e->nparts;
    e->nparts += p->nsrc + p->ndst;
    e->peer_of[rank] = (int)++e->npeers;
    *out = p;
    return RSH_OK;
}

/* The peer of a rank; made and reached at the first question. */
static rsh_status peer_at(rsh_exec *e, int64_t rank, peer **out) {
    if (e->peer_of[rank]) {
        *out = &e->peers[e->peer_of[rank] - 1];
        return RSH_OK;
    }
    peer *p;
    RSH_TRY(add_peer(e, (int)rank, &p));
    const card *c = &e->cards[rank];
    p->flag = e->comm->ops->reach(e->comm, p->rank, c->flag);
    p->table = e->comm->ops->reach(e->comm, p->rank, c->table);
    p->start = c->start;
    RSH_REQUIRE(p->flag && p->table, RSH_EUNSUP, "rank %d cannot reach the memory of rank %d", e->comm->rank, p->rank);
    *out = p;
    return RSH_OK;
}

static rsh_status find(void *ctx, int64_t rank, bool dst, int64_t tensor, int64_t part, int64_t *number, const int64_t **strides) {
    rsh_exec *e = ctx;
    peer *p;
    RSH_TRY(peer_at(e, rank, &p));
    int64_t n = rsh_plan_ntensors(e->plan), entry = p->first[dst ? n + 1 + tensor : tensor] + part;
    if (rank != e->comm->rank) p->read[dst] = true; /* a peer's destination is read in stage 1 only */
    *number = p->number + entry;
    *strides = p->table[entry].strides;
    return RSH_OK;
}

static rsh_status note_reader(void *ctx, const rshi_edge *edge) {
    rsh_exec *e = ctx;
    peer *p;
    RSH_TRY(peer_at(e, edge->dst->rank, &p));
    p->reads[edge->stage] = true;
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
    const int64_t *first = e->peers[0].first + (edge->from_dst ? rsh_plan_ntensors(e->plan) + 1 : 0);
    for (int64_t i = 0; i < edge->nsrc; i++)
        if (edge->src[i].rank == e->comm->rank) e->lent[first[edge->tensor] + edge->src[i].part] = 0;
    return RSH_OK;
}

/* Which parts others read, where the engine cannot show them all memory. */
static rsh_status find_lent(rsh_exec *e, int64_t n) {
    if (!e->comm->ops->is_shared || rshi_plan_messages(e->plan)) return RSH_OK;
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

/* Take one side's parts of this rank into the table. */
static rsh_status show_side(rsh_exec *e, const peer *self, const rsh_memory *memory, bool dst, rshi_extent *extent) {
    int64_t n = rsh_plan_ntensors(e->plan), skip = dst ? self->nsrc : 0;
    for (int64_t t = 0; t < n; t++) {
        const rsh_layout *l = dst ? rshi_plan_dst(e->plan, t) : rshi_plan_src(e->plan, t);
        int64_t k = self->first[dst ? n + 1 + t : t], end = self->first[(dst ? n + 1 + t : t) + 1];
        for (int64_t i = 0; k + i < end; i++) {
            rshi_part part;
            rsh_status st = rshi_part_take(l, e->comm->rank, i, memory ? &memory[k + i - skip] : NULL, &part);
            if (st) return st;
            extent[k + i] = rshi_part_extent(l, e->comm->rank, i, &part, dst);
            for (int d = 0; d < RSH_MAX_NDIM; d++) e->table[k + i].strides[d] = part.strides[d];
            e->bound[k + i] = part.data;
            RSH_TRY(show_part(e, l, i, k + i, &part, dst));
        }
    }
    return RSH_OK;
}

static rsh_status show_parts(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const peer *self = &e->peers[0];
    int64_t n = self->nsrc + self->ndst;
    rshi_extent *extent = rshi_calloc((size_t)n, sizeof *extent);
    if (!extent) return rshi_nomem();
    rsh_status st = show_side(e, self, src, false, extent);
    if (!st) st = show_side(e, self, dst, true, extent);
    if (!st) st = rshi_extents_check(extent, n);
    rshi_free(extent);
    return st;
}

/* Everything that needs no other rank. */
static rsh_status prepare(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    peer *self;
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
    RSH_TRY(show_parts(e, src, dst));
    if (!rshi_plan_messages(e->plan)) return RSH_OK;
    return rshi_messages_new(e->plan, e->comm, &(rshi_finder){find, e}, &e->program, &e->messages);
}

/* ---- bind: with the others ---- */

static rsh_status exchange_cards(rsh_exec *e) {
    card mine = {.start = e->start};
    RSH_TRY(e->comm->ops->publish(e->comm, e->flag, sizeof *e->flag, &mine.flag));
    RSH_TRY(e->comm->ops->publish(e->comm, e->table, e->table_bytes, &mine.table));
    return rshi_comm_verdict(e->comm, e->comm->ops->allgather(e->comm, &mine, e->cards, sizeof mine));
}

/* The moves that read memory of peers, and who reads this rank's. */
static rsh_status meet_peers(rsh_exec *e) {
    RSH_TRY(rshi_program_add(&e->program, e->plan, e->comm->rank, &(rshi_finder){find, e}));
    return rshi_plan_sends(e->plan, e->comm->rank, note_reader, e);
}

static rsh_status compile(rsh_exec *e) {
    RSH_TRY(e->messages ? rshi_messages_connect(e->messages) : meet_peers(e));
    RSH_TRY(rshi_program_finish(&e->program));
    e->base = rshi_calloc((size_t)e->nparts, sizeof *e->base);
    e->pointers = rshi_alloc((size_t)rshi_max(e->program.most_sources, 1), sizeof *e->pointers);
    return e->base && e->pointers ? RSH_OK : rshi_nomem();
}

static rsh_status bind_all(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const char *what = rsh_plan_ntensors(e->plan) ? rsh_layout_text(rsh_plan_to(e->plan, 0)) : "";
    RSH_TRY(rshi_comm_open(e->comm, "bind", rsh_plan_fingerprint(e->plan), what, prepare(e, src, dst)));
    RSH_TRY(e->messages ? rshi_messages_exchange(e->messages) : exchange_cards(e));
    return rshi_comm_open(e->comm, "bind: ready", 0, NULL, compile(e));
}

rsh_status rsh_exec_bind(const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src, const rsh_memory *dst, rsh_exec **out) {
    RSH_REQUIRE(comm, RSH_EVALUE, "bind needs a comm");
    if (!plan || !out) return rshi_comm_open(comm, "bind", 0, NULL, rshi_fail(RSH_EVALUE, "bind needs a plan and a place for the result"));
    rsh_exec *e = RSHI_NEW(rsh_exec);
    if (!e) return rshi_comm_open(comm, "bind", rsh_plan_fingerprint(plan), NULL, RSH_ENOMEM);
    e->plan = plan;
    e->comm = comm;
    e->stages = rshi_plan_stages(plan);
    comm->execs++;
    rsh_status st = bind_all(e, src, dst);
    if (st)
        rsh_exec_free(e);
    else
        *out = e;
    return st;
}

void rsh_exec_free(rsh_exec *e) {
    if (!e) return;
    if (e->state != IDLE) rsh_exec_wait(e); /* peers count on a run that was begun */
    if (e->table) e->comm->ops->shared_free(e->comm, e->table, e->table_bytes);
    if (e->flag) e->comm->ops->flag_give(e->comm, e->flag);
    for (int64_t i = 0; i < e->npeers; i++) rshi_free(e->peers[i].first);
    e->comm->execs--;
    rshi_messages_free(e->messages);
    rshi_program_free(&e->program);
    rshi_free(e->peers);
    rshi_free(e->peer_of);
    rshi_free(e->cards);
    rshi_free(e->base);
    rshi_free(e->pointers);
    rshi_free(e->bound);
    rshi_free(e->lent);
    rshi_shadows_free(&e->shadows);
    rshi_free(e);
}

/* ---- run ---- */

/* Values of a rank's flag in the run at hand: `done` 0 when its source is ready, 1 + s when stage s is done. */
static uint64_t mark(const rsh_exec *e, uint64_t start, int done) {
    return start + e->runs * (uint64_t)(e->stages + 1) + 1 + (uint64_t)done;
}

static bool is_there(const rshi_flag *flag, uint64_t target) {
    return atomic_load_explicit(&((rshi_flag *)flag)->value, memory_order_acquire) >= target;
}

/* Which value of its flag a peer must have reached, or -1 if it does not matter: before stage `what` it is read, or (2) it reads for the last time. */
static int due(const peer *p, int what) {
    if (what < 2) return p->read[what] ? what : -1;
    return p->reads[1] ? 2 : p->reads[0] ? 1 : -1;
}

/* Until a peer's flag is there; without `block` the answer may be "not yet". */
static rsh_status await(rsh_exec *e, int64_t i, int what, bool block, bool *there) {
    const peer *p = &e->peers[i];
    int done = due(p, what);
    if (done < 0) return RSH_OK;
    uint64_t target = mark(e, p->start, done);
    if (is_there(p->flag, target)) return RSH_OK;
    e->late[what] = i;
    if (block) return rshi_comm_verdict(e->comm, e->comm->ops->wait(e->comm, p->rank, p->flag, target));
    *there = false;
    return RSH_OK;
}

/* All peers, the one first that was last to come in the run before: where ranks share cores they tend to come in the same order, and a rank that sleeps
 * until the last one is there finds all the others without sleeping again. */
static rsh_status await_all(rsh_exec *e, int what, bool block, bool *there) {
    int64_t first = e->late[what];
    for (int64_t i = first; i > 0; i--) RSH_TRY(await(e, i, what, block, there));
    for (int64_t i = e->npeers - 1; i > first; i--) RSH_TRY(await(e, i, what, block, there));
    return RSH_OK;
}

/* Addresses of the parts of every peer that stage s reads, and of this rank's own. */
static rsh_status look_up(rsh_exec *e, int s) {
    for (int64_t i = 0; i < e->npeers; i++) {
        const peer *p = &e->peers[i];
        if (i && !p->read[s]) continue;
        for (int64_t k = 0; k < p->nsrc + p->ndst; k++) e->base[p->number + k] = e->comm->ops->reach(e->comm, p->rank, p->table[k].data);
    }
    return RSH_OK;
}

static void run_slabs(rsh_exec *e, int s) {
    const rshi_program *g = &e->program;
    for (int64_t i = g->stage_start[s]; i < g->stage_start[s + 1]; i++) rshi_slab_run(g, &g->slabs[i], e->base, e->pointers);
    rshi_copy_fence();
}

static rsh_status run_stage(rsh_exec *e, bool block, bool *there) {
    RSH_TRY(await_all(e, e->stage, block, there));
    if (!*there) return RSH_OK;
    RSH_TRY(look_up(e, e->stage));
    run_slabs(e, e->stage);
    e->stage++;
    e->comm->ops->post(e->comm, e->flag, mark(e, e->start, e->stage));
    if (e->stage < e->stages) return RSH_OK;
    rshi_shadows_drain(&e->shadows);
    e->state = COPIED;
    return RSH_OK;
}

/* Local moves first, then messages of all stages. */
static rsh_status run_messages(rsh_exec *e, bool block, bool *there) {
    if (e->stage == 0) {
        RSH_TRY(look_up(e, 0));
        run_slabs(e, 0);
        rshi_messages_begin(e->messages);
        e->stage = 1;
    }
    RSH_TRY(rshi_messages_go_on(e->messages, e->base, block, there));
    if (!*there) return RSH_OK;
    run_slabs(e, 1);
    e->state = COPIED;
    return RSH_OK;
}

static rsh_status await_readers(rsh_exec *e, bool block, bool *there) {
    RSH_TRY(await_all(e, 2, block, there));
    if (!*there) return RSH_OK;
    e->runs++;
    e->state = IDLE;
    e->seconds = rshi_seconds() - e->begun;
    return RSH_OK;
}

/* A rank that gives up still lets those finish who read its memory: they end, or fail and say so. */
static rsh_status give_up(rsh_exec *e, rsh_status status) {
    char detail[RSHI_DETAIL_BYTES];
    memcpy(detail, rsh_error_detail(), sizeof detail);
    if (e->messages) rshi_messages_give_up(e->messages);
    for (int64_t i = 1; i < e->npeers; i++) {
        const peer *p = &e->peers[i];
        if (p->reads[0] || p->reads[1]) e->comm->ops->wait(e->comm, p->rank, p->flag, mark(e, p->start, p->reads[1] ? 2 : 1));
    }
    rshi_set_detail(detail);
    e->state = IDLE;
    return status;
}

static rsh_status still_good(const rsh_exec *e) {
    if (!e->comm->dead) return RSH_OK;
    return rshi_fail(e->comm->dead, "%s", e->comm->dead_detail);
}

static rsh_status go_on(rsh_exec *e, bool block, bool *done) {
    bool there = true;
    rsh_status st = still_good(e);
    while (!st && there && e->state == WAITING) st = e->messages ? run_messages(e, block, &there) : run_stage(e, block, &there);
    if (!st && there && e->state == COPIED) st = await_readers(e, block, &there);
    *done = e->state == IDLE;
    return st ? give_up(e, st) : RSH_OK;
}

rsh_status rsh_exec_begin(rsh_exec *e) {
    RSH_TRY(still_good(e));
    RSH_REQUIRE(e->state == IDLE, RSH_EBUSY, "a run of this exec is under way: wait for it first");
    e->begun = rshi_seconds();
    e->stage = 0;
    e->state = WAITING;
    rshi_shadows_fill(&e->shadows);
    e->comm->ops->post(e->comm, e->flag, mark(e, e->start, 0));
    return RSH_OK;
}

rsh_status rsh_exec_test(rsh_exec *e, bool *done) {
    if (e->state != IDLE) return go_on(e, false, done);
    *done = true;
    return still_good(e);
}

rsh_status rsh_exec_wait(rsh_exec *e) {
    bool done;
    return e->state == IDLE ? still_good(e) : go_on(e, true, &done);
}

rsh_status rsh_exec_run(rsh_exec *e) {
    RSH_TRY(rsh_exec_begin(e));
    return rsh_exec_wait(e);
}

static rsh_status show_data_side(rsh_exec *e, const rsh_memory *memory, bool dst) {
    const peer *self = &e->peers[0];
    int64_t n = rsh_plan_ntensors(e->plan), skip = dst ? self->nsrc : 0;
    const int64_t *first = self->first + (dst ? n + 1 : 0);
    for (int64_t t = 0; t < n; t++)
        for (int64_t k = first[t]; k < first[t + 1]; k++) {
            rshi_part part = {.data = e->bound[k]};
            if (part.data && memory) part.data = memory[k - skip].data;
            memcpy(part.strides, e->table[k].strides, sizeof part.strides);
            RSH_TRY(show_part(e, dst ? rshi_plan_dst(e->plan, t) : rshi_plan_src(e->plan, t), k - first[t], k, &part, dst));
        }
    return RSH_OK;
}

/* Show other memory, or with NULL what was bound. */
/* Parts with elements need memory. */
static rsh_status check_data(const rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const peer *self = &e->peers[0];
    for (int64_t k = 0; k < self->nsrc + self->ndst; k++) {
        const rsh_memory *m = k < self->nsrc ? &src[k] : &dst[k - self->nsrc];
        RSH_REQUIRE(!e->bound[k] || m->data, RSH_EVALUE, "%s part %lld has no memory", k < self->nsrc ? "source" : "destination",
                    (long long)(k < self->nsrc ? k : k - self->nsrc));
    }
    return RSH_OK;
}

static rsh_status show_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    rshi_shadows_rest(&e->shadows);
    RSH_TRY(show_data_side(e, src, false));
    return show_data_side(e, dst, true);
}

rsh_status rsh_exec_run_on(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    const peer *self = &e->peers[0];
    RSH_TRY(still_good(e));
    RSH_REQUIRE(e->state == IDLE, RSH_EBUSY, "a run of this exec is under way: wait for it first");
    RSH_REQUIRE((src || !self->nsrc) && (dst || !self->ndst), RSH_EVALUE, "run_on needs memory for %lld source and %lld destination parts",
                (long long)self->nsrc, (long long)self->ndst);
    RSH_TRY(check_data(e, src, dst));
    RSH_TRY(show_data(e, src, dst));
    rsh_status st = rsh_exec_run(e);
    show_data(e, NULL, NULL);
    return st;
}

rsh_status rsh_exec_get_stats(const rsh_exec *e, rsh_exec_stats *out) {
    const rshi_program *g = &e->program;
    *out = (rsh_exec_stats){.runs = e->runs, .bytes_local = g->bytes_local, .bytes_shared = g->bytes_shared, .seconds = e->seconds};
    if (e->messages) {
        out->bytes_wire = rshi_messages_bytes(e->messages);
        out->bytes_local += rshi_messages_bytes_local(e->messages);
    }
    out->bytes_shadow = rshi_shadows_bytes(&e->shadows);
    out->contiguous = g->kernels[RSHI_KERNEL_CONTIGUOUS];
    out->rows = g->kernels[RSHI_KERNEL_ROWS];
    out->strided = g->kernels[RSHI_KERNEL_STRIDED];
    out->transposed = g->kernels[RSHI_KERNEL_TRANSPOSE];
    out->converted = g->kernels[RSHI_KERNEL_CONVERT];
    out->reduced = g->kernels[RSHI_KERNEL_REDUCE];
    out->filled = g->kernels[RSHI_KERNEL_FILL];
    return RSH_OK;
}

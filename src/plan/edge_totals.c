/* Edge totals: adds up the edges of all ranks, stage by stage.
 *
 * An edge that reads every contribution to a reduction is counted as a whole.  All contributions of a part send the
 * same number of bytes, which is added to each of them at the end. */
#include "plan/impl.h"

/* What is known about a source part while the edges into one rank are counted. */
typedef struct part_seen {
    int64_t whole;       /* the last rank (ordinal + 1) that read all contributions */
    int64_t rank, peers; /* the last rank (ordinal + 1) that read some of its holders, and how many */
} part_seen;

typedef struct summing {
    rshi_walk walk;
    rsh_plan_totals *t;
    rshi_rank_bytes *bytes;
    rshi_stage_bytes *stages;
    int64_t q;       /* ordinal of the rank whose edges are counted */
    int64_t *peer;   /* owned, by ordinal: the last rank (ordinal + 1) that read it */
    part_seen *part; /* owned, by source part; NULL: edges list all their sources */
    int64_t *each;   /* owned, by source part: bytes that every contribution sends */
} summing;

static const rsh_layout *source_layout(const summing *s) { return s->walk.p->pair[0].from; }

/* Returns the part to which the rank holds a contribution; -1: none. */
static int64_t part_of(const summing *s, int64_t rank) {
    int64_t position = rshi_layout_position(source_layout(s), rank);
    return position < 0 ? -1 : rshi_layout_holding(source_layout(s), position).part;
}

/* Counts the contributions to a part on the node of the current rank. */
static int64_t contributions_on_node(const summing *s, int64_t part) {
    const rsh_plan *p = s->walk.p;
    rshi_node_ranks c = rshi_plan_node_ranks(p, rshi_plan_node(p, p->rank[s->q]));
    int64_t n = 0;
    for (int64_t i = 0; i < c.n; i++) n += part_of(s, p->rank[rshi_node_ranks_ordinal(&c, i)]) == part;
    return n;
}

static void add_moved(summing *s, int stage, int64_t bytes, int64_t between) {
    s->bytes->received[s->q] += bytes;
    s->stages->moved[stage] += bytes;
    s->stages->between[stage] += between;
    s->t->bytes_between_nodes += between;
}

/* Counts a pair of ranks once, however many edges it has. */
static void count_peer(summing *s, int64_t peer, int64_t rank) {
    int64_t part = s->part ? part_of(s, rank) : -1, now = s->q + 1;
    if (s->peer[peer] == now) return;
    s->peer[peer] = now;
    part_seen *seen = part < 0 ? NULL : &s->part[part];
    if (seen && seen->rank != now) seen->rank = now, seen->peers = 0;
    if (seen) seen->peers++;
    s->t->messages += !seen || seen->whole != now;
}

static void add_whole_part(summing *s, const rshi_edge *e) {
    const rsh_plan *p = s->walk.p;
    int64_t bytes = rshi_edge_count(e) * e->wire_size, now = s->q + 1;
    int64_t part = rshi_layout_holding(source_layout(s), e->src->position).part;
    bool own = part_of(s, p->rank[s->q]) == part;
    int64_t others = e->nsrc - own, far = p->several_nodes ? e->nsrc - contributions_on_node(s, part) : 0;
    part_seen *seen = &s->part[part];
    s->each[part] += bytes;
    if (own) s->bytes->kept[s->q] += bytes, s->bytes->sent[s->q] -= bytes;
    add_moved(s, e->stage, bytes * others, bytes * far);
    if (seen->whole == now || !bytes) return;
    seen->whole = now;
    s->t->messages += others - (seen->rank == now ? seen->peers : 0);
}

static rsh_status add_edge(void *ctx, const rshi_edge *e) {
    summing *s = ctx;
    const rsh_plan *p = s->walk.p;
    if (e->all_contributions) {
        add_whole_part(s, e);
        return RSH_OK;
    }
    int64_t bytes = rshi_edge_count(e) * e->wire_size;
    for (int64_t k = 0; k < e->nsrc && bytes; k++) {
        int64_t rank = rshi_edge_source(e, k), peer = rshi_plan_ordinal(p, rank);
        if (peer == s->q) {
            s->bytes->kept[peer] += bytes;
            continue;
        }
        s->bytes->sent[peer] += bytes;
        add_moved(s, e->stage, bytes, rshi_plan_node(p, rank) != rshi_plan_node(p, p->rank[s->q]) ? bytes : 0);
        count_peer(s, peer, rank);
    }
    return RSH_OK;
}

/* Adds what every contribution sends. */
static void add_deferred(summing *s) {
    const rsh_layout *from = source_layout(s);
    for (int64_t i = 0; i < rsh_layout_nranks(from); i++) {
        int64_t rank = rsh_layout_rank(from, i);
        s->bytes->sent[rshi_plan_ordinal(s->walk.p, rank)] += s->each[part_of(s, rank)];
    }
}

static rsh_status make_room(summing *s) {
    const rsh_plan *p = s->walk.p;
    s->peer = rshi_calloc((size_t)p->nranks + 1, sizeof *s->peer);
    if (!s->peer) return rshi_nomem();
    s->walk.counts = p->n == 1 && rshi_pair_reads_whole_parts(&p->pair[0]);
    if (!s->walk.counts) return RSH_OK;
    size_t parts = (size_t)rsh_layout_nranks(source_layout(s));
    s->part = rshi_calloc(parts, sizeof *s->part);
    s->each = rshi_calloc(parts, sizeof *s->each);
    return s->part && s->each ? RSH_OK : rshi_nomem();
}

rsh_status rshi_edge_totals(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t, rshi_rank_bytes *bytes,
                            rshi_stage_bytes *stages) {
    summing s = {.walk = {.p = p, .emit = add_edge}, .t = t, .bytes = bytes, .stages = stages};
    rsh_status st;
    s.walk.ctx = &s;
    RSH_GOTO(make_room(&s));
    for (s.q = 0; s.q < p->nranks; s.q++) {
        s.walk.rank = p->rank[s.q];
        RSH_GOTO(rshi_progress_at(w, s.q, p->nranks));
        RSH_GOTO(rshi_receive_all(&s.walk));
    }
    if (s.walk.counts) add_deferred(&s);
out:
    rshi_walk_free(&s.walk);
    rshi_free(s.peer);
    rshi_free(s.part);
    rshi_free(s.each);
    return st;
}

/* Shares of some ranks of plans with hundreds to thousands of ranks: checked element by element, and both ends of the
 * transfers between two ranks compared with each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "both_ends.h"
#include "drawn.h"

/* ranks that are examined in a case; most elements that are examined */
enum { ASKED = 3, MOST_SLOTS = 60000, MOST_ENDS = 300000 };

/* Which transfer writes each element of a part or of scratch. */
typedef struct table {
    int64_t n;
    const rsh_transfer **writer; /* owned: the transfer for each element; NULL: there are too many elements */
    int64_t *element;            /* owned: element of the tensor for each element; only for scratch */
} table;

/* A share with its tables: one for each part of the destination, and one for scratch. */
typedef struct asked {
    rsh_share *share;
    int64_t nparts;
    drawn_part scratch; /* scratch as a flat part, whose elements the share determines */
    table *table;       /* owned: [nparts + 1] */
} asked;

typedef struct many {
    drawn from, to;
    rsh_plan *plan;
    rsh_plan_opts opts;
    int64_t node[DRAWN_NAMES];
    bool keeps, reduces; /* keeps: partial positions move separately; reduces: they are combined */
    bool transposed;     /* the plan is the adjoint of the plan from `to` to `from` */
    bool sends_have_all; /* sends may also list other ranks' contributions */
    asked *asked[DRAWN_NAMES];           /* by rank; NULL: not examined yet */
    int64_t seen[DRAWN_NAMES], sight;    /* the contributions of the current element are marked with its number */
    int64_t told[DRAWN_NAMES][3], ntold; /* bytes that each rank sends, receives and keeps, computed as sums */
} many;

/* ---- the position of a transfer's elements ---- */

static bool next_round(const rsh_transfer *t, int64_t *at) {
    for (int l = t->nloops - 1; l >= 0; l--) {
        if (++at[l] < t->n[l]) return true;
        at[l] = 0;
    }
    return false;
}

/* Returns the element of the tensor at one end of a transfer in a part; -1: it is outside. */
static int64_t element_at(many *m, const rsh_transfer *t, const rsh_transfer_end *end, const int64_t *at,
                          const drawn_part **part) {
    *part = drawn_part_of(end->in_dst ? &m->to : &m->from, end->rank, end->part);
    int64_t slot = *part ? drawn_slot(*part, t, end, at) : -1;
    return slot < 0 ? -1 : drawn_element(*part, slot);
}

/* ---- shares with their tables ---- */

static bool has_sane_loops(const rsh_transfer *t, int ndim) {
    int64_t count = 1;
    bool sane = t->tensor == 0 && t->ndim == ndim && t->nloops >= 0 && t->nloops <= 2 * ndim;
    for (int l = 0; l < t->nloops && sane; l++) {
        count *= t->n[l];
        sane = t->n[l] > 0 && t->dim[l] >= 0 && t->dim[l] < ndim;
    }
    return sane && count == t->count;
}

static bool enter_writer(prop_case *c, many *m, asked *a, const rsh_transfer *t) {
    int64_t at[RSH_MAX_LOOPS] = {0}, k = t->dst.in_scratch ? a->nparts : t->dst.part, r = a->share->rank;
    const drawn_part *part = t->dst.in_scratch ? &a->scratch : drawn_part_of(&m->to, r, k), *source;
    PROP(c, part && has_sane_loops(t, m->to.desc.ndim), "rank %lld has a transfer without sense", (long long)r);
    table *into = &a->table[k];
    if (!into->writer) return true;
    do {
        int64_t slot = drawn_slot(part, t, &t->dst, at);
        PROP(c, slot >= 0, "rank %lld is written outside of its part %lld", (long long)r, (long long)k);
        PROP(c, !into->writer[slot], "rank %lld gets number %lld of part %lld twice", (long long)r, (long long)slot,
             (long long)k);
        into->writer[slot] = t;
        if (t->dst.in_scratch && t->nsrc > 0) into->element[slot] = element_at(m, t, &t->src[0], at, &source);
    } while (next_round(t, at));
    return true;
}

static bool all_is_written(prop_case *c, const asked *a) {
    for (int64_t k = 0; k <= a->nparts; k++)
        for (int64_t i = 0; i < a->table[k].n && a->table[k].writer; i++)
            PROP(c, a->table[k].writer[i], "rank %lld does not get number %lld of part %lld",
                 (long long)a->share->rank, (long long)i, (long long)k);
    return true;
}

static bool reads_others(const rsh_transfer *t) {
    for (int64_t i = 0; i < t->nsrc; i++)
        if (t->src[i].rank != t->dst.rank) return true;
    return false;
}

static int64_t count_into(const rsh_share *s) { return s->ncopies + s->nreceives; }
/* Returns transfer i into the rank, copies first. */
static const rsh_transfer *into(const rsh_share *s, int64_t i) {
    return i < s->ncopies ? &s->copies[i] : &s->receives[i - s->ncopies];
}

/* Copies need no other rank, receives do, and sends go to other ranks. */
static bool enter_lists(prop_case *c, many *m, asked *a) {
    const rsh_share *s = a->share;
    for (int64_t i = 0; i < count_into(s); i++) {
        const rsh_transfer *t = into(s, i);
        PROP(c, t->dst.rank == s->rank && reads_others(t) == (i >= s->ncopies),
             "a transfer is in the wrong list of rank %lld", (long long)s->rank);
        if (!enter_writer(c, m, a, t)) return false;
    }
    for (int64_t i = 0; i < s->nsends; i++)
        PROP(c, s->sends[i].dst.rank != s->rank && (m->sends_have_all || s->sends[i].nsrc == 1),
             "rank %lld sends to itself, or what is not its own", (long long)s->rank);
    return all_is_written(c, a);
}

static void new_tables(many *m, asked *a) {
    const drawn_parts *held = drawn_parts_of(&m->to, a->share->rank);
    a->nparts = held->n;
    a->scratch = (drawn_part){.flat = true, .count = a->share->scratch ? a->share->scratch[0] : 0};
    a->table = prop_alloc((size_t)(a->nparts + 1) * sizeof *a->table);
    for (int64_t k = 0; k <= a->nparts; k++) {
        table *t = &a->table[k];
        t->n = k < a->nparts ? held->at[k].count : a->scratch.count;
        if (t->n <= MOST_SLOTS) t->writer = prop_alloc((size_t)t->n * sizeof *t->writer);
        if (k == a->nparts) t->element = prop_alloc((size_t)t->n * sizeof *t->element);
    }
}

/* Computes the share of a rank, and checks that every element of its destination is written exactly once. */
static bool ask(prop_case *c, many *m, int64_t rank, asked **out) {
    PROP(c, rank >= 0 && rank < DRAWN_NAMES, "there is no rank %lld", (long long)rank);
    *out = m->asked[rank];
    if (*out) return true;
    rsh_share *share = NULL;
    PROP_OK(c, rsh_plan_share(m->plan, rank, &share));
    *out = m->asked[rank] = prop_alloc(sizeof **out);
    (*out)->share = share;
    new_tables(m, *out);
    return enter_lists(c, m, *out);
}

static void free_asked(asked *a) {
    for (int64_t k = 0; a && k <= a->nparts; k++) {
        free(a->table[k].writer);
        free(a->table[k].element);
    }
    if (a) rsh_share_free(a->share);
    if (a) free(a->table);
    free(a);
}

/* ---- the sources of an element ---- */

/* One element of a transfer, at the given indices of its loops. */
typedef struct look {
    const rsh_transfer *t;
    const int64_t *at;
    int64_t element;
    const drawn_part *dst; /* NULL: the element is in scratch */
    int64_t lowest, n;     /* position of the last source, and number of contributions so far */
} look;

static bool add_position(prop_case *c, many *m, look *k, int64_t position) {
    PROP(c, m->seen[position] != m->sight, "rank %lld takes contribution %lld to element %lld twice",
         (long long)k->t->dst.rank, (long long)position, (long long)k->element);
    m->seen[position] = m->sight;
    k->n++;
    return true;
}

/* Checks that sources are in the order of their positions; a combined source counts at its lowest position. */
static bool comes_next(prop_case *c, look *k, int64_t lowest) {
    PROP(c, lowest > k->lowest, "rank %lld combines element %lld out of order", (long long)k->t->dst.rank,
         (long long)k->element);
    k->lowest = lowest;
    return true;
}

/* Reads a source part, or a destination part that an earlier stage wrote. */
static bool read_part(prop_case *c, many *m, look *k, const rsh_transfer_end *end) {
    const drawn_part *part;
    int64_t element = element_at(m, k->t, end, k->at, &part);
    PROP(c, element == k->element, "rank %lld gets element %lld of rank %lld where %lld belongs",
         (long long)k->t->dst.rank, (long long)element, (long long)end->rank, (long long)k->element);
    if (m->transposed) return true;
    if (!end->in_dst) return comes_next(c, k, part->partial) && add_position(c, m, k, part->partial);
    PROP(c, k->t->nsrc == 1 && k->dst && (part->partial == k->dst->partial || m->to.desc.op == RSH_OP_AVG),
         "rank %lld takes another value of element %lld", (long long)k->t->dst.rank, (long long)element);
    const asked *a = m->asked[end->rank];
    if (!a || !a->table[end->part].writer) return true;
    const rsh_transfer *writer = a->table[end->part].writer[drawn_slot(part, k->t, end, k->at)];
    PROP(c, writer->stage < k->t->stage, "rank %lld reads element %lld of rank %lld before it is written",
         (long long)k->t->dst.rank, (long long)element, (long long)end->rank);
    return true;
}

/* Reads what a node has combined: its contributions must be those of this element. */
static bool read_scratch(prop_case *c, many *m, look *k, const rsh_transfer_end *end) {
    asked *a;
    if (!ask(c, m, end->rank, &a)) return false;
    const table *scratch = &a->table[a->nparts];
    int64_t slot = drawn_slot(&a->scratch, k->t, end, k->at);
    PROP(c, slot >= 0, "scratch of rank %lld is read outside of it", (long long)end->rank);
    if (!scratch->writer) return true;
    const rsh_transfer *writer = scratch->writer[slot];
    PROP(c, scratch->element[slot] == k->element && writer->stage < k->t->stage,
         "rank %lld gets element %lld from scratch of rank %lld where %lld belongs", (long long)k->t->dst.rank,
         (long long)scratch->element[slot], (long long)end->rank, (long long)k->element);
    for (int64_t i = 0; i < writer->nsrc; i++) {
        int64_t position = drawn_part_of(&m->from, writer->src[i].rank, writer->src[i].part)->partial;
        if (!add_position(c, m, k, position) || (!i && !comes_next(c, k, position))) return false;
    }
    return true;
}

/* Returns whether the part is filled with the identity of its op. */
static bool is_filled(const many *m, const drawn_part *p) {
    return m->to.desc.op != RSH_OP_NONE && m->to.desc.op != RSH_OP_AVG && !m->keeps && p->partial > 0;
}

static bool made_of_all(prop_case *c, const many *m, const look *k) {
    const rsh_transfer *t = k->t;
    bool passed_on = t->nsrc && t->src[0].in_dst;
    if (m->transposed) return true;
    if (!k->dst || is_filled(m, k->dst)) {
        PROP(c, (t->nsrc > 0) == !k->dst, "rank %lld fills element %lld, or should", (long long)t->dst.rank,
             (long long)k->element);
        return true;
    }
    PROP(c, passed_on || k->n == (m->reduces ? m->from.npartial : 1), "element %lld of rank %lld is made of %lld",
         (long long)k->element, (long long)t->dst.rank, (long long)k->n);
    PROP(c, passed_on || !m->keeps || k->lowest == k->dst->partial, "rank %lld has position %lld of element %lld",
         (long long)t->dst.rank, (long long)k->lowest, (long long)k->element);
    int64_t divisor = !passed_on && m->reduces && m->from.desc.op == RSH_OP_AVG ? m->from.npartial : 1;
    PROP(c, t->divisor == divisor, "rank %lld divides by %lld", (long long)t->dst.rank, (long long)t->divisor);
    return true;
}

static bool check_transfer(prop_case *c, many *m, const asked *a, const rsh_transfer *t) {
    int64_t at[RSH_MAX_LOOPS] = {0};
    do {
        look k = {.t = t, .at = at, .lowest = -1};
        m->sight++;
        if (t->dst.in_scratch)
            k.element = a->table[a->nparts].element[drawn_slot(&a->scratch, t, &t->dst, at)];
        else
            k.element = element_at(m, t, &t->dst, at, &k.dst);
        PROP(c, k.element >= 0, "a transfer into rank %lld lies outside of its part", (long long)t->dst.rank);
        for (int64_t i = 0; i < t->nsrc; i++)
            if (!(t->src[i].in_scratch ? read_scratch : read_part)(c, m, &k, &t->src[i])) return false;
        if (!made_of_all(c, m, &k)) return false;
    } while (next_round(t, at));
    return true;
}

static bool check_elements(prop_case *c, many *m, const asked *a) {
    const rsh_share *s = a->share;
    int64_t ends = 0;
    for (int64_t i = 0; i < count_into(s); i++) ends += into(s, i)->count * (into(s, i)->nsrc + 1);
    if (ends > MOST_ENDS) return true;
    for (int64_t i = 0; i < count_into(s); i++)
        if (!check_transfer(c, m, a, into(s, i))) return false;
    return true;
}

/* ---- bytes ---- */

static int tell(void *ctx, int64_t rank, int64_t sent, int64_t received, int64_t kept) {
    many *m = ctx;
    m->told[rank][0] = sent, m->told[rank][1] = received, m->told[rank][2] = kept;
    m->ntold++;
    return 0;
}

/* Checks that the bytes a share sends, receives and keeps equal the sums over all ranks, which are computed without
 * shares. */
static bool bytes_are_as_told(prop_case *c, const many *m, const rsh_share *s) {
    int64_t sent = 0, received = 0, kept = 0;
    for (int64_t i = 0; i < s->nsends; i++)
        for (int64_t k = 0; k < s->sends[i].nsrc; k++)
            if (s->sends[i].src[k].rank == s->rank) sent += s->sends[i].count * s->sends[i].element_bytes;
    for (int64_t i = 0; i < count_into(s); i++)
        for (int64_t k = 0; k < into(s, i)->nsrc; k++)
            *(into(s, i)->src[k].rank == s->rank ? &kept : &received) += into(s, i)->count * into(s, i)->element_bytes;
    const int64_t *told = m->told[s->rank];
    PROP(c, !m->ntold || (told[0] == sent && told[1] == received && told[2] == kept),
         "rank %lld sends %lld, receives %lld and keeps %lld bytes, not %lld, %lld and %lld", (long long)s->rank,
         (long long)sent, (long long)received, (long long)kept, (long long)told[0], (long long)told[1],
         (long long)told[2]);
    return true;
}

/* ---- a case ---- */

/* Picks neighbours of a rank (the first, the last and a random transfer of either list), and one rank that may not be a
 * neighbour. */
static int pick_peers(prop_case *c, const many *m, const rsh_share *s, int64_t *peer) {
    int n = 0;
    for (int i = 0; i < 3 && s->nreceives; i++) {
        const rsh_transfer *t = &s->receives[i == 0 ? 0 : i == 1 ? s->nreceives - 1 : gen_below(&c->rng, s->nreceives)];
        peer[n++] = t->src[gen_below(&c->rng, t->nsrc)].rank;
    }
    for (int i = 0; i < 3 && s->nsends; i++)
        peer[n++] = s->sends[i == 0 ? 0 : i == 1 ? s->nsends - 1 : gen_below(&c->rng, s->nsends)].dst.rank;
    const rsh_layout *l = gen_chance(&c->rng, 50) ? m->from.layout : m->to.layout;
    peer[n++] = rsh_layout_rank(l, gen_below(&c->rng, rsh_layout_nranks(l)));
    return n;
}

static bool check_rank(prop_case *c, many *m, int64_t rank) {
    asked *a, *b;
    int64_t peer[7];
    if (!ask(c, m, rank, &a)) return false;
    for (int i = 0, n = pick_peers(c, m, a->share, peer); i < n; i++) {
        if (!ask(c, m, peer[i], &b)) return false;
        if (a == b) continue;
        if (!both_ends_agree(c, a->share, b->share) || !both_ends_agree(c, b->share, a->share)) return false;
    }
    return bytes_are_as_told(c, m, a->share) && check_elements(c, m, a);
}

/* Draws no nodes, nodes of consecutive ranks, or a random map.  If few ranks have elements that many need, these are
 * spread over nodes; then shares of large plans take too long to compute for random ranks. */
static void any_nodes(prop_case *c, many *m, bool may_spread) {
    bool by_node = m->opts.reduce == RSH_REDUCE_BY_NODE;
    bool spreads = rsh_layout_nranks(m->from.layout) < 64 && rsh_layout_nranks(m->to.layout) > 300;
    int64_t way = spreads && !may_spread ? 0 : gen_between(&c->rng, by_node, 3), n = gen_between(&c->rng, 1, 64);
    if (way < 3 && !by_node && gen_chance(&c->rng, 15)) n *= 8;
    if (way == 3 && !by_node) n += 32;
    for (int64_t r = 0; r < DRAWN_NAMES; r++) m->node[r] = 7 * gen_below(&c->rng, n);
    if (way == 1 || way == 2) m->opts.ranks_per_node = n;
    if (way == 3) m->opts.node_of = m->node, m->opts.nnode_of = DRAWN_NAMES;
    snprintf(c->note, sizeof c->note, way == 0 ? "no nodes" : way < 3 ? "%lld ranks a node%s" : "up to %lld nodes%s",
             (long long)n, by_node ? ", reduced by node" : "");
}

/* Are the bytes of ranks computed as sums, and not by a walk over all shares? */
static bool has_sums(const many *m) {
    return m->opts.reduce == RSH_REDUCE_IN_ORDER && !m->transposed && !drawn_has_own_cuts(&m->from) &&
           !drawn_has_own_cuts(&m->to);
}

/* Returns a rank of a layout, with a non-empty part if one is found quickly. */
static int64_t any_rank(gen_rng *g, drawn *d) {
    int64_t rank = 0;
    for (int tries = 0; tries < 5; tries++) {
        rank = rsh_layout_rank(d->layout, gen_below(g, rsh_layout_nranks(d->layout)));
        if (drawn_part_of(d, rank, 0)->count) break;
    }
    return rank;
}

static bool make_plan(prop_case *c, many *m) {
    const drawn *a = m->transposed ? &m->to : &m->from, *b = m->transposed ? &m->from : &m->to;
    rsh_plan *adjoint;
    PROP_OK(c, rsh_plan_new(a->layout, b->layout, &m->opts, &m->plan));
    if (!m->transposed) return true;
    PROP_OK(c, rsh_plan_adjoint(m->plan, &adjoint));
    rsh_plan_free(m->plan);
    m->plan = adjoint;
    return true;
}

static bool check_case(prop_case *c, many *m) {
    snprintf(c->from, sizeof c->from, "%s", rsh_layout_text(m->from.layout));
    snprintf(c->to, sizeof c->to, "%s", rsh_layout_text(m->to.layout));
    m->keeps = drawn_has_same_partials(&m->from, &m->to);
    m->reduces = m->from.desc.op != RSH_OP_NONE && !m->keeps;
    m->sends_have_all = m->transposed || m->opts.reduce == RSH_REDUCE_BY_NODE ||
                        (m->from.desc.flat.naxes && drawn_has_own_cuts(&m->from));
    if (!make_plan(c, m)) return false;
    if (has_sums(m) && gen_chance(&c->rng, 30)) PROP_OK(c, rsh_plan_each_rank(m->plan, tell, m));
    for (int i = 0; i < ASKED; i++) {
        bool source = i < 2 ? i == 0 : gen_chance(&c->rng, 50);
        if (!check_rank(c, m, any_rank(&c->rng, source ? &m->from : &m->to))) return false;
    }
    return true;
}

static many *many_new(void) {
    many *m = prop_alloc(sizeof *m);
    m->opts = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    return m;
}

static void many_free(many *m) {
    for (int64_t r = 0; r < DRAWN_NAMES; r++) free_asked(m->asked[r]);
    rsh_plan_free(m->plan);
    drawn_free(&m->from);
    drawn_free(&m->to);
    free(m);
}

static bool check_and_free(prop_case *c, many *m, rsh_status made, bool may_spread) {
    bool ok = made == RSH_OK || prop_say(c, "no layout: %s", rsh_error_detail());
    if (ok) any_nodes(c, m, may_spread);
    ok = ok && check_case(c, m);
    many_free(m);
    return ok;
}

static bool of_pair(prop_case *c, const drawn_pair_wish *w, rsh_reduce_order reduce, bool transposed) {
    many *m = many_new();
    m->opts.reduce = reduce;
    m->transposed = transposed;
    return check_and_free(c, m, drawn_pair(&c->rng, w, &m->from, &m->to), false);
}

static bool along(prop_case *c) {
    drawn_pair_wish w = {.ranks = DRAWN_RANKS, .elements = 60000, .copies = 64, .crossed = 30};
    return of_pair(c, &w, RSH_REDUCE_IN_ORDER, false);
}
static bool crossed(prop_case *c) {
    drawn_pair_wish w = {.ranks = DRAWN_RANKS, .elements = 4000000, .copies = 40, .crossed = 85};
    return of_pair(c, &w, RSH_REDUCE_IN_ORDER, false);
}
static bool partial(prop_case *c) {
    drawn_pair_wish w = {.partial = true, .ranks = 2000, .elements = 10000, .copies = 2000, .crossed = 50};
    return of_pair(c, &w, RSH_REDUCE_IN_ORDER, false);
}
static bool transposed(prop_case *c) {
    drawn_pair_wish w = {.ranks = 400, .elements = 200000, .copies = 4, .crossed = 70, .plain = true};
    return of_pair(c, &w, RSH_REDUCE_IN_ORDER, true);
}
/* Parts with several pieces are expensive here. */
static bool by_node(prop_case *c) {
    drawn_pair_wish w = {.partial = true, .ranks = 240, .elements = 10000, .copies = 240, .crossed = 50, .plain = true};
    if (gen_chance(&c->rng, 20)) w.plain = false, w.ranks = 60;
    return of_pair(c, &w, RSH_REDUCE_BY_NODE, false);
}

/* Cases that every run includes: each rank exchanges elements with hundreds or thousands of others. */
static bool known(prop_case *c) {
    static const char *const text[][2] = {
        {"f32[3000/x, 3000] on x=3000", "f32[3000, 3000/x] on x=3000"},
        {"f32[1500/(x,y)~, 1700] on x=30,y=50", "f32[1500, 1700/(y,x)~] on x=40,y=42@100-1779"},
        {"f32[1200/x:1, 1100] on x=600", "f32[1200, 1100/(x,y):3] on x=2,y=500"},
        {"f32[1200/x, 1100]/y on x=20,y=30", "f32[1200, (500|600)/x] on x=700"},
        {"f32[(800/(kv,rep)|100/kv|100/kv), 900] on kv=10,rep=80", "f32[1000, 900/x%2] on x=450"},
        {"f32[900000]/x on x=3", "f32[900000/x:7] on x=3000"},
        {"f32[2000/x:3] on x=900", "f32[2000/x] on x=2@7-8"},
        {"f32[40, 300/x] on x=700,y=3", "f32[40/x, 300] on x=5,y=400"},
        {"f32[30, 70] on x=1500 sum(x)", "f32[30, 70] on x=1500"},
        {"f64[2000, 5] on x=1000 avg(x)", "f32[2000/x, 5] on x=1000"},
        {"f32[600/x, 700] on x=600,y=2 sum(y)", "f32[600, 700/x] on x=700,y=2 sum(y)"},
        {"f64[100, 100] on x=2", "f64[100, 100] on x=1000"},
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        many *m = many_new();
        rsh_status st = drawn_parse(text[i][0], &m->from);
        if (!st) st = drawn_parse(text[i][1], &m->to);
        if (!check_and_free(c, m, st, true)) return false;
    }
    return true;
}

static void every_rank_of_thousands_may_be_a_neighbour(void **state) { (void)state; prop_run("many_known", 1, known); }
static void cuts_along_one_dim_meet_in_the_right_elements(void **state) {
    (void)state;
    prop_run("many_along", 200, along);
}
static void cuts_along_other_dims_meet_in_the_right_elements(void **state) {
    (void)state;
    prop_run("many_crossed", 400, crossed);
}
static void many_contributions_are_read_each_once_and_in_order(void **state) {
    (void)state;
    prop_run("many_partial", 200, partial);
}
static void ranks_agree_about_the_transposed_map(void **state) { (void)state; prop_run("many_back", 20, transposed); }
static void nodes_of_many_ranks_combine_every_contribution_once(void **state) {
    (void)state;
    prop_run("many_by_node", 20, by_node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_of_thousands_may_be_a_neighbour),
        cmocka_unit_test(cuts_along_one_dim_meet_in_the_right_elements),
        cmocka_unit_test(cuts_along_other_dims_meet_in_the_right_elements),
        cmocka_unit_test(many_contributions_are_read_each_once_and_in_order),
        cmocka_unit_test(ranks_agree_about_the_transposed_map),
        cmocka_unit_test(nodes_of_many_ranks_combine_every_contribution_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

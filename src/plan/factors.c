/* Factors: exact totals of plain layouts as sums over dims, so that 65,536 ranks cost about as much as they are many.
 *
 * Every element of a source part is wanted by the same number of destinations, so what a rank sends follows from what
 * it holds.  With k replicas of a source part, holder j serves the destinations at positions = j mod k; positions add
 * up over dims, so the elements (and the neighbours) per residue are a cyclic convolution over dims of small vectors.
 * What a rank keeps for itself is taken off rank by rank. */
#include "plan/impl.h"

/* Elements and neighbours, per residue of the destination's position. */
typedef struct residues {
    int64_t k;
    int64_t *elements, *neighbours; /* k each */
} residues;

typedef struct factors {
    const rsh_plan *p;
    const rsh_layout *from, *to;
    int ndim;
    int64_t k, copies;             /* replicas of a source part, of a destination part */
    int64_t parts[RSH_MAX_NDIM];   /* source coordinates along each dim */
    int64_t *table[RSH_MAX_NDIM];  /* owned: parts x 2k: elements and neighbours per residue of that dim's share of the
                                      position */
    int64_t *spare;                /* owned: 4k, for convolutions */
    int64_t *free_axes;            /* owned: k: destinations per residue along the axes that replicate `to` */
} factors;

bool rshi_plan_factorises(const rsh_plan *p) {
    if (p->n != 1 || p->adjoint || p->pair[0].slice) return false;
    const rsh_layout *from = p->pair[0].from, *to = p->pair[0].to;
    if (rsh_layout_op(from) || rsh_layout_op(to) || !rshi_layout_plain(from) || !rshi_layout_plain(to)) return false;
    return !rshi_plan_has_nodes(p) || (rshi_layout_holders(from) == 1 && rshi_layout_holders(to) == 1);
}

/* ---- tables ---- */

/* Elements and neighbours along dim d of source coordinate c, per residue. */
static rsh_status fill_row(const factors *f, int d, int64_t c, int64_t *row) {
    rshi_stripe a = rshi_layout_cut_stripe(f->from, d, c);
    int64_t *list = NULL, n = 0;
    if (f->k == 1) { /* residues do not matter: every index is wanted once along this dim */
        row[0] = rshi_stripe_size(&a);
        return rshi_layout_cut_count(f->to, d, &a, &row[1]);
    }
    RSH_TRY(rshi_layout_cut_meets(f->to, d, &a, &list, &n));
    for (int64_t i = 0; i < n; i++) {
        int64_t residue = rshi_layout_cut_step(f->to, d, list[i]) % f->k;
        rshi_stripe b = rshi_layout_cut_stripe(f->to, d, list[i]);
        row[residue] += rshi_stripe_common(&a, &b, a.lo, rshi_stripe_end(&a));
        row[f->k + residue]++;
    }
    rshi_free(list);
    return RSH_OK;
}

static rsh_status fill_table(factors *f, int d, int64_t only) {
    f->parts[d] = rshi_layout_cut_parts(f->from, d);
    int64_t first = only < 0 ? 0 : only, last = only < 0 ? f->parts[d] : only + 1;
    f->table[d] = rshi_calloc((size_t)f->parts[d], (size_t)(2 * f->k) * sizeof(int64_t));
    if (!f->table[d]) return rshi_nomem();
    for (int64_t c = first; c < last; c++) RSH_TRY(fill_row(f, d, c, f->table[d] + c * 2 * f->k));
    return RSH_OK;
}

/* out = a * b over residues mod k.  Entries that are not 0 make at most as many products as there are positions; `list`
 * has room for k. */
static void convolve(int64_t k, const int64_t *a, const int64_t *b, int64_t *out, int64_t *list) {
    int64_t n = 0;
    for (int64_t i = 0; i < k; i++) {
        out[i] = 0;
        if (b[i]) list[n++] = i;
    }
    for (int64_t i = 0; i < k; i++) {
        if (!a[i]) continue;
        for (int64_t j = 0; j < n; j++) out[i + list[j] < k ? i + list[j] : i + list[j] - k] += a[i] * b[list[j]];
    }
}

/* Destinations per residue along the axes that replicate `to`: axis by axis. */
static void fill_free_axes(factors *f) {
    unsigned axes = rshi_layout_free_axes(f->to);
    int64_t *now = f->spare, *axis = f->spare + f->k, *list = f->spare + 2 * f->k;
    f->free_axes[0] = 1;
    for (int a = 0; axes >> a; a++) {
        if (!(axes >> a & 1)) continue;
        for (int64_t i = 0; i < f->k; i++) now[i] = f->free_axes[i], axis[i] = 0;
        for (int64_t c = 0; c < rshi_layout_axis_size(f->to, a); c++)
            axis[c * rshi_layout_axis_step(f->to, a) % f->k]++;
        convolve(f->k, now, axis, f->free_axes, list);
    }
}

static void factors_free(factors *f) {
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(f->table[d]);
    rshi_free(f->spare);
    rshi_free(f->free_axes);
}

/* position >= 0: only the rows of that source position are wanted. */
static rsh_status factors_init(factors *f, const rsh_plan *p, int64_t position) {
    *f = (factors){.p = p, .from = p->pair[0].from, .to = p->pair[0].to};
    f->ndim = rsh_layout_ndim(f->to);
    f->k = rshi_layout_holders(f->from);
    f->copies = rshi_layout_holders(f->to);
    f->spare = rshi_alloc((size_t)f->k, 4 * sizeof(int64_t));
    f->free_axes = rshi_calloc((size_t)f->k, sizeof(int64_t));
    if (!f->spare || !f->free_axes) return rshi_nomem();
    for (int d = 0; d < f->ndim; d++)
        RSH_TRY(fill_table(f, d, position < 0 ? -1 : rshi_layout_cut_coordinate(f->from, d, position)));
    fill_free_axes(f);
    return RSH_OK;
}

/* ---- one source part ---- */

/* Elements and neighbours of the source part at `position`, per residue, before own copies are taken off. */
static residues part_residues(const factors *f, int64_t position) {
    int64_t *now[2] = {f->spare, f->spare + f->k}, *next = f->spare + 2 * f->k;
    for (int w = 0; w < 2; w++) {
        for (int64_t i = 0; i < f->k; i++) now[w][i] = f->free_axes[i];
        for (int d = 0; d < f->ndim; d++) {
            int64_t c = rshi_layout_cut_coordinate(f->from, d, position);
            convolve(f->k, now[w], f->table[d] + (2 * c + w) * f->k, next, f->spare + 3 * f->k);
            int64_t *t = now[w];
            now[w] = next;
            next = t;
        }
    }
    return (residues){f->k, now[0], now[1]};
}

/* Elements that the rank at source position s holds and destination position d needs. */
static int64_t common_elements(const factors *f, int64_t s, int64_t d) {
    int64_t n = 1;
    for (int i = 0; i < f->ndim && n; i++) {
        rshi_stripe a = rshi_layout_cut_stripe(f->from, i, rshi_layout_cut_coordinate(f->from, i, s));
        rshi_stripe b = rshi_layout_cut_stripe(f->to, i, rshi_layout_cut_coordinate(f->to, i, d));
        n *= rshi_stripe_common(&a, &b, a.lo, rshi_stripe_end(&a));
    }
    return n;
}

static int64_t part_elements(const rsh_layout *l, int64_t position) {
    int64_t n = 1;
    for (int d = 0; d < rsh_layout_ndim(l) && n; d++) {
        rshi_stripe s = rshi_layout_cut_stripe(l, d, rshi_layout_cut_coordinate(l, d, position));
        n *= rshi_stripe_size(&s);
    }
    return n;
}

/* The position of holder j of the part at `position`. */
static int64_t holder_position(const factors *f, int64_t position, int64_t j) {
    unsigned axes = rshi_layout_free_axes(f->from);
    for (int a = RSH_MAX_AXES - 1; a >= 0; a--) {
        if (!(axes >> a & 1)) continue;
        int64_t size = rshi_layout_axis_size(f->from, a), step = rshi_layout_axis_step(f->from, a);
        position += (j % size - position / step % size) * step;
        j /= size;
    }
    return position;
}

static int64_t holder_index(const factors *f, int64_t position) {
    unsigned axes = rshi_layout_free_axes(f->from);
    int64_t j = 0;
    for (int a = 0; axes >> a; a++)
        if (axes >> a & 1)
            j = j * rshi_layout_axis_size(f->from, a) +
                position / rshi_layout_axis_step(f->from, a) % rshi_layout_axis_size(f->from, a);
    return j;
}

/* Destinations that hold the part themselves are served by nobody else: take them off their residue. */
static void take_off_own(const factors *f, int64_t position, residues *r) {
    for (int64_t j = 0; j < f->k; j++) {
        int64_t s = holder_position(f, position, j), d = rshi_layout_position(f->to, rshi_layout_rank_at(f->from, s));
        if (d < 0) continue;
        int64_t own = common_elements(f, s, d);
        r->elements[d % f->k] -= own;
        r->neighbours[d % f->k] -= own > 0;
    }
}

/* ---- totals ---- */

static void add_senders(const factors *f, int64_t size, rsh_plan_totals *t) {
    for (int64_t s = 0; s < rshi_layout_positions(f->from); s++) {
        if (holder_index(f, s)) continue; /* each part once */
        residues r = part_residues(f, s);
        take_off_own(f, s, &r);
        for (int64_t j = 0; j < f->k; j++) {
            t->bytes_moved += r.elements[j] * size;
            t->messages += r.neighbours[j];
            t->max_send = rshi_max(t->max_send, r.elements[j] * size);
        }
    }
}

static void add_receivers(const factors *f, int64_t size, rsh_plan_totals *t) {
    for (int64_t d = 0; d < rshi_layout_positions(f->to); d++) {
        int64_t s = rshi_layout_position(f->from, rshi_layout_rank_at(f->to, d));
        int64_t own = s < 0 ? 0 : common_elements(f, s, d);
        t->bytes_local += own * size;
        t->max_recv = rshi_max(t->max_recv, (part_elements(f->to, d) - own) * size);
    }
}

/* Bytes that stay inside nodes, rank pair by rank pair: only where neither side has replicas. */
static int64_t inside_node(const factors *f, int64_t from, int64_t to) {
    int64_t n = 0;
    for (int64_t i = from; i < to; i++)
        for (int64_t j = from; j < to; j++) {
            int64_t s = rshi_layout_position(f->from, f->p->rank[i]), d = rshi_layout_position(f->to, f->p->rank[j]);
            if (i != j && s >= 0 && d >= 0) n += common_elements(f, s, d);
        }
    return n;
}

static int64_t elements_inside_nodes(const factors *f) {
    const rsh_plan *p = f->p;
    int64_t n = 0;
    if (p->ranks_per_node) {
        for (int64_t i = 0, j; i < p->nranks; i = j) {
            for (j = i; j < p->nranks && rshi_plan_node(p, p->rank[j]) == rshi_plan_node(p, p->rank[i]);) j++;
            n += inside_node(f, i, j);
        }
        return n;
    }
    for (int64_t i = 0; i < p->nranks; i++) /* an arbitrary map: look at every pair of one node */
        for (int64_t j = 0; j < p->nranks; j++) {
            if (i == j || rshi_plan_node(p, p->rank[i]) != rshi_plan_node(p, p->rank[j])) continue;
            int64_t s = rshi_layout_position(f->from, p->rank[i]), d = rshi_layout_position(f->to, p->rank[j]);
            if (s >= 0 && d >= 0) n += common_elements(f, s, d);
        }
    return n;
}

rsh_status rshi_totals_by_factors(const rsh_plan *p, rsh_plan_totals *t) {
    factors f;
    rsh_status st;
    RSH_GOTO(factors_init(&f, p, -1));
    add_senders(&f, p->pair[0].wire_size, t);
    add_receivers(&f, p->pair[0].wire_size, t);
    if (rshi_plan_has_nodes(p))
        t->bytes_between_nodes = t->bytes_moved - elements_inside_nodes(&f) * p->pair[0].wire_size;
out:
    factors_free(&f);
    return st;
}

/* ---- one rank ---- */

/* Neighbours that a destination reads: one holder per source part, and itself not counted. */
static rsh_status count_sources(const factors *f, int64_t d, int64_t own, int64_t *n) {
    *n = 1;
    for (int i = 0; i < f->ndim; i++) {
        rshi_stripe b = rshi_layout_cut_stripe(f->to, i, rshi_layout_cut_coordinate(f->to, i, d));
        int64_t met = 0;
        RSH_TRY(rshi_layout_cut_count(f->from, i, &b, &met));
        *n *= met;
    }
    *n -= own > 0;
    return RSH_OK;
}

rsh_status rshi_view_by_factors(const rsh_plan *p, int64_t rank, rsh_rank_totals *v) {
    const rsh_layout *from = p->pair[0].from, *to = p->pair[0].to;
    int64_t s = rshi_layout_position(from, rank), d = rshi_layout_position(to, rank), size = p->pair[0].wire_size,
            own = 0;
    factors f;
    rsh_status st;
    RSH_GOTO(factors_init(&f, p, s < 0 ? 0 : s));
    if (s >= 0 && d >= 0) own = common_elements(&f, s, d);
    v->bytes_local = own * size;
    if (s >= 0) {
        residues r = part_residues(&f, s);
        take_off_own(&f, s, &r);
        v->bytes_sent = r.elements[holder_index(&f, s)] * size;
        v->nsend = r.neighbours[holder_index(&f, s)];
    }
    if (d >= 0) {
        v->bytes_received = (part_elements(to, d) - own) * size;
        RSH_GOTO(count_sources(&f, d, own, &v->nrecv));
    }
out:
    factors_free(&f);
    return st;
}

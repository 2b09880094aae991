/* Foreign memory: do destinations of this rank overlap parts of other threads?
 *
 * Every rank states in its record the address ranges of its sources and of its destinations.  All ranks read the same
 * records, so all know whether address ranges overlap, which is rare.  Then each rank compares its own destinations
 * with the parts of the ranks whose ranges they overlap, element by element as within a rank. */
#include "shard/foreign.h"

#include "shard/binding.h"

#include <string.h>

#define FEW 8 /* number of ranks up to which every pair is compared; more ranks are sorted */

/* Can ranks write to each other's parts? */
static bool is_possible(const rsh_comm *c) { return !c->link && !c->ops->is_shared && c->size > 1; }

static const rshi_bind_card *card_of(const rsh_comm *c, int rank) { return rshi_comm_card(c, rank); }

static void widen_range(rshi_address_range *s, const rshi_extent *e) {
    if (e->start == e->end) return;
    if (s->start == s->end) *s = (rshi_address_range){e->start, e->end};
    if (e->start < s->start) s->start = e->start;
    if (e->end > s->end) s->end = e->end;
}

void rshi_foreign_show(const rsh_comm *comm, const rshi_taken_parts *parts, rshi_bind_card *mine) {
    if (!is_possible(comm)) return;
    mine->src = mine->dst = (rshi_address_range){0, 0};
    for (int64_t k = 0; k < parts->nsrc + parts->ndst; k++)
        widen_range(parts->extent[k].dst ? &mine->dst : &mine->src, &parts->extent[k]);
}

/* ---- comparing address ranges ---- */

static bool ranges_overlap(rshi_address_range a, rshi_address_range b) { return a.start < b.end && b.start < a.end; }

static bool may_write_into(const rshi_bind_card *a, const rshi_bind_card *b) {
    return ranges_overlap(a->dst, b->src) || ranges_overlap(a->dst, b->dst);
}

static bool any_pair(const rsh_comm *c) {
    for (int a = 0; a < c->size; a++)
        for (int b = 0; b < c->size; b++)
            if (a != b && may_write_into(card_of(c, a), card_of(c, b))) return true;
    return false;
}

/* Compares the ranges of many ranks.  The result may be true although only a rank's own parts alternate in memory; the
 * closer check then finds nothing. */
static bool any_of_many(const rsh_comm *c) {
    rshi_extent *list = ((const rshi_comm_cache *)c->attached)->spans;
    for (int r = 0; r < c->size; r++) {
        const rshi_bind_card *card = card_of(c, r);
        list[2 * r] = (rshi_extent){(uintptr_t)card->src.start, (uintptr_t)card->src.end, false, r};
        list[2 * r + 1] = (rshi_extent){(uintptr_t)card->dst.start, (uintptr_t)card->dst.end, true, r};
    }
    return !rshi_extents_apart(list, 2 * (int64_t)c->size);
}

bool rshi_foreign_suspected(const rsh_comm *c) {
    if (!is_possible(c)) return false;
    return c->size <= FEW ? any_pair(c) : any_of_many(c);
}

/* ---- comparing elements ---- */

/* Parts of several ranks in one list. */
typedef struct look {
    const rsh_exec *e;
    rshi_taken_part *part; /* owned */
    rshi_extent *extent;   /* owned */
    int64_t n, room, extent_room;
} look;

static rsh_status add_part(look *l, const rsh_layout *layout, int rank, int64_t number, const rshi_shown_part *shown,
                           bool dst) {
    rsh_comm *comm = l->e->comm;
    RSH_TRY(RSHI_GROW(l->part, l->n + 1, &l->room));
    RSH_TRY(RSHI_GROW(l->extent, l->n + 1, &l->extent_room));
    rshi_taken_part *p = &l->part[l->n];
    *p = (rshi_taken_part){.layout = layout, .rank = rank, .number = number};
    p->memory.data = comm->ops->reach(comm, rank, shown->data);
    memcpy(p->memory.strides, shown->strides, sizeof p->memory.strides);
    l->extent[l->n] = rshi_part_extent(layout, rank, number, &p->memory, dst);
    l->extent[l->n].part = l->n;
    l->n++;
    return RSH_OK;
}

/* Adds the parts of a rank in the order of its table: sources first. */
static rsh_status add_rank(look *l, int rank) {
    rsh_comm *comm = l->e->comm;
    const rsh_plan *plan = l->e->plan;
    const rshi_shown_part *shown = comm->ops->reach(comm, rank, card_of(comm, rank)->table);
    RSH_REQUIRE(shown, RSH_EUNSUP, "rank %d cannot map the memory of rank %d", comm->rank, rank);
    for (int dst = 0; dst < 2; dst++)
        for (int64_t t = 0; t < rsh_plan_ntensors(plan); t++) {
            const rsh_layout *layout = dst ? rshi_plan_dst(plan, t) : rshi_plan_src(plan, t);
            int64_t n = rsh_layout_nparts(layout, rank);
            for (int64_t i = 0; i < n; i++, shown++)
                if (rank != comm->rank || dst) RSH_TRY(add_part(l, layout, rank, i, shown, dst));
        }
    return RSH_OK;
}

static rsh_status compare_elements(look *l) {
    rshi_extent at[2];
    rshi_sharing sharing =
        rshi_extents_meet(l->extent, l->n, &(rshi_extent_owner){rshi_taken_part_lattice, l->part}, at);
    if (sharing == RSHI_APART) return RSH_OK;
    const char *side[2] = {at[0].dst ? "destination" : "source", at[1].dst ? "destination" : "source"};
    return rshi_fail(RSH_EVALUE, "a %s of rank %lld, at %p, and a %s of rank %lld, at %p, %s", side[0],
                     (long long)l->part[at[0].part].rank, (void *)at[0].start, side[1],
                     (long long)l->part[at[1].part].rank, (void *)at[1].start,
                     sharing == RSHI_SHARED ? "share memory"
                                            : "interleave, and it is unknown whether they share memory; keep them "
                                              "apart, or use contiguous memory");
}

rsh_status rshi_foreign_check(const rsh_exec *e) {
    const rsh_comm *comm = e->comm;
    look l = {.e = e};
    rsh_status st = add_rank(&l, comm->rank);
    for (int r = 0; r < comm->size && !st; r++)
        if (r != comm->rank && may_write_into(card_of(comm, comm->rank), card_of(comm, r))) st = add_rank(&l, r);
    if (!st) st = compare_elements(&l);
    rshi_free(l.part);
    rshi_free(l.extent);
    return st;
}

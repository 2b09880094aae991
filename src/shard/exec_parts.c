/* Parts of an exec: this rank's parts in a bind, checked and published. */
#include "shard/exec.h"
#include "shard/route.h"

#include <string.h>

static const rsh_layout *layout_of(const rsh_plan *plan, bool dst, int64_t tensor) {
    return dst ? rshi_plan_dst(plan, tensor) : rshi_plan_src(plan, tensor);
}

/* ---- checking ---- */

void rshi_taken_parts_free(rshi_taken_parts *t) {
    rshi_free(t->part);
    *t = (rshi_taken_parts){0};
}

static rsh_status grow_taken_parts(rshi_taken_parts *t, int64_t n) {
    if (n <= t->room) return RSH_OK;
    rshi_taken_part *part = rshi_realloc(t->part, (size_t)n, sizeof *part + sizeof *t->extent);
    if (!part) return rshi_nomem();
    t->part = part;
    t->extent = (rshi_extent *)(part + n);
    t->room = n;
    return RSH_OK;
}

static int64_t count_side(const rsh_plan *plan, int64_t rank, bool dst) {
    int64_t n = 0;
    for (int64_t t = 0; t < rsh_plan_ntensors(plan); t++) n += rsh_layout_nparts(layout_of(plan, dst, t), rank);
    return n;
}

/* Lists this rank's parts of one side. */
static rsh_status take_side(rshi_taken_parts *out, const rsh_plan *plan, rsh_comm *comm, const rsh_memory *memory,
                            bool dst) {
    int64_t k = dst ? out->nsrc : 0;
    for (int64_t t = 0; t < rsh_plan_ntensors(plan); t++) {
        const rsh_layout *l = layout_of(plan, dst, t);
        int64_t n = rsh_layout_nparts(l, comm->rank);
        for (int64_t i = 0; i < n; i++, k++) {
            rshi_taken_part *p = &out->part[k];
            const rsh_memory *given = memory ? &memory[dst ? k - out->nsrc : k] : NULL;
            *p = (rshi_taken_part){.layout = l, .rank = comm->rank, .number = i};
            RSH_TRY(rshi_taken_part_fill(out->part, k, given, dst, out->extent));
            p->out_of_reach =
                comm->ops->is_shared && p->memory.data && !comm->ops->is_shared(comm, p->memory.data);
        }
    }
    return RSH_OK;
}

rsh_status rshi_parts_take(rshi_taken_parts *t, const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src,
                           const rsh_memory *dst) {
    t->nsrc = count_side(plan, comm->rank, false);
    t->ndst = count_side(plan, comm->rank, true);
    RSH_TRY(grow_taken_parts(t, t->nsrc + t->ndst));
    RSH_TRY(take_side(t, plan, comm, src, false));
    RSH_TRY(take_side(t, plan, comm, dst, true));
    return rshi_extents_check(t->extent, t->nsrc + t->ndst, &(rshi_extent_owner){rshi_taken_part_lattice, t->part});
}

void rshi_exec_set_parts(rsh_exec *e, const rshi_taken_parts *t) {
    for (int64_t k = 0; k < t->nsrc + t->ndst; k++) {
        memcpy(e->table[k].strides, t->part[k].memory.strides, sizeof e->table[k].strides);
        e->data[k] = t->part[k].memory.data;
        e->out_of_reach[k] = t->part[k].out_of_reach;
        e->extents[t->extent[k].part] = t->extent[k]; /* the given list is sorted by address */
    }
}

bool rshi_exec_fits(const rsh_exec *e, const rshi_taken_parts *t) {
    const rshi_parts *own = &e->peers[0].parts;
    if (own->nsrc != t->nsrc || own->ndst != t->ndst) return false;
    for (int64_t k = 0; k < t->nsrc + t->ndst; k++) {
        const rshi_taken_part *p = &t->part[k];
        if (memcmp(e->table[k].strides, p->memory.strides, sizeof p->memory.strides) != 0) return false;
        if (!e->data[k] != !p->memory.data || e->out_of_reach[k] != p->out_of_reach) return false;
    }
    return true;
}

/* ---- parts that others read in place ---- */

rsh_status rshi_exec_find_read(rsh_exec *e, const rsh_share *share) {
    const rshi_parts *own = &e->peers[0].parts;
    int64_t n = own->nsrc + own->ndst;
    if (!e->comm->ops->is_shared || e->all_by_message) return RSH_OK;
    e->shadow = rshi_alloc((size_t)n, sizeof *e->shadow);
    if (!e->shadow) return rshi_nomem();
    for (int64_t k = 0; k < n; k++) e->shadow[k] = RSHI_NOT_READ;
    for (int64_t i = 0; i < share->nsends; i++) {
        const rsh_transfer *t = &share->sends[i];
        if (!rshi_route_direct(e->comm, e->all_by_message, t)) continue;
        for (int64_t k = 0; k < t->nsrc; k++)
            if (t->src[k].rank == e->comm->rank && !t->src[k].in_scratch)
                e->shadow[rshi_parts_entry(own, t->src[k].in_dst, t->tensor, t->src[k].part)] = 0;
    }
    return RSH_OK;
}

bool rshi_exec_wants_messages(const rsh_exec *e) {
    const rshi_parts *own = &e->peers[0].parts;
    for (int64_t k = 0; e->shadow && k < own->nsrc + own->ndst; k++)
        if (e->shadow[k] != RSHI_NOT_READ && e->out_of_reach[k]) return true;
    return false;
}

/* ---- publishing ---- */

/* Returns whether a part needs a shadow: if others read it and cannot reach it, or would write to it. */
static bool needs_shadow(const rsh_exec *e, int64_t k, const char *data, bool dst) {
    if (!data || !e->shadow || e->shadow[k] == RSHI_NOT_READ) return false;
    return (dst && e->joint) || !e->comm->ops->is_shared(e->comm, data);
}

/* Publishes the handle of a part, or of its shadow. */
static rsh_status show_part(rsh_exec *e, const rsh_layout *l, int64_t part, int64_t k, const rshi_part_memory *p,
                            bool dst) {
    char *data = p->data;
    if (needs_shadow(e, k, data, dst))
        RSH_TRY(rshi_shadow_use(&e->shadows, e->comm, &e->shadow[k], l, part, p, dst, &data));
    rshi_handle before = e->table[k].data;
    RSH_TRY(e->comm->ops->publish(e->comm, data, 0, &e->table[k].data));
    if (before.a != e->table[k].data.a || before.b != e->table[k].data.b) e->shown_anew = true;
    return RSH_OK;
}

static rsh_status show_side(rsh_exec *e, const rsh_memory *memory, bool dst) {
    const rshi_parts *own = &e->peers[0].parts;
    int64_t skip = dst ? own->nsrc : 0;
    for (int64_t t = 0; t < own->ntensors; t++) {
        int64_t first = rshi_parts_entry(own, dst, t, 0), end = rshi_parts_entry(own, dst, t + 1, 0);
        for (int64_t k = first; k < end; k++) {
            rshi_part_memory part = {.data = e->data[k]};
            if (part.data && memory) part.data = memory[k - skip].data;
            memcpy(part.strides, e->table[k].strides, sizeof part.strides);
            RSH_TRY(show_part(e, layout_of(e->plan, dst, t), k - first, k, &part, dst));
        }
    }
    return RSH_OK;
}

rsh_status rshi_exec_show_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    rshi_shadows_rest(&e->shadows);
    RSH_TRY(show_side(e, src, false));
    return show_side(e, dst, true);
}

/* ---- scratch ---- */

rsh_status rshi_exec_take_scratch(rsh_exec *e) {
    int64_t bytes;
    RSH_TRY(rshi_plan_scratch_bytes(e->plan, e->comm->rank, &bytes));
    if (!bytes) return RSH_OK;
    if (e->comm->ops->data_alloc) {
        RSH_TRY(e->comm->ops->data_alloc(e->comm, (size_t)bytes, false, &e->scratch));
        rshi_count_scratch(bytes);
    } else if (!(e->scratch.data = rshi_alloc_scratch((size_t)bytes))) {
        return rshi_nomem();
    }
    e->scratch_bytes = bytes;
    return RSH_OK;
}

rsh_status rshi_exec_show_scratch(rsh_exec *e) {
    const rshi_parts *own = &e->peers[0].parts;
    int64_t bytes = 0, count;
    for (int64_t t = 0; t < own->nscratch; t++) {
        rshi_shown_part *shown = &e->table[own->nsrc + own->ndst + t];
        RSH_TRY(rshi_plan_scratch(e->plan, t, e->comm->rank, &count));
        rsh_dtype dtype = rshi_accumulator(rsh_layout_dtype(rshi_plan_src(e->plan, t)));
        char *data = count ? (char *)e->scratch.data + rshi_scratch_start(bytes) : NULL;
        bytes = rshi_scratch_end(bytes, count, dtype);
        *shown = (rshi_shown_part){.strides = {1}};
        RSH_TRY(e->comm->ops->publish(e->comm, data, 0, &shown->data));
    }
    return RSH_OK;
}

void rshi_exec_free_scratch(rsh_exec *e) {
    if (!e->scratch_bytes) return;
    if (!e->scratch.release) {
        rshi_free_scratch(e->scratch.data, (size_t)e->scratch_bytes);
        return;
    }
    rshi_count_scratch(-e->scratch_bytes);
    e->scratch.release(e->scratch.owner);
}

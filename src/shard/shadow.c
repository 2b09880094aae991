/* Shadow: copies of parts that peers cannot reach, in memory that they can. */
#include "shard/shadow.h"

/* Describes the copy.  Source and destination have the same strides, so one move serves both directions. */
static rsh_status describe_copy(const rsh_layout *l, int64_t rank, int64_t part, const rshi_part_memory *p,
                           rshi_shadow *out) {
    rsh_part shape;
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l));
    out->move = (rshi_move){.nd = shape.ndim, .nsrc = 1, .from = rsh_layout_dtype(l), .to = rsh_layout_dtype(l)};
    for (int d = 0; d < shape.ndim; d++) {
        out->move.n[d] = shape.shape[d];
        out->move.ds[d] = out->strides[d] = p->strides[d] * size;
    }
    out->bytes = (uint64_t)(shape.count * size);
    return RSH_OK;
}

static rsh_status make_shadow(rshi_shadows *s, rsh_comm *comm, const rsh_layout *l, int64_t part, 
                              const rshi_part_memory *p, bool dst) {
    RSH_TRY(RSHI_GROW(s->list, s->n + 1, &s->room));
    rshi_shadow *w = &s->list[s->n];
    *w = (rshi_shadow){.dst = dst};
    rshi_extent extent = rshi_part_extent(l, comm->rank, part, p, dst);
    RSH_TRY(describe_copy(l, comm->rank, part, p, w));
    RSH_TRY(comm->ops->data_alloc(comm, extent.end - extent.start, false, &w->block));
    w->room = (int64_t)(extent.end - extent.start);
    rshi_count_scratch(w->room);
    w->data = (char *)w->block.data + ((uintptr_t)p->data - extent.start);
    w->move.ss = w->strides;
    rshi_move_prepare(&w->move, w->bytes);
    s->n++;
    return RSH_OK;
}

rsh_status rshi_shadow_use(rshi_shadows *s, rsh_comm *comm, int64_t *number, const rsh_layout *l, int64_t part,
                           const rshi_part_memory *p, bool dst, char **data) {
    if (!*number) {
        RSH_TRY(make_shadow(s, comm, l, part, p, dst));
        *number = s->n;
    }
    rshi_shadow *w = &s->list[*number - 1];
    w->own = p->data;
    *data = w->data;
    return RSH_OK;
}

void rshi_shadows_rest(rshi_shadows *s) {
    for (int64_t i = 0; i < s->n; i++) s->list[i].own = NULL;
}

static void copy_shadow(const rshi_shadow *w, char *to, const char *from) {
    rshi_move m = w->move;
    m.ss = (int64_t *)w->strides; /* the list may have moved since then */
    rshi_move_run(&m, 0, 0, m.nd ? m.n[0] : 1, to, &from);
}

void rshi_shadows_fill(const rshi_shadows *s) {
    for (int64_t i = 0; i < s->n; i++)
        if (s->list[i].own && !s->list[i].dst) copy_shadow(&s->list[i], s->list[i].data, s->list[i].own);
    if (s->n) rshi_copy_fence();
}

void rshi_shadows_drain(const rshi_shadows *s) {
    for (int64_t i = 0; i < s->n; i++)
        if (s->list[i].own && s->list[i].dst) copy_shadow(&s->list[i], s->list[i].own, s->list[i].data);
    if (s->n) rshi_copy_fence();
}

uint64_t rshi_shadows_bytes(const rshi_shadows *s, rsh_comm *comm) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (s->list[i].own && !comm->ops->is_shared(comm, s->list[i].own)) bytes += s->list[i].bytes;
    return bytes;
}

void rshi_shadows_free(rshi_shadows *s) {
    for (int64_t i = 0; i < s->n; i++) {
        rshi_count_scratch(-s->list[i].room);
        s->list[i].block.release(s->list[i].block.owner);
    }
    rshi_free(s->list);
}

void rshi_shadows_abandon(rshi_shadows *s) {
    rshi_free(s->list);
    *s = (rshi_shadows){0};
}

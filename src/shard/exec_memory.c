/* Memory of an exec: checks the parts that this rank reads and writes for overlaps. */
#include "shard/exec.h"

#include <string.h>

/* An exec, and memory for one run that may differ from the bound memory. */
typedef struct given {
    const rsh_exec *e;
    const rsh_memory *src, *dst; /* NULL: the bound memory */
} given;

/* Returns the address of element 0,...,0 of part k of this rank. */
static char *data_of(const given *g, int64_t k) {
    int64_t nsrc = g->e->peers[0].parts.nsrc;
    const rsh_memory *memory = k < nsrc ? g->src : g->dst;
    return memory && g->e->data[k] ? memory[k < nsrc ? k : k - nsrc].data : g->e->data[k];
}

static rshi_lattice lattice_of(const void *ctx, int64_t k) {
    const given *g = ctx;
    const rshi_parts *self = &g->e->peers[0].parts;
    int64_t n = rsh_plan_ntensors(g->e->plan), t = 0;
    bool dst = k >= self->nsrc;
    const int64_t *first = self->first + (dst ? n + 1 : 0);
    while (k >= first[t + 1]) t++;
    rshi_part_memory part = {.data = data_of(g, k)};
    memcpy(part.strides, g->e->table[k].strides, sizeof part.strides);
    return rshi_part_lattice(dst ? rshi_plan_dst(g->e->plan, t) : rshi_plan_src(g->e->plan, t), g->e->comm->rank,
                             k - first[t], &part);
}

rsh_status rshi_exec_check_memory(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    int64_t n = e->peers[0].parts.nsrc + e->peers[0].parts.ndst;
    rshi_extent *moved = e->extents + n;
    given g = {e, src, dst};
    for (int64_t k = 0; k < n; k++) {
        uintptr_t by = (uintptr_t)data_of(&g, k) - (uintptr_t)e->data[k];
        moved[k] = e->extents[k];
        if (moved[k].start != moved[k].end) moved[k].start += by, moved[k].end += by;
    }
    return rshi_extents_check(moved, n, &(rshi_extent_owner){lattice_of, &g});
}

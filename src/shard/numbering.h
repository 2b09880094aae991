/* numbering: numbers the parts of one rank, with their strides: sources first, by tensor, then
 * destinations, then the scratch in which the rank combines contributions for its node. */
#ifndef RESHARD_SHARD_NUMBERING_H
#define RESHARD_SHARD_NUMBERING_H

#include "comm/comm.h"
#include "plan/plan.h"

/* The published data of a part: its handle and its element strides. */
typedef struct rshi_shown_part {
    rshi_handle data;
    int64_t strides[RSH_MAX_NDIM];
} rshi_shown_part;

/* Why a rank refused the current run, for its peers to read; stored in front of its parts. */
typedef struct rshi_refusal {
    int64_t status;
    char detail[RSHI_DETAIL_BYTES];
} rshi_refusal;
_Static_assert(sizeof(rshi_refusal) % _Alignof(rshi_shown_part) == 0, "parts are stored behind it");

static inline rshi_refusal *rshi_refusal_of(const rshi_shown_part *table) {
    return (rshi_refusal *)(uintptr_t)table - 1;
}

/* The location of an end of a transfer: the number of its part, by which a run looks up the
 * address, and the element strides of the part. */
typedef struct rshi_location {
    int64_t part;
    const int64_t *strides;
} rshi_location;

typedef struct rshi_parts {
    int64_t ntensors;
    int64_t nsrc, ndst;
    int64_t nscratch; /* one for each tensor, or 0 if the plan has none */
    int64_t number; /* number of the first part, among all parts of the run */
    int64_t *first; /* [2 * ntensors + 2]: per tensor the first of its sources (0..n), and of its
                       destinations (n+1..2n+1); counted from 0 */
    const rshi_shown_part *table; /* by entry */
} rshi_parts;

/* Counts the parts of `rank`; `first` has room for 2 * ntensors + 2 numbers. */
static inline void rshi_parts_count(rshi_parts *p, const rsh_plan *plan, int64_t rank,
                                    int64_t *first) {
    int64_t n = rsh_plan_ntensors(plan), next = 0;
    p->ntensors = n;
    p->first = first;
    for (int64_t t = 0; t < n; t++) {
        first[t] = next;
        next += rsh_layout_nparts(rshi_plan_src(plan, t), rank);
    }
    p->nsrc = first[n] = next;
    for (int64_t t = 0; t < n; t++) {
        first[n + 1 + t] = next;
        next += rsh_layout_nparts(rshi_plan_dst(plan, t), rank);
    }
    first[2 * n + 1] = next;
    p->ndst = next - p->nsrc;
    p->nscratch = rshi_plan_has_scratch(plan) ? n : 0;
}

/* Parts and scratch together. */
static inline int64_t rshi_parts_all(const rshi_parts *p) {
    return p->nsrc + p->ndst + p->nscratch;
}

static inline int64_t rshi_parts_entry(const rshi_parts *p, bool dst, int64_t tensor,
                                       int64_t part) {
    return p->first[dst ? p->ntensors + 1 + tensor : tensor] + part;
}

/* Returns the location of an end of a transfer of a tensor. */
static inline rshi_location rshi_parts_find(const rshi_parts *p, int64_t tensor,
                                            const rsh_transfer_end *end) {
    int64_t entry = end->in_scratch ? p->nsrc + p->ndst + tensor
                                    : rshi_parts_entry(p, end->in_dst, tensor, end->part);
    return (rshi_location){p->number + entry, p->table[entry].strides};
}

#endif

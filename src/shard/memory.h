/* memory: the parts that a caller hands in, checked, with strides filled in. */
#ifndef RESHARD_SHARD_MEMORY_H
#define RESHARD_SHARD_MEMORY_H

#include <reshard/shard.h>

#include "base/base.h"
#include "shard/lattice.h"

/* One part in memory: the address of its element 0,...,0 and its strides in elements. */
typedef struct rshi_part_memory {
    char *data;
    int64_t strides[RSH_MAX_NDIM];
} rshi_part_memory;

/* The part (rank, part) of a layout in the caller's memory.  RSH_EVALUE if it has elements and no
 * data. */
rsh_status rshi_part_take(const rsh_layout *l, int64_t rank, int64_t part, const rsh_memory *memory,
                          rshi_part_memory *out);

rshi_lattice rshi_part_lattice(const rsh_layout *l, int64_t rank, int64_t part,
                               const rshi_part_memory *p);

/* Addresses that one part uses, to find out whether any two share memory. */
typedef struct rshi_extent {
    uintptr_t start, end; /* first byte, and one past the last; equal: no elements */
    bool dst;
    int64_t part; /* by which whoever made the list knows it */
} rshi_extent;
rshi_extent rshi_part_extent(const rsh_layout *l, int64_t rank, int64_t part,
                             const rshi_part_memory *p, bool dst);

/* One part that the caller hands in to a bind, checked. */
typedef struct rshi_taken_part {
    const rsh_layout *layout; /* borrowed: whose part `number` of `rank` it is */
    int64_t rank, number;
    rshi_part_memory memory;
    bool out_of_reach; /* of peers */
} rshi_taken_part;

/* Take part k of a table, whose layout, rank and number are set, from the caller's memory (NULL:
 * none), and note in extent[k] where it lies.  RSH_EVALUE as for rshi_part_take, and if a
 * destination holds two elements in one place, or if that cannot be told. */
rsh_status rshi_taken_part_fill(rshi_taken_part *table, int64_t k, const rsh_memory *memory,
                                bool dst, rshi_extent *extent);
/* Of part k of a table: for rshi_extent_owner. */
rshi_lattice rshi_taken_part_lattice(const void *table, int64_t k);

/* What can say more about the parts of a list. */
typedef struct rshi_extent_owner {
    rshi_lattice (*lattice)(const void *ctx, int64_t part);
    const void *ctx;
} rshi_extent_owner;

/* Does no destination's extent overlap with that of another part?  Sorts the list. */
bool rshi_extents_apart(rshi_extent *list, int64_t n);
/* Does a destination share a byte with any other part?  If the extents do not overlap, a sort shows
 * that it does not; otherwise the elements are compared, for a bounded time.  Sorts the list.
 * `at`, if such a pair is found: the two of them. */
rshi_sharing rshi_extents_meet(rshi_extent *list, int64_t n, const rshi_extent_owner *owner,
                               rshi_extent at[2]);
/* The same as an error: RSH_EVALUE unless they are apart. */
rsh_status rshi_extents_check(rshi_extent *list, int64_t n, const rshi_extent_owner *owner);

#endif

/* memory: the parts that a caller passes, checked, with default strides filled in. */
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

/* Checks part (rank, part) of a layout in the caller's memory.  RSH_EVALUE if it has elements and
 * no data. */
rsh_status rshi_part_take(const rsh_layout *l, int64_t rank, int64_t part, const rsh_memory *memory,
                          rshi_part_memory *out);

rshi_lattice rshi_part_lattice(const rsh_layout *l, int64_t rank, int64_t part,
                               const rshi_part_memory *p);

/* The address range of one part, to find overlaps. */
typedef struct rshi_extent {
    uintptr_t start, end; /* first byte, and one past the last; equal: no elements */
    bool dst;
    int64_t part; /* its number, as the creator of the list counts */
} rshi_extent;
rshi_extent rshi_part_extent(const rsh_layout *l, int64_t rank, int64_t part,
                             const rshi_part_memory *p, bool dst);

/* A checked part that the caller passed to a bind. */
typedef struct rshi_taken_part {
    const rsh_layout *layout; /* borrowed: this is part `number` of `rank` in it */
    int64_t rank, number;
    rshi_part_memory memory;
    bool out_of_reach; /* peers cannot reach it */
} rshi_taken_part;

/* Checks part k of a table, whose layout, rank and number are set, in the caller's memory (NULL:
 * none), and sets extent[k].  RSH_EVALUE as for rshi_part_take, and if a destination has two
 * elements at one address, or if that is unknown. */
rsh_status rshi_taken_part_fill(rshi_taken_part *table, int64_t k, const rsh_memory *memory,
                                bool dst, rshi_extent *extent);
/* Returns the lattice of part k of a table; for rshi_extent_owner. */
rshi_lattice rshi_taken_part_lattice(const void *table, int64_t k);

/* Provides the lattices of the parts of a list. */
typedef struct rshi_extent_owner {
    rshi_lattice (*lattice)(const void *ctx, int64_t part);
    const void *ctx;
} rshi_extent_owner;

/* Are the extents of all destinations disjoint from those of other parts?  Sorts the list. */
bool rshi_extents_apart(rshi_extent *list, int64_t n);
/* Does a destination share a byte with any other part?  If the extents do not overlap, sorting
 * shows that it does not; otherwise the elements are compared, for a bounded time.  Sorts the list.
 * If such a pair is found, it is written to `at`. */
rshi_sharing rshi_extents_meet(rshi_extent *list, int64_t n, const rshi_extent_owner *owner,
                               rshi_extent at[2]);
/* Returns RSH_EVALUE unless all destinations are disjoint from all other parts. */
rsh_status rshi_extents_check(rshi_extent *list, int64_t n, const rshi_extent_owner *owner);

#endif

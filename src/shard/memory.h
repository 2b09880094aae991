/* memory: the parts that a caller hands in, checked, with strides filled in. */
#ifndef RESHARD_SHARD_MEMORY_H
#define RESHARD_SHARD_MEMORY_H

#include <reshard/shard.h>

#include "base/base.h"

/* One part in memory: the address of its element 0,...,0 and its strides in elements. */
typedef struct rshi_part {
    char *data;
    int64_t strides[RSH_MAX_NDIM];
} rshi_part;

/* The part (rank, part) of a layout in the caller's memory.  RSH_EVALUE if it has elements and no
 * data. */
rsh_status rshi_part_take(const rsh_layout *l, int64_t rank, int64_t part, const rsh_memory *memory,
                          rshi_part *out);

/* Addresses that parts use, to find out whether any two share memory. */
typedef struct rshi_extent {
    uintptr_t start, end;
    bool dst;
} rshi_extent;
rshi_extent rshi_part_extent(const rsh_layout *l, int64_t rank, int64_t part, const rshi_part *p,
                             bool dst);
/* RSH_EVALUE if a destination shares memory with anything; sorts the list. */
rsh_status rshi_extents_check(rshi_extent *list, int64_t n);

#endif

/* program: transfers into one or more ranks, compiled to moves and cut into slabs in the order of
 * the destination's memory. */
#ifndef RESHARD_SHARD_PROGRAM_H
#define RESHARD_SHARD_PROGRAM_H

#include <reshard/shard.h>

#include "copy/copy.h"
#include "plan/plan.h"
#include "shard/numbering.h"

typedef struct rshi_source {
    int64_t part;   /* number */
    int64_t offset; /* bytes from the part's element 0 */
} rshi_source;

typedef struct rshi_task {
    rshi_move move;
    int stage;
    int64_t part, offset; /* destination */
    int64_t first_source; /* in sources[] */
} rshi_task;

/* A slab of a task, which is run as a whole: dims 0..first-1 at the indices combined in `outer`,
 * dim `first` from i0 to i1. */
typedef struct rshi_slab {
    int64_t task;
    int64_t dst; /* bytes from the destination part's element 0: slabs are run in this order */
    int64_t outer, i0, i1;
    int first;
} rshi_slab;

/* A small record of a slab that consists of rows of bytes.  A rank with many neighbours has many
 * such records and reads all of them in every run. */
typedef struct rshi_slab_rows {
    rshi_strip rows; /* from element 0 of the parts */
    int32_t src, dst; /* parts */
} rshi_slab_rows;

/* Byte offset, along strides, of combined index `outer` over dims 0..first-1. */
static inline int64_t rshi_outer_offset(const rshi_move *m, const int64_t *strides, int first,
                                        int64_t outer) {
    int64_t offset = 0;
    for (int d = first - 1; d >= 0; d--) {
        offset += outer % m->n[d] * strides[d];
        outer /= m->n[d];
    }
    return offset;
}

/* Arrays that the move of a weave borrows. */
typedef struct rshi_woven {
    int64_t runs[RSHI_WEAVE_MOST];
    int64_t strides[RSHI_WEAVE_MOST * RSHI_MOVE_DIMS];
} rshi_woven;

typedef struct rshi_program {
    rshi_task *tasks;
    rshi_source *sources;
    int64_t *strides; /* RSHI_MOVE_DIMS for each source */
    rshi_slab *slabs; /* by stage, part and dst */
    rshi_slab_rows *blocks; /* [nslabs], one for each slab */
    bool stream;
    rshi_woven **woven; /* owned, each */
    int64_t nwoven, woven_room;
    int64_t ntasks, tasks_room, nsources, sources_room, strides_room, nslabs, slabs_room;
    int64_t stage_start[RSHI_STAGES +
                        1]; /* in slabs: stage s is stage_start[s] .. stage_start[s + 1] */
    int64_t most_sources;   /* of one task */
    size_t footprint;       /* bytes written */
    uint64_t bytes_local, bytes_shared;
    uint64_t kernels[RSHI_KERNEL_COUNT];
} rshi_program;

/* Adds a transfer; `dst` and `src` (nsrc of them) are the locations of its ends.  The user of the
 * program numbers the parts; their addresses are looked up in every run. */
rsh_status rshi_program_add(rshi_program *g, const rsh_transfer *t, const rshi_location *dst,
                            const rshi_location *src);
/* Chooses kernels, cuts slabs, sorts.  Nothing can be added afterwards.  `writers`: the number of
 * ranks, including this one, that run such programs on the same caches at the same time. */
rsh_status rshi_program_finish(rshi_program *g, int64_t writers);
void rshi_program_free(rshi_program *g);

/* Runs slabs `start` to `end` - 1, one after the other.  `base` has the address of every part by
 * number; `pointers` has room for most_sources. */
void rshi_slabs_run(const rshi_program *g, int64_t start, int64_t end, char *const *base,
                    const char **pointers);

#endif

/* shard: sharded tensors, for rooms on top of this one. */
#ifndef RESHARD_SHARD_SHARD_H
#define RESHARD_SHARD_SHARD_H

#include <reshard/shard.h>

#include "comm/comm.h"
#include "layout/layout.h"
#include "shard/memory.h"

struct rsh_sharded {
    rsh_comm *comm;
    rsh_layout *layout; /* owned */
    int64_t nparts;
    rsh_tensor **part; /* owned, nparts */
};

/* Lists the memory of all parts, as an exec needs it; `out` has nparts entries. */
void rshi_sharded_memory(const rsh_sharded *s, rsh_memory *out);

/* Random numbers by global position: uniform from 0 to 1 or normal, times scale plus shift. */
typedef struct rshi_numbers {
    bool normal;
    uint64_t seed;
    double scale, shift;
} rshi_numbers;
rsh_status rshi_sharded_draw(const rsh_sharded *s, const rshi_numbers *numbers);

/* rsh_reshard_into for a call with another name, which is used in error messages.  `ready`: this
 * rank's status so far; src and dst are used only if it is RSH_OK. */
rsh_status rshi_reshard_as(rsh_comm *comm, const char *name, rsh_status ready,
                           const rsh_sharded *src, rsh_sharded *dst, const rsh_plan_opts *opts);

/* Collective.  Runs the adjoint of the move between two layouts: from the buffers of src, which has
 * layout `to`, to new ones of layout `from`, with a cached plan and binding.  `name` as above. */
rsh_status rshi_reshard_adjoint(rsh_comm *comm, const char *name, const rsh_sharded *src,
                                const rsh_layout *from, const rsh_layout *to,
                                const rsh_plan_opts *opts, rsh_sharded **out);

/* Collective.  Runs the plan on this memory, with a cached or a new binding.  `name` is the user's
 * call, for error messages; `ready` is this rank's status so far: plan and memory are used only if
 * it is RSH_OK. */
rsh_status rshi_run_cached(rsh_comm *comm, const char *name, rsh_status ready, const rsh_plan *plan,
                          const rsh_memory *src, const rsh_memory *dst);

/* The user's collective call. */
typedef struct rshi_call {
    const char *name;
    const char *what; /* must be the same on every rank; NULL: the target layout */
} rshi_call;
/* rsh_reshard_begin for such a call; `ready` as above. */
rsh_status rshi_transit_begin(rsh_comm *comm, const rshi_call *call, rsh_status ready,
                              const rsh_sharded *src, const rsh_layout *to,
                              const rsh_plan_opts *opts, rsh_transit **out);

/* Returns a plan from the comm's cache, or a new one that is added to it; borrowed until the comm's
 * next cached plan. */
rsh_status rshi_plan_cached(rsh_comm *comm, int64_t n, const rsh_layout *const *from,
                            const rsh_layout *const *to, const rsh_plan_opts *opts,
                            const rsh_plan **out);
/* Does the same for the adjoint of one move. */
rsh_status rshi_adjoint_cached(rsh_comm *comm, const rsh_layout *from, const rsh_layout *to,
                               const rsh_plan_opts *opts, const rsh_plan **out);

#endif

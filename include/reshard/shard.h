/* Sharded tensors and the moves between layouts.
 *
 * A sharded tensor is a layout, a comm and this rank's part(s).  Rank numbers in a layout are ranks
 * of the comm.  Creating one is local; reshard, bind, gather, scatter and digest are collective
 * over the whole comm: ranks in neither layout call too. Nothing here writes to a source; on
 * failure what the library allocated is released and every rank gets an error. */
#ifndef RESHARD_SHARD_H
#define RESHARD_SHARD_H

#include <reshard/comm.h>
#include <reshard/plan.h>
#include <reshard/pool.h>
#include <reshard/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_sharded rsh_sharded;

/* Memory of one part: the element at local index 0,...,0 and element strides of the part's dims
 * (any sign; NULL: dense in the layout's order).  Empty parts may have data NULL. */
typedef struct rsh_memory {
    void *data;
    const int64_t *strides;
} rsh_memory;

/* New memory for this rank's parts.  RSH_EVALUE if the layout names a rank outside the comm. Local.
 */
RSH_API rsh_status rsh_sharded_empty(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out);
RSH_API rsh_status rsh_sharded_zeros(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out);
RSH_API rsh_status rsh_sharded_full(rsh_comm *comm, const rsh_layout *layout, const void *value,
                                    rsh_sharded **out);
/* This rank's parts get the numbers of rsh_math_uniform and rsh_math_normal, stream 0, by global
 * row-major index: the same tensor in every layout.  RSH_ETYPE: neither floats nor complex;
 * RSH_EUNSUP: a partial layout.  Local. */
RSH_API rsh_status rsh_sharded_uniform(const rsh_sharded *s, uint64_t seed);
RSH_API rsh_status rsh_sharded_normal(const rsh_sharded *s, uint64_t seed);
/* The caller's memory, borrowed; `parts` has rsh_layout_nparts(layout, rank) entries.  Local. */
RSH_API rsh_status rsh_sharded_wrap(rsh_comm *comm, const rsh_layout *layout,
                                    const rsh_memory *parts, rsh_sharded **out);
/* Tensors that exist, one for each of this rank's parts and in their order; n is the number of
 * parts.  Their storage is shared, so the result may outlive them, and their strides may be any.
 * RSH_EVALUE if n, a dtype or a shape is not what the layout says.  Local. */
RSH_API rsh_status rsh_sharded_from_tensors(rsh_comm *comm, const rsh_layout *layout, int64_t n,
                                            const rsh_tensor *const *parts, rsh_sharded **out);
/* From a whole tensor on rank `root` (`whole` is ignored elsewhere).  Collective. */
RSH_API rsh_status rsh_sharded_scatter(rsh_comm *comm, const rsh_layout *layout, int root,
                                       const rsh_memory *whole, rsh_sharded **out);
RSH_API void rsh_sharded_free(rsh_sharded *s);

RSH_API const rsh_layout *rsh_sharded_layout(const rsh_sharded *s);
RSH_API rsh_comm *rsh_sharded_comm(const rsh_sharded *s);
RSH_API int64_t rsh_sharded_nparts(const rsh_sharded *s);
RSH_API const rsh_tensor *rsh_sharded_part(const rsh_sharded *s,
                                           int64_t part); /* borrowed; NULL if there is none */

/* Put the comm's node map into plan options, where it says which copies and routes stay inside a
 * node.  node_of is borrowed from the comm.  rsh_reshard and its kin do it by themselves for
 * options that name no nodes.  Local. */
RSH_API rsh_status rsh_comm_plan_opts(const rsh_comm *comm, rsh_plan_opts *opts);

/* src in layout `to`, in new memory.  The comm remembers plans and bindings, 1,024 of each, by
 * layouts, options, strides and kind of memory: a loop plans and binds once, whatever memory the
 * tensors have.  opts
 * NULL: defaults.  Collective. */
RSH_API rsh_status rsh_reshard(const rsh_sharded *src, const rsh_layout *to,
                               const rsh_plan_opts *opts, rsh_sharded **out);
RSH_API rsh_status rsh_reshard_into(const rsh_sharded *src, rsh_sharded *dst,
                                    const rsh_plan_opts *opts);
RSH_API rsh_status rsh_reshard_many(int64_t n, const rsh_sharded *const *src,
                                    const rsh_layout *const *to, const rsh_plan_opts *opts,
                                    rsh_sharded **out);

/* How often the calls above, gather, scatter and the collectives of groups found a binding, on this
 * rank, and how many there are.  Local. */
typedef struct rsh_cache_stats {
    uint64_t hits, misses;
    int64_t bindings;
} rsh_cache_stats;
RSH_API rsh_status rsh_comm_get_cache_stats(const rsh_comm *comm, rsh_cache_stats *out);

/* The whole tensor, in the layout's dtype, into the caller's memory on rank `root` (`whole` is
 * ignored elsewhere).  Partial layouts are reduced.  Collective. */
RSH_API rsh_status rsh_gather(const rsh_sharded *src, int root, const rsh_memory *whole);

/* A digest of values and their global positions, whatever the layout: sharded, replicated or whole
 * gives the same.  Partial layouts are refused (RSH_EUNSUP).  Nothing moves but 16 bytes a rank.
 * docs/digest.md has the formula.  Collective. */
typedef struct rsh_digest {
    uint64_t hi, lo;
} rsh_digest;
#define RSH_DIGEST_TEXT 36 /* "d1:" + 32 hex + NUL */
RSH_API rsh_status rsh_sharded_digest(const rsh_sharded *s, rsh_digest *out);
RSH_API void rsh_digest_text(rsh_digest d, char text[RSH_DIGEST_TEXT]);
/* The same over parts that one caller holds: every rank ascending, every part of it.  Local. */
RSH_API rsh_status rsh_digest_local(const rsh_layout *layout, const rsh_memory *parts,
                                    rsh_digest *out);

/* Exec: a plan bound to a comm and to memory, to be run many times without allocating.  It holds
 * the plan and borrows comm and memory.  `src` and `dst` have one entry per part of this rank,
 * tensor after tensor of the plan (NULL where there are none). */
typedef struct rsh_exec rsh_exec;
RSH_API rsh_status rsh_exec_bind(const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src,
                                 const rsh_memory *dst, rsh_exec **out);
/* Called by every rank of the layouts (harmless on others).  On return this rank's destination is
 * complete and its source may be changed.  Waits for neighbours only. */
RSH_API rsh_status rsh_exec_run(rsh_exec *e);
/* The same in pieces: begin says that the source is ready, test makes what progress it can without
 * waiting, wait finishes.  Every rank begins the runs of a comm in the same order.  Those that are
 * under way at once may be tested and waited for in any order, another one on each rank; those of
 * different comms in the same order by all. */
RSH_API rsh_status rsh_exec_begin(rsh_exec *e);
RSH_API rsh_status rsh_exec_test(rsh_exec *e, bool *done);
RSH_API rsh_status rsh_exec_wait(rsh_exec *e);
/* A run on other memory of the same shapes and strides; entries as in bind, only data is read.  If
 * a rank refuses (data NULL; a destination that shares memory with anything; no memory for what its
 * neighbours are to read), its neighbours get its status and sentence at once, and destinations are
 * undefined; exec and comm stay good.  Where the rank exchanges messages (opts.messages, several
 * nodes) the others get RSH_EPEER with the sentence, and the comm has failed. */
RSH_API rsh_status rsh_exec_run_on(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);
/* A run that was begun is finished first. */
RSH_API void rsh_exec_free(rsh_exec *e);

typedef struct rsh_exec_stats {
    uint64_t runs;
    uint64_t bytes_local, bytes_shared, bytes_wire; /* of one run on this rank: from itself, from
                                                       ranks of its node, from other nodes */
    double seconds;                                 /* of the last run */
    uint64_t contiguous, rows, strided, transposed, converted, reduced,
        filled;            /* moves by kernel, of one run */
    uint64_t bytes_shadow; /* copied once more: rsh_exec_run_on of memory that others cannot reach,
                              where that of bind was */
} rsh_exec_stats;
RSH_API rsh_status rsh_exec_get_stats(const rsh_exec *e, rsh_exec_stats *out);

/* Every rank's part inside one caller, without rank threads.  `src` and `dst` list tensor after
 * tensor, rank after rank ascending, part after part.  pool NULL: the calling thread alone.  Local.
 */
RSH_API rsh_status rsh_plan_run_local(const rsh_plan *plan, rsh_pool *pool, const rsh_memory *src,
                                      const rsh_memory *dst);

/* The same bound once and run often without allocating. */
typedef struct rsh_local rsh_local;
RSH_API rsh_status rsh_local_bind(const rsh_plan *plan, rsh_pool *pool, const rsh_memory *src,
                                  const rsh_memory *dst, rsh_local **out);
RSH_API rsh_status rsh_local_run(rsh_local *l);
RSH_API void rsh_local_free(rsh_local *l);

#ifdef __cplusplus
}
#endif
#endif

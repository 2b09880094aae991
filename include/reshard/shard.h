/* Sharded tensors and the moves between layouts.
 *
 * A sharded tensor is a layout, a comm and this rank's part(s).  Rank numbers in a layout are ranks
 * of the comm.  The layout is held; the comm is borrowed, and a sharded tensor may be freed after
 * its comm.
 *
 * Collective calls are collective over the whole comm: ranks that are in neither layout must call
 * too.  They return the errors of all collective calls (<reshard/comm.h>), and RSH_ENOMEM.  If a
 * rank rejects its arguments, every rank gets its status and message before any byte moves.  There
 * is one exception: a rank that passes NULL as the sharded tensor or the comm gets RSH_EVALUE
 * alone, because it has no comm to tell the others; they wait until the timeout.  A call that fails
 * frees what it allocated.  No function here writes to a source. */
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

/* Memory of one part: the address of local index 0,...,0 and the element strides of the part's dims
 * (any sign; NULL: dense in the layout's order).  Empty parts may have data NULL. */
typedef struct rsh_memory {
    void *data;
    const int64_t *strides;
} rsh_memory;

/* Make a sharded tensor on new memory whose elements are undefined, zero, or *value, which is one
 * element of the layout's dtype.  The caller frees *out.
 * RSH_EVALUE if the layout names a rank outside the comm; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharded_empty(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out);
RSH_API rsh_status rsh_sharded_zeros(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out);
RSH_API rsh_status rsh_sharded_full(rsh_comm *comm, const rsh_layout *layout, const void *value,
                                    rsh_sharded **out);
/* Fill this rank's parts with the numbers of rsh_math_uniform and rsh_math_normal, stream 0, by
 * global row-major index, so that the tensor is the same in every layout.
 * RSH_ETYPE if the dtype is neither a float nor complex; RSH_EUNSUP for a partial layout;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharded_uniform(const rsh_sharded *s, uint64_t seed);
RSH_API rsh_status rsh_sharded_normal(const rsh_sharded *s, uint64_t seed);
/* Makes a sharded tensor on memory of the caller, which is borrowed.  `parts` has
 * rsh_layout_nparts(layout, rank) entries (NULL if no part has elements).  The caller frees *out.
 * RSH_EVALUE if the layout names a rank outside the comm, a part with elements has no data, or
 * strides exceed the address space; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharded_wrap(rsh_comm *comm, const rsh_layout *layout,
                                    const rsh_memory *parts, rsh_sharded **out);
/* Makes a sharded tensor from n tensors, one for each of this rank's parts and in their order.  It
 * shares their storage, so it may outlive them.  They may have any strides.  The caller frees *out.
 * RSH_EVALUE if the layout names a rank outside the comm, or if n, a dtype or a shape does not
 * match the layout; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharded_from_tensors(rsh_comm *comm, const rsh_layout *layout, int64_t n,
                                            const rsh_tensor *const *parts, rsh_sharded **out);
/* Distributes a whole tensor from rank `root`; `whole` is ignored on other ranks.  The caller frees
 * *out.
 * RSH_EVALUE if `root` or a rank of the layout is outside the comm, or the root passes no memory.
 * Collective. */
RSH_API rsh_status rsh_sharded_scatter(rsh_comm *comm, const rsh_layout *layout, int root,
                                       const rsh_memory *whole, rsh_sharded **out);
/* Frees the sharded tensor, and the library's memory for it if nothing else shares it.  No-op for
 * NULL.  Local. */
RSH_API void rsh_sharded_free(rsh_sharded *s);

/* Getters.  Layout and parts are borrowed and live as long as the sharded tensor; NULL if there is
 * no such part.  Local. */
RSH_API const rsh_layout *rsh_sharded_layout(const rsh_sharded *s);
RSH_API rsh_comm *rsh_sharded_comm(const rsh_sharded *s);
RSH_API int64_t rsh_sharded_nparts(const rsh_sharded *s);
RSH_API const rsh_tensor *rsh_sharded_part(const rsh_sharded *s, int64_t part);

/* Copies the comm's node map into plan options, so that a plan can prefer sources on the same node.
 * opts->node_of is borrowed from the comm.  For a comm of one node nothing changes.  rsh_reshard,
 * rsh_reshard_into and rsh_reshard_many do this themselves if the options name no nodes.
 * RSH_EVALUE if the options do not start from RSH_PLAN_OPTS_INIT.  Local. */
RSH_API rsh_status rsh_plan_opts_from_comm(const rsh_comm *comm, rsh_plan_opts *opts);

/* Moves src to layout `to`, in new memory.  NULL for opts means defaults.  With opts->may_alias and
 * equal layouts nothing moves, and the result shares the memory of src.  The caller frees *out.
 *
 * The comm caches plans and bindings, at most 1,024 of each, by layouts, options, strides and kind
 * of memory, so that a loop plans and binds only once, even if every iteration uses different
 * memory.  All bindings together keep at most 64 MiB of scratch, unless a single one needs more.
 * With opts->has_max_scratch a binding that uses messages is not cached, so such a loop binds every
 * time.
 *
 * RSH_EVALUE if the shapes differ or a layout names a rank outside the comm; RSH_ETYPE for complex
 * to real; RSH_EUNSUP if both layouts are partial with different ops; RSH_ENOMEM, also if
 * opts->max_scratch_bytes is too small.  Collective. */
RSH_API rsh_status rsh_reshard(const rsh_sharded *src, const rsh_layout *to,
                               const rsh_plan_opts *opts, rsh_sharded **out);
/* Moves src to an existing sharded tensor on the same comm, and bumps its version.  If the call
 * fails, the elements of dst are undefined.
 * RSH_EVALUE also if the comms differ, if a part of dst shares an element with src or another part,
 * or if its strides put two elements at one address.  Collective. */
RSH_API rsh_status rsh_reshard_into(const rsh_sharded *src, rsh_sharded *dst,
                                    const rsh_plan_opts *opts);
/* Moves n tensors of one comm at once; they share messages.  The caller frees each of the n entries
 * of `out`; if the call fails, none is written.
 * RSH_EVALUE also if n < 1 or the comms differ.  Collective. */
RSH_API rsh_status rsh_reshard_many(int64_t n, const rsh_sharded *const *src,
                                    const rsh_layout *const *to, const rsh_plan_opts *opts,
                                    rsh_sharded **out);

/* A reshard in steps.  Begin returns when all ranks have begun.  The elements move later: in test,
 * in wait, and while anything else on the comm is tested or waited for.  The source must not change
 * before wait returns, but it may be freed, because the transit shares its memory.  Until then
 * every rank must make the same collective calls on the comm in the same order, waits included. */
typedef struct rsh_transit rsh_transit;
/* Begins a reshard.  The caller frees *out.  Errors as for rsh_reshard.  Collective. */
RSH_API rsh_status rsh_reshard_begin(const rsh_sharded *src, const rsh_layout *to,
                                     const rsh_plan_opts *opts, rsh_transit **out);
/* Makes progress without waiting.  If *done is true, rsh_transit_wait will return at once.
 * RSH_EPEER, RSH_ETIMEOUT as for runs of an exec.  Local. */
RSH_API rsh_status rsh_transit_test(rsh_transit *t, bool *done);
/* Waits for the rest and returns the sharded tensor, once.  The caller frees it.
 * RSH_EVALUE if it was returned before; RSH_EPEER, RSH_ETIMEOUT, RSH_EMISMATCH as for runs of an
 * exec.  Collective. */
RSH_API rsh_status rsh_transit_wait(rsh_transit *t, rsh_sharded **out);
/* Frees a transit.  If it is unfinished, finishes it first, which waits for neighbours.  No-op for
 * NULL and in a forked child.  Local otherwise. */
RSH_API void rsh_transit_free(rsh_transit *t);

/* Cache hits and misses, on this rank, of all collective calls that move elements (those above,
 * gather, scatter), and the number of cached bindings. */
typedef struct rsh_cache_stats {
    size_t struct_size; /* sizeof(rsh_cache_stats); set by the caller */
    uint64_t hits, misses;
    int64_t bindings;
} rsh_cache_stats;
#define RSH_CACHE_STATS_INIT {sizeof(rsh_cache_stats), 0, 0, 0}
/* Writes these counts.  RSH_EVALUE if *out does not start from RSH_CACHE_STATS_INIT.  Local. */
RSH_API rsh_status rsh_comm_get_cache_stats(const rsh_comm *comm, rsh_cache_stats *out);

/* Gathers the whole tensor, in the layout's dtype, into the caller's memory on rank `root`; `whole`
 * is ignored on other ranks.  Partial layouts are reduced.
 * RSH_EVALUE if `root` is outside the comm, or `whole` has no data or shares memory with the
 * source.  Collective. */
RSH_API rsh_status rsh_sharded_gather(const rsh_sharded *src, int root, const rsh_memory *whole);

/* ---- digest: a hash of values and their global positions ----
 *
 * It does not depend on the layout: sharded, replicated and whole tensors have the same digest.
 * docs/digest.md has the formula. */
typedef struct rsh_digest {
    uint64_t hi, lo; /* two sums, each modulo 2^64 */
} rsh_digest;
#define RSH_DIGEST_TEXT 36 /* "d2:" + 32 hex + NUL */
/* Computes the digest of a sharded tensor.  Each rank sends only 16 bytes.
 * RSH_EUNSUP for a partial layout.  Collective. */
RSH_API rsh_status rsh_sharded_digest(const rsh_sharded *s, rsh_digest *out);
/* Writes a digest as text.  No-op for NULL.  Pure. */
RSH_API void rsh_digest_text(rsh_digest d, char text[RSH_DIGEST_TEXT]);
/* Reads a digest from text.  RSH_EVALUE if the text is not a digest of this formula.  Pure. */
RSH_API rsh_status rsh_digest_parse(const char *text, rsh_digest *out);
/* Computes the digest of a tensor whose parts are all in the caller's memory: `parts` lists every
 * rank in ascending order, and every part of it.
 * RSH_EUNSUP for a partial layout; RSH_EVALUE if a part with elements has no data; RSH_ENOMEM.
 * Local. */
RSH_API rsh_status rsh_digest_local(const rsh_layout *layout, const rsh_memory *parts,
                                    rsh_digest *out);

/* A digest can be computed in steps, if elements are read in windows or by several readers.  One
 * reader starts with rsh_digest_begin, the others with {0, 0}.  Each adds its elements, every
 * element of the tensor exactly once and in any order, and the results are merged. */

/* Starts a digest with dtype and shape: the digest of a tensor before its elements.  `dtype` is a
 * name of 1 to 16 bytes: that of rsh_dtype_name, or any other for elements that the library only
 * stores.
 * RSH_EVALUE for another name, ndim outside 0..RSH_MAX_NDIM or a negative size.  Pure. */
RSH_API rsh_status rsh_digest_begin(const char *dtype, int ndim, const int64_t *shape,
                                    rsh_digest *out);
/* Adds n consecutive elements of `itemsize` bytes (1 to 16), which have the global row-major
 * indices first, first + 1, ...
 * RSH_EVALUE for another itemsize, a negative n or first, or NULL data with elements.  Local. */
RSH_API rsh_status rsh_digest_add(rsh_digest *d, size_t itemsize, const void *data, int64_t n,
                                  int64_t first);
/* Adds a box of a tensor of that shape: `data` is the address of its first element and `strides`
 * its strides in elements, of any sign; NULL is row-major.
 * RSH_EVALUE as above, or if the box is not within the shape.  Local. */
RSH_API rsh_status rsh_digest_add_box(rsh_digest *d, size_t itemsize, int ndim,
                                      const int64_t *shape, const int64_t *offsets,
                                      const int64_t *sizes, const void *data,
                                      const int64_t *strides);
/* Adds the digest of another reader.  No-op for NULL.  Pure. */
RSH_API void rsh_digest_merge(rsh_digest *d, rsh_digest other);

/* ---- exec: a plan bound to a comm and to memory, to be run many times without allocating ----
 *
 * A run waits only for neighbours, the ranks with which it exchanges elements.  All ranks of the
 * layouts must run an exec the same number of times; on other ranks a run does nothing.  Runs
 * return the errors of all collective calls (<reshard/comm.h>), and RSH_EBUSY while a run of the
 * same exec is in progress.  After a failure destinations are undefined. */
typedef struct rsh_exec rsh_exec;

/* Binds a plan.  The exec holds the plan and borrows comm and memory.  `src` and `dst` have one
 * entry per part of this rank, for one tensor of the plan after another (NULL if there are none).
 * The caller frees *out.
 * RSH_EVALUE if the plan names a rank outside the comm, a part with elements has no data, or a
 * destination overlaps any other part, including parts of other ranks that are threads of this
 * process; RSH_ENOMEM, also if the plan's max_scratch_bytes is too small for the messages that this
 * comm needs.  Collective. */
RSH_API rsh_status rsh_exec_bind(const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src,
                                 const rsh_memory *dst, rsh_exec **out);
/* Runs the exec once.  On return this rank's destination is complete and its source may be changed.
 * Collective among the ranks of the layouts. */
RSH_API rsh_status rsh_exec_run(rsh_exec *e);
/* Run the exec in steps: begin declares that the source is ready, test makes progress without
 * waiting, wait finishes.  Every rank must begin the runs of a comm in the same order.  Several
 * runs of one comm may be in progress; each rank may test and wait for them in its own order.  Runs
 * of different comms must be waited for in the same order on all ranks.  Collective among the ranks
 * of the layouts. */
RSH_API rsh_status rsh_exec_begin(rsh_exec *e);
RSH_API rsh_status rsh_exec_test(rsh_exec *e, bool *done);
RSH_API rsh_status rsh_exec_wait(rsh_exec *e);
/* Runs the exec on other memory of the same shapes and strides.  Entries are as in bind, but only
 * `data` is read.  If a rank rejects its memory, its neighbours get its status and message at once,
 * and destinations are undefined; exec and comm remain usable.  If that rank exchanges messages
 * (opts.messages, several nodes), the others get RSH_EPEER with the message, and the comm has
 * failed.
 * RSH_EVALUE if data is missing or a destination overlaps other memory of the same rank;
 * RSH_ENOMEM.  If ranks are threads, overlaps with memory of other ranks are detected by
 * rsh_exec_bind only, because ranks exchange nothing before a run begins.  Collective among the
 * ranks of the layouts. */
RSH_API rsh_status rsh_exec_run_on(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);
/* Frees an exec.  If a run is in progress, finishes it first, which waits for neighbours.  No-op
 * for NULL and in a forked child.  Local otherwise. */
RSH_API void rsh_exec_free(rsh_exec *e);

typedef struct rsh_exec_stats {
    size_t struct_size; /* sizeof(rsh_exec_stats); set by the caller */
    uint64_t runs;
    uint64_t bytes_local, bytes_shared, bytes_wire; /* of one run on this rank: from itself, from
                                                       ranks of its node, from other nodes */
    double seconds;                                 /* of the last run */
    uint64_t contiguous, rows, strided, transposed, converted, reduced,
        filled;            /* moves of one run by kernel; interleaved rows count as rows */
    uint64_t bytes_shadow; /* bytes copied twice: in rsh_exec_run_on, if other ranks cannot reach
                              the new memory although they could reach the memory given to bind */
} rsh_exec_stats;
#define RSH_EXEC_STATS_INIT                                                                        \
    { sizeof(rsh_exec_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Writes the counts of an exec on this rank.
 * RSH_EVALUE if *out does not start from RSH_EXEC_STATS_INIT.  Local. */
RSH_API rsh_status rsh_exec_get_stats(const rsh_exec *e, rsh_exec_stats *out);

/* ---- without ranks: one caller has the memory of all parts ---- */

/* Runs a whole plan once, for all ranks.  `src` and `dst` list the parts by tensor, then by rank in
 * ascending order, then by part.  If pool is NULL, the calling thread works alone.
 * RSH_EVALUE if a part with elements has no data, or a destination overlaps any other part;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_plan_run_local(const rsh_plan *plan, rsh_pool *pool, const rsh_memory *src,
                                      const rsh_memory *dst);

/* Do the same in two steps, for a plan that is run often: bind once, after which runs allocate
 * nothing.  Pool and memory are borrowed; the plan may be freed.  One thread uses an rsh_local_exec
 * at a time.  The caller frees *out.  rsh_local_exec_free is a no-op for NULL.
 * Errors of bind as above; a run does not fail.  Local. */
typedef struct rsh_local_exec rsh_local_exec;
RSH_API rsh_status rsh_local_exec_bind(const rsh_plan *plan, rsh_pool *pool, const rsh_memory *src,
                                       const rsh_memory *dst, rsh_local_exec **out);
RSH_API rsh_status rsh_local_exec_run(rsh_local_exec *l);
RSH_API void rsh_local_exec_free(rsh_local_exec *l);

#ifdef __cplusplus
}
#endif
#endif

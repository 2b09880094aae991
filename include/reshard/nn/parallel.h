/* Parallel: modules that run over the ranks of a mesh, with DTensors for parameters.
 *
 * rsh_distribute_module turns all parameters and buffers of a tree into DTensors.
 * rsh_parallelize_module applies a plan of tensor parallelism: for each module that a path selects,
 * a style says how parameters are cut and how inputs and outputs are placed.
 * docs/tensor_parallel.md has the table of styles.
 *
 * Both are collective over the mesh and atomic: new values are prepared first, and installed only
 * when all ranks have succeeded.  If one rank fails, every rank gets its status and message, and
 * the modules are unchanged.  Elements are taken from the rank at position 0.  A parameter requires
 * a gradient if it did before.  A tied parameter stays tied: it is replaced everywhere in the tree.
 * On ranks that are not in the mesh nothing changes.  The module holds a reference to the mesh. */
#ifndef RESHARD_NN_PARALLEL_H
#define RESHARD_NN_PARALLEL_H

#include <reshard/dtensor.h>
#include <reshard/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a whole tree ---- */

/* Callbacks of rsh_distribute_module.  Each may be NULL.  ctx is borrowed and must outlive the
 * module. */
typedef struct rsh_distribution {
    /* Sets the placements of a parameter or buffer: `places` has one entry for each dim of the
     * mesh, initially replicated. */
    rsh_status (*partition)(void *ctx, const char *path, rsh_module *owner, const char *name,
                            const rsh_value *value, rsh_place *places);
    /* Run before and after forward of the root module, as hooks; they may replace values. */
    rsh_status (*inputs)(void *ctx, rsh_module *m, rsh_mesh *mesh, rsh_value **in);
    rsh_status (*outputs)(void *ctx, rsh_module *m, rsh_mesh *mesh, rsh_value **out);
    void *ctx;
} rsh_distribution;

/* Turns all parameters and buffers of a tree into DTensors.  Values that are already DTensors on
 * this mesh are not changed.  `how` may be NULL: everything is replicated.
 * RSH_EVALUE for NULL, or if a value is distributed in another way; RSH_EMISMATCH if ranks give
 * different placements; errors of `partition` and rsh_dtensor_distribute; RSH_ENOMEM.
 * Collective over the mesh. */
RSH_API rsh_status rsh_distribute_module(rsh_module *m, rsh_mesh *mesh,
                                         const rsh_distribution *how);

/* ---- styles ---- */

/* The current and the required placement of one input or output of a module. */
typedef struct rsh_prepare {
    const char *name;  /* of an input; NULL: the next input by position */
    bool leave;        /* pass the value unchanged */
    rsh_place is;      /* the placement of a value that is not a DTensor, which is then taken as
                          this rank's part */
    rsh_place becomes; /* the placement to redistribute to */
} rsh_prepare;

typedef enum rsh_style_kind {
    RSH_STYLE_COLWISE,  /* cuts the outputs of a Linear, or the columns of an Embedding */
    RSH_STYLE_ROWWISE,  /* cuts the inputs of a Linear, or the rows of an Embedding */
    RSH_STYLE_SEQUENCE, /* replicates parameters and cuts inputs along a dim */
    RSH_STYLE_PREPARE   /* redistributes inputs and outputs; parameters are not changed */
} rsh_style_kind;

typedef struct rsh_style {
    rsh_style_kind kind;
    /* For RSH_STYLE_COLWISE, _ROWWISE and _SEQUENCE: the placement of an input that is not a
     * DTensor, and the placement of the output.  _SEQUENCE also redistributes inputs to `input`.
     * With a replicated input every rank passes the same tensor; with rsh_place_shard(0) each rank
     * passes its own rows. */
    rsh_place input, output;
    bool default_input; /* ignore `input` and use the placement that the style needs */
    /* Pass inputs (of _PREPARE) or outputs as this rank's parts, plain values, instead of DTensors.
     * The values remember the DTensor that they are part of; see rsh_dtensor_part. */
    bool local_input, local_output;
    int ninputs, noutputs; /* for RSH_STYLE_PREPARE; rsh_parallelize_module copies the lists */
    const rsh_prepare *inputs, *outputs;
} rsh_style;

/* Return styles with PyTorch's defaults; fields may be changed.  Pure. */
static inline rsh_style rsh_style_make(rsh_style_kind kind, rsh_place input, rsh_place output) {
    rsh_style s = {kind, input, output, false, false, false, 0, 0, NULL, NULL};
    return s;
}
static inline rsh_style rsh_colwise_style(void) {
    rsh_style s = rsh_style_make(RSH_STYLE_COLWISE, rsh_place_replicate(), rsh_place_shard(-1));
    s.default_input = s.local_output = true;
    return s;
}
static inline rsh_style rsh_rowwise_style(void) {
    rsh_style s = rsh_style_make(RSH_STYLE_ROWWISE, rsh_place_replicate(), rsh_place_replicate());
    s.default_input = s.local_output = true;
    return s;
}
static inline rsh_style rsh_sequence_style(int dim) {
    return rsh_style_make(RSH_STYLE_SEQUENCE, rsh_place_shard(dim), rsh_place_shard(dim));
}
static inline rsh_style rsh_prepare_input_style(int n, const rsh_prepare *inputs) {
    rsh_style s = rsh_style_make(RSH_STYLE_PREPARE, rsh_place_replicate(), rsh_place_replicate());
    s.ninputs = n;
    s.inputs = inputs;
    return s;
}
static inline rsh_style rsh_prepare_output_style(int n, const rsh_prepare *outputs) {
    rsh_style s = rsh_prepare_input_style(0, NULL);
    s.local_output = true;
    s.noutputs = n;
    s.outputs = outputs;
    return s;
}
static inline rsh_style rsh_prepare_input_output_style(int ninputs, const rsh_prepare *inputs,
                                                       int noutputs, const rsh_prepare *outputs) {
    rsh_style s = rsh_prepare_output_style(noutputs, outputs);
    s.ninputs = ninputs;
    s.inputs = inputs;
    return s;
}

/* ---- a plan ---- */

/* A style for the modules that a path selects.  Path components may be shell patterns:
 * "layers.*.attention".  Each component is matched against the names of the children at one level.
 * "" is the module itself. */
typedef struct rsh_parallel_entry {
    const char *path;
    rsh_style style;
} rsh_parallel_entry;

/* Applies a plan of n entries, in order, on a 1-D mesh.  With no entries nothing changes.  If
 * several paths of an entry lead to the same module, the style is applied once.
 * RSH_EVALUE for NULL, if the mesh has more than one dim (use a slice), a path has an empty
 * component, a parameter is distributed in another way, two entries cut a parameter differently, or
 * an entry lists more inputs than the module has or a different number of outputs; RSH_EATTR if a
 * path selects no module; RSH_EKEY if the module has no input with a given name; RSH_EUNSUP for
 * column-wise and row-wise styles of modules other than Linear and Embedding, and for an Embedding
 * with max_norm; RSH_EMISMATCH if ranks have different plans; errors of rsh_dtensor_distribute;
 * RSH_ENOMEM.
 * Collective over the mesh.  The hooks that it adds are collective too.  They return RSH_EVALUE if
 * a listed input is missing, is distributed on another mesh, or is plain and replicated but has
 * different shapes on different ranks (with the environment variable RESHARD_CHECK=1 on all ranks:
 * different elements), and the errors of rsh_dtensor_from_local and rsh_dtensor_redistribute. */
RSH_API rsh_status rsh_parallelize_module(rsh_module *m, rsh_mesh *mesh, int n,
                                          const rsh_parallel_entry *plan);

#ifdef __cplusplus
}
#endif
#endif

/* Parallel: modules that run over the ranks of a mesh, with DTensors for parameters.
 *
 * rsh_distribute_module makes DTensors of all parameters and buffers of a tree.
 * rsh_parallelize_module carries out a plan of tensor parallelism: for modules that paths name, a
 * style says how parameters are cut, and what inputs and outputs are and become.
 * docs/tensor_parallel.md has the table of styles.
 *
 * Both are collective over the mesh, and all or nothing: everything is made beside the tree first,
 * and put in place when all ranks have all of it.  If one rank refuses, every rank gets its status
 * and sentence, and modules are as before.  Elements are those of the rank at position 0.  A
 * parameter requires a gradient if it did before.  A tied parameter stays tied: it is replaced in
 * all its places in the tree.  On ranks that are not in the mesh nothing changes.  The module holds
 * the mesh. */
#ifndef RESHARD_NN_PARALLEL_H
#define RESHARD_NN_PARALLEL_H

#include <reshard/dtensor.h>
#include <reshard/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- all of a tree ---- */

/* What rsh_distribute_module does.  A function of NULL does nothing.  ctx is borrowed for as long
 * as the module lives. */
typedef struct rsh_distribution {
    /* Says how a parameter or buffer is placed: `places` has one entry for each dim of the mesh,
     * which are replicated before. */
    rsh_status (*partition)(void *ctx, const char *path, rsh_module *owner, const char *name,
                            const rsh_value *value, rsh_place *places);
    /* Before and after forward of the module itself, as its hooks: they may replace values. */
    rsh_status (*inputs)(void *ctx, rsh_module *m, rsh_mesh *mesh, rsh_value **in);
    rsh_status (*outputs)(void *ctx, rsh_module *m, rsh_mesh *mesh, rsh_value **out);
    void *ctx;
} rsh_distribution;

/* Makes DTensors of all parameters and buffers of a tree.  Those that are DTensors on the mesh
 * already stay as they are.  `how` may be NULL: everything is replicated.
 * RSH_EVALUE for NULL, or for a value that is distributed otherwise; RSH_EMISMATCH if ranks ask for
 * different placements; what `partition` and rsh_dtensor_distribute return; RSH_ENOMEM.
 * Collective over the mesh. */
RSH_API rsh_status rsh_distribute_module(rsh_module *m, rsh_mesh *mesh,
                                         const rsh_distribution *how);

/* ---- styles ---- */

/* What one input or output of a module is, and what it becomes. */
typedef struct rsh_prepare {
    const char *name;  /* of an input; NULL: the next one by position, of entries without a name */
    bool leave;        /* pass it as it is */
    rsh_place is;      /* the placement of a value that is not a DTensor: this rank's own part */
    rsh_place becomes; /* the placement that it is brought to */
} rsh_prepare;

typedef enum rsh_style_kind {
    RSH_STYLE_COLWISE,  /* Linear: outputs are cut; Embedding: columns are */
    RSH_STYLE_ROWWISE,  /* Linear: inputs are cut; Embedding: rows are */
    RSH_STYLE_SEQUENCE, /* parameters are replicated; inputs are cut along a dim */
    RSH_STYLE_PREPARE   /* parameters stay; inputs and outputs are brought to placements */
} rsh_style_kind;

typedef struct rsh_style {
    rsh_style_kind kind;
    /* Of RSH_STYLE_COLWISE, _ROWWISE and _SEQUENCE: the placement of an input that is not a DTensor
     * (of _SEQUENCE also that which inputs are brought to), and that of the output.  A replicated
     * one is the same on every rank; rsh_place_shard(0): each rank brings its own rows. */
    rsh_place input, output;
    bool default_input; /* input is not set: that which the style needs */
    /* Inputs (of _PREPARE), or outputs: not DTensors but this rank's parts, plain values.  They
     * remember whose parts they are, rsh_dtensor_part. */
    bool local_input, local_output;
    int ninputs, noutputs; /* of RSH_STYLE_PREPARE; lists are read by rsh_parallelize_module only */
    const rsh_prepare *inputs, *outputs;
} rsh_style;

/* Styles with PyTorch's defaults; fields may be changed.  Pure. */
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

/* ---- by a plan ---- */

/* A style for the modules that a path leads to.  Steps may be patterns as a shell has them,
 * "layers.*.attention": each step is matched against the names of children, one level for one
 * step.  "" is the module itself. */
typedef struct rsh_parallel_entry {
    const char *path;
    rsh_style style;
} rsh_parallel_entry;

/* Carries out a plan of n entries, in their order, on a mesh of one dim.  With no entries nothing
 * changes.  A module that several paths lead to gets an entry's style once.
 * RSH_EVALUE for NULL, a mesh of more than one dim (take a slice), a path with an empty step, a
 * parameter that is distributed otherwise or that two entries cut differently, or more inputs or
 * another number of outputs than the module has; RSH_EATTR if a path leads nowhere; RSH_EKEY if the
 * module has no input of a name; RSH_EUNSUP for column-wise and row-wise styles of modules that are
 * neither Linear nor Embedding, and for an Embedding with max_norm; RSH_EMISMATCH if ranks have
 * different plans; what rsh_dtensor_distribute returns; RSH_ENOMEM.
 * Collective over the mesh.  The hooks are too: they return RSH_EVALUE for an input that is listed
 * and missing, or is distributed on another mesh, or is plain and replicated and has different
 * shapes on different ranks (with the environment variable RESHARD_CHECK=1 on all ranks: different
 * elements), and what rsh_dtensor_from_local and rsh_dtensor_redistribute return. */
RSH_API rsh_status rsh_parallelize_module(rsh_module *m, rsh_mesh *mesh, int n,
                                          const rsh_parallel_entry *plan);

#ifdef __cplusplus
}
#endif
#endif

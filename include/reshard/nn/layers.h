/* Layers: constructors for the usual kinds of modules.
 *
 * Parameters are leaves that require gradients, f32 or f64.  <reshard/nn/random.h> fills them, with
 * one random call for each in the order in which the comments list them.  Parameter names and
 * initial distributions are those of PyTorch.  The caller frees *module.  All constructors are
 * local and return RSH_EVALUE if a size or number is out of range, RSH_ETYPE for any other dtype,
 * and RSH_ENOMEM.
 *
 * A Linear, Embedding or EmbeddingBag whose weight was sharded by <reshard/nn/shard.h> runs on all
 * ranks together; docs/modules.md describes its inputs and outputs. */
#ifndef RESHARD_NN_LAYERS_H
#define RESHARD_NN_LAYERS_H

#include <reshard/nn/module.h>
#include <reshard/nn/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Switches deferred initialization on or off for the calling thread.  While it is on, new layers
 * have parameters without memory, for models that are too large for one rank until they are cut.
 * Returns the old setting; it is off in a new thread.  Local. */
RSH_API bool rsh_layers_defer_init(bool on);
/* Allocates and initializes every deferred parameter of a tree, with the elements that it would
 * have had without deferring, even if it has become a DTensor since.  Before that, calling its
 * module returns RSH_ERUNTIME.
 * RSH_EVALUE for NULL; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_materialize(rsh_module *m);

/* Creates a layer that maps [..., in] to [..., out].  Parameters: "weight" [out, in] and, with a
 * bias, "bias" [out]; uniform between -1/sqrt(in) and 1/sqrt(in).  Local. */
RSH_API rsh_status rsh_linear_new(int64_t in, int64_t out, bool bias, rsh_dtype dtype,
                                  rsh_module **module);

typedef struct rsh_embedding_opts {
    size_t struct_size; /* sizeof(rsh_embedding_opts) */
    bool padded;      /* row `padding` starts as zeros and gets no gradient */
    int64_t padding;  /* negative: from the end */
    double max_norm;  /* if not 0, rows that are looked up and have a larger norm are first scaled
                         down to it, in place */
    double norm_type; /* the p of that p-norm; 0 means 2 */
} rsh_embedding_opts;
#define RSH_EMBEDDING_OPTS_INIT {sizeof(rsh_embedding_opts), 0, 0, 0, 0}

/* Creates a layer that maps indices (i64) of any shape to rows of its parameter "weight" [rows,
 * columns], standard normal.  opts may be NULL.
 * RSH_EVALUE if the options do not start from RSH_EMBEDDING_OPTS_INIT or a number is out of range.
 * Local. */
RSH_API rsh_status rsh_embedding_new(int64_t rows, int64_t columns, const rsh_embedding_opts *opts,
                                     rsh_dtype dtype, rsh_module **module);

typedef enum rsh_bag_mode { RSH_BAG_MEAN, RSH_BAG_SUM, RSH_BAG_MAX } rsh_bag_mode;
typedef struct rsh_bag_opts {
    size_t struct_size; /* sizeof(rsh_bag_opts) */
    const rsh_embedding_opts *rows; /* NULL: defaults */
    rsh_bag_mode mode;
    bool include_last_offset; /* the last offset is the number of indices */
} rsh_bag_opts;
#define RSH_BAG_OPTS_INIT {sizeof(rsh_bag_opts), 0, RSH_BAG_MEAN, 0}

/* Creates a layer that combines the rows of each bag of indices.  The parameter is "weight", as
 * above.  Inputs: "input", indices [bags, n], or [n] with "offsets" [bags], where the bags begin;
 * "per_sample_weights" with the shape of "input", only for RSH_BAG_SUM.  An empty bag gives zeros.
 * Padding rows are left out.  opts may be NULL for means.
 * RSH_EVALUE if the options do not start from RSH_BAG_OPTS_INIT or the mode is unknown.  Local. */
RSH_API rsh_status rsh_embedding_bag_new(int64_t rows, int64_t columns, const rsh_bag_opts *opts,
                                         rsh_dtype dtype, rsh_module **module);

/* Creates a layer normalization over the last ndim dims, which must have these sizes.  Parameters:
 * "weight" of ones and "bias" of zeros, unless `affine` is false.  Local. */
RSH_API rsh_status rsh_layer_norm_new(int ndim, const int64_t *sizes, double eps, bool affine,
                                      rsh_dtype dtype, rsh_module **module);
/* Creates an RMS normalization over the last dim.  Parameter: "weight" of ones.  Local. */
RSH_API rsh_status rsh_rms_norm_new(int64_t size, double eps, rsh_dtype dtype, rsh_module **module);
/* Create a dropout layer, active in training only (each forward is one random call), a ReLU and a
 * GELU.  Local. */
RSH_API rsh_status rsh_dropout_new(double p, rsh_module **module);
RSH_API rsh_status rsh_relu_new(rsh_module **module);
RSH_API rsh_status rsh_gelu_new(rsh_gelu form, rsh_module **module);
/* Creates a module that runs n modules, each with one input and one output, in sequence.  They
 * become its children "0", "1", ...; it holds references to them.  Local. */
RSH_API rsh_status rsh_sequential_new(int n, rsh_module *const *children, rsh_module **module);

typedef struct rsh_attention_opts {
    size_t struct_size; /* sizeof(rsh_attention_opts) */
    int64_t width; /* last size of the input; a multiple of heads */
    int64_t heads;
    bool bias, causal;
    double dropout; /* dropout probability of a transformer block, before the residual sums */
} rsh_attention_opts;
#define RSH_ATTENTION_OPTS_INIT {sizeof(rsh_attention_opts), 0, 1, 0, 0, 0}

/* Creates self-attention on [batch, length, width].  Children: "query", "key", "value" and "out",
 * each a Linear from width to width.
 * RSH_EVALUE if the options do not start from RSH_ATTENTION_OPTS_INIT, or the width is not a
 * multiple of the number of heads.  Local. */
RSH_API rsh_status rsh_attention_new(const rsh_attention_opts *opts, rsh_dtype dtype,
                                     rsh_module **module);
/* Creates a transformer block: x + attention(norm1(x)), then x + mlp(norm2(x)).  Children: "norm1",
 * "attention", "norm2", "up" (a Linear from width to hidden), "down" (a Linear from hidden to
 * width) and "drop".  A GELU with the tanh approximation is between "up" and "down".  Local. */
RSH_API rsh_status rsh_transformer_block_new(const rsh_attention_opts *opts, int64_t hidden,
                                             rsh_dtype dtype, rsh_module **module);

#ifdef __cplusplus
}
#endif
#endif

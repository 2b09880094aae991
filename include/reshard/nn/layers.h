/* Layers: modules of the usual kinds.
 *
 * Parameters are leaves that require gradients, f32 or f64, filled by <reshard/nn/random.h>: one
 * call for each, in the order in which the comments name them.  Names of parameters and initial
 * distributions are PyTorch's.  The caller frees *out.  All constructors return RSH_EVALUE for
 * sizes or numbers out of range, RSH_ETYPE for another dtype, RSH_ENOMEM, and are local.
 *
 * A Linear, Embedding or EmbeddingBag whose weight was sharded by <reshard/nn/shard.h> runs over
 * the ranks; docs/modules.md says what its inputs and outputs then are. */
#ifndef RESHARD_NN_LAYERS_H
#define RESHARD_NN_LAYERS_H

#include <reshard/nn/module.h>
#include <reshard/nn/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* While it is on, layers that this thread makes get parameters without memory: for models that are
 * too large for one rank before they are cut.  Returns what was set before; it is off in a new
 * thread.  Local. */
RSH_API bool rsh_layers_defer_init(bool on);
/* Gives every such parameter of a tree memory and elements: those that it would have had at once,
 * whatever it has become since, a DTensor too.  Until then calls of its module are RSH_ERUNTIME.
 * RSH_EVALUE for NULL; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_materialize(rsh_module *m);

/* [..., in] to [..., out]: "weight" [out, in] and, with a bias, "bias" [out]; uniform within
 * 1/sqrt(in).  Local. */
RSH_API rsh_status rsh_linear_new(int64_t in, int64_t out, bool bias, rsh_dtype dtype,
                                  rsh_module **module);

typedef struct rsh_embedding_opts {
    size_t struct_size; /* sizeof(rsh_embedding_opts) */
    bool padded;      /* row `padding` starts as zeros and gets no gradient */
    int64_t padding;  /* negative: from the end */
    double max_norm;  /* 0: none; otherwise rows that are looked up and are longer are shortened to
                         it, in place, before */
    double norm_type; /* p of that norm; 0: 2 */
} rsh_embedding_opts;
#define RSH_EMBEDDING_OPTS_INIT {sizeof(rsh_embedding_opts), 0, 0, 0, 0}

/* Indices (i64) of any shape to rows: "weight" [rows, columns], standard normal.  opts may be NULL.
 * RSH_EVALUE if the options do not start from RSH_EMBEDDING_OPTS_INIT or a number is out of range.
 * Local. */
RSH_API rsh_status rsh_embedding_new(int64_t rows, int64_t columns, const rsh_embedding_opts *opts,
                                     rsh_dtype dtype, rsh_module **module);

typedef enum rsh_bag_mode { RSH_BAG_MEAN, RSH_BAG_SUM, RSH_BAG_MAX } rsh_bag_mode;
typedef struct rsh_bag_opts {
    size_t struct_size; /* sizeof(rsh_bag_opts) */
    const rsh_embedding_opts *rows; /* NULL: defaults */
    rsh_bag_mode mode;
    bool include_last_offset; /* offsets end with the number of indices */
} rsh_bag_opts;
#define RSH_BAG_OPTS_INIT {sizeof(rsh_bag_opts), 0, RSH_BAG_MEAN, 0}

/* Bags of indices to one row each: "weight" as above.  Inputs: "input", indices [bags, n], or [n]
 * with "offsets" [bags] where bags begin; "per_sample_weights" of the input's shape, for sums only.
 * An empty bag gives zeros; padding rows count in no bag.  opts may be NULL: means.
 * RSH_EVALUE if the options do not start from RSH_BAG_OPTS_INIT or the mode is unknown.  Local. */
RSH_API rsh_status rsh_embedding_bag_new(int64_t rows, int64_t columns, const rsh_bag_opts *opts,
                                         rsh_dtype dtype, rsh_module **module);

/* Over the last ndim dims, of these sizes: "weight" of ones and "bias" of zeros, unless `affine` is
 * false.  Local. */
RSH_API rsh_status rsh_layer_norm_new(int ndim, const int64_t *sizes, double eps, bool affine,
                                      rsh_dtype dtype, rsh_module **module);
/* Over the last dim: "weight" of ones.  Local. */
RSH_API rsh_status rsh_rms_norm_new(int64_t size, double eps, rsh_dtype dtype, rsh_module **module);
/* Dropout, in training only; each forward is one random call.  Then ReLU, and GELU.  Local. */
RSH_API rsh_status rsh_dropout_new(double p, rsh_module **module);
RSH_API rsh_status rsh_relu_new(rsh_module **module);
RSH_API rsh_status rsh_gelu_new(rsh_gelu form, rsh_module **module);
/* n modules of one input and one output, one after the other, as children "0", "1", ...; it holds
 * them.  Local. */
RSH_API rsh_status rsh_sequential_new(int n, rsh_module *const *children, rsh_module **module);

typedef struct rsh_attention_opts {
    size_t struct_size; /* sizeof(rsh_attention_opts) */
    int64_t width; /* of the input; a multiple of heads */
    int64_t heads;
    bool bias, causal;
    double dropout; /* of what goes back into the stream of a transformer block */
} rsh_attention_opts;
#define RSH_ATTENTION_OPTS_INIT {sizeof(rsh_attention_opts), 0, 1, 0, 0, 0}

/* Self-attention on [batch, length, width]: children "query", "key", "value" and "out", each a
 * Linear of width to width.
 * RSH_EVALUE if the options do not start from RSH_ATTENTION_OPTS_INIT, or the width is not a
 * multiple of the heads.  Local. */
RSH_API rsh_status rsh_attention_new(const rsh_attention_opts *opts, rsh_dtype dtype,
                                     rsh_module **module);
/* x + attention(norm1(x)), then x + mlp(norm2(x)): children "norm1", "attention", "norm2", "up" (a
 * Linear of width to hidden), "down" (back), and "drop"; GELU by tanh between.  Local. */
RSH_API rsh_status rsh_transformer_block_new(const rsh_attention_opts *opts, int64_t hidden,
                                             rsh_dtype dtype, rsh_module **module);

#ifdef __cplusplus
}
#endif
#endif

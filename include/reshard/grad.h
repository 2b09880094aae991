/* Grad: values that record how they were computed, and backward passes for gradients.
 *
 * A value is a tensor of this rank or, if it is distributed, a sharded tensor: this rank's parts, a
 * comm and a layout.  An op is a record of functions, rsh_grad_op.  rsh_grad_apply runs an op on
 * values and, if gradients are recorded and an input requires one, links its outputs to its inputs.
 * rsh_backward follows these links in reverse order of creation, so that all ranks make the same
 * collective calls in the same order, and accumulates gradients in the leaves.
 *
 * Gradients are first order and exist for f32 and f64.  The recorded graph, the switch that turns
 * recording on and off, and the hooks for saved tensors belong to the calling thread, so every rank
 * has its own.  Values are reference-counted.  Only one thread may use a graph and its values at a
 * time.  Everything here is local, except ops that move elements between ranks, and their
 * backward. */
#ifndef RESHARD_GRAD_H
#define RESHARD_GRAD_H

#include <reshard/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_value rsh_value;

/* ---- values ---- */

/* Create a leaf from a tensor, or from a sharded tensor.  If a gradient is required, rsh_backward
 * accumulates one.  The value takes ownership of its argument; if the call fails, the caller still
 * owns it.  The caller frees *out.
 * RSH_ETYPE if a gradient is required and the dtype is neither f32 nor f64; RSH_ENOMEM. */
RSH_API rsh_status rsh_value_adopt_tensor(rsh_tensor *t, bool requires_grad, rsh_value **out);
RSH_API rsh_status rsh_value_adopt_sharded(rsh_sharded *s, bool requires_grad, rsh_value **out);
/* Do the same with the storage of a tensor or sharded tensor that the caller still owns. */
RSH_API rsh_status rsh_value_share_tensor(const rsh_tensor *t, bool requires_grad, rsh_value **out);
RSH_API rsh_status rsh_value_share_sharded(const rsh_sharded *s, bool requires_grad,
                                           rsh_value **out);
/* Creates a leaf on the same elements, without history and without a gradient.  The caller frees
 * *out. */
RSH_API rsh_status rsh_value_detach(const rsh_value *v, rsh_value **out);
/* Adds a reference and returns the same value, or NULL for NULL.  Never fails.  The caller calls
 * rsh_value_free once for every hold. */
RSH_API rsh_value *rsh_value_hold(rsh_value *v);
/* Drops one reference; the last one frees the value and the part of the graph that only it uses.
 * No-op for NULL. */
RSH_API void rsh_value_free(rsh_value *v);

/* Return this rank's parts, borrowed: exactly one if the value is not distributed.
 * rsh_value_tensor returns the only part; NULL if there are several or none. */
RSH_API const rsh_tensor *rsh_value_tensor(const rsh_value *v);
RSH_API int64_t rsh_value_nparts(const rsh_value *v);
RSH_API const rsh_tensor *rsh_value_part(const rsh_value *v, int64_t part);
/* Return the sharded tensor, layout and comm of a distributed value, borrowed; NULL if the value is
 * not distributed. */
RSH_API const rsh_sharded *rsh_value_sharded(const rsh_value *v);
RSH_API const rsh_layout *rsh_value_layout(const rsh_value *v);
RSH_API rsh_comm *rsh_value_comm(const rsh_value *v);
/* Return dtype and shape.  The shape of a distributed value is that of the whole tensor.
 * RSH_DTYPE_NONE and -1 for NULL. */
RSH_API rsh_dtype rsh_value_dtype(const rsh_value *v);
RSH_API int rsh_value_ndim(const rsh_value *v);
RSH_API const int64_t *rsh_value_shape(const rsh_value *v);

RSH_API bool rsh_value_requires_grad(const rsh_value *v);
/* Returns true unless the value is an output of a recorded op. */
RSH_API bool rsh_value_is_leaf(const rsh_value *v);
/* Sets whether rsh_backward accumulates a gradient in a leaf.
 * RSH_ERUNTIME if the value is not a leaf; errors of rsh_value_adopt_tensor. */
RSH_API rsh_status rsh_value_set_requires_grad(rsh_value *v, bool requires_grad);

/* Returns the gradient of a leaf, borrowed until the next call that changes it; NULL: none. */
RSH_API rsh_value *rsh_value_grad(const rsh_value *v);
/* Sets the gradient of a leaf, which holds it; NULL removes the gradient.
 * RSH_EVALUE if shape or dtype differ from the value's, or if the layout differs from the value's
 * (partial axes are treated as replicated); RSH_ERUNTIME if the value is not a leaf. */
RSH_API rsh_status rsh_value_set_grad(rsh_value *v, rsh_value *grad);
/* Sets the elements of the gradient to zero, in place.  No-op if there is no gradient. */
RSH_API rsh_status rsh_value_zero_grad(rsh_value *v);

/* ---- recording: per thread ---- */

/* Return and set whether ops are recorded, which is true in a new thread.  Setting returns the old
 * setting, so that a scope can restore it:
 *     bool was = rsh_grad_enable(false);
 *     ...
 *     rsh_grad_enable(was); */
RSH_API bool rsh_grad_enabled(void);
RSH_API bool rsh_grad_enable(bool on);

/* Sets the pool, borrowed, whose threads add large gradients for the calling thread.  NULL, the
 * default: the calling thread adds them itself.  Returns the old pool. */
RSH_API rsh_pool *rsh_grad_set_pool(rsh_pool *pool);

/* ---- backward ---- */

typedef enum rsh_backward_flags {
    RSH_RETAIN_GRAPH = 1 /* keep saved tensors, so that backward can run again */
} rsh_backward_flags;

/* For each leaf that v was computed from, adds the derivative of v with respect to it, times
 * `seed`, to the gradient of the leaf.  `seed` has the shape, dtype, layout and comm of v; it
 * may be NULL (then 1) if v has one element.  `flags` are rsh_backward_flags.  Gradients are
 * added in a fixed order: later ops first, and the inputs of one op in ascending order.  If it
 * fails, no leaf has changed on any rank, and the graph cannot be used again.
 * RSH_ERUNTIME if v has no history and requires no gradient, a saved tensor has changed since, or
 * the graph was already used; RSH_EVALUE if the seed is missing or does not match v, or an op
 * returns a gradient that does not match its input; RSH_EUNSUP if an op has no derivative; errors
 * of ops and hooks.
 * Collective over the comms of the moves in the graph; local if there are none. */
RSH_API rsh_status rsh_backward(rsh_value *v, rsh_value *seed, unsigned flags);
/* Does the same from n values at once.  `seeds` has n entries, or is NULL. */
RSH_API rsh_status rsh_backward_many(int n, rsh_value *const *v, rsh_value *const *seeds,
                                     unsigned flags);

/* ---- ops ---- */

/* One application of an op, passed to the functions of the op. */
typedef struct rsh_grad_call rsh_grad_call;

/* How an op maps layouts.  The op's function `layouts` fills it in; it is called if an input is
 * distributed.  All distributed inputs have the same comm.  The library takes ownership of the
 * layouts in the lists, even if the function fails. */
typedef struct rsh_grad_layouts {
    const void *attrs;
    int nin, nout;
    const rsh_layout *const *in; /* nin; NULL: that input is a plain tensor, or missing */
    const rsh_value *const *values; /* nin inputs */
    rsh_layout **out;            /* nout, initially NULL; NULL: that output is a plain tensor */
    rsh_layout **grad_in;  /* nin layouts of the gradients that backward returns; NULL: the layout
                              of the input, with partial axes treated as replicated */
    rsh_layout **grad_out; /* nout layouts of the gradients that backward needs; NULL: the layout of
                              the output, with partial axes treated as replicated */
} rsh_grad_layouts;

/* How often forward and backward are called for distributed inputs. */
typedef enum rsh_grad_parts {
    RSH_PARTS_ONE,  /* once; RSH_EUNSUP with the op's name if this rank has several parts or none */
    RSH_PARTS_EACH, /* once for each part; for pointwise ops */
    RSH_PARTS_ANY   /* once; the functions use whole values */
} rsh_grad_parts;

/* The rule by which an op maps placements of inputs to placements of outputs, <reshard/rule.h>. */
typedef struct rsh_placement_rule rsh_placement_rule;

/* An op.  The record is constant and must outlive the graphs that use it, so it is usually static.
 * Forward and backward return a status; if they detect an error themselves, they set the error
 * message with rsh_fail. */
typedef struct rsh_grad_op {
    const char *name; /* used in error messages */
    /* Computes the outputs of the current part: reads inputs with rsh_call_input, sets every output
     * with rsh_call_set_output, and saves what backward needs.  Recording is off. */
    rsh_status (*forward)(rsh_grad_call *call);
    /* Computes gradients of inputs from gradients of outputs: reads rsh_call_output_grad and
     * rsh_call_saved, and sets a gradient with rsh_call_set_input_grad for each input for which
     * rsh_call_needs_input_grad is true.  An input for which it sets none gets no gradient from
     * this op.  Recording is off.  NULL: the op has no derivative, and a backward that reaches it
     * returns RSH_EUNSUP with the op's name. */
    rsh_status (*backward)(rsh_grad_call *call);
    /* NULL: distributed inputs return RSH_EUNSUP with the op's name, unless parts is
     * RSH_PARTS_ANY.  Pointwise ops use rsh_grad_same_layout. */
    rsh_status (*layouts)(rsh_grad_layouts *io);
    rsh_grad_parts parts;
    /* Size of the attributes in bytes.  rsh_grad_apply copies them before forward; forward and
     * backward may modify the copy (rsh_call_attrs).  `drop`, if not NULL, is called on the copy
     * once, when the application is no longer needed, even if forward failed. */
    size_t attr_bytes;
    void (*drop)(void *attrs);
    /* Returns the comm on which backward makes collective calls, from the attributes.  All ranks of
     * the comm must have this op in their graphs.  Backward is then called even if no output has a
     * gradient.  If another rank has failed before, all ranks of the comm get its status instead.
     * NULL: backward is local. */
    rsh_comm *(*comm)(const void *attrs);
    /* NULL: if `layouts` is rsh_grad_same_layout, the rule of pointwise ops; otherwise DTensors
     * return RSH_EUNSUP. */
    const rsh_placement_rule *placements;
    /* If true, backward accepts the gradient of an output in any layout and redistributes it
     * itself.  If false, the library first reshards the gradient to the layout in grad_out of
     * rsh_grad_layouts. */
    bool any_gradient;
} rsh_grad_op;

/* Applies an op.  An entry of `in` may be NULL if that input is optional.  `attrs` has
 * op->attr_bytes bytes (NULL: zeros).  Outputs require gradients if recording is on, an input
 * requires one and the output is f32 or f64.  The caller frees each of the nout entries of `out`;
 * none is written if the call fails.
 * RSH_EUNSUP if the op does not support distributed inputs or this rank's number of parts;
 * RSH_EVALUE if inputs have different comms, or forward sets no output or one that does not match
 * its layout; errors of the op, its layouts function and a pack hook; RSH_ENOMEM. */
RSH_API rsh_status rsh_grad_apply(const rsh_grad_op *op, const void *attrs, int nin,
                                  rsh_value *const *in, int nout, rsh_value **out);

/* How rsh_grad_apply_with applies an op.  Layouts are held as long as needed; lists may be NULL. */
typedef struct rsh_value_kind rsh_value_kind;
typedef struct rsh_grad_apply_opts {
    size_t struct_size;                /* sizeof(rsh_grad_apply_opts) */
    rsh_comm *comm;                    /* of the outputs; NULL: that of the inputs */
    const rsh_layout *const *out;      /* nout; a NULL entry means that the output is plain */
    const rsh_layout *const *grad_in;  /* nin, as in rsh_grad_layouts */
    const rsh_layout *const *grad_out; /* nout, as in rsh_grad_layouts */
    const rsh_value_kind *kind;        /* of the outputs; NULL: none */
    void *kind_data;                   /* data of the kind, as for rsh_value_set_kind */
} rsh_grad_apply_opts;
#define RSH_GRAD_APPLY_OPTS_INIT {sizeof(rsh_grad_apply_opts), 0, 0, 0, 0, 0, 0}

/* Applies an op with layouts from the caller instead of the op's own rule.  Ignores the kinds of
 * the inputs.
 * Errors of rsh_grad_apply, and RSH_EVALUE if the options do not start from
 * RSH_GRAD_APPLY_OPTS_INIT. */
RSH_API rsh_status rsh_grad_apply_with(const rsh_grad_op *op, const void *attrs, int nin,
                                       rsh_value *const *in, int nout,
                                       const rsh_grad_apply_opts *opts, rsh_value **out);

/* ---- kinds of distributed values, such as DTensor ---- */

/* A kind of value.  The record is constant and usually static. */
struct rsh_value_kind {
    const char *name;
    /* Replaces rsh_grad_apply if an input is of this kind; the first such input decides.  It may
     * first apply other ops, such as moves, and must end with rsh_grad_apply_with. */
    rsh_status (*apply)(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in,
                        int nout, rsh_value **out);
    /* Add and drop a reference to the kind's data, such as a mesh.  NULL: not counted. */
    void (*hold)(void *kind_data);
    void (*drop)(void *kind_data);
};
/* Sets the kind of a value and the kind's data, to which the value holds a reference.  Detached
 * copies and saved slots have the same kind, and so has the gradient of a leaf.  If `kind` is NULL,
 * the value has none. */
RSH_API rsh_status rsh_value_set_kind(rsh_value *v, const rsh_value_kind *kind, void *kind_data);
/* Returns the kind, borrowed, or NULL if the value has none.  Writes the kind's data, borrowed, to
 * *kind_data unless that is NULL or there is no kind. */
RSH_API const rsh_value_kind *rsh_value_get_kind(const rsh_value *v, void **kind_data);

/* A layouts function for pointwise ops.  All distributed inputs must have the same layout, which
 * becomes that of the output, with the output's dtype.  Plain inputs must have one element.
 * RSH_EVALUE otherwise; RSH_EUNSUP for a partial layout, because not every op is linear. */
RSH_API rsh_status rsh_grad_same_layout(rsh_grad_layouts *io);

/* ---- in forward and backward ---- */

RSH_API int rsh_call_nin(const rsh_grad_call *c);
RSH_API int rsh_call_nout(const rsh_grad_call *c);
RSH_API void *rsh_call_attrs(const rsh_grad_call *c);
/* Returns whether backward must compute a gradient for input i; false if nothing is recorded. */
RSH_API bool rsh_call_needs_input_grad(const rsh_grad_call *c, int i);
/* Returns the index of the current part; 0 unless the op runs once for each part. */
RSH_API int64_t rsh_call_part(const rsh_grad_call *c);

/* In forward: return input i, its current part or the whole value, borrowed for the call; NULL if
 * it is missing or out of range.  A plain input is the same for every part. */
RSH_API const rsh_tensor *rsh_call_input(const rsh_grad_call *c, int i);
RSH_API const rsh_value *rsh_call_input_value(const rsh_grad_call *c, int i);
/* In forward: returns the layout that `layouts` set for output i, borrowed; NULL if it is plain. */
RSH_API const rsh_layout *rsh_call_output_layout(const rsh_grad_call *c, int i);
/* In forward: set output i, for the current part or as a whole.  It may be a view of an input.  The
 * library takes ownership of it, even if the call fails.
 * RSH_EINDEX if there is no such output; RSH_EVALUE if it was already set, or is NULL. */
RSH_API rsh_status rsh_call_set_output(rsh_grad_call *c, int i, rsh_tensor *t);
RSH_API rsh_status rsh_call_set_output_value(rsh_grad_call *c, int i, rsh_value *v);
/* In forward: marks output i as never requiring a gradient. */
RSH_API rsh_status rsh_call_mark_non_differentiable(rsh_grad_call *c, int i);

/* In forward: save an input, an output or another tensor for backward.  The library takes ownership
 * of that tensor, even if the call fails.  No-op if nothing is recorded.  Saved slots are numbered
 * from 0 in the order of these calls; an op that runs for each part must make the same calls for
 * every part.  After forward returns, each slot is kept or goes through the hooks of this thread.
 * RSH_EINDEX if there is no such input or output; RSH_ERUNTIME in backward; RSH_ENOMEM. */
RSH_API rsh_status rsh_call_save_input(rsh_grad_call *c, int i);
RSH_API rsh_status rsh_call_save_output(rsh_grad_call *c, int i);
RSH_API rsh_status rsh_call_save(rsh_grad_call *c, rsh_tensor *t);

/* In backward: return a saved tensor, its current part or the whole value, borrowed for the call;
 * NULL if the input was missing.  The first read of a slot in each backward unpacks it.
 * RSH_EINDEX if there is no such slot; RSH_ERUNTIME if the tensor has changed since it was saved;
 * RSH_ETYPE if an unpack hook returned nothing; RSH_EVALUE if its result differs in shape, dtype,
 * layout or comm; errors of the hook. */
RSH_API rsh_status rsh_call_saved(rsh_grad_call *c, int slot, const rsh_tensor **out);
RSH_API rsh_status rsh_call_saved_value(rsh_grad_call *c, int slot, const rsh_value **out);
/* In backward: return the gradient of output i, its current part or the whole value, borrowed for
 * the call; NULL means zero. */
RSH_API const rsh_tensor *rsh_call_output_grad(const rsh_grad_call *c, int i);
RSH_API const rsh_value *rsh_call_output_grad_value(const rsh_grad_call *c, int i);
/* In backward: set the gradient of input i, for the current part or as a whole.  The library takes
 * ownership of it, even if the call fails.  No-op if the input needs no gradient.
 * RSH_EINDEX if there is no such input; RSH_EVALUE if it was already set, or is NULL. */
RSH_API rsh_status rsh_call_set_input_grad(rsh_grad_call *c, int i, rsh_tensor *t);
RSH_API rsh_status rsh_call_set_input_grad_value(rsh_grad_call *c, int i, rsh_value *v);
/* In backward: uses the gradient of output j as that of input i, without a copy. */
RSH_API rsh_status rsh_call_pass_grad(rsh_grad_call *c, int i, int j);

/* ---- hooks for saved tensors ---- */

/* Hooks that store saved tensors differently between forward and backward.  `pack` is called once
 * for each slot after an op has saved it, with recording off; *packed is kept instead of the
 * tensor.  `v` is the input or output itself, or a leaf for any other tensor, borrowed for the
 * call; pack must not change its elements.  `unpack` is called once in each backward that reads the
 * slot.  It returns a value with the saved shape, dtype, layout and comm; the library takes
 * ownership of it. */
typedef struct rsh_saved_hooks {
    rsh_status (*pack)(void *ctx, rsh_value *v, void **packed);
    rsh_status (*unpack)(void *ctx, void *packed, rsh_value **out);
    /* Called when the slot is no longer needed.  May be NULL. */
    void (*release)(void *ctx, void *packed);
    /* Called when backward will unpack this slot soon: for the slots of the next op, before the
     * current op runs.  The order is the same on all ranks.  May be NULL. */
    rsh_status (*prefetch)(void *ctx, void *packed);
    /* Called when no slot and no stack uses the pair any more.  May be NULL. */
    void (*drop)(void *ctx);
    void *ctx;
    rsh_comm *comm; /* the comm on which unpack makes collective calls; NULL: it makes none */
    /* Called on all ranks of `comm` if a prefetched slot will not be unpacked in this backward,
     * because the op got no gradient or backward has failed.  May be NULL. */
    void (*forget)(void *ctx, void *packed);
} rsh_saved_hooks;

/* Pushes a copy of the hooks on this thread's stack.  Ops use only the top pair.  A slot keeps the
 * pair that packed it, even after a pop.  If the push fails, `drop` is not called.
 * RSH_ERUNTIME, with the message of rsh_saved_hooks_disable, while hooks are disabled; RSH_EVALUE
 * if pack or unpack is NULL; RSH_ENOMEM. */
RSH_API rsh_status rsh_saved_hooks_push(const rsh_saved_hooks *hooks);
/* Pops the top pair.  RSH_ERUNTIME if there is none. */
RSH_API rsh_status rsh_saved_hooks_pop(void);
/* Returns the number of pairs on the stack, so that a scope can check or restore it. */
RSH_API int rsh_saved_hooks_depth(void);
/* Makes pushes on this thread fail with this message; NULL allows them again.
 * RSH_ERUNTIME if the stack is not empty. */
RSH_API rsh_status rsh_saved_hooks_disable(const char *message);

/* A saved slot outside of an op, for code that keeps a value in order to compute with it again
 * later, as activation checkpointing does with inputs.  The value goes through this thread's top
 * pair of hooks like a slot of an op, even if nothing is recorded or required; without a pair it is
 * kept as it is.  `pack` gets the value itself.  The caller frees *out.
 * Errors of the pack hook; RSH_ERUNTIME if it changed the elements; RSH_ENOMEM.  Local. */
typedef struct rsh_saved rsh_saved;
RSH_API rsh_status rsh_saved_new(rsh_value *v, rsh_saved **out);
/* Returns the saved value: a leaf without history and without a gradient or, if hooks packed the
 * value, the result of unpack, which is called on every read.  The caller frees *out.
 * RSH_ERUNTIME if the elements have changed and there was no pair; RSH_ETYPE, RSH_EVALUE and others
 * as for rsh_call_saved.  Collective over rsh_saved_comm; local if that is NULL. */
RSH_API rsh_status rsh_saved_read(const rsh_saved *s, rsh_value **out);
/* Call the prefetch hook of the pair (at most once until the slot is read or forgotten), or its
 * forget hook.  No-ops without such hooks.
 * Errors of the hook; RSH_EVALUE for NULL.  Collective over rsh_saved_comm; local if that is
 * NULL. */
RSH_API rsh_status rsh_saved_prefetch(rsh_saved *s);
RSH_API void rsh_saved_forget(rsh_saved *s);
/* Returns the comm of the pair that packed the value, borrowed; NULL if there is none.  Local. */
RSH_API rsh_comm *rsh_saved_comm(const rsh_saved *s);
/* Frees the slot.  No-op for NULL.  Local. */
RSH_API void rsh_saved_free(rsh_saved *s);

/* ---- moves as ops ---- */

/* Which derivative a move has.  Choosing the wrong one gives wrong gradients without an error, so
 * there is no default.
 * Adjoint: every rank's buffer is a separate variable, and the losses of all ranks are summed.  The
 * derivative is the transpose of the map on all buffers, so gradients of replicas are summed.
 * Backward: replicas are one variable with one gradient, as in DTensors.  The derivative moves the
 * gradient back to the layout of the source; partial axes are treated as replicated. */
typedef enum rsh_derivative {
    RSH_DERIVATIVE_ADJOINT = 1,
    RSH_DERIVATIVE_BACKWARD = 2
} rsh_derivative;

/* Moves a distributed value to another layout, as rsh_reshard does.  opts may be NULL.  Backward is
 * a single plan too.  The caller frees *out.
 * Errors of rsh_reshard; RSH_EVALUE if v is not distributed; RSH_EUNSUP if a gradient is recorded
 * and the new dtype is neither f32 nor f64.  Backward returns RSH_EUNSUP if the move has no
 * derivative; copies, sum, avg and conversions between floats have one.  Collective. */
RSH_API rsh_status rsh_value_reshard(rsh_value *v, const rsh_layout *to, rsh_derivative how,
                                     const rsh_plan_opts *opts, rsh_value **out);

/* Does the same in steps, like rsh_reshard_begin.  The value is held; its elements must not change
 * before wait returns.  rsh_value_transit_wait adds the move to the graph, so all ranks must wait
 * for such moves in the same order. */
typedef struct rsh_value_transit rsh_value_transit;
/* The caller frees *out.  Errors as above.  Collective. */
RSH_API rsh_status rsh_value_reshard_begin(rsh_value *v, const rsh_layout *to, rsh_derivative how,
                                           const rsh_plan_opts *opts, rsh_value_transit **out);
/* Like rsh_transit_test, rsh_transit_wait and rsh_transit_free.  wait is collective; the others are
 * local, but free completes a move that has begun. */
RSH_API rsh_status rsh_value_transit_test(rsh_value_transit *t, bool *done);
RSH_API rsh_status rsh_value_transit_wait(rsh_value_transit *t, rsh_value **out);
RSH_API void rsh_value_transit_free(rsh_value_transit *t);

/* Convert a plain value to this rank's only part of a distributed value, and back, on the same
 * elements.  Gradients pass unchanged.  The caller frees *out.
 * RSH_EVALUE if the tensor does not match the layout, or the layout does not give this rank exactly
 * one part; RSH_EUNSUP if v does not have exactly one part on this rank.  Local. */
RSH_API rsh_status rsh_value_from_local(rsh_value *v, rsh_comm *comm, const rsh_layout *layout,
                                        rsh_value **out);
RSH_API rsh_status rsh_value_to_local(rsh_value *v, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif

/* Grad: values that remember how they were computed, and the way back for gradients.
 *
 * A value is a tensor of this rank or, if it is distributed, a sharded tensor: this rank's parts, a
 * comm and a layout.  An op is a record of functions, rsh_grad_op.  rsh_grad_apply runs one on
 * values and, if gradients are recorded and an input requires one, links its outputs to its inputs.
 * rsh_backward walks these links in reverse order of creation, so that all ranks make the same
 * collective calls in the same order, and adds up gradients in the leaves.
 *
 * Gradients exist for f32 and f64, first order.  What is recorded, whether anything is, and the
 * hooks for saved tensors belong to the calling thread: every rank has a tape of its own.  Values
 * are reference-counted, and one thread uses a graph and its values at a time.
 * Everything here is local, but for ops that move elements between ranks, and their backward. */
#ifndef RESHARD_GRAD_H
#define RESHARD_GRAD_H

#include <reshard/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_value rsh_value;

/* ---- values ---- */

/* A leaf on a tensor, or on a sharded tensor.  With a gradient required, rsh_backward adds to its
 * gradient.  The value takes over what it is given and frees it; if the call fails, it is still the
 * caller's.  The caller frees *out.
 * RSH_ETYPE if a gradient is required and the dtype is neither f32 nor f64; RSH_ENOMEM. */
RSH_API rsh_status rsh_value_adopt_tensor(rsh_tensor *t, bool requires_grad, rsh_value **out);
RSH_API rsh_status rsh_value_adopt_sharded(rsh_sharded *s, bool requires_grad, rsh_value **out);
/* The same on the storage of a tensor or sharded tensor that stays the caller's. */
RSH_API rsh_status rsh_value_share_tensor(const rsh_tensor *t, bool requires_grad, rsh_value **out);
RSH_API rsh_status rsh_value_share_sharded(const rsh_sharded *s, bool requires_grad,
                                           rsh_value **out);
/* A leaf on the same elements, without history and without a gradient.  The caller frees *out. */
RSH_API rsh_status rsh_value_detach(const rsh_value *v, rsh_value **out);
/* One more reference to the same value.  Never fails; NULL for NULL.  The caller frees the result,
 * once for every hold. */
RSH_API rsh_value *rsh_value_hold(rsh_value *v);
/* Drops one reference; the last one frees the value, and what only it needed of the graph.  No-op
 * for NULL. */
RSH_API void rsh_value_free(rsh_value *v);

/* This rank's parts: exactly one if the value is not distributed.  Parts are borrowed and live as
 * long as the value.  rsh_value_tensor is the only part; NULL if there are several or none. */
RSH_API const rsh_tensor *rsh_value_tensor(const rsh_value *v);
RSH_API int64_t rsh_value_nparts(const rsh_value *v);
RSH_API const rsh_tensor *rsh_value_part(const rsh_value *v, int64_t part);
/* The tag of a distributed value: its sharded tensor, layout and comm, borrowed; NULL if the value
 * is not distributed. */
RSH_API const rsh_sharded *rsh_value_sharded(const rsh_value *v);
RSH_API const rsh_layout *rsh_value_layout(const rsh_value *v);
RSH_API rsh_comm *rsh_value_comm(const rsh_value *v);
/* Dtype and shape; of a distributed value the shape of the whole.  RSH_DTYPE_NONE and -1 for
 * NULL. */
RSH_API rsh_dtype rsh_value_dtype(const rsh_value *v);
RSH_API int rsh_value_ndim(const rsh_value *v);
RSH_API const int64_t *rsh_value_shape(const rsh_value *v);

RSH_API bool rsh_value_requires_grad(const rsh_value *v);
/* Is it no output of a recorded op? */
RSH_API bool rsh_value_is_leaf(const rsh_value *v);
/* Says whether rsh_backward adds to the gradient of a leaf.
 * RSH_ERUNTIME if the value is not a leaf; otherwise as for rsh_value_adopt_tensor. */
RSH_API rsh_status rsh_value_set_requires_grad(rsh_value *v, bool requires_grad);

/* The gradient of a leaf, borrowed until the next call that changes it; NULL: none yet. */
RSH_API rsh_value *rsh_value_grad(const rsh_value *v);
/* Puts a gradient in place of the one that is there; the leaf holds it.  NULL: none.
 * RSH_EVALUE if its shape or dtype differs from the value's, or its layout from the value's with
 * partial replaced by replicated; RSH_ERUNTIME if the value is not a leaf. */
RSH_API rsh_status rsh_value_set_grad(rsh_value *v, rsh_value *grad);
/* Sets the gradient that is there to zero in its memory.  No-op without one. */
RSH_API rsh_status rsh_value_zero_grad(rsh_value *v);

/* ---- what this thread records ---- */

/* Are ops recorded?  True in a new thread.  Setting returns what was set before, so that a scope
 * restores it:
 *     bool was = rsh_grad_enable(false);
 *     ...
 *     rsh_grad_enable(was); */
RSH_API bool rsh_grad_enabled(void);
RSH_API bool rsh_grad_enable(bool on);

/* The pool that adds large gradients on this thread, borrowed; NULL, as in a new thread: the thread
 * adds alone.  Returns the one before. */
RSH_API rsh_pool *rsh_grad_set_pool(rsh_pool *pool);

/* ---- backward ---- */

typedef enum rsh_backward_flags {
    RSH_RETAIN_GRAPH = 1 /* keep what is saved: another backward may follow */
} rsh_backward_flags;

/* Adds to the gradient of each leaf that v was computed from the derivative of v with respect to
 * it, times `seed`: a value of v's shape, dtype and tag, which may be NULL if v has one element
 * (then it is 1).  `flags` are rsh_backward_flags.  Gradients add up in the order in which they
 * come: later ops first, and of one op its inputs in ascending order.  If it fails, no leaf has
 * changed on any rank, and the graph is used up.
 * RSH_ERUNTIME if v has no history and requires no gradient, a saved tensor has changed since, or
 * the graph is used up; RSH_EVALUE if the seed is missing, or has another shape, dtype or tag, or
 * an op gives such a gradient; RSH_EUNSUP if an op has no derivative; what ops and hooks return.
 * Collective over the comms of the moves in the graph; local if there are none. */
RSH_API rsh_status rsh_backward(rsh_value *v, rsh_value *seed, unsigned flags);
/* The same from n values at once.  `seeds` has n entries, or is NULL. */
RSH_API rsh_status rsh_backward_many(int n, rsh_value *const *v, rsh_value *const *seeds,
                                     unsigned flags);

/* ---- ops ---- */

/* One application of an op, as its functions see it. */
typedef struct rsh_grad_call rsh_grad_call;

/* What an op does to layouts, filled in by its function `layouts`, which is called if an input is
 * distributed.  All distributed inputs live on one comm.  What it puts into a list is taken over,
 * and freed also if it fails. */
typedef struct rsh_grad_layouts {
    const void *attrs;
    int nin, nout;
    const rsh_layout *const *in; /* nin; NULL: that input is a plain tensor, or missing */
    const rsh_value *const *values; /* the inputs themselves */
    rsh_layout **out;            /* nout, all NULL; leave NULL where an output is a plain tensor */
    rsh_layout **grad_in;  /* nin: of the gradients that backward gives; NULL: as the input */
    rsh_layout **grad_out; /* nout: of the gradients that backward needs; NULL: as the output.  As:
                              with partial replaced by replicated */
} rsh_grad_layouts;

/* On which parts of distributed inputs forward and backward are called. */
typedef enum rsh_grad_parts {
    RSH_PARTS_ONE,  /* once; RSH_EUNSUP with the op's name if this rank has several parts or none */
    RSH_PARTS_EACH, /* once for each part, as pointwise ops can */
    RSH_PARTS_ANY   /* once; the functions look at whole values */
} rsh_grad_parts;

/* DTensor's rule for an op: placements of inputs to placements of outputs, <reshard/rule.h>. */
typedef struct rsh_placement_rule rsh_placement_rule;

/* An op.  A record is constant and lives as long as the graphs that use it, so it is usually
 * static.  Forward and backward return a status, and leave a sentence with rsh_fail if they
 * find an error themselves. */
typedef struct rsh_grad_op {
    const char *name; /* for sentences */
    /* Computes the outputs of the current part: reads rsh_call_input, gives every output with
     * rsh_call_set_output, saves what backward needs.  Recording is off in here. */
    rsh_status (*forward)(rsh_grad_call *call);
    /* Computes gradients of inputs from gradients of outputs: reads rsh_call_output_grad and
     * rsh_call_saved, gives what rsh_call_needs_input_grad with rsh_call_set_input_grad.  An input
     * that it gives nothing gets no gradient from this op.  Recording is off.  NULL: the op has no
     * derivative, and a backward that comes to it is RSH_EUNSUP with the op's name. */
    rsh_status (*backward)(rsh_grad_call *call);
    /* NULL: distributed inputs are RSH_EUNSUP with the op's name, unless parts is
     * RSH_PARTS_ANY.  rsh_grad_same_layout is there for pointwise ops. */
    rsh_status (*layouts)(rsh_grad_layouts *io);
    rsh_grad_parts parts;
    /* Bytes of the attributes: copied from those given to rsh_grad_apply, before forward, to memory
     * that forward and backward may write (rsh_call_attrs).  `drop`, if not NULL, is called on the
     * copy once, when the application is not needed any more, also if forward failed. */
    size_t attr_bytes;
    void (*drop)(void *attrs);
    /* NULL: backward is local.  Otherwise the comm on which it makes collective calls, given the
     * attributes; all ranks of it have this op in their graphs.  Backward is then called also if no
     * output has a gradient; and if a rank has failed before, all ranks of the comm get its status
     * here instead. */
    rsh_comm *(*comm)(const void *attrs);
    /* NULL: the rule of pointwise ops if `layouts` is rsh_grad_same_layout, else DTensors are
     * RSH_EUNSUP. */
    const rsh_placement_rule *placements;
    /* Backward takes the gradient of an output in whatever layout it has, and moves it itself;
     * false: it is brought first to the layout that grad_out of rsh_grad_layouts says. */
    bool any_gradient;
} rsh_grad_op;

/* Applies an op.  An entry of `in` may be NULL if the op knows that input as optional.  `attrs` has
 * op->attr_bytes bytes (NULL: zeros).  Outputs require gradients if recording is on and an input
 * does, unless their dtype is neither f32 nor f64.  The caller frees each of the nout entries of
 * `out`; none is written if the call fails.
 * RSH_EUNSUP if the op cannot take distributed inputs or this rank's number of parts; RSH_EVALUE if
 * inputs live on different comms, or forward gives no output or one that its layout does not
 * describe; what the op, its layouts function and a pack hook return; RSH_ENOMEM. */
RSH_API rsh_status rsh_grad_apply(const rsh_grad_op *op, const void *attrs, int nin,
                                  rsh_value *const *in, int nout, rsh_value **out);

/* How rsh_grad_apply_with applies an op.  Layouts are held where needed; lists may be NULL. */
typedef struct rsh_value_kind rsh_value_kind;
typedef struct rsh_grad_apply_opts {
    size_t struct_size;                /* sizeof(rsh_grad_apply_opts) */
    rsh_comm *comm;                    /* of the outputs; NULL: of the inputs */
    const rsh_layout *const *out;      /* nout; an entry of NULL: that output is a plain tensor */
    const rsh_layout *const *grad_in;  /* nin: as in rsh_grad_layouts */
    const rsh_layout *const *grad_out; /* nout: as in rsh_grad_layouts */
    const rsh_value_kind *kind;        /* of the outputs; NULL: none */
    void *kind_data;                   /* what belongs to the kind, as for rsh_value_set_kind */
} rsh_grad_apply_opts;
#define RSH_GRAD_APPLY_OPTS_INIT {sizeof(rsh_grad_apply_opts), 0, 0, 0, 0, 0, 0}

/* Applies an op with layouts that the caller has found, in place of the op's own rule.  Ignores the
 * kinds of the inputs.
 * Errors as for rsh_grad_apply, and RSH_EVALUE if the options do not start from
 * RSH_GRAD_APPLY_OPTS_INIT. */
RSH_API rsh_status rsh_grad_apply_with(const rsh_grad_op *op, const void *attrs, int nin,
                                       rsh_value *const *in, int nout,
                                       const rsh_grad_apply_opts *opts, rsh_value **out);

/* ---- kinds: what a distributed value is beyond its layout ---- */

/* A kind of value, such as DTensor.  The record is constant and usually static. */
struct rsh_value_kind {
    const char *name;
    /* Replaces rsh_grad_apply if an input is of this kind; the first such input counts.  It may
     * apply ops, moves first of all, and ends in rsh_grad_apply_with. */
    rsh_status (*apply)(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in,
                        int nout, rsh_value **out);
    /* Add and drop a reference to the kind's data, such as a mesh.  NULL: data are not counted. */
    void (*hold)(void *kind_data);
    void (*drop)(void *kind_data);
};
/* Sets the kind of a value and the data that belong to it, which the value holds; its detached
 * copies and saved slots have the same kind.  NULL for the kind: none.  The gradient of a leaf has
 * the leaf's kind. */
RSH_API rsh_status rsh_value_set_kind(rsh_value *v, const rsh_value_kind *kind, void *kind_data);
/* Returns the kind, borrowed, or NULL if the value has none.  Writes the kind's data, borrowed, to
 * *kind_data unless that is NULL or there is no kind. */
RSH_API const rsh_value_kind *rsh_value_get_kind(const rsh_value *v, void **kind_data);

/* A layouts function for pointwise ops: distributed inputs have one layout, which is the output's,
 * in the output's dtype; plain inputs have one element.
 * RSH_EVALUE otherwise; RSH_EUNSUP for a partial layout, because not every op is linear. */
RSH_API rsh_status rsh_grad_same_layout(rsh_grad_layouts *io);

/* ---- in forward and backward ---- */

RSH_API int rsh_call_nin(const rsh_grad_call *c);
RSH_API int rsh_call_nout(const rsh_grad_call *c);
RSH_API void *rsh_call_attrs(const rsh_grad_call *c);
/* Will backward have to give input i a gradient?  False for all if nothing is recorded. */
RSH_API bool rsh_call_needs_input_grad(const rsh_grad_call *c, int i);
/* The part that this is about: 0, unless the op works on each. */
RSH_API int64_t rsh_call_part(const rsh_grad_call *c);

/* In forward: input i, its current part or the whole value; NULL if it is missing or there is no
 * such input.  A plain input is the same for every part.  Borrowed for the call. */
RSH_API const rsh_tensor *rsh_call_input(const rsh_grad_call *c, int i);
RSH_API const rsh_value *rsh_call_input_value(const rsh_grad_call *c, int i);
/* In forward: the layout that `layouts` gave output i, borrowed; NULL: it is plain. */
RSH_API const rsh_layout *rsh_call_output_layout(const rsh_grad_call *c, int i);
/* In forward: gives output i, for the current part or as a whole.  It is taken over, also if the
 * call fails.  It may be a view of an input.
 * RSH_EINDEX if there is no such output; RSH_EVALUE if it was given before or is NULL. */
RSH_API rsh_status rsh_call_set_output(rsh_grad_call *c, int i, rsh_tensor *t);
RSH_API rsh_status rsh_call_set_output_value(rsh_grad_call *c, int i, rsh_value *v);
/* In forward: output i requires no gradient whatever the inputs do. */
RSH_API rsh_status rsh_call_mark_non_differentiable(rsh_grad_call *c, int i);

/* In forward: saves an input, an output, or another tensor for backward; that tensor is taken over,
 * also if the call fails.  No-op if nothing is recorded.  Saved slots are numbered from 0 in the
 * order of these calls; an op that works on each part makes the same ones for every part.  A slot
 * is kept as it is, or goes through the hooks of this thread, after forward returns.
 * RSH_EINDEX if there is no such input or output; RSH_ERUNTIME in backward; RSH_ENOMEM. */
RSH_API rsh_status rsh_call_save_input(rsh_grad_call *c, int i);
RSH_API rsh_status rsh_call_save_output(rsh_grad_call *c, int i);
RSH_API rsh_status rsh_call_save(rsh_grad_call *c, rsh_tensor *t);

/* In backward: what was saved, its current part or the whole value; NULL if it was a missing input.
 * Borrowed for the call.  The first read of a slot in a backward unpacks it.
 * RSH_EINDEX if there is no such slot; RSH_ERUNTIME if the tensor has changed since it was saved;
 * RSH_ETYPE if an unpack hook gave nothing; RSH_EVALUE if it gave another shape, dtype or tag; what
 * the hook returns. */
RSH_API rsh_status rsh_call_saved(rsh_grad_call *c, int slot, const rsh_tensor **out);
RSH_API rsh_status rsh_call_saved_value(rsh_grad_call *c, int slot, const rsh_value **out);
/* In backward: the gradient of output i, its current part or the whole value, borrowed for the
 * call; NULL: none came, which counts as zero. */
RSH_API const rsh_tensor *rsh_call_output_grad(const rsh_grad_call *c, int i);
RSH_API const rsh_value *rsh_call_output_grad_value(const rsh_grad_call *c, int i);
/* In backward: gives the gradient of input i, for the current part or as a whole.  It is taken
 * over, also if the call fails.  No-op for an input that needs none.
 * RSH_EINDEX if there is no such input; RSH_EVALUE if it was given before or is NULL. */
RSH_API rsh_status rsh_call_set_input_grad(rsh_grad_call *c, int i, rsh_tensor *t);
RSH_API rsh_status rsh_call_set_input_grad_value(rsh_grad_call *c, int i, rsh_value *v);
/* In backward: gives input i the gradient of output j as it is, without a copy. */
RSH_API rsh_status rsh_call_pass_grad(rsh_grad_call *c, int i, int j);

/* ---- hooks for saved tensors ---- */

/* What is done with a tensor between forward and backward.  `pack` is called once for each slot
 * when an op has saved it, with recording off; what it puts into *packed is kept in place of the
 * tensor.  It gets the input or output itself, or a leaf for another tensor, borrowed for the call;
 * it must not change its elements.  `unpack` is called once in each backward that reads the slot,
 * and gives a value with the saved shape, dtype and tag, which is taken over. */
typedef struct rsh_saved_hooks {
    rsh_status (*pack)(void *ctx, rsh_value *v, void **packed);
    rsh_status (*unpack)(void *ctx, void *packed, rsh_value **out);
    /* The slot is not needed any more.  NULL: nothing to do. */
    void (*release)(void *ctx, void *packed);
    /* May be NULL.  Backward will unpack this soon: the slots of the op that comes next, before the
     * current one runs.  Called in the same order on all ranks. */
    rsh_status (*prefetch)(void *ctx, void *packed);
    /* No slot and no stack has the pair any more.  NULL: nothing to do. */
    void (*drop)(void *ctx);
    void *ctx;
    rsh_comm *comm; /* unpack makes collective calls on it; NULL: it makes none */
    /* May be NULL.  What prefetch began will not be unpacked in this backward: the op got no
     * gradient, or backward has failed and all ranks of `comm` know.  Called on all ranks. */
    void (*forget)(void *ctx, void *packed);
} rsh_saved_hooks;

/* Pushes a pair, which is copied, on this thread's stack.  Ops use the top pair alone.  A slot
 * keeps the pair it was packed with, whatever happens to the stack.  If pushing fails, `drop` is
 * not called.
 * RSH_ERUNTIME with the message while hooks are disabled; RSH_EVALUE if pack or unpack is missing;
 * RSH_ENOMEM. */
RSH_API rsh_status rsh_saved_hooks_push(const rsh_saved_hooks *hooks);
/* Pops the top pair.  RSH_ERUNTIME if there is none. */
RSH_API rsh_status rsh_saved_hooks_pop(void);
/* The number of pairs on the stack, so that a scope can check or restore it. */
RSH_API int rsh_saved_hooks_depth(void);
/* Disables pushing on this thread, with a message for those who try; NULL enables it.
 * RSH_ERUNTIME if the stack is not empty. */
RSH_API rsh_status rsh_saved_hooks_disable(const char *message);

/* A saved slot outside of an op: what a function keeps of a value to compute with it again later,
 * as activation checkpointing does with inputs.  It goes through this thread's top pair as a slot
 * of an op does, whatever the value requires and whether ops are recorded or not; without a pair it
 * is kept as it is.  `pack` gets the value itself.  The caller frees *out.
 * What the pack hook returns; RSH_ERUNTIME if it changed the elements; RSH_ENOMEM.  Local. */
typedef struct rsh_saved rsh_saved;
RSH_API rsh_status rsh_saved_new(rsh_value *v, rsh_saved **out);
/* The value as it was saved: a leaf without history and without a gradient, or what unpack gives,
 * which is called at every read.  The caller frees *out.
 * RSH_ERUNTIME if the elements have changed and there was no pair; RSH_ETYPE, RSH_EVALUE and others
 * as for rsh_call_saved.  Collective over rsh_saved_comm; local if that is NULL. */
RSH_API rsh_status rsh_saved_read(const rsh_saved *s, rsh_value **out);
/* Tells the pair's prefetch hook that it will be read soon, once until it is read or forgotten; and
 * its forget hook that it will not be read after all.  No-ops without such hooks.
 * What the hook returns; RSH_EVALUE for NULL.  Collective over rsh_saved_comm; local if that is
 * NULL. */
RSH_API rsh_status rsh_saved_prefetch(rsh_saved *s);
RSH_API void rsh_saved_forget(rsh_saved *s);
/* The comm of the pair that packed it, borrowed; NULL: no pair, or it names none.  Local. */
RSH_API rsh_comm *rsh_saved_comm(const rsh_saved *s);
/* Ends the slot.  No-op for NULL.  Local. */
RSH_API void rsh_saved_free(rsh_saved *s);

/* ---- tags and moves as ops ---- */

/* Which derivative a move has.  The wrong one is silently wrong, so there is no default.
 * Where every rank's buffer is a variable of its own and the losses of all ranks add up, it is the
 * adjoint: the transpose of the map on all buffers, so that the gradients of replicas are summed.
 * Where replicas are one variable and have the same gradient, as DTensors do, it is the way back:
 * from the layout that the gradient has to that of the source, with partial replaced by
 * replicated. */
typedef enum rsh_derivative {
    RSH_DERIVATIVE_ADJOINT = 1,
    RSH_DERIVATIVE_BACKWARD = 2
} rsh_derivative;

/* Moves a distributed value to another layout, as rsh_reshard does.  opts may be NULL.  Backward is
 * one plan too.  The caller frees *out.
 * Errors as for rsh_reshard; RSH_EVALUE if v is not distributed; RSH_EUNSUP if a gradient is
 * recorded and the dtype is to become neither f32 nor f64.  Backward: RSH_EUNSUP if there is no
 * derivative: copies, sum, avg and conversions between floats have one.  Collective. */
RSH_API rsh_status rsh_value_reshard(rsh_value *v, const rsh_layout *to, rsh_derivative how,
                                     const rsh_plan_opts *opts, rsh_value **out);

/* The same in steps, as rsh_reshard_begin does it.  The value is held; its elements must not change
 * before wait returns.  The move becomes part of the graph in wait, so all ranks wait for such
 * moves in the same order. */
typedef struct rsh_value_transit rsh_value_transit;
/* The caller frees *out.  Errors as above.  Collective. */
RSH_API rsh_status rsh_value_reshard_begin(rsh_value *v, const rsh_layout *to, rsh_derivative how,
                                           const rsh_plan_opts *opts, rsh_value_transit **out);
/* As rsh_transit_test, rsh_transit_wait and rsh_transit_free.  Collective: wait; local: the
 * others, but free finishes what was begun. */
RSH_API rsh_status rsh_value_transit_test(rsh_value_transit *t, bool *done);
RSH_API rsh_status rsh_value_transit_wait(rsh_value_transit *t, rsh_value **out);
RSH_API void rsh_value_transit_free(rsh_value_transit *t);

/* A plain value as this rank's only part of a distributed one, and the other way round: the same
 * elements, with a tag or without.  Gradients pass as they are.  The caller frees *out.
 * RSH_EVALUE if the layout does not describe the tensor, or gives this rank not exactly one part;
 * RSH_EUNSUP if v has not exactly one part on this rank.  Local. */
RSH_API rsh_status rsh_value_from_local(rsh_value *v, rsh_comm *comm, const rsh_layout *layout,
                                        rsh_value **out);
RSH_API rsh_status rsh_value_to_local(rsh_value *v, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif

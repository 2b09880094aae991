/* impl: shared by the files of the grad room: payloads, values, entries and the tape. */
#ifndef RESHARD_GRAD_IMPL_H
#define RESHARD_GRAD_IMPL_H

#include <reshard/grad.h>

#include "base/base.h"
#include "shard/shard.h"

/* ---- the tape: the recording state of one thread, and free blocks of its objects ---- */

#define RSHI_ENTRY_CLASSES 6 /* blocks of 512 bytes, doubling */
#define RSHI_ENTRY_LEAST 512

/* Free blocks of one size, linked by their first word. */
typedef struct rshi_shelf {
    void *first;
} rshi_shelf;

#define RSHI_UNPARTIAL 16 /* number of cached layouts */

struct rshi_hooks;

typedef struct rshi_tape {
    bool off;        /* recording is off */
    uint64_t next;   /* number of the next entry; only increases */
    uint64_t walks;  /* number of the last backward */
    rshi_shelf values, payloads, forms, nodes[RSHI_ENTRY_CLASSES];
    struct rshi_hooks **stack; /* owned; hooks, top last */
    int64_t depth, room;
    rsh_pool *pool;  /* borrowed; adds large gradients; NULL: none */
    char *disabled;  /* owned; message for pushes while hooks are disabled; NULL: enabled */
    struct {
        rsh_layout *of, *is; /* owned */
    } unpartial[RSHI_UNPARTIAL];
    rsh_comm *failed_on; /* borrowed; a collective call on it has just failed on all its ranks */
} rshi_tape;

/* After a failure: notes the comm if a call on it has failed on all its ranks since `calls`. */
static inline void rshi_tape_note_failure(rshi_tape *t, rsh_comm *comm, uint64_t calls) {
    if (comm && rshi_comm_all_know(comm, calls)) t->failed_on = comm;
}
static inline uint64_t rshi_calls_of(const rsh_comm *comm) { return comm ? comm->calls : 0; }

/* Returns this thread's tape, created on first use; NULL with an error message if memory runs
 * out. */
rshi_tape *rshi_tape_mine(void);
/* Returns a free or new block, not zeroed; NULL with an error message if memory runs out. */
void *rshi_shelf_take(rshi_shelf *shelf, size_t bytes);
/* Return a block to this thread's list, or to the system if the thread has no tape. */
void rshi_value_block_give(void *p);
void rshi_payload_block_give(void *p);
void rshi_profile_block_give(void *p);
void rshi_entry_block_give(void *p, int size_class); /* -1: no class */

/* Caches the results of rshi_layout_unpartial, which is slow, for layouts that recur. */
rsh_status rshi_tape_unpartial(const rsh_layout *l, rsh_layout **out);

/* ---- payload: the elements of a value, shared by values that differ only in history ---- */

typedef struct rshi_payload {
    int64_t refs;
    rsh_tensor *tensor;   /* owned; of a plain value; NULL: see `sharded` and `list` */
    rsh_sharded *sharded; /* owned; of a distributed value */
    rsh_tensor **list;    /* owned, nlist; tensors that an op saved for each part */
    int64_t nlist;
    const rsh_value_kind *kind; /* NULL: none */
    void *kind_data;            /* held through the kind */
} rshi_payload;

/* Takes ownership of the argument that is not NULL, unless memory runs out: then it returns NULL
 * with an error message. */
rshi_payload *rshi_payload_new(rsh_tensor *t, rsh_sharded *s);
rshi_payload *rshi_payload_hold(rshi_payload *p);
void rshi_payload_drop(rshi_payload *p); /* no-op for NULL */
void rshi_payload_set_kind(rshi_payload *p, const rsh_value_kind *kind, void *kind_data);
int64_t rshi_payload_nparts(const rshi_payload *p);
/* A plain payload has the same tensor for every part. */
const rsh_tensor *rshi_payload_part(const rshi_payload *p, int64_t part);
uint64_t rshi_payload_version(const rshi_payload *p); /* differs after any change of an element */
bool rshi_payload_alone(const rshi_payload *p);       /* nothing else uses its storages */

/* ---- profile: the expected form of a gradient or an unpacked value ---- */

typedef struct rshi_profile {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM]; /* of the whole tensor */
    rsh_layout *layout;          /* owned; NULL: plain */
    rsh_comm *comm;              /* borrowed; of a distributed value */
} rshi_profile;

void rshi_profile_of(const rshi_payload *p, rshi_profile *out); /* holds the layout */
void rshi_profile_end(rshi_profile *f);
/* Checks dtype and shape of v.  RSH_EVALUE if they differ; the message begins "<who>: <what>". */
rsh_status rshi_profile_match_shape(const rshi_profile *f, const rsh_value *v, const char *who,
                                 const char *what);
/* Checks the layout too. */
rsh_status rshi_profile_match(const rshi_profile *f, const rsh_value *v, const char *who,
                           const char *what);

/* ---- value ---- */

struct rsh_value {
    int64_t refs;
    rshi_payload *payload;      /* owned */
    struct rsh_grad_call *node; /* owned; the op that computed it; NULL: a leaf */
    int out;                    /* which output of the node */
    bool requires_grad;
    rsh_value *grad;    /* owned; of a leaf; NULL: none */
    rsh_value *pending; /* owned; gradient of a leaf that the current backward has accumulated */
    uint64_t walk;      /* number of the current backward that has reached it; 0: none */
};

rsh_value *rshi_value_new(rshi_payload *p); /* takes ownership of p unless it returns NULL */
bool rshi_differentiable(rsh_dtype dtype);

/* ---- hooks ---- */

typedef struct rshi_hooks {
    int64_t refs;
    rsh_saved_hooks hooks;
} rshi_hooks;
rshi_hooks *rshi_hooks_top(void); /* borrowed; NULL: none */
void rshi_hooks_drop(rshi_hooks *p);

/* ---- entry: one application of an op, the `call` of its functions ---- */

typedef struct rshi_input {
    struct rsh_grad_call *node; /* owned; the op that computed the input */
    rsh_value *leaf;            /* owned; the input if it is a leaf; both NULL: needs no gradient */
    int out;
    rsh_layout *grad_layout; /* owned; of the gradient that backward returns; NULL: plain */
    rsh_value *value;   /* in forward, borrowed: the input; in backward, owned: its gradient */
    rsh_tensor *tensor; /* in backward, owned: its gradient for the current part */
} rshi_input;

typedef struct rshi_output {
    rshi_profile form;
    rsh_layout *grad_layout; /* owned; layout that backward needs; NULL: that of the profile */
    bool no_grad;
    rsh_value *value;   /* in forward, owned: the output; in backward, owned: its gradient */
    rsh_tensor *tensor; /* in forward, owned: the output's current part */
} rshi_output;

typedef enum rshi_slot_kind { RSHI_SLOT_IN, RSHI_SLOT_OUT, RSHI_SLOT_TENSOR } rshi_slot_kind;

typedef struct rshi_slot {
    rshi_slot_kind kind;
    int index;             /* of the input or output */
    rshi_payload *payload; /* owned; the saved elements; NULL: packed, or a missing input */
    uint64_t version;      /* of the payload when it was saved */
    rshi_hooks *pair;       /* owned; the hooks that packed it; NULL: none */
    void *packed;
    rshi_profile *form;     /* owned; of the packed value */
    rsh_value *unpacked; /* owned; in the current backward */
    bool fetched;        /* prefetch was called in the current backward */
} rshi_slot;

typedef enum rshi_phase { RSHI_IDLE, RSHI_FORWARD, RSHI_BACKWARD } rshi_phase;

struct rsh_grad_call {
    int64_t refs;
    uint64_t number; /* order of creation */
    const rsh_grad_op *op;
    int nin, nout, nslots, room; /* room for slots */
    int size_class;
    rshi_phase phase;
    bool recorded;   /* an input needs a gradient */
    bool used;       /* a backward has processed and released it */
    uint64_t walk;   /* number of the current backward that has reached it; 0: none */
    int64_t part, nparts;
    int saving;   /* the slot that the next save of this part fills */
    bool spilled; /* the slots did not fit in the block and are allocated separately */
    rshi_input *edge;
    rshi_output *out;
    rshi_slot *slot;
    void *attrs;
    rsh_tensor **tensors; /* owned; if the op runs for each part, part by part; NULL: one part */
    rsh_comm *comm;       /* borrowed; of distributed inputs; NULL: all are plain */
    bool moved; /* gradients may have other layouts than the values and are moved on `comm` */
    struct rsh_grad_call *next; /* in the list of entries to be freed */
    struct rsh_grad_call *child, *sibling; /* in the heap of the current backward */
};
typedef struct rsh_grad_call rshi_entry;

/* Creates an entry with one reference and empty lists; NULL with an error message if memory runs
 * out. */
rshi_entry *rshi_entry_new(const rsh_grad_op *op, const void *attrs, int nin, int nout);
rshi_entry *rshi_entry_hold(rshi_entry *n);
void rshi_entry_drop(rshi_entry *n); /* frees everything that only it holds, without recursion */
/* Releases what backward needs: slots, attributes and links. */
void rshi_entry_release(rshi_entry *n);

/* Makes one value from a tensor for each part: sharded if there is a layout, otherwise plain.
 * Takes ownership of the tensors, even if it fails.  Messages begin with `who`. */
rsh_status rshi_parts_assemble(const char *who, rsh_comm *comm, const rsh_layout *layout,
                               int64_t nparts, rsh_tensor **parts, rsh_value **out);

/* ---- saved ---- */

rsh_status rshi_slots_fill(rshi_entry *n);   /* after forward: keep or pack every slot */
void rshi_slots_forget(rshi_entry *n);       /* drop values of the current backward */
void rshi_slot_end(rshi_slot *s);
rsh_status rshi_slots_prefetch(rshi_entry *n);
bool rshi_slot_is_ahead(const rshi_slot *s); /* prefetched but not unpacked */
rsh_status rshi_slot_add(rshi_entry *n, rshi_slot_kind kind, int index, rsh_tensor *t);

/* ---- moves ---- */

rsh_status rshi_reshard_check(const rsh_value *v, const rsh_layout *to, rsh_derivative how,
                              const void *out);
/* Applies the op of rsh_value_reshard to the result of a move in steps; takes ownership of it, even
 * if this fails. */
rsh_status rshi_reshard_arrived(rsh_value *v, const rsh_layout *to, rsh_derivative how,
                                const rsh_plan_opts *opts, rsh_sharded *arrived, rsh_value **out);

/* ---- gradients: values without history, which change in place only if nothing else uses them
 * ---- */

/* *sum += g, or *sum = g if *sum is NULL.  Takes a reference to g, even if it fails. */
rsh_status rshi_gradient_add(rsh_value **sum, rsh_value *g);
/* Returns the layout of a gradient of v: that of v, with partial axes treated as replicated.  *out
 * is held; NULL for a plain value. */
rsh_status rshi_gradient_layout(const rsh_value *v, rsh_layout **out);
/* Checks that g can be a gradient of v.  RSH_EVALUE if its shape, dtype or layout differs; the
 * gradient of a partial value may also have v's own layout.  `who`, `what`: see
 * rshi_profile_match. */
rsh_status rshi_gradient_check(const rsh_value *v, const rsh_value *g, const char *who,
                               const char *what);
/* Returns a checked seed without history and in the layout of a gradient. */
rsh_status rshi_gradient_seed(const rsh_value *v, const rsh_value *seed, rsh_value **out);
/* Creates a gradient of ones for v. */
rsh_status rshi_gradient_ones(const rsh_value *v, rsh_value **out);
/* Replaces *g by a dense copy, unless it is dense and nothing else uses it. */
rsh_status rshi_gradient_own(rsh_value **g);
/* into += g.  Both have the same form and share no memory, so this cannot fail. */
void rshi_gradient_add_into(const rsh_value *into, const rsh_value *g);
/* Reshards *g to this layout (NULL: any) if it has another, which is collective. */
rsh_status rshi_gradient_bring(rsh_value **g, const rsh_layout *layout);
rsh_status rshi_gradient_bring_to(rsh_value **g, const rsh_value *v); /* to that of v's gradient */
void rshi_scale_elements(const rsh_tensor *t, double by); /* t is f32 or f64 without gaps */

#endif

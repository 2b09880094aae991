/* impl: what the files of the grad room share: payloads, values, entries and the tape. */
#ifndef RESHARD_GRAD_IMPL_H
#define RESHARD_GRAD_IMPL_H

#include <reshard/grad.h>

#include "base/base.h"
#include "shard/shard.h"

/* ---- the tape: what one thread records with, and spare blocks of its objects ---- */

#define RSHI_ENTRY_CLASSES 6 /* blocks of 512 bytes, doubling */
#define RSHI_ENTRY_LEAST 512

/* Blocks of one size that wait to be used again, linked by their first word. */
typedef struct rshi_shelf {
    void *first;
} rshi_shelf;

#define RSHI_UNPARTIAL 16 /* layouts remembered */

struct rshi_hooks;

typedef struct rshi_tape {
    bool off;        /* nothing is recorded */
    uint64_t next;   /* number of the next entry; ascends for as long as the thread lives */
    uint64_t walks;  /* number of the last backward */
    rshi_shelf values, payloads, forms, nodes[RSHI_ENTRY_CLASSES];
    struct rshi_hooks **stack; /* owned: hooks, top last */
    int64_t depth, room;
    rsh_pool *pool;  /* borrowed: adds large gradients; NULL: none */
    char *disabled;  /* owned: why hooks cannot be pushed; NULL: they can */
    struct {
        rsh_layout *of, *is; /* owned */
    } unpartial[RSHI_UNPARTIAL];
    rsh_comm *failed_on; /* borrowed: a collective call on it has just failed, on all its ranks */
} rshi_tape;

/* Note that, if it is so: something has failed since the comm (NULL: none) had made `calls`. */
static inline void rshi_tape_note_failure(rshi_tape *t, rsh_comm *comm, uint64_t calls) {
    if (comm && rshi_comm_all_know(comm, calls)) t->failed_on = comm;
}
static inline uint64_t rshi_calls_of(const rsh_comm *comm) { return comm ? comm->calls : 0; }

/* This thread's, made at its first use; NULL and a sentence when there is no memory. */
rshi_tape *rshi_tape_mine(void);
/* A block from the shelf or new, not zeroed; NULL and a sentence when there is no memory. */
void *rshi_shelf_take(rshi_shelf *shelf, size_t bytes);
/* Back to this thread's shelf, or to the system where the thread has no tape. */
void rshi_value_block_give(void *p);
void rshi_payload_block_give(void *p);
void rshi_profile_block_give(void *p);
void rshi_entry_block_give(void *p, int size_class); /* -1: of no class */

/* rshi_layout_unpartial, which writes texts, for layouts that come again and again. */
rsh_status rshi_tape_unpartial(const rsh_layout *l, rsh_layout **out);

/* ---- payload: the elements of a value, shared by those that are the same but for history ---- */

typedef struct rshi_payload {
    int64_t refs;
    rsh_tensor *tensor;   /* owned: of a plain value; NULL: see `sharded` and `list` */
    rsh_sharded *sharded; /* owned: of a distributed value */
    rsh_tensor **list;    /* owned, nlist: what an op saved for each part */
    int64_t nlist;
    const rsh_value_kind *kind; /* NULL: none */
    void *kind_data;            /* held through the kind */
} rshi_payload;

/* Takes over the one that is not NULL.  NULL and a sentence: no memory, nothing was taken. */
rshi_payload *rshi_payload_new(rsh_tensor *t, rsh_sharded *s);
rshi_payload *rshi_payload_hold(rshi_payload *p);
void rshi_payload_drop(rshi_payload *p); /* no-op for NULL */
void rshi_payload_set_kind(rshi_payload *p, const rsh_value_kind *kind, void *kind_data);
int64_t rshi_payload_nparts(const rshi_payload *p);
/* A plain one has the same tensor for every part. */
const rsh_tensor *rshi_payload_part(const rshi_payload *p, int64_t part);
uint64_t rshi_payload_version(const rshi_payload *p); /* differs after any change of an element */
bool rshi_payload_alone(const rshi_payload *p);       /* nobody else has a share of its storages */

/* ---- form: what a gradient or an unpacked value must look like ---- */

typedef struct rshi_profile {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM]; /* of the whole */
    rsh_layout *layout;          /* owned; NULL: plain */
    rsh_comm *comm;              /* borrowed; of a distributed value */
} rshi_profile;

void rshi_profile_of(const rshi_payload *p, rshi_profile *out); /* holds the layout */
void rshi_profile_end(rshi_profile *f);
/* Does v have the dtype and shape?  RSH_EVALUE if not; the sentence opens with "<who>: <what>". */
rsh_status rshi_profile_match_shape(const rshi_profile *f, const rsh_value *v, const char *who,
                                 const char *what);
/* And the layout? */
rsh_status rshi_profile_match(const rshi_profile *f, const rsh_value *v, const char *who,
                           const char *what);

/* ---- value ---- */

struct rsh_value {
    int64_t refs;
    rshi_payload *payload;      /* owned */
    struct rsh_grad_call *node; /* owned: the op that made it; NULL: a leaf */
    int out;                    /* which output of the node */
    bool requires_grad;
    rsh_value *grad;    /* owned: of a leaf; NULL: none */
    rsh_value *pending; /* owned: what the backward in progress has brought a leaf so far */
    uint64_t walk;      /* the backward in progress that has come here; 0: none */
};

rsh_value *rshi_value_new(rshi_payload *p); /* takes p over, unless it fails: NULL and a sentence */
bool rshi_differentiable(rsh_dtype dtype);

/* ---- hooks ---- */

typedef struct rshi_hooks {
    int64_t refs;
    rsh_saved_hooks hooks;
} rshi_hooks;
rshi_hooks *rshi_hooks_top(void); /* borrowed; NULL: none */
void rshi_hooks_drop(rshi_hooks *p);

/* ---- entry: one application of an op; in its functions, the call ---- */

typedef struct rshi_input {
    struct rsh_grad_call *node; /* owned: where the input came from */
    rsh_value *leaf;            /* owned: or the leaf that it is; both NULL: needs no gradient */
    int out;
    rsh_layout *grad_layout; /* owned: of the gradient that backward gives; NULL: plain */
    rsh_value *value;   /* in forward, borrowed: the input; in backward, owned: its gradient */
    rsh_tensor *tensor; /* in backward, owned: its gradient for the current part */
} rshi_input;

typedef struct rshi_output {
    rshi_profile form;
    rsh_layout *grad_layout; /* owned: that backward needs; NULL: as the form's */
    bool no_grad;
    rsh_value *value;   /* in forward, owned: the output; in backward, owned: its gradient */
    rsh_tensor *tensor; /* in forward, owned: the output's current part */
} rshi_output;

typedef enum rshi_slot_kind { RSHI_SLOT_IN, RSHI_SLOT_OUT, RSHI_SLOT_TENSOR } rshi_slot_kind;

typedef struct rshi_slot {
    rshi_slot_kind kind;
    int index;             /* of the input or output */
    rshi_payload *payload; /* owned: what was saved; NULL: packed, or a missing input */
    uint64_t version;      /* of the payload when it was saved */
    rshi_hooks *pair;       /* owned: the hooks it was packed with; NULL: none */
    void *packed;
    rshi_profile *form;     /* owned: of what was packed */
    rsh_value *unpacked; /* owned: in the backward in progress */
    bool fetched;        /* prefetch was called in the backward in progress */
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
    bool used;       /* a backward has gone through and released it */
    uint64_t walk;   /* the backward in progress that has come here; 0: none */
    int64_t part, nparts;
    int saving;   /* the slot that the next save of this part fills */
    bool spilled; /* the slots have outgrown the block and are `owned` on their own */
    rshi_input *edge;
    rshi_output *out;
    rshi_slot *slot;
    void *attrs;
    rsh_tensor **tensors; /* owned: of a call on each part, part by part; NULL: one part */
    rsh_comm *comm;       /* borrowed: of distributed inputs; NULL: all are plain */
    bool moved; /* gradients may come in other layouts than the values': they move on `comm` */
    struct rsh_grad_call *next; /* in the list of those to be freed */
    struct rsh_grad_call *child, *sibling; /* in the heap of the backward in progress */
};
typedef struct rsh_grad_call rshi_entry;

/* With one reference; all lists empty.  NULL and a sentence: no memory. */
rshi_entry *rshi_entry_new(const rsh_grad_op *op, const void *attrs, int nin, int nout);
rshi_entry *rshi_entry_hold(rshi_entry *n);
void rshi_entry_drop(rshi_entry *n); /* frees all that only it held, without recursion */
/* Releases what backward needs: slots, attributes, links. */
void rshi_entry_release(rshi_entry *n);

/* A tensor for each part becomes one value: sharded with a layout, else plain.  Takes the tensors
 * over, also if it fails.  `who` opens sentences. */
rsh_status rshi_parts_assemble(const char *who, rsh_comm *comm, const rsh_layout *layout,
                               int64_t nparts, rsh_tensor **parts, rsh_value **out);

/* ---- saved ---- */

rsh_status rshi_slots_fill(rshi_entry *n);   /* after forward: keep or pack every slot */
void rshi_slots_forget(rshi_entry *n);       /* drop what this backward unpacked or began */
void rshi_slot_end(rshi_slot *s);
rsh_status rshi_slots_prefetch(rshi_entry *n);
bool rshi_slot_is_ahead(const rshi_slot *s); /* prefetched and not unpacked */
rsh_status rshi_slot_add(rshi_entry *n, rshi_slot_kind kind, int index, rsh_tensor *t);

/* ---- moves ---- */

rsh_status rshi_reshard_check(const rsh_value *v, const rsh_layout *to, rsh_derivative how,
                              const void *out);
/* The op of rsh_value_reshard on what a move in steps has given, which is taken over, also if this
 * fails. */
rsh_status rshi_reshard_arrived(rsh_value *v, const rsh_layout *to, rsh_derivative how,
                                const rsh_plan_opts *opts, rsh_sharded *arrived, rsh_value **out);

/* ---- gradients: values without history, whose elements change only while nobody sees them ---- */

/* *sum += g, or *sum = g where there is none.  Takes over a reference to g, also if it fails. */
rsh_status rshi_gradient_add(rsh_value **sum, rsh_value *g);
/* The layout of a gradient of v: v's own, with partial replaced by replicated.  *out is held; NULL
 * for a plain value. */
rsh_status rshi_gradient_layout(const rsh_value *v, rsh_layout **out);
/* May g be a gradient of v?  RSH_EVALUE if its shape, dtype or layout is another; that of a partial
 * value may have v's very layout too.  `who` and `what` as in rshi_profile_match. */
rsh_status rshi_gradient_check(const rsh_value *v, const rsh_value *g, const char *who,
                               const char *what);
/* A seed that passed the check, without history and in the layout of a gradient. */
rsh_status rshi_gradient_seed(const rsh_value *v, const rsh_value *seed, rsh_value **out);
/* A gradient of ones for v. */
rsh_status rshi_gradient_ones(const rsh_value *v, rsh_value **out);
/* Makes *g a gradient that nobody else sees, dense in every part: itself or a copy. */
rsh_status rshi_gradient_own(rsh_value **g);
/* into += g, of one form and sharing no memory: this cannot fail. */
void rshi_gradient_add_into(const rsh_value *into, const rsh_value *g);
/* *g in this layout (NULL: any): itself, or what a reshard of it gives, which is collective. */
rsh_status rshi_gradient_bring(rsh_value **g, const rsh_layout *layout);
rsh_status rshi_gradient_bring_to(rsh_value **g, const rsh_value *v); /* in the layout of v's */
void rshi_scale_elements(const rsh_tensor *t, double by); /* without gaps, of f32 or f64 */

#endif

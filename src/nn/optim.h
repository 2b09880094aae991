/* optim: the structs of an optimizer. */
#ifndef RESHARD_NN_OPTIM_INSIDE_H
#define RESHARD_NN_OPTIM_INSIDE_H

#include <reshard/nn/optim.h>

#define RSHN_MOST_SLOTS 2

/* A parameter and its state in the optimizer. */
typedef struct rshn_trained {
    char *path;                       /* owned */
    rsh_value *parameter;             /* held */
    rsh_value *slot[RSHN_MOST_SLOTS]; /* held; cut like the parameter; NULL: not created yet */
    double step;                      /* number of updates */
    double lr_scale, weight_decay;    /* of its group */
    bool grouped;                     /* a group has set them, so they are part of the state */
} rshn_trained;

/* A dense range of elements of a parameter, its gradient and its state. */
typedef struct rshn_run {
    void *p, *g;
    void *slot[RSHN_MOST_SLOTS];
    int64_t n;
} rshn_run;

/* A kind of optimizer. */
typedef struct rshn_optimizer_kind {
    int nslots;
    const char *slot_names[RSHN_MOST_SLOTS];
    bool (*needs)(const rsh_optimizer *o, int slot); /* returns whether this slot is used */
    void (*update)(const rsh_optimizer *o, const rshn_trained *t, rsh_dtype dtype,
                   const rshn_run *run);
} rshn_optimizer_kind;

struct rsh_optimizer {
    const rshn_optimizer_kind *kind;
    double lr;
    union {
        rsh_sgd_opts sgd;
        rsh_adam_opts adam;
    } opts;
    rshn_trained *trained;
    int64_t n, room;
};

/* Creates an optimizer of this kind for the parameters of a tree. */
rsh_status rshn_optimizer_make(rsh_module *m, const rshn_optimizer_kind *kind, double lr,
                               rsh_optimizer **out);
/* Sets the weight decay of all parameters to that of the options. */
void rshn_optimizer_settings(rsh_optimizer *o, double weight_decay);

/* ---- loading state by name (optimizer_state.c) ---- */

typedef enum rshn_state_entry {
    RSHN_STATE_UNKNOWN,
    RSHN_STATE_NUMBER, /* an f64 without dims */
    RSHN_STATE_SLOT    /* a tensor like a parameter */
} rshn_state_entry;
/* Classifies a name of the state; *like is borrowed. */
rshn_state_entry rshn_optimizer_entry(const rsh_optimizer *o, const char *name,
                                      const rsh_value **like);
/* Calls fn for each name that a state must have, given the numbers in the dict. */
rsh_status rshn_optimizer_each_needed(const rsh_optimizer *o, const rsh_state_dict *d,
                                      void (*fn)(void *ctx, const char *name), void *ctx);
/* Create new state of all parameters from the values of a dict that was checked; install it, which
 * cannot fail; free the remains, also if nothing was installed. */
rsh_status rshn_optimizer_prepare(const rsh_optimizer *o, const rsh_state_dict *d,
                                  rshn_trained **fresh);
void rshn_optimizer_commit(rsh_optimizer *o, const rsh_state_dict *d, rshn_trained *fresh);
void rshn_optimizer_discard(const rsh_optimizer *o, rshn_trained *fresh);

/* Multiplies the elements of a tensor of floats in place. */
rsh_status rshn_scale_part(const rsh_tensor *t, double by);
rsh_status rshn_not_negative(const char *name, double number);

#endif

/* optim: an optimizer's inside. */
#ifndef RESHARD_NN_OPTIM_INSIDE_H
#define RESHARD_NN_OPTIM_INSIDE_H

#include <reshard/nn/optim.h>

#define RSHN_MOST_SLOTS 2

/* A parameter and what the optimizer keeps for it. */
typedef struct rshn_trained {
    char *path;                       /* owned */
    rsh_value *parameter;             /* held */
    rsh_value *slot[RSHN_MOST_SLOTS]; /* held: cut as the parameter; NULL: not there yet */
    double step;                      /* times it was changed */
    double lr_scale, weight_decay;    /* of its group */
    bool grouped;                     /* they were set by a group, and are part of the state */
} rshn_trained;

/* One dense run of elements of a parameter, its gradient and its state. */
typedef struct rshn_run {
    void *p, *g;
    void *slot[RSHN_MOST_SLOTS];
    int64_t n;
} rshn_run;

/* How an optimizer works. */
typedef struct rshn_optimizer_kind {
    int nslots;
    const char *slot_names[RSHN_MOST_SLOTS];
    bool (*needs)(const rsh_optimizer *o, int slot); /* is this slot used? */
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

/* An optimizer of this kind on the parameters of a tree. */
rsh_status rshn_optimizer_make(rsh_module *m, const rshn_optimizer_kind *kind, double lr,
                               rsh_optimizer **out);
/* Gives all parameters the weight decay of the options. */
void rshn_optimizer_settings(rsh_optimizer *o, double weight_decay);

/* ---- state under names, for loading (optimizer_state.c) ---- */

typedef enum rshn_state_entry {
    RSHN_STATE_UNKNOWN,
    RSHN_STATE_NUMBER, /* an f64 without dims */
    RSHN_STATE_SLOT    /* a tensor like a parameter */
} rshn_state_entry;
/* What a name of the state is; *like is borrowed. */
rshn_state_entry rshn_optimizer_entry(const rsh_optimizer *o, const char *name,
                                      const rsh_value **like);
/* Calls fn for each name that a state must have, given the numbers in the dict. */
rsh_status rshn_optimizer_each_needed(const rsh_optimizer *o, const rsh_state_dict *d,
                                      void (*fn)(void *ctx, const char *name), void *ctx);
/* New state of all parameters, on the values of a dict that was checked; then it is put in place,
 * which cannot fail; and what is left is freed, also if nothing was put in place. */
rsh_status rshn_optimizer_prepare(const rsh_optimizer *o, const rsh_state_dict *d,
                                  rshn_trained **fresh);
void rshn_optimizer_commit(rsh_optimizer *o, const rsh_state_dict *d, rshn_trained *fresh);
void rshn_optimizer_discard(const rsh_optimizer *o, rshn_trained *fresh);

/* Multiplies the elements of a tensor of floats in place. */
rsh_status rshn_scale_part(const rsh_tensor *t, double by);
rsh_status rshn_not_negative(const char *name, double number);

#endif

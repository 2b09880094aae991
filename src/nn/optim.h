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
/* Multiplies the elements of a tensor of floats in place. */
rsh_status rshn_scale_part(const rsh_tensor *t, double by);
rsh_status rshn_not_negative(const char *name, double number);

#endif

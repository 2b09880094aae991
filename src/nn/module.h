/* module: the structs of a module, for the files of nn that use them. */
#ifndef RESHARD_NN_MODULE_INSIDE_H
#define RESHARD_NN_MODULE_INSIDE_H

#include <reshard/nn/module.h>
#include <reshard/nn/shard.h>

#define RSHN_MOST_VALUES 16 /* largest number of inputs or outputs of a module */

typedef enum rshn_slot_kind { RSHN_PARAMETER, RSHN_BUFFER, RSHN_CHILD } rshn_slot_kind;

/* A named entry of a module. */
typedef struct rshn_slot {
    rshn_slot_kind kind;
    char *name;        /* owned */
    rsh_value *value;  /* held; NULL for a child, or if the name is only reserved */
    rsh_module *child; /* held; NULL for a value, or if the name is only reserved */
    bool persistent;   /* for a buffer */
    rsh_grad_kind grad;       /* for a parameter: rsh_module_set_grad_kind; AUTO: not set */
    struct rshn_ranks *ranks; /* held; ranks that share the value, or that `grad` refers to */
    struct rshn_init *init; /* owned; set while the value is deferred (deferred_init.c) */
} rshn_slot;

typedef enum rshn_hook_kind { RSHN_PRE, RSHN_FORWARD, RSHN_STATE, RSHN_LOAD } rshn_hook_kind;

typedef struct rshn_hook {
    int64_t id;
    rshn_hook_kind kind;
    rsh_hook_when when;
    void (*fn)(void); /* cast to the function type of the kind */
    void *ctx;
    void (*drop)(void *ctx);
} rshn_hook;

struct rsh_module {
    int refs;
    const rsh_module_kind *kind;
    void *state; /* owned */
    bool training;
    bool recompute; /* forward runs again in backward (recompute.c) */
    int calls; /* number of calls of this module that have not returned */
    rshn_slot *slot;
    int64_t nslots, slot_room;
    rshn_hook *hook;
    int64_t nhooks, hook_room, next_hook;
};

/* Makes room for n items of `size` bytes in a list that has room for *room.  RSH_ENOMEM. */
rsh_status rshn_grow(void **list, int64_t n, int64_t *room, size_t size);
#define RSHN_GROW(list, n, room) rshn_grow((void **)&(list), (n), (room), sizeof *(list))

/* A list of ranks of the default group, shared by reference (grad_kind.c). */
typedef struct rshn_ranks {
    int refs, n;
    int64_t at[]; /* in the order of their group or mesh */
} rshn_ranks;
/* Returns the ranks of a group that contains this rank.  The caller drops *out. */
rsh_status rshn_ranks_of(const rsh_group *group, rshn_ranks **out);
rshn_ranks *rshn_ranks_hold(rshn_ranks *r);
void rshn_ranks_drop(rshn_ranks *r);

/* Returns the slot with this name; NULL if there is none. */
rshn_slot *rshn_slot_find(const rsh_module *m, const char *name);
void rshn_slot_clear(rshn_slot *s);
/* Replaces a value wherever a tree has it, as a parameter or buffer.  `ranks` share the new value
 * (NULL: those of its mesh). */
void rshn_slots_exchange(rsh_module *m, const rsh_value *old, rsh_value *value, rshn_ranks *ranks);

rsh_status rshn_hook_add(rsh_module *m, const rshn_hook *hook, int64_t *id);

/* A set of pointers, or of nonzero numbers cast to pointers. */
typedef struct rshn_seen {
    const void **at; /* open addressing; NULL: unused */
    int64_t n, room; /* room is 0 or a power of two */
} rshn_seen;
/* Adds a pointer; *was tells whether the set already had it. */
rsh_status rshn_seen_add(rshn_seen *s, const void *p, bool *was);
bool rshn_seen_has(const rshn_seen *s, const void *p);
void rshn_seen_free(rshn_seen *s);

#endif

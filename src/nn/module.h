/* module: a module's inside, for the files of nn that look into it. */
#ifndef RESHARD_NN_MODULE_INSIDE_H
#define RESHARD_NN_MODULE_INSIDE_H

#include <reshard/nn/module.h>
#include <reshard/nn/shard.h>

#define RSHN_MOST_VALUES 16 /* inputs or outputs of a module */

typedef enum rshn_slot_kind { RSHN_PARAMETER, RSHN_BUFFER, RSHN_CHILD } rshn_slot_kind;

/* What a module has under a name. */
typedef struct rshn_slot {
    rshn_slot_kind kind;
    char *name;        /* owned */
    rsh_value *value;  /* held; NULL: none, or a child */
    rsh_module *child; /* held; NULL: none, or a value */
    bool persistent;   /* of a buffer */
    rsh_grad_kind grad;       /* of a parameter: what was said of its gradient; AUTO: nothing */
    struct rshn_ranks *ranks; /* held: that share the value, or that `grad` is about; NULL: none */
    struct rshn_init *init; /* owned: how the value will be filled; NULL: it is: deferred_init.c */
} rshn_slot;

typedef enum rshn_hook_kind { RSHN_PRE, RSHN_FORWARD, RSHN_STATE, RSHN_LOAD } rshn_hook_kind;

typedef struct rshn_hook {
    int64_t id;
    rshn_hook_kind kind;
    rsh_hook_when when;
    void (*fn)(void); /* of the kind's type */
    void *ctx;
    void (*drop)(void *ctx);
} rshn_hook;

struct rsh_module {
    int refs;
    const rsh_module_kind *kind;
    void *state; /* owned */
    bool training;
    bool recompute; /* forward runs again in backward: recompute.c */
    int calls; /* of this module that have not returned */
    rshn_slot *slot;
    int64_t nslots, slot_room;
    rshn_hook *hook;
    int64_t nhooks, hook_room, next_hook;
};

/* Room for n items of `size` bytes in a list with room for *room.  RSH_ENOMEM. */
rsh_status rshn_grow(void **list, int64_t n, int64_t *room, size_t size);
#define RSHN_GROW(list, n, room) rshn_grow((void **)&(list), (n), (room), sizeof *(list))

/* A list of ranks of the default group, shared by reference (grad_kind.c). */
typedef struct rshn_ranks {
    int refs, n;
    int64_t at[]; /* in the order of their group or mesh */
} rshn_ranks;
/* The ranks of a group that this rank is in.  The caller drops *out. */
rsh_status rshn_ranks_of(const rsh_group *group, rshn_ranks **out);
rshn_ranks *rshn_ranks_hold(rshn_ranks *r);
void rshn_ranks_drop(rshn_ranks *r);

/* The slot of a name; NULL: there is none. */
rshn_slot *rshn_slot_find(const rsh_module *m, const char *name);
void rshn_slot_clear(rshn_slot *s);
/* Puts a value in place of another wherever a tree has it, as a parameter or buffer.  `ranks` share
 * the new value (NULL: its mesh says which). */
void rshn_slots_exchange(rsh_module *m, const rsh_value *old, rsh_value *value, rshn_ranks *ranks);

rsh_status rshn_hook_add(rsh_module *m, const rshn_hook *hook, int64_t *id);

/* A set of pointers, or of numbers but 0 as such. */
typedef struct rshn_seen {
    const void **at; /* open addressing; NULL: free */
    int64_t n, room; /* room is 0 or a power of two */
} rshn_seen;
/* Puts a pointer in; *was tells whether it was there. */
rsh_status rshn_seen_add(rshn_seen *s, const void *p, bool *was);
bool rshn_seen_has(const rshn_seen *s, const void *p);
void rshn_seen_free(rshn_seen *s);

#endif

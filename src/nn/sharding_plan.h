/* sharding_plan: the structs of a sharding plan. */
#ifndef RESHARD_NN_SHARDING_PLAN_H
#define RESHARD_NN_SHARDING_PLAN_H

#include <reshard/nn/shard.h>

typedef enum rshn_entry_kind {
    RSHN_ENTRY_SHARD,
    RSHN_ENTRY_OUTPUT,
    RSHN_ENTRY_LOCAL
} rshn_entry_kind;

typedef struct rshn_entry {
    rshn_entry_kind what;
    char *path;     /* owned */
    rsh_spec *spec; /* held; NULL: none */
    bool has_sharder;
    rsh_sharder sharder;
} rshn_entry;

struct rsh_sharding_plan {
    rshn_entry *entry;
    int64_t n, room;
};

/* Returns whether `path` names the module, or something inside the module. */
bool rshn_path_within(const char *path, const char *module);
/* Checks everything about a plan that does not depend on the module. */
rsh_status rshn_plan_check(const rsh_sharding_plan *p);

#endif

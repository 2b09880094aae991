/* shard_parameter: finds and shards parameters. */
#ifndef RESHARD_NN_SHARD_PARAMETER_H
#define RESHARD_NN_SHARD_PARAMETER_H

#include <reshard/nn/shard.h>

/* Finds a parameter that can be sharded, borrowed.  Errors as for rsh_shard_parameter. */
rsh_status rshn_find_parameter(const rsh_module *m, const char *name, rsh_value **out);
/* Creates a leaf that the spec cuts, with the elements of src_rank.  Collective over the group. */
rsh_status rshn_shard_value(const rsh_value *v, const rsh_spec *spec, int src_rank,
                            rsh_group *group, rsh_value **out);

/* rsh_comm_agree over the group; on a rank that is not a member it returns `mine`.
 * RSH_ERUNTIME if there is no default group.  Collective over the group. */
rsh_status rshn_group_agree(rsh_group *group, rsh_status mine);

#endif

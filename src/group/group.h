/* group: process groups, for the rooms that use them. */
#ifndef RESHARD_GROUP_GROUP_H
#define RESHARD_GROUP_GROUP_H

#include <reshard/torch/group.h>

#include "comm/comm.h"

/* Returns the comm of a group, or of the default group for NULL; NULL for ranks that are not
 * members. */
rsh_status rshi_group_comm(rsh_group *g, rsh_comm **out);
/* Counts a new tensor of the group.  Returns the default group, which the caller later passes to
 * rshi_group_drop_tensor.  The default group cannot be destroyed while it has tensors; a subgroup
 * may be freed earlier. */
rsh_group *rshi_group_add_tensor(rsh_group *g);
void rshi_group_drop_tensor(rsh_group *world);

#endif

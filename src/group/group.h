/* group: process groups, for the rooms that stand on them. */
#ifndef RESHARD_GROUP_GROUP_H
#define RESHARD_GROUP_GROUP_H

#include <reshard/torch/group.h>

#include "comm/comm.h"

/* The comm of the group a caller means; NULL for those who are no members. */
rsh_status rshi_group_comm(rsh_group *g, rsh_comm **out);
/* A tensor of the group was made.  Returns the default group, which cannot be destroyed while it
 * has tensors, and which drops the tensor when it is freed; a subgroup may be gone by then. */
rsh_group *rshi_group_add_tensor(rsh_group *g);
void rshi_group_drop_tensor(rsh_group *world);

#endif

/* group: process groups, for the rooms that stand on them. */
#ifndef RESHARD_GROUP_GROUP_H
#define RESHARD_GROUP_GROUP_H

#include <reshard/torch/group.h>

#include "comm/comm.h"

/* The comm of the group a caller means; NULL for those who are no members. */
rsh_status rshi_group_comm(rsh_group *g, rsh_comm **out);

#endif

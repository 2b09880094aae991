/* contributions: of a layout with a partial op, how many contributions each element is reduced
 * from, and which of them a rank holds. */
#ifndef RESHARD_CLI_CONTRIBUTIONS_H
#define RESHARD_CLI_CONTRIBUTIONS_H

#include "cli.h"

int64_t contributions_count(const rsh_layout *l); /* 1: the layout is not partial */
/* Which one a rank of the layout holds: its place along the partial axes, the last one fastest. */
int64_t contribution_of(const rsh_layout *l, int64_t rank);
/* Have both layouts the same sizes of partial axes, in the order of their meshes? */
bool contributions_same(const rsh_layout *a, const rsh_layout *b);

#endif

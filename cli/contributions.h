/* contributions: for a partial layout, how many contributions each element has, and which of them a
 * rank holds. */
#ifndef RESHARD_CLI_CONTRIBUTIONS_H
#define RESHARD_CLI_CONTRIBUTIONS_H

#include "cli.h"

int64_t contributions_count(const rsh_layout *l); /* 1: the layout is not partial */
/* The index of the contribution that a rank holds: its position along the partial axes, last axis
 * fastest. */
int64_t contribution_of(const rsh_layout *l, int64_t rank);
/* Do both layouts have partial axes of the same sizes, in mesh order? */
bool contributions_same(const rsh_layout *a, const rsh_layout *b);

#endif

/* weave: merges tasks of a program whose short rows alternate in the destination. */
#ifndef RESHARD_SHARD_WEAVE_H
#define RESHARD_SHARD_WEAVE_H

#include "shard/program.h"

/* For prepared tasks; rows beyond the common part stay in the old tasks.  Adds tasks. */
rsh_status rshi_program_weave(rshi_program *g);

#endif

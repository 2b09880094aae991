/* weave: tasks of a program whose short rows alternate in the destination become one task. */
#ifndef RESHARD_SHARD_WEAVE_H
#define RESHARD_SHARD_WEAVE_H

#include "shard/program.h"

/* Of prepared tasks; what they have beyond the common part stays as it is.  Adds tasks. */
rsh_status rshi_program_weave(rshi_program *g);

#endif

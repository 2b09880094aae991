/* zero_names: which file of a ZeRO directory belongs to which rank. */
#ifndef RESHARD_CKPT_ZERO_NAMES_H
#define RESHARD_CKPT_ZERO_NAMES_H

#include "ckpt/ckpt.h"

#define RSHI_ZERO_OPTIMIZER "_optim_states.pt"
#define RSHI_ZERO_MODEL     "_model_states.pt"

/* "zero_pp_rank_3_mp_rank_00_optim_states.pt", with or without "bf16_" before it: the 3, and the 0
 * in *mp; -1: another name. */
int64_t rshi_zero_rank(const char *name, const char *ending, int64_t *mp);
/* The file of a rank in part `mp` of the model, or with rank -1 that of all its ranks; NULL: there
 * is none.  RSH_EVALUE if there are two. */
rsh_status rshi_zero_find(const rshi_ckpt_place *place, int64_t rank, int64_t mp,
                          const char *ending, const char **out);
/* How many parts tensor parallelism divides the model into.  RSH_EVALUE if their numbers have a
 * gap. */
rsh_status rshi_zero_parts(const rshi_ckpt_place *place, int64_t *out);

#endif

/* zero_names: finds the files of each rank in a ZeRO directory. */
#ifndef RESHARD_CKPT_ZERO_NAMES_H
#define RESHARD_CKPT_ZERO_NAMES_H

#include "ckpt/ckpt.h"

#define RSHI_ZERO_OPTIMIZER "_optim_states.pt"
#define RSHI_ZERO_MODEL     "_model_states.pt"

/* Returns the 3 of "zero_pp_rank_3_mp_rank_00_optim_states.pt", which may begin with "bf16_", and
 * sets *mp to the 0; -1: another name. */
int64_t rshi_zero_rank(const char *name, const char *ending, int64_t *mp);
/* Sets *out to the file of a rank in part `mp` of the model; rank -1: the file for all its ranks;
 * NULL: there is no such file.  RSH_EVALUE if there are two. */
rsh_status rshi_zero_find(const rshi_ckpt_place *place, int64_t rank, int64_t mp,
                          const char *ending, const char **out);
/* Sets *out to the number of tensor-parallel parts.  RSH_EVALUE if a number is missing in
 * between. */
rsh_status rshi_zero_parts(const rshi_ckpt_place *place, int64_t *out);

#endif

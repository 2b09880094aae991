/* Fuzz zero pieces: uses any bytes as one of three files of a ZeRO stage 3 directory: the model states of rank 0 or 1,
 * or the optimizer states of rank 1 (first byte modulo 3). */
#include "fuzz/zero_folder.h"

static const char *const names[] = {
    "zero_pp_rank_0_mp_rank_00_model_states.pt", "zero_pp_rank_1_mp_rank_00_model_states.pt",
    "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "zero_pp_rank_2_mp_rank_00_optim_states.pt", "zero_pp_rank_2_mp_rank_00_model_states.pt", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size) read_with("stage3", names, names[*data % 3], data + 1, size - 1);
    return 0;
}

/* Fuzz zero: uses any bytes as the model states of a ZeRO directory (first byte even), or as optimizer states (first
 * byte odd). */
#include "fuzz/zero_folder.h"

static const char *const names[] = {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                                    "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                                    "zero_pp_rank_2_mp_rank_00_optim_states.pt", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size) read_with("stage2", names, names[*data & 1 ? 2 : 0], data + 1, size - 1);
    return 0;
}

/* Fuzz zero: any bytes as the model states of a ZeRO directory (first byte even), or as optimizer states (odd). */
#include "fuzz/held_file.h"

static const char *const names[] = {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                                    "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                                    "zero_pp_rank_2_mp_rank_00_optim_states.pt"};

/* The files of the tests; what an input replaced is put back. */
static void put_golden(const char *name) {
    static char bytes[1 << 16];
    char path[128];
    snprintf(path, sizeof path, "tests/ckpt/zero/stage2/global_step7/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes); /* elsewhere they are empty */
    put_in_folder(name, bytes, n > 0 ? (size_t)n : 0);
    if (fd >= 0) close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool done;
    if (!size) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !done; i++) put_golden(names[i]);
    done = true;
    const char *name = names[*data & 1 ? 2 : 0];
    put_in_folder(name, data + 1, size - 1);
    open_and_read(hold_folder(), NULL);
    put_golden(name);
    return 0;
}

/* Fuzz gguf: any bytes after GGUF's first four must be listed or cause an error; so must writing them as GGUF. */
#include "fuzz/held_file.h"

static int count_step(void *ctx, const rsh_convert_step *step) {
    (void)step;
    ++*(int64_t *)ctx;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int64_t steps = 0;
    int fd = hold_file("GGUF", 4, path);
    must(pwrite(fd, data, size, 4) == (ssize_t)size);
    open_and_read(path, NULL);
    rsh_convert_opts opts = RSH_CONVERT_OPTS_INIT;
    opts.max_tensors = 2;
    opts.format = "gguf";
    rsh_convert_preview(path, "/nowhere", &opts, count_step, &steps, NULL);
    close(fd);
    return 0;
}

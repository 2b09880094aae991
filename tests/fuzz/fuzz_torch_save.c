/* Fuzz torch save: uses any bytes as a file of torch.save, either alone (first byte even) or as the file of rank 1 of 4
 * (first byte odd). */
#include "fuzz/held_file.h"

/* Writes the files of the other ranks, once for all inputs. */
static void prepare(void) {
    static bool done;
    static char bytes[1 << 16];
    if (done) return;
    done = true;
    for (int r = 0; r < 4; r++) {
        char path[64], name[32];
        snprintf(path, sizeof path, "tests/ckpt/torch/dtensor/model_%d.pt", r);
        snprintf(name, sizeof name, "model_%d.pt", r);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes); /* if a file cannot be read, the copy is empty */
        put_in_folder(name, bytes, n > 0 ? (size_t)n : 0);
        if (fd >= 0) close(fd);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    if (!size) return 0;
    if (*data & 1) {
        prepare();
        put_in_folder("model_1.pt", data + 1, size - 1);
        open_and_read(hold_folder(), NULL);
        return 0;
    }
    int fd = hold_file(data + 1, size - 1, path);
    open_and_read(path, NULL);
    close(fd);
    return 0;
}

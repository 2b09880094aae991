/* Fuzz gguf: any bytes after GGUF's first four are listed or refused. */
#include "fuzz/held_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = hold_file("GGUF", 4, path);
    must(pwrite(fd, data, size, 4) == (ssize_t)size);
    open_and_read(path, NULL);
    close(fd);
    return 0;
}

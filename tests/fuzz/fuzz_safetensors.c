/* Fuzz safetensors: any bytes are a safetensors file or are refused, and what is accepted can be read. */
#include "fuzz/held_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = hold_file(data, size, path);
    open_and_read(path, NULL);
    close(fd);
    return 0;
}

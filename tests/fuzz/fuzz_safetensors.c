/* Fuzz safetensors: any bytes either are a safetensors file or cause an error.  Every tensor of an accepted file must
 * be readable. */
#include "fuzz/held_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = hold_file(data, size, path);
    open_and_read(path, NULL);
    close(fd);
    return 0;
}

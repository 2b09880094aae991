/* Fuzz ranks: uses any two headers as those of the rank files of two ranks. */
#include "fuzz/held_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    put_headed_files(data, size, "rank-0.safetensors",
                     "rank-1.safetensors");
    open_and_read(hold_folder(), NULL);
    return 0;
}

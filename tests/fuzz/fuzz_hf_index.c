/* Fuzz hf index: uses any text as the index of a directory with two safetensors files. */
#include "fuzz/held_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    put_small_files("a.safetensors", "v", "b.safetensors", "w");
    put_in_folder("model.safetensors.index.json", data, size);
    open_and_read(hold_folder(), NULL);
    return 0;
}

/* Fuzz torch shards: uses any two headers as those of two files of PyTorch's sharded safetensors. */
#include "fuzz/held_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    put_headed_files(data, size, "shard-00001-model-00001-of-00001.safetensors",
                     "shard-00002-model-00001-of-00001.safetensors");
    open_and_read(hold_folder(), NULL);
    return 0;
}

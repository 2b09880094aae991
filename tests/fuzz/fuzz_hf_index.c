/* Fuzz hf index: any text as the index of a directory with two safetensors files. */
#include "fuzz/held_file.h"

#define FILE_OF(name)                                                                                                  \
    "\x40\0\0\0\0\0\0\0{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}             abcd"

static void prepare(void) {
    static bool done;
    if (done) return;
    done = true;
    put_in_folder("a.safetensors", FILE_OF("v"), 8 + 64 + 4);
    put_in_folder("b.safetensors", FILE_OF("w"), 8 + 64 + 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prepare();
    put_in_folder("model.safetensors.index.json", data, size);
    open_and_read(hold_folder(), NULL);
    return 0;
}

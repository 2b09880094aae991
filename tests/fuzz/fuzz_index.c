/* Fuzz index: uses any text as an index.json of reshard, next to a file of 64 bytes. */
#include "fuzz/held_file.h"

static const char head[] = "{\"reshard.index\":1";

/* The input follows the first key, because without that key the index would not be recognized. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char bytes[64] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";
    char *text = malloc(sizeof head + size);
    must(text != NULL);
    memcpy(text, head, sizeof head - 1);
    if (size) memcpy(text + sizeof head - 1, data, size);
    put_in_folder("a", bytes, sizeof bytes);
    put_in_folder("index.json", text, sizeof head - 1 + size);
    free(text);
    open_and_read(hold_folder(), NULL);
    return 0;
}

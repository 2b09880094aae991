/* Fuzz rules: any text either is a rule file or causes an error.  Rules and patterns are tried on any name, and used to
 * open rank files. */
#include "fuzz/held_file.h"

#include "ckpt/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t live = rsh_alloc_get_stats().live;
    char *text = malloc(size + 1);
    rsh_ckpt_rules *r;
    must(text != NULL);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    put_small_files("r0", "w", "r1", "w");
    if (!rsh_ckpt_rules_parse(text, "fuzz", &r)) {
        rshi_rules_match(r, "model.layers.7.mlp.up_proj.weight");
        open_and_read(hold_folder(), r);
        rsh_ckpt_rules_free(r);
    }
    rshi_glob(text, "model.layers.7.experts.12.w1");
    int64_t rank, part;
    rshi_files_match(text, "model-rank-3-part-0.safetensors", &rank, &part);
    free(text);
    must(rsh_alloc_get_stats().live == live);
    return 0;
}

/* GGUF types: names, block sizes and dtypes of the types, by number. */
#include "ckpt/gguf.h"

/* For each type its name, and the elements and bytes of a block. */
static const rshi_packing types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
    [40] = {"NVFP4", 64, 36},    [41] = {"Q1_0", 128, 18},    [42] = {"Q2_0", 64, 18},
};

/* Unquantised types. */
static const struct {
    uint32_t type;
    rsh_dtype dtype;
} dtypes[] = {{0, RSH_F32},  {1, RSH_F16},  {24, RSH_I8},  {25, RSH_I16},
              {26, RSH_I32}, {27, RSH_I64}, {28, RSH_F64}, {30, RSH_BF16}};

const rshi_packing *rshi_gguf_type(uint64_t number) {
    return number < sizeof types / sizeof *types && types[number].name ? &types[number] : NULL;
}

uint32_t rshi_gguf_number(const rshi_packing *type) { return (uint32_t)(type - types); }

bool rshi_gguf_dtype(const rshi_packing *type, rsh_dtype *out) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (&types[dtypes[i].type] == type) return *out = dtypes[i].dtype, true;
    return false;
}

const rshi_packing *rshi_gguf_type_of(const rshi_ckpt_tensor *t) {
    if (t->packing) return t->packing;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == t->dtype) return &types[dtypes[i].type];
    return NULL;
}

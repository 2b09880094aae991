/* Tensors of golden files: makes, cuts and compares them byte by byte, without the library's kernels. */
#include "golden.h"

/* Converts an integer to the bits of f16; exact up to 2048, which is all that the files contain. */
static uint16_t f16_bits(int64_t value) {
    uint64_t magnitude = (uint64_t)(value < 0 ? -value : value);
    if (magnitude == 0) return 0;
    int exponent = 63 - __builtin_clzll(magnitude);
    uint64_t fraction = exponent <= 10 ? magnitude << (10 - exponent) : magnitude >> (exponent - 10);
    return (uint16_t)((value < 0 ? 0x8000u : 0) | (unsigned)(exponent + 15) << 10 | (fraction & 0x3ff));
}

void golden_put(rsh_dtype dtype, int64_t value, void *out) {
    float f32 = (float)value;
    double f64 = (double)value;
    uint16_t f16 = f16_bits(value);
    const void *from = dtype == RSH_F32   ? (const void *)&f32
                       : dtype == RSH_F64 ? (const void *)&f64
                       : dtype == RSH_F16 ? (const void *)&f16
                                          : &value;
    /* for integers the low bytes are right, because this machine is little-endian */
    memcpy(out, from, rsh_dtype_size(dtype));
}

static rsh_status dtype_of(const char *text, rsh_dtype *out) { return rsh_dtype_parse(text, strlen(text), out); }

/* Fills a tensor of kind "bytes": a pattern in which neighbours differ in every byte, whatever the dtype. */
static void fill_bytes(rsh_tensor *t) {
    unsigned char *p = rsh_tensor_data(t);
    uint64_t n = (uint64_t)rsh_tensor_count(t) * rsh_dtype_size(rsh_tensor_dtype(t));
    for (uint64_t k = 0; k < n; k++)
        p[k] = (unsigned char)((7 * k * k + 13 * k + 5) & (rsh_tensor_dtype(t) == RSH_BOOL ? 1 : 255));
}

static void fill_arange(rsh_tensor *t) {
    char *p = rsh_tensor_data(t);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        golden_put(rsh_tensor_dtype(t), i, p + i * (int64_t)rsh_dtype_size(rsh_tensor_dtype(t)));
}

rsh_status golden_whole(const json_t *the_case, const char *dtype, bool blank, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM];
    int ndim = golden_numbers(json_object_get(the_case, "size"), size);
    rsh_dtype type;
    RSH_TRY(dtype_of(dtype ? dtype : *golden_text(the_case, "dtype") ? golden_text(the_case, "dtype") : "f32", &type));
    RSH_TRY(rsh_tensor_zeros(type, ndim, size, out));
    if (!blank) (golden_is(the_case, "fill", "bytes") ? fill_bytes : fill_arange)(*out);
    return RSH_OK;
}

rsh_status golden_tensor(const json_t *tensor, rsh_tensor **out) {
    int64_t shape[RSH_MAX_NDIM];
    int ndim = golden_numbers(json_object_get(tensor, "shape"), shape);
    rsh_dtype dtype;
    RSH_TRY(dtype_of(golden_text(tensor, "dtype"), &dtype));
    RSH_TRY(rsh_tensor_zeros(dtype, ndim, shape, out));
    char *p = rsh_tensor_data(*out);
    const json_t *values = json_object_get(tensor, "values");
    const char *hex = golden_text(tensor, "hex");
    int64_t wide = (int64_t)rsh_dtype_size(dtype);
    for (int64_t i = 0; values && i < rsh_tensor_count(*out); i++)
        golden_put(dtype, json_integer_value(json_array_get(values, (size_t)i)), p + i * wide);
    for (int64_t k = 0; !values && k < rsh_tensor_count(*out) * wide; k++) {
        unsigned byte = 0;
        sscanf(hex + 2 * k, "%2x", &byte);
        p[k] = (char)byte;
    }
    return RSH_OK;
}

/* Advances to the next index of a box, the last dim first; returns false after the last one. */
static bool step(int ndim, const int64_t *sizes, int64_t *index) {
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < sizes[d]) return true;
        index[d] = 0;
    }
    return false;
}

static int64_t place(const rsh_tensor *t, const int64_t *offsets, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < rsh_tensor_ndim(t); d++)
        at += ((offsets ? offsets[d] : 0) + index[d]) * rsh_tensor_strides(t)[d];
    return at * (int64_t)rsh_dtype_size(rsh_tensor_dtype(t));
}

static void copy_elements(rsh_tensor *to, const rsh_tensor *from, const int64_t *offsets) {
    int64_t index[RSH_MAX_NDIM] = {0};
    if (rsh_tensor_count(to) == 0) return;
    do {
        memcpy((char *)rsh_tensor_data(to) + place(to, NULL, index),
               (char *)rsh_tensor_data(from) + place(from, offsets, index), rsh_dtype_size(rsh_tensor_dtype(to)));
    } while (step(rsh_tensor_ndim(to), rsh_tensor_shape(to), index));
}

rsh_status golden_cut(const rsh_tensor *whole, const int64_t *offsets, const int64_t *sizes, rsh_tensor **out) {
    RSH_TRY(rsh_tensor_empty(rsh_tensor_dtype(whole), rsh_tensor_ndim(whole), sizes, out));
    copy_elements(*out, whole, offsets);
    return RSH_OK;
}

rsh_status golden_turned(const rsh_tensor *t, rsh_tensor **out) {
    const int64_t *shape = rsh_tensor_shape(t);
    int64_t turned[2] = {shape[1], shape[0]}, strides[2] = {1, shape[0]};
    rsh_tensor *memory = NULL;
    RSH_TRY(rsh_tensor_empty(rsh_tensor_dtype(t), 2, turned, &memory));
    rsh_status st = rsh_tensor_view(memory, 0, 2, shape, strides, out);
    if (!st) copy_elements(*out, t, NULL);
    rsh_tensor_free(memory);
    return st;
}

bool golden_equal(const rsh_tensor *a, const rsh_tensor *b) {
    int ndim = rsh_tensor_ndim(a);
    if (rsh_tensor_dtype(a) != rsh_tensor_dtype(b) || ndim != rsh_tensor_ndim(b)) return false;
    for (int d = 0; d < ndim; d++)
        if (rsh_tensor_shape(a)[d] != rsh_tensor_shape(b)[d]) return false;
    size_t bytes = (size_t)rsh_tensor_count(a) * rsh_dtype_size(rsh_tensor_dtype(a));
    return bytes == 0 ||
           (rsh_tensor_dense(a) && rsh_tensor_dense(b) && memcmp(rsh_tensor_data(a), rsh_tensor_data(b), bytes) == 0);
}

rsh_status golden_compare(const json_t *tensor, const rsh_tensor *mine) {
    rsh_tensor *theirs = NULL;
    RSH_TRY(golden_tensor(tensor, &theirs));
    bool equal = golden_equal(theirs, mine);
    rsh_tensor_free(theirs);
    EXPECT(equal);
    return RSH_OK;
}

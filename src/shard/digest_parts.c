/* Parts of a digest: adds windows and boxes of elements, and converts digests to text and back. */
#include "copy/copy.h"
#include "shard/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES 16 /* bytes of an element, at most */

static rsh_status check_ndim(int ndim) {
    RSH_REQUIRE(ndim >= 0 && ndim <= RSH_MAX_NDIM, RSH_EVALUE, "digest: %d dims are not supported, expected 0 to %d",
                ndim,
                RSH_MAX_NDIM);
    return RSH_OK;
}

/* Dtype and shape are added as six elements of 16 bytes beyond every possible index. */
rsh_status rsh_digest_begin(const char *dtype, int ndim, const int64_t *shape, rsh_digest *out) {
    uint64_t word[4 + RSH_MAX_NDIM] = {0};
    RSH_NEEDS(dtype);
    RSH_NEEDS(out);
    RSH_TRY(check_ndim(ndim));
    RSH_REQUIRE(*dtype && strlen(dtype) <= 16, RSH_EVALUE, "digest: dtype \"%.40s\" must have 1 to 16 characters",
                dtype);
    if (ndim) RSH_NEEDS(shape);
    memcpy(word, dtype, strlen(dtype));
    word[2] = (uint64_t)ndim;
    for (int d = 0; d < ndim; d++) {
        RSH_REQUIRE(shape[d] >= 0, RSH_EVALUE, "digest: shape has a negative size %" PRId64 " in dim %d", shape[d], d);
        word[4 + d] = (uint64_t)shape[d];
    }
    *out = (rsh_digest){0, 0};
    rshi_mix_run((const char *)word, 16, 16, (int64_t)(sizeof word / 16), UINT64_C(1) << 63, &out->hi, &out->lo);
    return RSH_OK;
}

static rsh_status check_itemsize(size_t itemsize) {
    RSH_REQUIRE(itemsize >= 1 && itemsize <= MOST_BYTES, RSH_EVALUE,
                "digest: elements of %zu bytes are not supported, expected 1 to %d", itemsize, MOST_BYTES);
    return RSH_OK;
}

rsh_status rsh_digest_add(rsh_digest *d, size_t itemsize, const void *data, int64_t n, int64_t first) {
    int64_t end;
    RSH_NEEDS(d);
    RSH_TRY(check_itemsize(itemsize));
    RSH_REQUIRE(n >= 0 && first >= 0 && rshi_add(first, n, &end), RSH_EVALUE,
                "digest: invalid range of %" PRId64 " elements at index %" PRId64, n, first);
    RSH_REQUIRE(data || !n, RSH_EVALUE, "digest: data is NULL for %" PRId64 " elements", n);
    rshi_mix_run(data, (int64_t)itemsize, itemsize, n, (uint64_t)first, &d->hi, &d->lo);
    return RSH_OK;
}

typedef struct adding {
    int ndim;
    const int64_t *sizes;
    int64_t step[RSH_MAX_NDIM];   /* strides of the memory in bytes */
    int64_t global[RSH_MAX_NDIM]; /* row-major strides of the whole tensor */
    size_t itemsize;
    rsh_digest *d;
} adding;

/* Adds dims from `dim` on.  Elements that are contiguous both in memory and in the tensor form one run. */
static void add_box(const adding *a, int dim, const char *at, uint64_t index) {
    int64_t run = 1, step = (int64_t)a->itemsize;
    int e = a->ndim;
    for (; e > dim && (a->sizes[e - 1] == 1 || (a->step[e - 1] == run * step && a->global[e - 1] == run)); e--)
        run *= a->sizes[e - 1];
    if (e > dim && e == a->ndim && a->global[e - 1] == 1) step = a->step[--e], run = a->sizes[e];
    if (e <= dim) {
        rshi_mix_run(at, step, a->itemsize, run, index, &a->d->hi, &a->d->lo);
        return;
    }
    for (int64_t i = 0; i < a->sizes[dim]; i++)
        add_box(a, dim + 1, at + i * a->step[dim], index + (uint64_t)(i * a->global[dim]));
}

/* Checks that the box is inside the tensor, and that the tensor has fewer than 2^63 elements.  Writes the number of
 * elements of the box to `count`. */
static rsh_status check_box(int ndim, const int64_t *shape, const int64_t *offsets, const int64_t *sizes,
                            int64_t *count) {
    int64_t all = 1;
    *count = 1;
    for (int d = 0; d < ndim; d++) {
        RSH_REQUIRE(shape[d] >= 0 && offsets[d] >= 0 && sizes[d] >= 0 && sizes[d] <= shape[d] &&
                        offsets[d] <= shape[d] - sizes[d],
                    RSH_EVALUE,
                    "digest: box starts at %" PRId64 " and has %" PRId64 " elements in dim %d, whose size is %" PRId64,
                    offsets[d],
                    sizes[d], d, shape[d]);
        RSH_REQUIRE(rshi_mul(all, rshi_max(shape[d], 1), &all), RSH_EVALUE,
                    "digest: tensor has more than 2^63 elements");
        *count *= sizes[d];
    }
    return RSH_OK;
}

rsh_status rsh_digest_add_box(rsh_digest *d, size_t itemsize, int ndim, const int64_t *shape, const int64_t *offsets,
                              const int64_t *sizes, const void *data, const int64_t *strides) {
    adding a = {.ndim = ndim, .sizes = sizes, .itemsize = itemsize, .d = d};
    int64_t count;
    uint64_t first = 0;
    RSH_NEEDS(d);
    RSH_TRY(check_itemsize(itemsize));
    RSH_TRY(check_ndim(ndim));
    RSH_REQUIRE(!ndim || (shape && offsets && sizes), RSH_EVALUE, "digest: shape, offsets and sizes must not be NULL");
    RSH_TRY(check_box(ndim, shape, offsets, sizes, &count));
    RSH_REQUIRE(data || !count, RSH_EVALUE, "digest: data is NULL for %" PRId64 " elements", count);
    if (!count) return RSH_OK;
    rshi_dense_strides(ndim, shape, NULL, a.global);
    rshi_dense_strides(ndim, sizes, NULL, a.step);
    for (int i = 0; i < ndim; i++) {
        a.step[i] = (strides ? strides[i] : a.step[i]) * (int64_t)itemsize;
        first += (uint64_t)(offsets[i] * a.global[i]);
    }
    add_box(&a, 0, data, first);
    return RSH_OK;
}

void rsh_digest_merge(rsh_digest *d, rsh_digest other) {
    if (!d) return;
    d->hi += other.hi;
    d->lo += other.lo;
}

void rsh_digest_text(rsh_digest d, char text[RSH_DIGEST_TEXT]) {
    if (text) snprintf(text, RSH_DIGEST_TEXT, "d2:%016" PRIx64 "%016" PRIx64, d.hi, d.lo);
}

static bool read_hex(const char *text, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char *digits = "0123456789abcdef", *at = text[i] ? strchr(digits, text[i]) : NULL;
        if (!at) return false;
        *out = *out << 4 | (uint64_t)(at - digits);
    }
    return true;
}

rsh_status rsh_digest_parse(const char *text, rsh_digest *out) {
    rsh_digest d;
    RSH_NEEDS(text);
    RSH_NEEDS(out);
    bool good = strlen(text) == RSH_DIGEST_TEXT - 1 && !strncmp(text, "d2:", 3) && read_hex(text + 3, &d.hi) &&
                read_hex(text + 19, &d.lo);
    RSH_REQUIRE(good, RSH_EVALUE, "\"%.60s\" is not a digest: expected \"d2:\" and 32 lower-case hexadecimal digits",
                text);
    *out = d;
    return RSH_OK;
}

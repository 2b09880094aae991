/* Scattered: tensors with any strides, whose elements depend on the rank that made them. */
#include "scattered.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

form form_draw(uint64_t *rng) {
    form f = {.dtype = (rsh_dtype)(next(rng) % RSH_NDTYPES), .count = 1};
    bool deep = next(rng) % 8 == 0;
    f.ndim = deep ? RSH_MAX_NDIM : (int)(next(rng) % 5);
    for (int d = 0; d < f.ndim; d++) {
        f.shape[d] = deep ? 1 + (int64_t)(next(rng) % 2) : (int64_t)(next(rng) % 8);
        if (!deep && !f.shape[d] && next(rng) % 2) f.shape[d] = 3;
        f.count *= f.shape[d];
    }
    return f;
}

/* Puts the dims into random order, fastest first. */
static void shuffle(int n, int *order, uint64_t *rng) {
    for (int d = 0; d < n; d++) order[d] = d;
    for (int d = n - 1; d > 0; d--) {
        int other = (int)(next(rng) % (uint64_t)(d + 1)), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
}

scattered scattered_new(const form *f, bool dense, uint64_t *rng) {
    int order[RSH_MAX_NDIM];
    int64_t strides[RSH_MAX_NDIM], room = 1, first = 0;
    shuffle(f->ndim, order, rng);
    for (int i = f->ndim - 1; dense && i >= 0; i--) order[f->ndim - 1 - i] = i;
    for (int i = 0; i < f->ndim; i++) {
        int d = order[i];
        bool turned = !dense && next(rng) % 3 == 0;
        int64_t step = room * (dense ? 1 : 1 + (int64_t)(next(rng) % 4 == 0));
        strides[d] = turned ? -step : step;
        if (turned && f->shape[d]) first += step * (f->shape[d] - 1);
        room = step * (f->shape[d] ? f->shape[d] : 1);
    }
    size_t item = rsh_dtype_size(f->dtype);
    scattered s = {.bytes = (size_t)room * item};
    s.base = malloc(s.bytes);
    memset(s.base, SCATTERED_GUARD, s.bytes);
    if (rsh_tensor_wrap(s.base + (size_t)first * item, f->dtype, f->ndim, f->shape, strides, free, s.base, &s.t))
        abort();
    return s;
}

void scattered_free(scattered *s) { rsh_tensor_free(s->t); }

static unsigned char *address(const form *f, const scattered *s, int64_t i) {
    int64_t at = 0;
    for (int d = f->ndim - 1; d >= 0; d--) {
        at += i % f->shape[d] * rsh_tensor_strides(s->t)[d];
        i /= f->shape[d];
    }
    return (unsigned char *)rsh_tensor_data(s->t) + at * (int64_t)rsh_dtype_size(f->dtype);
}

void element_of(const form *f, uint64_t seed, int rank, int slot, int64_t i, unsigned char element[16]) {
    uint64_t state = seed ^ ((uint64_t)(rank + 1) << 48) ^ ((uint64_t)(slot + 1) << 40) ^ (uint64_t)i;
    uint64_t bits[2] = {next(&state), next(&state)};
    memcpy(element, bits, sizeof bits);
    if (f->dtype == RSH_BOOL) element[0] &= 1;
}

void scattered_fill(const form *f, scattered *s, uint64_t seed, int rank, int slot) {
    for (int64_t i = 0; i < f->count; i++) {
        unsigned char element[16];
        element_of(f, seed, rank, slot, i, element);
        memcpy(address(f, s, i), element, rsh_dtype_size(f->dtype));
    }
}

/* Checks that bytes which belong to no element are unchanged. */
static bool guards_hold(const form *f, const scattered *s) {
    size_t item = rsh_dtype_size(f->dtype);
    unsigned char *used = calloc(s->bytes, 1);
    bool ok = true;
    for (int64_t i = 0; i < f->count; i++) memset(used + (address(f, s, i) - s->base), 1, item);
    for (size_t b = 0; b < s->bytes; b++) ok = ok && (used[b] || s->base[b] == SCATTERED_GUARD);
    free(used);
    return ok;
}

bool scattered_is(const form *f, const scattered *s, uint64_t seed, int rank, int slot) {
    for (int64_t i = 0; i < f->count; i++) {
        unsigned char element[16];
        element_of(f, seed, rank, slot, i, element);
        if (memcmp(address(f, s, i), element, rsh_dtype_size(f->dtype)) != 0) return false;
    }
    return guards_hold(f, s);
}

bool scattered_is_reduced(const form *f, const scattered *s, uint64_t seed, int n, int slot, rsh_op op) {
    ora_dtype t = ora_dtype_of(rsh_dtype_name(f->dtype), strlen(rsh_dtype_name(f->dtype)));
    ora_op how = ora_op_of(rsh_op_name(op), strlen(rsh_op_name(op)));
    for (int64_t i = 0; i < f->count; i++) {
        unsigned char made[16][16], expected[16];
        const unsigned char *list[16];
        for (int r = 0; r < n; r++) element_of(f, seed, r, slot, i, made[r]), list[r] = made[r];
        ora_reduce_to(how, t, n, list, NULL, t, expected);
        if (!ora_equal(t, ORA_BITS, address(f, s, i), expected)) return false;
    }
    return guards_hold(f, s);
}

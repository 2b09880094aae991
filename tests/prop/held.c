/* Held: memory of parts with different styles of strides; every element is found by its own address. */
#include "held.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

/* Sets strides of a part whose dims are stored from slowest to fastest in `order`, each with `pad` elements between its
 * rows. */
static void set_strides(held *h, const int *order, int64_t pad) {
    int64_t stride = pad ? 1 + pad % 2 : 1;
    for (int i = h->part->ndim - 1; i >= 0; i--) {
        h->strides[order[i]] = stride;
        int64_t n = h->part->shape[order[i]];
        stride = stride * (n > 0 ? n : 1) + pad;
    }
}

static void turn_round(held *h, gen_rng *g) {
    for (int d = 0; d < h->part->ndim; d++)
        if (gen_chance(g, 60)) h->strides[d] = -h->strides[d];
}

static void choose_strides(held *h, gen_rng *g, held_style style) {
    int order[ORA_MAX];
    bool turn = style == HELD_REVERSED || (style > HELD_REVERSED && gen_chance(g, 30));
    for (int d = 0; d < h->part->ndim; d++)
        order[d] = turn ? h->part->order[h->part->ndim - 1 - d] : h->part->order[d];
    set_strides(h, order, style >= HELD_PADDED && gen_chance(g, 70) ? gen_between(g, 1, 3) : 0);
    if (style == HELD_NEGATIVE) turn_round(h, g);
    h->says_strides = style != HELD_DENSE;
}

static void make_block(held *h) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < h->part->ndim; d++) {
        int64_t reach = h->part->shape[d] > 0 ? h->strides[d] * (h->part->shape[d] - 1) : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    int64_t guard = GUARD / (int64_t)h->size;
    h->first = guard - low;
    h->bytes = (size_t)(high - low + 1 + 2 * guard) * h->size;
    h->block = aligned_alloc(64, (h->bytes + 63) / 64 * 64);
    if (!h->block) abort();
    held_wipe(h);
}

void held_new(held *h, gen_rng *g, const ora_part *part, size_t element_size, held_style style) {
    *h = (held){.part = part, .size = element_size};
    choose_strides(h, g, style);
    make_block(h);
}

void held_like(held *h, const held *other) {
    *h = *other;
    make_block(h);
}

void held_free(held *h) { free(h->block); }

void held_wipe(held *h) { memset(h->block, GUARD_BYTE, h->bytes); }

/* Returns the address of the i-th element of the dense part. */
static unsigned char *address(const held *h, int64_t i) {
    int64_t at = h->first;
    for (int k = h->part->ndim - 1; k >= 0; k--) {
        int d = h->part->order[k];
        at += i % h->part->shape[d] * h->strides[d];
        i /= h->part->shape[d];
    }
    return h->block + (size_t)at * h->size;
}

void held_put(held *h, const unsigned char *dense) {
    for (int64_t i = 0; i < h->part->count; i++) memcpy(address(h, i), dense + (size_t)i * h->size, h->size);
}

void held_get(const held *h, unsigned char *dense) {
    for (int64_t i = 0; i < h->part->count; i++) memcpy(dense + (size_t)i * h->size, address(h, i), h->size);
}

bool held_guards_are_whole(const held *h) {
    unsigned char *copy = prop_alloc(h->bytes);
    bool whole = true;
    memcpy(copy, h->block, h->bytes);
    for (int64_t i = 0; i < h->part->count; i++) memset(copy + (address(h, i) - h->block), GUARD_BYTE, h->size);
    for (size_t i = 0; i < h->bytes; i++) whole = whole && copy[i] == GUARD_BYTE;
    free(copy);
    return whole;
}

bool held_is_wiped(const held *h) {
    for (size_t i = 0; i < h->bytes; i++)
        if (h->block[i] != GUARD_BYTE) return false;
    return true;
}

rsh_memory held_memory(const held *h) {
    void *data = h->block + (size_t)h->first * h->size;
    return (rsh_memory){h->part->count ? data : NULL, h->says_strides ? h->strides : NULL};
}

/* Held: memory of one part as a caller may pass it: any strides, with guard bytes around and
 * between the elements. */
#ifndef RESHARD_TESTS_HELD_H
#define RESHARD_TESTS_HELD_H

#include "prop.h"

typedef enum held_style {
    HELD_DENSE,
    HELD_DENSE_STRIDES,
    HELD_REVERSED,
    HELD_PADDED,
    HELD_NEGATIVE,
    HELD_STYLES
} held_style;

typedef struct held {
    const ora_part *part; /* borrowed */
    size_t size;          /* of an element */
    unsigned char *block; /* everything, guards included */
    size_t bytes;
    int64_t first;        /* the element at index 0,...,0, counted from the block's start */
    int64_t strides[ORA_MAX];
    bool says_strides;
} held;

void held_new(held *h, gen_rng *g, const ora_part *part, size_t element_size, held_style style);
void held_like(held *h, const held *other); /* same shape and strides, other memory */
void held_free(held *h);
void held_put(held *h, const unsigned char *dense);
void held_get(const held *h, unsigned char *dense);
void held_wipe(held *h); /* guards and elements become the guard byte */
bool held_guards_are_whole(const held *h);
bool held_is_wiped(const held *h);
rsh_memory held_memory(const held *h);

#endif

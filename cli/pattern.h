/* pattern: values computed from global indices, so that every element can be checked after a move.
 *
 * Values are integers that both dtypes of a move represent exactly.  In a reduction one
 * contribution, chosen by the index, has the value and the others are neutral.  So the result is
 * exact in any order of reduction, and a lost or duplicate contribution is detected. */
#ifndef RESHARD_CLI_PATTERN_H
#define RESHARD_CLI_PATTERN_H

#include "cli.h"

typedef struct pattern {
    const rsh_layout *layout;
    size_t size;             /* of an element */
    int bits;                /* values are below 2^bits */
    uint16_t *table;         /* encoded values of dtypes of one or two bytes; owned */
    int64_t contributions;   /* number of contributions per element; 1: all ranks hold the value */
    bool first_only;         /* contribution 0 has the value, all others are `other` */
    unsigned char other[16]; /* the neutral element */
} pattern;

/* The pattern that FROM is filled with, and the one that TO must have after the move.  False: out
 * of memory. */
bool pattern_source(pattern *p, const layout_pair *pair);
bool pattern_result(pattern *p, const layout_pair *pair);
void pattern_free(pattern *p);

typedef struct pattern_fault {
    int64_t count;
    int64_t rank, index; /* of the first one: flat index in the tensor */
} pattern_fault;
/* Fills or compares one part of a rank, which is contiguous at `data`. */
rsh_status pattern_fill(const pattern *p, int64_t rank, int64_t part, void *data);
rsh_status pattern_check(const pattern *p, int64_t rank, int64_t part, const void *data,
                         pattern_fault *fault);

#endif

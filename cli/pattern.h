/* pattern: values that follow from global indices, so that every element can be checked wherever it
 * ends up.
 *
 * Values are integers that both dtypes of a move hold exactly.  Of a reduction one contribution
 * is the value, chosen by the index, and the others change nothing; so the result is exact in any
 * order, and a contribution that is lost or taken twice shows. */
#ifndef RESHARD_CLI_PATTERN_H
#define RESHARD_CLI_PATTERN_H

#include "cli.h"

typedef struct pattern {
    const rsh_layout *layout;
    size_t size;             /* of an element */
    int bits;                /* values are below 2^bits */
    uint16_t *table;         /* encoded values of dtypes of one or two bytes; owned */
    int64_t contributions;   /* that elements are made of; 1: all hold the value */
    bool first_only;         /* number 0 is the value, the others are `other` everywhere */
    unsigned char other[16]; /* an element that is not the value */
} pattern;

/* What FROM is filled with, and what TO must hold after the move.  False: out of memory. */
bool pattern_source(pattern *p, const layout_pair *pair);
bool pattern_result(pattern *p, const layout_pair *pair);
void pattern_free(pattern *p);

typedef struct pattern_fault {
    int64_t count;
    int64_t rank, index; /* of the first one: flat index in the tensor */
} pattern_fault;
/* One part of a rank, dense at `data`: written, or compared. */
rsh_status pattern_fill(const pattern *p, int64_t rank, int64_t part, void *data);
rsh_status pattern_check(const pattern *p, int64_t rank, int64_t part, const void *data,
                         pattern_fault *fault);

#endif

/* terms: of a layout with a partial op, how many terms each element has and which of them a rank
 * holds. */
#ifndef RESHARD_CLI_TERMS_H
#define RESHARD_CLI_TERMS_H

#include "cli.h"

typedef struct terms {
    int64_t count;                          /* 1: the layout is not partial */
    int naxes;                              /* of the mesh */
    int64_t size[RSH_MAX_AXES];             /* of each axis */
    bool partial[RSH_MAX_AXES];
    const char *ranks;                      /* "@..." in the layout's text; NULL: 0, 1, 2, ... */
} terms;

terms terms_of(const rsh_layout *l); /* borrows the layout's text */
int64_t terms_position(const terms *t, int64_t rank);
bool terms_same(const terms *a, const terms *b); /* the same sizes of partial axes, in order */

#endif

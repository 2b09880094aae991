/* Drawn: a random layout of hundreds to thousands of ranks, and the elements that its ranks hold.
 *
 * The oracle tests every element at every position, which takes too long with so many ranks.  Here
 * a layout is drawn as a description, and only the requested parts are computed from it, dim by
 * dim, as docs/notation.md defines.  No code of the library is used. */
#ifndef RESHARD_TESTS_DRAWN_H
#define RESHARD_TESTS_DRAWN_H

#include "prop.h"

enum {
    DRAWN_DIMS = 3,
    DRAWN_RANKS = 3000, /* of a layout, at most */
    DRAWN_NAMES = 3200, /* ranks are below it */
    DRAWN_SEGMENTS = 4,
    DRAWN_BOXES = 1500,
    DRAWN_COPIES = 4    /* of a box */
};

/* Properties of the layout to draw. */
typedef struct drawn_wish {
    int ndim;
    int64_t shape[DRAWN_DIMS];
    int dim; /* that most axes cut */
    rsh_dtype dtype;
    rsh_op op;       /* RSH_OP_NONE: not partial */
    int64_t partial; /* size of an axis that is partial */
    int64_t ranks;   /* about so many */
    int64_t copies;  /* of an element, at most; of one in a box, a few */
    bool plain;      /* neither segments nor flat */
} drawn_wish;

/* A part: along each dim its indices, in memory order.  A flat part holds `count` of the elements
 * at these indices in row-major order, from number `lo` on. */
typedef struct drawn_part {
    int64_t partial; /* position along the partial axes taken as one */
    int ndim;        /* of the tensor */
    const int64_t *shape; /* of the tensor, borrowed */
    int64_t n[DRAWN_DIMS], *index[DRAWN_DIMS]; /* owned */
    bool flat;
    int64_t lo, count;
} drawn_part;

typedef struct drawn_parts {
    bool known;
    int64_t n;
    drawn_part *at; /* owned */
} drawn_parts;

typedef struct drawn {
    rsh_layout_desc desc; /* its lists are those below */
    rsh_layout *layout;   /* owned */
    int64_t shape[DRAWN_DIMS], npartial; /* partial positions, 1 if there are none */
    int64_t rank[DRAWN_NAMES];           /* of each position, or of those that have boxes */
    int64_t position[DRAWN_NAMES];       /* of each rank; -1: none */
    int64_t sizes[DRAWN_DIMS + 1][DRAWN_RANKS]; /* of the cut of each dim, and of the flat one */
    int64_t segment_sizes[DRAWN_DIMS][DRAWN_SEGMENTS][DRAWN_RANKS];
    rsh_segment segment[DRAWN_DIMS][DRAWN_SEGMENTS];
    rsh_ranked_box box[DRAWN_BOXES];
    int64_t holder[DRAWN_BOXES][DRAWN_COPIES];
    drawn_parts held[DRAWN_NAMES]; /* by rank, for requested ranks */
} drawn;

/* Draws a layout with these properties, or parses one; d must be zeroed. */
rsh_status drawn_new(gen_rng *g, const drawn_wish *w, drawn *d);
rsh_status drawn_parse(const char *text, drawn *d);
void drawn_free(drawn *d); /* frees its members, not d itself */

/* drawn_pair.c: two layouts of one shape; both must be zeroed. */
typedef struct drawn_pair_wish {
    bool partial;     /* is a side partial? */
    int64_t ranks;    /* of the larger side, at most */
    int64_t elements; /* of the tensor, about, at most */
    int64_t copies;   /* of an element, at most */
    int crossed;      /* percent of pairs that are cut along different dims */
    bool plain;
} drawn_pair_wish;
rsh_status drawn_pair(gen_rng *g, const drawn_pair_wish *w, drawn *from, drawn *to);
/* Do both have the same partial positions, so that each can be moved separately? */
bool drawn_has_same_partials(const drawn *from, const drawn *to);

/* drawn_parts.c */
void drawn_know(drawn *d); /* the last step of both */
/* The parts of a rank; borrowed. */
const drawn_parts *drawn_parts_of(drawn *d, int64_t rank);
/* One of its parts; NULL: it has no such part. */
const drawn_part *drawn_part_of(drawn *d, int64_t rank, int64_t number);
/* The row-major number, in the tensor, of element i of a part, also in row-major order. */
int64_t drawn_element(const drawn_part *p, int64_t i);
/* The number of the element at an end of a transfer, at these loop indices; -1: outside of the
 * part. */
int64_t drawn_slot(const drawn_part *p, const rsh_transfer *t, const rsh_transfer_end *end,
                   const int64_t *at);
/* Do the segments of a dim have separate cuts? */
bool drawn_has_own_cuts(const drawn *d);

#endif

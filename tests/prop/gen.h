/* Gen: random layouts and pairs of layouts, every form of the notation, from one seed. */
#ifndef RESHARD_TESTS_GEN_H
#define RESHARD_TESTS_GEN_H

#include "../oracle/oracle.h"

enum { GEN_TEXT = 8192, GEN_MAX_ROLES = 16, GEN_MAX_BOXES = 40 };

/* gen_rng.c */
typedef struct gen_rng {
    uint64_t state;
} gen_rng;
uint64_t gen_next(gen_rng *g);
int64_t gen_below(gen_rng *g, int64_t n);             /* 0..n-1; 0 if n < 1 */
int64_t gen_between(gen_rng *g, int64_t a, int64_t b); /* a..b */
bool gen_chance(gen_rng *g, int percent);
void gen_shuffle(gen_rng *g, int64_t n, int64_t *list);
/* n numbers >= 0 that add up to `total`. */
void gen_split(gen_rng *g, int64_t total, int64_t n, int64_t *part);

typedef struct gen_shape {
    int ndim;
    int64_t size[ORA_MAX];
} gen_shape;
/* Mostly up to a hundred elements, at most about 2,000; sometimes none, sometimes 0-d. */
gen_shape gen_any_shape(gen_rng *g);
gen_shape gen_large_shape(gen_rng *g); /* some ten thousand elements in one to three dims */
ora_dtype gen_any_dtype(gen_rng *g);
ora_dtype gen_dtype_from(gen_rng *g, ora_dtype from); /* one that `from` converts to */
ora_op gen_any_op(gen_rng *g, ora_dtype t);           /* one that exists for t */

/* Properties of the layout to make. */
typedef struct gen_wish {
    gen_shape shape;
    ora_dtype dtype;
    ora_op op;      /* ORA_NONE: not partial */
    int max_ranks;  /* up to GEN_MAX_ROLES */
    bool replicas;  /* may ranks hold the same elements? */
    bool rather_boxes;
} gen_wish;

/* A layout whose ranks are still placeholders 0..nroles-1: mesh positions, or the ranks of
 * boxes. */
typedef struct gen_layout {
    char head[GEN_TEXT / 2]; /* dtype, dims, flat cut */
    char mesh[256];          /* "dp=2,tp=3", or "" */
    char tail[256];          /* partial and order, each with a blank before it */
    bool is_boxes;
    int nboxes;
    struct {
        int nroles, role[GEN_MAX_ROLES];
        char range[128];
    } box[GEN_MAX_BOXES];
    int nroles;
} gen_layout;

/* gen_mesh.c, gen_boxes.c */
void gen_mesh_layout(gen_rng *g, const gen_wish *w, gen_layout *out);
void gen_box_layout(gen_rng *g, const gen_wish *w, gen_layout *out);
/* gen_pair.c */
void gen_any_layout(gen_rng *g, const gen_wish *w, gen_layout *out);
/* An upper bound for ranks; GEN_MAX_ROLES unless a test has fewer. */
extern int gen_most_ranks;
/* Distinct ranks below gen_most_ranks for n placeholders: ascending, shifted, or any. */
void gen_ranks(gen_rng *g, int n, int64_t *rank);
void gen_text(const gen_layout *l, const int64_t *rank, char text[GEN_TEXT]);
/* Writes the same layout in another spelling: blanks, parentheses around one axis. */
void gen_respell(gen_rng *g, const char *text, char out[2 * GEN_TEXT]);

/* Makes a layout with these properties, on any ranks. */
void gen_side(gen_rng *g, const gen_wish *w, char text[GEN_TEXT]);

/* Two layouts of one shape. */
typedef struct gen_pair_wish {
    int partials;     /* percent of pairs in which a side may be partial */
    int conversions;  /* percent of pairs with two dtypes */
    bool other_op;    /* may the two sides have different ops? */
    bool replicas;
    int max_ranks;
    bool large;
} gen_pair_wish;
void gen_pair(gen_rng *g, const gen_pair_wish *w, char from[GEN_TEXT], char to[GEN_TEXT]);
/* Makes a move from few ranks to many copies of some ten thousand elements; and a node for each of
 * GEN_MAX_ROLES ranks. */
void gen_broadcast(gen_rng *g, ora_dtype from_dtype, ora_dtype to_dtype, char from[GEN_TEXT],
                   char to[GEN_TEXT]);
void gen_nodes(gen_rng *g, int64_t node_of[GEN_MAX_ROLES]);

#endif

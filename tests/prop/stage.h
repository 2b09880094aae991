/* Stage: a pair of layouts with memory on both sides, values in the source, and the expected values
 * of the destination. */
#ifndef RESHARD_TESTS_STAGE_H
#define RESHARD_TESTS_STAGE_H

#include "held.h"

typedef struct side {
    char text[GEN_TEXT];
    ora_layout *o;
    rsh_layout *l;
    held *held;            /* one per part, ranks ascending */
    unsigned char **dense; /* the values, or expected values, of each part */
    unsigned char **next;  /* the same in a second run with other values */
    unsigned char **got;   /* results of the first run */
    rsh_memory *memory;
} side;

bool side_new(side *s, prop_case *c, const char *text, bool any_strides);
void side_free(side *s);
void side_fill(side *s, gen_rng *g,
               bool raw); /* random values or bits, equal on replicas, into dense and memory */
/* Writes the values of the tensor, [partial position][element], to dense and memory. */
void side_set(side *s, const unsigned char *value);
void side_show(side *s);                        /* dense into memory */
void side_wipe(side *s);
int64_t side_first(
    const side *s,
    int64_t rank); /* index of the rank's first part, or of the next rank's if it has none */
int64_t side_last_rank(const side *s);
/* Checks that memory equals dense and guards are intact. */
bool side_matches(prop_case *c, const side *s, ora_likeness like, const char *when);

typedef struct stage {
    side from, to;
    rsh_plan_opts opts;
    bool supported; /* the move exists */
    bool raw;       /* the source holds random bits, not numbers */
    ora_likeness like; /* a conversion passes some NaN on; a reduction gives one NaN, and by node
                          either zero */
    int nranks;     /* of the comm: at least all that the layouts name */
} stage;

bool stage_new(stage *s, prop_case *c, const char *from, const char *to, bool any_strides);
void stage_free(stage *s);
/* Sets new values in the source, wipes the destination, and computes its expected values. */
void stage_values(stage *s, gen_rng *g);
/* Makes a second set of values, in `next` of both sides. */
void stage_next_values(stage *s, gen_rng *g);
/* Between two runs, on this rank (all: rank < 0): stores the results of the first, sets the next
 * source, wipes the destination. */
void stage_turn(stage *s, int64_t rank);
/* Random options that do not change the bits; they are described in the case's note. */
void stage_options(stage *s, prop_case *c);
/* Checks that the destination has its expected values and the source is unchanged. */
bool stage_done(prop_case *c, const stage *s, const char *when);
/* Checks the results of the first run, and then like stage_done the second. */
bool stage_done_twice(prop_case *c, stage *s, const char *when);

/* values.c: one random element, mostly a number; or random bits, with frequent NaNs of every sign
 * and payload, infinities and values close to 0. */
void value_bits(gen_rng *g, ora_dtype t, unsigned char *element);
void value_any(gen_rng *g, ora_dtype t, unsigned char *element);

#endif

/* Stage: a pair of layouts with memory on both sides, values in the source and what the destination
 * must become. */
#ifndef RESHARD_TESTS_STAGE_H
#define RESHARD_TESTS_STAGE_H

#include "held.h"

typedef struct side {
    char text[GEN_TEXT];
    ora_layout *o;
    rsh_layout *l;
    held *held;            /* one per part, ranks ascending */
    unsigned char **dense; /* what each part holds, or must hold */
    unsigned char **next;  /* the same in a second run with other values */
    unsigned char **got;   /* what the first run gave */
    rsh_memory *memory;
} side;

bool side_new(side *s, prop_case *c, const char *text, bool any_strides);
void side_free(side *s);
void side_fill(side *s, gen_rng *g,
               bool raw); /* random values or bits, equal on replicas, into dense and memory */
/* The values of the tensor, [partial position][element], into dense and memory. */
void side_set(side *s, const unsigned char *value);
void side_show(side *s);                        /* dense into memory */
void side_wipe(side *s);
int64_t side_first(
    const side *s,
    int64_t rank); /* index of the rank's first part, or of the one after where it would be */
int64_t side_last_rank(const side *s);
/* Memory equals dense and guards are whole. */
bool side_matches(prop_case *c, const side *s, ora_likeness like, const char *when);

typedef struct stage {
    side from, to;
    rsh_plan_opts opts;
    bool supported; /* the move exists */
    bool raw;       /* the source is to hold random bits, not numbers */
    ora_likeness like; /* a conversion passes some NaN on; a reduction gives one NaN, and by node
                          either zero */
    int nranks;     /* of the comm: at least all that the layouts name */
} stage;

bool stage_new(stage *s, prop_case *c, const char *from, const char *to, bool any_strides);
void stage_free(stage *s);
/* New values in the source, the destination wiped, what it must become worked out. */
void stage_values(stage *s, gen_rng *g);
/* A second set of values, in `next` of both sides. */
void stage_next_values(stage *s, gen_rng *g);
/* Between two runs, on this rank (all: rank < 0): keep what the first gave, show the next source,
 * wipe the destination. */
void stage_turn(stage *s, int64_t rank);
/* Random options under which the bits stay the same; they are described in the case's note. */
void stage_options(stage *s, prop_case *c);
/* The destination is as it must be and the source as it was. */
bool stage_done(prop_case *c, const stage *s, const char *when);
/* The first run gave what it must, and then as stage_done for the second. */
bool stage_done_twice(prop_case *c, stage *s, const char *when);

/* values.c: one random element, a number mostly; or any bits, where NaNs of every sign and payload,
 * infinities and what is close to 0 are frequent. */
void value_bits(gen_rng *g, ora_dtype t, unsigned char *element);
void value_any(gen_rng *g, ora_dtype t, unsigned char *element);

#endif

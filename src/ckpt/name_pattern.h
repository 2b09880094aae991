/* Name pattern: names of tensors in rule files, with wildcards, captures and lists of words. */
#ifndef RESHARD_CKPT_NAME_PATTERN_H
#define RESHARD_CKPT_NAME_PATTERN_H

#include "base/base.h"

#define RSHI_MOST_CAPTURES 16 /* of a line */

typedef enum rshi_token_kind {
    RSHI_TOKEN_TEXT,
    RSHI_TOKEN_STAR,    /* *       any characters, or none */
    RSHI_TOKEN_ONE,     /* ?       one character */
    RSHI_TOKEN_RANGE,   /* <a-b>   a decimal integer */
    RSHI_TOKEN_CAPTURE, /* {i}     one or more characters, no dot */
    RSHI_TOKEN_LONG,    /* {n*}    one or more characters, including dots */
    RSHI_TOKEN_LIST     /* {q,k,v} one of these words */
} rshi_token_kind;

typedef struct rshi_name_token {
    rshi_token_kind kind;
    char *text; /* owned; of TEXT; of LIST: the words, each followed by a NUL */
    size_t length;
    int64_t nwords; /* of LIST */
    int capture;    /* of CAPTURE and LONG: its index in the line */
    int64_t shift;  /* of CAPTURE: added to the captured integer */
    int64_t lo, hi; /* of RANGE */
} rshi_name_token;

typedef struct rshi_name_pattern {
    char *text; /* owned; as written */
    rshi_name_token *token;
    int64_t ntokens, room;
    int64_t nchoices;   /* product of the lengths of its lists; 1 without lists */
    unsigned captures;  /* bit i is set if capture i of the line occurs */
    bool repeats;       /* a capture occurs twice */
    bool has_wildcards; /* has * ? or {n*} */
    bool has_globs;     /* has * ? or <a-b>, whose matched text has no name */
    bool has_shifts;
} rshi_name_pattern;

/* Names of the captures of one line, in the order in which they were first written. */
typedef struct rshi_capture_names {
    char name[RSHI_MOST_CAPTURES][32];
    int n;
} rshi_capture_names;

typedef struct rshi_text_span {
    const char *at; /* NULL: not set */
    size_t length;
} rshi_text_span;
typedef struct rshi_captured {
    rshi_text_span value[RSHI_MOST_CAPTURES];
} rshi_captured;

/* Parses a name at *text: up to a blank, or, inside an expression, up to a comma or parenthesis; or
 * a string in double quotes.  Advances *text to its end, or to the error, and adds its captures to
 * `names`.  RSH_EVALUE; RSH_ENOMEM. */
rsh_status rshi_name_parse(const char **text, bool in_expression, rshi_capture_names *names,
                           rshi_name_pattern *out);
void rshi_name_free(rshi_name_pattern *p);

/* Does the name match?  `choice` selects the words of the lists (-1: any words match); *chosen (may
 * be NULL) receives the selection that matched.  Captures that are set in *c must match the same
 * text; the others are set.  RSH_EVALUE if matching takes too many steps. */
rsh_status rshi_name_match(const rshi_name_pattern *p, const char *name, int64_t choice,
                           rshi_captured *c, int64_t *chosen, bool *matches);

/* Expands a pattern without wildcards to a name.  The caller frees *out with rshi_free.  RSH_EVALUE
 * if a shifted capture is not a decimal integer or becomes negative. */
rsh_status rshi_name_expand(const rshi_name_pattern *p, int64_t choice, const rshi_captured *c,
                            char **out);
bool rshi_name_is_star(const rshi_name_pattern *p); /* is it exactly `*`? */
/* Parses a decimal integer without leading zeros; -1: the text is not one. */
int64_t rshi_span_number(rshi_text_span s);

#endif

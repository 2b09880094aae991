/* Rules: the lines of a rule file: which target tensors there are, what they are made of, and how
 * each is cut. */
#ifndef RESHARD_CKPT_RULES_H
#define RESHARD_CKPT_RULES_H

#include "ckpt/ckpt.h"
#include "ckpt/expr.h"

typedef enum rshi_rule_kind {
    RSHI_RULE_KEEP,   /* PATTERN FORM */
    RSHI_RULE_RENAME, /* SOURCE -> TARGET FORM */
    RSHI_RULE_BUILD,  /* TARGET = EXPR FORM */
    RSHI_RULE_SCALES, /* TARGET scales WEIGHT by 128,128 */
    RSHI_RULE_DROP    /* drop PATTERN */
} rshi_rule_kind;

struct rshi_ckpt_rule {
    rshi_rule_kind kind;
    rshi_name_pattern source; /* PATTERN or SOURCE; of SCALES: WEIGHT */
    rshi_name_pattern target; /* of RENAME, BUILD and SCALES */
    rshi_expr expr;           /* of BUILD */
    rshi_capture_names captures;
    char *text;     /* owned; the line without its form, for messages and listings */
    rsh_form *form; /* owned; "[...]" if the line has none; NULL of DROP and SCALES */
    bool has_form;  /* the line has a form of its own */
    bool uneven;    /* the word `uneven` stands behind it */
    bool optional;  /* it may match nothing */
    int nblocks;    /* of SCALES */
    int64_t block[RSH_MAX_NDIM];
    int line; /* of the file, from 1 */
};

struct rsh_ckpt_rules {
    char *name;       /* owned; for messages */
    char *files;      /* owned; NULL: no `files` line */
    rsh_layout *mesh; /* owned; a layout on the mesh of the file; NULL: no `mesh` line */
    int64_t nranks;   /* 1 + the highest rank of the mesh; 1 without one */
    uint64_t hash;    /* of the text */
    rshi_ckpt_rule *rule;
    int64_t nrules, room;
};

/* The number of the first PATTERN FORM line that matches the name, or -1. */
int64_t rshi_rules_match(const rsh_ckpt_rules *r, const char *name);
/* RSH_EVALUE unless every line is PATTERN FORM: what can say how files are cut that are read. */
rsh_status rshi_rules_check_from(const rsh_ckpt_rules *r);

/* The lines of a map as PATTERN FORM lines for its targets, to read rank files that it made. */
rsh_status rshi_rules_as_from(const rsh_ckpt_rules *r, rsh_ckpt_rules **out);

/* Checks what a line says as a whole: captures, lists, where functions may stand. */
rsh_status rshi_rule_check(const rshi_ckpt_rule *rule);
/* Counts the functions of a BUILD line that make several targets, outermost first; *inner becomes
 * what they are applied to. */
int rshi_rule_splits(const rshi_ckpt_rule *rule, const rshi_expr **inner);

#endif

/* Rules: the parsed lines of a rule file, which define the target tensors, their sources and their
 * layouts. */
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
    rsh_form *form; /* owned; "[...]" if the line has none; NULL for DROP and SCALES */
    bool has_form;  /* the line has a form */
    bool uneven;    /* the line ends with the word `uneven` */
    bool optional;  /* it may match nothing */
    int nblocks;    /* of SCALES */
    int64_t block[RSH_MAX_NDIM];
    int line; /* of the file, from 1 */
};

struct rsh_ckpt_rules {
    char *name;       /* owned; for messages */
    char *files;      /* owned; NULL: no `files` line */
    rsh_layout *mesh; /* owned; a layout on the mesh of the `mesh` line; NULL: no such line */
    int64_t nranks;   /* 1 + the highest rank of the mesh; 1 without one */
    uint64_t hash;    /* of the text */
    rshi_ckpt_rule *rule;
    int64_t nrules, room;
};

/* Returns the index of the first PATTERN FORM line that matches the name, or -1. */
int64_t rshi_rules_match(const rsh_ckpt_rules *r, const char *name);
/* RSH_EVALUE unless every line is PATTERN FORM; rules for --from have no other lines. */
rsh_status rshi_rules_check_from(const rsh_ckpt_rules *r);

/* Makes rules for --from that read the rank files which the rules r wrote: one PATTERN FORM line
 * per target. */
rsh_status rshi_rules_as_from(const rsh_ckpt_rules *r, rsh_ckpt_rules **out);

/* Checks captures, lists and the nesting of functions of a line. */
rsh_status rshi_rule_check(const rshi_ckpt_rule *rule);
/* Returns the number of outermost functions of a BUILD line that make several targets (split,
 * unstack, deinterleave); *inner is the expression inside them. */
int rshi_rule_splits(const rshi_ckpt_rule *rule, const rshi_expr **inner);

#endif

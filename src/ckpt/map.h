/* Map: rules applied to a checkpoint: which target tensors there are and what they are made of.
 *
 * The result is a checkpoint as well.  Its tensors are the targets, in the order in which their
 * first operands lie in the source; it has no files of its own. */
#ifndef RESHARD_CKPT_MAP_H
#define RESHARD_CKPT_MAP_H

#include "ckpt/rules.h"
#include "ckpt/view.h"

/* Applies rules (NULL: every tensor stays as it is) to the tensors that `opts` includes.  opts may
 * be NULL.  *out borrows c and the rules, and is freed by rsh_ckpt_free.
 * RSH_EVALUE if a source tensor is not used, a target is made twice, a line matches nothing, an
 * operand is missing or shapes do not fit; RSH_EUNSUP; RSH_ENOMEM. */
rsh_status rshi_map_apply(const rsh_ckpt *c, const rsh_ckpt_rules *rules,
                          const rsh_convert_opts *opts, rsh_ckpt **out);

/* What the elements add to the digest that the files of a tensor state.  RSH_EKEY if they state
 * none; RSH_EVALUE if it is no digest. */
rsh_status rshi_map_stated(const rshi_ckpt_tensor *t, rsh_digest *out);

/* ---- inside ---- */

/* One target that a line makes. */
typedef struct rshi_map_target {
    char *name; /* in the store */
    int64_t rule;
    int64_t first;  /* number of the source tensor that is its first operand */
    int64_t source; /* number of the only source, which it equals; -1: see view */
    const rshi_ckpt_view *view;
    int64_t instance; /* of the map; -1: none */
} rshi_map_target;

/* One line with one assignment of its captures. */
typedef struct rshi_map_instance {
    rsh_digest stated; /* sum of the digests that its sources state, as often as they are used */
    int64_t nstated;   /* of these sources */
    int64_t source;    /* the first of them */
} rshi_map_instance;

typedef struct rshi_map_work {
    const rsh_ckpt *c;
    const rsh_ckpt_rules *rules;
    rsh_ckpt *out;
    bool *wanted;    /* of each source tensor */
    bool *used;      /* by a line, or dropped */
    bool *hidden;    /* from patterns with wildcards */
    bool *checked;   /* its stated digest is checked */
    int64_t *caught; /* by each rule */
    rshi_map_target *target;
    int64_t ntargets, room;
    rshi_map_instance *instance;
    int64_t ninstances, instances_room;
} rshi_map_work;

rsh_status rshi_map_add_target(rshi_map_work *m, const rshi_map_target *t);
/* Makes all targets of one BUILD line. */
rsh_status rshi_map_build(rshi_map_work *m, int64_t rule);
/* Does any operand of a BUILD line match a tensor of the source, wanted or not? */
bool rshi_map_build_matches(const rshi_map_work *m, int64_t rule);
/* RSH_EVALUE with "FILE:LINE: " before the sentence that is there. */
rsh_status rshi_map_refuse(const rshi_map_work *m, int64_t rule, rsh_status st, const char *target);

#endif

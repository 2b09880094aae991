/* Map: applies rules to a checkpoint: finds the target tensors and the sources of each.
 *
 * The result is a checkpoint whose tensors are the targets, in the order in which their first
 * operands are stored in the source; it has no files of its own. */
#ifndef RESHARD_CKPT_MAP_H
#define RESHARD_CKPT_MAP_H

#include "ckpt/rules.h"
#include "ckpt/view.h"

/* Applies rules (NULL: tensors are unchanged) to the tensors that `opts` includes.  opts may be
 * NULL.  *out borrows c and the rules; free it with rsh_ckpt_free.
 * RSH_EVALUE if a source tensor is not used, two lines make the same target, a line matches
 * nothing, an operand is missing or shapes do not match; RSH_EUNSUP; RSH_ENOMEM. */
rsh_status rshi_map_apply(const rsh_ckpt *c, const rsh_ckpt_rules *rules,
                          const rsh_convert_opts *opts, rsh_ckpt **out);

/* Returns the digest that the files of a tensor state, without the contribution of dtype and shape.
 * RSH_EKEY if they state none; RSH_EVALUE if it cannot be parsed. */
rsh_status rshi_map_stated(const rshi_ckpt_tensor *t, rsh_digest *out);

/* ---- for map_apply.c and map_build.c ---- */

/* One target that a line makes. */
typedef struct rshi_map_target {
    char *name; /* in the store */
    int64_t rule;
    int64_t first;  /* index of the source tensor that is its first operand */
    int64_t source; /* index of the only source tensor, if the target is equal to it; -1: see
                       `view` */
    const rshi_ckpt_view *view;
    int64_t instance; /* index in the map's instances; -1: none */
} rshi_map_target;

/* One line with one assignment of its captures. */
typedef struct rshi_map_instance {
    rsh_digest stated; /* sum of the digests that its sources state, once per use */
    int64_t nstated;   /* number of summands */
    int64_t source;    /* index of the first source tensor that states one */
} rshi_map_instance;

typedef struct rshi_map_work {
    const rsh_ckpt *c;
    const rsh_ckpt_rules *rules;
    rsh_ckpt *out;
    bool *wanted;    /* for each source tensor: --include and --exclude select it */
    bool *used;      /* a line uses or drops it */
    bool *hidden;    /* patterns with wildcards ignore it, because an = line uses it */
    bool *checked;   /* its stated digest is checked */
    int64_t *caught; /* for each rule: number of tensors that it matched */
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
/* Puts "FILE:LINE: " in front of the current error message and returns st. */
rsh_status rshi_map_refuse(const rshi_map_work *m, int64_t rule, rsh_status st, const char *target);

#endif

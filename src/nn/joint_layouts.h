/* joint_layouts: values of several comms and meshes, described on one comm with all their ranks.
 *
 * Ranks that give the same layouts form a class.  The ranks of one model are one class; replicas of
 * a data-parallel model, which live on meshes of their own, are one class each. */
#ifndef RESHARD_NN_JOINT_LAYOUTS_H
#define RESHARD_NN_JOINT_LAYOUTS_H

#include <reshard/grad.h>

typedef struct rshn_joint {
    rsh_comm *comm; /* borrowed */
    int64_t n;      /* values */
    int nclasses;
    int mine;           /* class of this rank */
    rsh_layout **layout; /* owned, [nclasses][n]: on the comm */
} rshn_joint;

/* Describes n values; plain ones are on all ranks.  `status` is what this rank has come to so far:
 * if it is not RSH_OK, all ranks get it.  `names` are n names.  The caller ends *out, also if this
 * fails.
 * RSH_EMISMATCH if ranks have different names or shapes; RSH_EUNSUP for a partial layout, and if
 * the layouts of one class name a rank of another.
 * Collective over the comm and over the comms of the values. */
rsh_status rshn_joint_make(rsh_comm *comm, rsh_status status, int64_t n, const char *const *names,
                           rsh_value *const *values, rshn_joint *out);
void rshn_joint_end(rshn_joint *j);

static inline const rsh_layout *rshn_joint_layout(const rshn_joint *j, int class, int64_t i) {
    return j->layout[class * j->n + i];
}
/* The first class with the same layout of value i. */
int rshn_joint_first(const rshn_joint *j, int class, int64_t i);
/* Value i as a sharded tensor of the comm in the layout of a class: on the parts of `value` if this
 * rank has that layout, otherwise without parts.  The caller frees *out. */
rsh_status rshn_joint_tensor(const rshn_joint *j, int class, int64_t i, const rsh_value *value,
                             rsh_sharded **out);

#endif

/* joint_layouts: describes values of several comms and meshes on one comm that has all their ranks.
 *
 * Ranks with the same layouts form a class.  The ranks of one model are one class.  The replicas of
 * a data-parallel model, which have meshes of their own, are one class each. */
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

/* Describes n values with the given names; plain values are on all ranks.  If `status` is not
 * RSH_OK on a rank, all ranks return it.  The caller calls rshn_joint_end, even if this fails.
 * RSH_EMISMATCH if ranks have different names or shapes; RSH_EUNSUP for a partial layout, and if
 * the layouts of one class contain a rank of another.
 * Collective over the comm and over the comms of the values. */
rsh_status rshn_joint_make(rsh_comm *comm, rsh_status status, int64_t n, const char *const *names,
                           rsh_value *const *values, rshn_joint *out);
void rshn_joint_end(rshn_joint *j);

static inline const rsh_layout *rshn_joint_layout(const rshn_joint *j, int class, int64_t i) {
    return j->layout[class * j->n + i];
}
/* Returns the first class in which value i has the same layout. */
int rshn_joint_first(const rshn_joint *j, int class, int64_t i);
/* Creates value i as a sharded tensor on the comm in the layout of a class.  It has the parts of
 * `value` if this rank has that layout, otherwise none.  The caller frees *out. */
rsh_status rshn_joint_tensor(const rshn_joint *j, int class, int64_t i, const rsh_value *value,
                             rsh_sharded **out);

#endif

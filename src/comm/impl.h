/* impl: what the files of comm share about how a comm is made. */
#ifndef RESHARD_COMM_IMPL_H
#define RESHARD_COMM_IMPL_H

#include "comm/comm.h"
#include "wire/wire.h"

/* Local.  A comm of up to `size` ranks that stands on nothing yet: taken before ranks agree, so
 * that a rank without memory can still say so.  NULL and a sentence: no memory. */
rsh_comm *rshi_comm_shell(int size);
/* Give up such a comm.  No-op for NULL. */
void rshi_comm_shell_free(rsh_comm *c);
/* Put it on a node, which it takes. */
void rshi_comm_stand_on(rsh_comm *c, rshi_node *here);

/* Local.  A comm on a link with the ranks of equal `node` [size], 0 or more, as one node; `here` is
 * the node of this rank, its ranks in the order of theirs.  Takes link and node only if it
 * succeeds. */
rsh_status rshi_comm_on_link(rshi_link *link, rshi_node *here, const int64_t *node, rsh_comm **out);
/* The same on a wire; takes wire and node also when it fails. */
rsh_status rshi_comm_mixed(const rsh_wire *wire, rshi_node *here, const int64_t *node,
                           rsh_comm **out);

/* What a comm does: by its node alone, or by its node and its link. */
void rshi_comm_choose_ops(rsh_comm *c);
rsh_status rshi_comm_split_node(rsh_comm *c, int colour, int key, rsh_comm **out);
rsh_status rshi_comm_split_link(rsh_comm *c, int colour, int key, rsh_comm **out);

#endif

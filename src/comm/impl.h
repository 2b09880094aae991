/* impl: construction of comms, shared by the files of this room. */
#ifndef RESHARD_COMM_IMPL_H
#define RESHARD_COMM_IMPL_H

#include "comm/comm.h"
#include "wire/wire.h"

/* Local.  Makes a comm of up to `size` ranks without a node: allocated before ranks agree, so that
 * a rank that is out of memory can still tell the others.  NULL with an error message: no
 * memory. */
rsh_comm *rshi_comm_shell(int size);
/* Frees such a comm.  No-op for NULL. */
void rshi_comm_shell_free(rsh_comm *c);
/* Attaches it to a node and takes ownership of the node. */
void rshi_comm_stand_on(rsh_comm *c, rshi_node *here);

/* Local.  Makes a comm on a link; ranks with equal `node` [size], 0 or more, form a node; `here` is
 * the node of this rank, with its ranks in the same order.  Takes ownership of link and node only
 * if it succeeds. */
rsh_status rshi_comm_on_link(rshi_link *link, rshi_node *here, const int64_t *node, rsh_comm **out);
/* Does the same on a wire; takes ownership of wire and node even if it fails. */
rsh_status rshi_comm_mixed(const rsh_wire *wire, rshi_node *here, const int64_t *node,
                           rsh_comm **out);

/* Fills the table of operations: by the node alone, or by node and link. */
void rshi_comm_choose_ops(rsh_comm *c);
rsh_status rshi_comm_split_node(rsh_comm *c, int colour, int key, rsh_comm **out);
rsh_status rshi_comm_split_link(rsh_comm *c, int colour, int key, rsh_comm **out);

#endif

/* mailboxes: a wire between threads of one process, for tests of comms on wires without an MPI. */
#ifndef RESHARD_TESTS_COMM_MAILBOXES_H
#define RESHARD_TESTS_COMM_MAILBOXES_H

#include "comm/comm.h"

/* Runs fn(ctx, comm) on n ranks, with rank r on node node[r] (NULL: all on one): ranks of a node
 * read one another's memory, others use mailboxes.  Fails like rsh_run.  As with an MPI, messages
 * over MAILBOX_EAGER bytes are sent when they are received, shorter ones at once. */
#define MAILBOX_EAGER 256
rsh_status run_on_nodes(int n, const int *node, rsh_rank_fn fn, void *ctx);

/* From now on messages over MAILBOX_EAGER bytes are not delivered and none can be cancelled, as
 * when the other end of an MPI is stopped.  Once all wires are closed, mailboxes_deliver delivers
 * those that have a receive, as an MPI would, and returns their number. */
void mailboxes_stop(void);
int mailboxes_deliver(void);

/* Makes n connected wires; each is closed by the comm that takes it. */
rsh_status mailbox_wires(int n, rsh_wire *wires);

#endif

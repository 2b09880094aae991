/* streamed: a move between ranks that do not share memory.  Rank 0 reads the source window by
 * window and sends the data to its ranks; the result returns in the same way.  Besides the parts of
 * all ranks only one window is in memory. */
#ifndef RESHARD_CLI_STREAMED_H
#define RESHARD_CLI_STREAMED_H

#include "part_files.h"

/* Only rank 0 reads and writes the files.  Collective. */
rsh_status streamed_move(rsh_comm *comm, const rsh_plan *plan, files *in, files *out);

#endif

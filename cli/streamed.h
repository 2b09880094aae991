/* streamed: a move by ranks that do not share the memory of this process.  Rank 0 reads the source
 * window by window and hands on what belongs to others, and gets the result back in the same way:
 * beside the parts of all ranks there is no memory but for one window. */
#ifndef RESHARD_CLI_STREAMED_H
#define RESHARD_CLI_STREAMED_H

#include "part_files.h"

/* On rank 0 the files are open; elsewhere they only know their parts.  Collective. */
rsh_status streamed_move(rsh_comm *comm, const rsh_plan *plan, files *in, files *out);

#endif

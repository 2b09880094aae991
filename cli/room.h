/* room: checks the limits on processes and threads. */
#ifndef RESHARD_CLI_ROOM_H
#define RESHARD_CLI_ROOM_H

#include <reshard.h>

/* RSH_EUNSUP if a limit of the machine, the user or the control group does not allow n processes,
 * or n threads of one process.  Call it before the first is started. */
rsh_status room_check(int64_t n, bool threads);

#endif

/* room: how many processes or threads the machine, the user and the control group have room for. */
#ifndef RESHARD_CLI_ROOM_H
#define RESHARD_CLI_ROOM_H

#include <reshard.h>

/* Refuses what could not all be started, before the first of them starts: RSH_EUNSUP and a sentence
 * if n processes, or n threads of one process, are more than a limit allows. */
rsh_status room_check(int64_t n, bool threads);

#endif

/* processes: ranks that are processes of one machine and map one another's arenas. */
#ifndef RESHARD_NODE_PROCESSES_H
#define RESHARD_NODE_PROCESSES_H

#include "arena/arena.h"
#include "node/impl.h"

/* The processes of a job, and this process's view of their memory. */
typedef struct rshi_process_world {
    rshi_world base; /* first, so that a pointer to it is a pointer to this struct */
    rshi_arena *arena;
    char **window;   /* [size], owned: every rank's arena as mapped here; this rank's own is
                        arena->base */
    size_t *reserve; /* [size], owned: bytes of each window */
    int *life; /* [size], owned: pidfds, which become readable when the rank's process has ended; -1
                  for this rank */
} rshi_process_world;

/* Returns the address of an offset in the arena of a rank; NULL if the offset is outside. */
static inline void *rshi_window_at(const rshi_process_world *w, int rank, uint64_t offset) {
    return offset < w->reserve[rank] ? w->window[rank] + offset : NULL;
}

/* Collective over processes that know the job's name and their rank: maps the arenas of all.
 * `board` is the first board, made by rank 0.  Gives up after `patience` seconds.  If it fails
 * before it has `begun`, the others do not know of the failure. */
rsh_status rshi_processes_meet(const char *job, double patience, rshi_process_world *w,
                               rshi_board **board, bool *begun);

#endif

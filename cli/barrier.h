/* barrier: where threads wait for each other, asleep; and a line from which they start together,
 * awake. */
#ifndef RESHARD_CLI_BARRIER_H
#define RESHARD_CLI_BARRIER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct barrier {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int size, waiting;
    unsigned turn;
    bool broken;
    atomic_int lined_up;    /* threads at the start line */
    _Atomic double started; /* when the last of them came */
    atomic_int turns;       /* starts so far */
} barrier;

void barrier_init(barrier *g, int size);
/* Returns when all have come; false if one of them broke the barrier. */
bool barrier_wait(barrier *g);
/* One will not come any more: nobody waits for it. */
void barrier_break(barrier *g);
/* All leave together; all must have come through barrier_wait just before. */
void barrier_start(barrier *g);

#endif

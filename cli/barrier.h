/* barrier: a sleeping barrier for threads, and a spinning one that releases all of them at the same
 * time. */
#ifndef RESHARD_CLI_BARRIER_H
#define RESHARD_CLI_BARRIER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct barrier {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int size, waiting;
    unsigned round; /* number of completed barrier_wait rounds */
    bool broken;
    atomic_int lined_up;    /* threads waiting in barrier_start */
    _Atomic double started; /* time at which the last of them arrived */
    atomic_int starts;      /* number of completed barrier_start rounds */
} barrier;

void barrier_init(barrier *g, int size);
/* Waits, asleep, until all threads have arrived; false if one of them broke the barrier. */
bool barrier_wait(barrier *g);
/* Releases all waiting threads, since this one will not arrive again. */
void barrier_break(barrier *g);
/* Waits, spinning, until all threads have arrived; call it just after barrier_wait. */
void barrier_start(barrier *g);

#endif

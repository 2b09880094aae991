/* Barrier: a sleeping barrier that can be broken, and a spinning barrier for a common start. */
#include "barrier.h"

#include "cli.h"

#include <sched.h>

void barrier_init(barrier *g, int size) {
    *g = (barrier){.size = size};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->opened, NULL);
}

bool barrier_wait(barrier *g) {
    pthread_mutex_lock(&g->lock);
    unsigned round = g->round;
    if (++g->waiting == g->size) {
        g->waiting = 0;
        g->round++;
        pthread_cond_broadcast(&g->opened);
    }
    while (g->round == round && !g->broken) pthread_cond_wait(&g->opened, &g->lock);
    bool whole = !g->broken;
    pthread_mutex_unlock(&g->lock);
    return whole;
}

void barrier_break(barrier *g) {
    pthread_mutex_lock(&g->lock);
    g->broken = true;
    pthread_cond_broadcast(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

/* Releases all threads at once.  Waking a thread takes longer than a small move, so the clock starts when the last
 * thread is awake. */
void barrier_start(barrier *g) {
    int round = atomic_load(&g->starts);
    if (atomic_fetch_add(&g->lined_up, 1) + 1 == g->size) {
        atomic_store(&g->lined_up, 0);
        atomic_store(&g->started, clock_seconds());
        atomic_store(&g->starts, round + 1);
        return;
    }
    while (atomic_load(&g->starts) == round) sched_yield();
}

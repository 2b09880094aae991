/* Barrier: a barrier that sleeps and can be broken, and a start line that does not sleep. */
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
    unsigned turn = g->turn;
    if (++g->waiting == g->size) {
        g->waiting = 0;
        g->turn++;
        pthread_cond_broadcast(&g->opened);
    }
    while (g->turn == turn && !g->broken) pthread_cond_wait(&g->opened, &g->lock);
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

/* Waking up takes a thread longer than a small move takes all of them: the clock starts when the last one is awake. */
void barrier_start(barrier *g) {
    int turn = atomic_load(&g->turns);
    if (atomic_fetch_add(&g->lined_up, 1) + 1 == g->size) {
        atomic_store(&g->lined_up, 0);
        atomic_store(&g->started, clock_seconds());
        atomic_store(&g->turns, turn + 1);
        return;
    }
    while (atomic_load(&g->turns) == turn) sched_yield();
}

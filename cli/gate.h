/* gate: where threads wait for each other, asleep; and a line from which they start together,
 * awake. */
#ifndef RESHARD_CLI_GATE_H
#define RESHARD_CLI_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int size, waiting;
    unsigned turn;
    bool broken;
    atomic_int lined_up;    /* threads at the start line */
    _Atomic double started; /* when the last of them came */
    atomic_int turns;       /* starts so far */
} gate;

void gate_init(gate *g, int size);
/* Returns when all have come; false if one of them broke the gate. */
bool gate_wait(gate *g);
/* One will not come any more: nobody waits for it. */
void gate_break(gate *g);
/* All leave together; all must have come through gate_wait just before. */
void gate_start(gate *g);

#endif

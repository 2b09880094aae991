/* comparison: reshard and memcpy in turn, on the same machine, in the same minute, in the same kind
 * of memory. */
#ifndef RESHARD_CLI_COMPARISON_H
#define RESHARD_CLI_COMPARISON_H

#include "barrier.h"
#include "pattern.h"

/* memcpy by as many threads as there are cores. */
typedef struct reference {
    rsh_pool *pool;
    rsh_tensor *from, *to;
    size_t bytes;
    int64_t batch; /* times that a sample copies them */
} reference;
rsh_status reference_open(reference *r, size_t bytes);
double reference_sample(reference *r, int64_t batch); /* seconds of one copy */
void reference_close(reference *r);

/* The fastest pass that reads n streams and writes one, by as many tied threads as there are cores
 * and the best of several loops; with one stream a copy. */
#define FASTEST_STREAMS 16
typedef struct fastest {
    rsh_pool *pool; /* borrowed */
    rsh_sharded *source, *result;
    const char *from[FASTEST_STREAMS];
    char *to;
    int n;
    size_t bytes; /* of each stream */
    int64_t batch;
    const struct pass_loop *loop; /* the best */
} fastest;
rsh_status fastest_open(fastest *f, rsh_pool *pool, rsh_comm *comm, int n, size_t bytes);
double fastest_sample(fastest *f, int64_t batch); /* seconds of one pass */
double fastest_bytes(const fastest *f);           /* read and written by one pass */
const char *fastest_name(const fastest *f);       /* of the loop that won */
void fastest_close(fastest *f);

/* One rank of the move. */
typedef struct runner {
    rsh_sharded *src, *dst;
    rsh_memory *src_memory, *dst_memory;
    rsh_exec *exec;
    rsh_comm *comm;
    double end; /* of its last round; launched: since its start, as clocks may differ */
    pattern_fault fault;
} runner;

typedef enum bench_phase { PHASE_RUN, PHASE_RUN_POISONED, PHASE_CHECK, PHASE_STOP } bench_phase;

typedef struct comparison {
    const layout_pair *pair;
    const rsh_plan *plan;
    bool processes; /* ranks are processes that this one forks, not threads */
    rsh_comm *comm; /* ranks were launched, and each has one of these; NULL: they share this one */
    int64_t repeat; /* rounds; 0: as many as make a steady result */
    size_t bytes;   /* written by the move, over all ranks */
    size_t bytes_read;
    int sources; /* streams that the move reads for one that it writes: 1, or the contributions to a
                    sum */

    pattern source, result;
    int nranks;
    runner *runner;
    reference reference;
    fastest fastest;
    barrier barrier;
    bench_phase phase; /* of the round at hand, told by rank 0 while the others wait */
    struct word *words;  /* [nranks]: what launched ranks said when they met last */
    int64_t batch;       /* moves back to back in a round */

    double seconds, memcpy_seconds; /* of one move; the least of all rounds */
    double stream_rate;     /* bytes read and written in a second by the fastest pass: the median */
    double stream_fraction; /* of that rate, which the move reached in a round: the median */
    const char *stream_name; /* of its loop */
    pattern_fault fault;
} comparison;

rsh_status comparison_run(comparison *c);

#endif

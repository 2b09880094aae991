/* comparison: measures reshard and memcpy in alternation, on the same machine and in the same kind
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
    int64_t batch; /* number of copies per sample */
} reference;
rsh_status reference_open(reference *r, size_t bytes);
double reference_sample(reference *r, int64_t batch); /* seconds of one copy */
void reference_close(reference *r);

/* The fastest pass that reads n streams and writes one, on all cores, with the best of several
 * loops; with one stream it is a copy. */
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
double fastest_bytes(const fastest *f);           /* bytes read and written by one pass */
const char *fastest_name(const fastest *f);       /* name of the fastest loop */
void fastest_close(fastest *f);

/* One rank of the move. */
typedef struct runner {
    rsh_sharded *src, *dst;
    rsh_memory *src_memory, *dst_memory;
    rsh_exec *exec;
    rsh_comm *comm;
    double end; /* time at the end of its last round; launched: since its start, as clocks differ */
    pattern_fault fault;
} runner;

typedef enum bench_phase { PHASE_RUN, PHASE_RUN_POISONED, PHASE_CHECK, PHASE_STOP } bench_phase;

typedef struct comparison {
    const layout_pair *pair;
    const rsh_plan *plan;
    bool processes; /* ranks are forked processes; false: threads */
    rsh_comm *comm; /* the comm of launched ranks; NULL: ranks are threads or forked processes */
    int64_t repeat; /* number of rounds; 0: chosen for a stable result */
    size_t bytes;   /* written by the move, over all ranks */
    size_t bytes_read;
    int sources; /* number of streams that the move reads per stream written: 1, or the
                    contributions to a sum */

    pattern source, result;
    int nranks;
    runner *runner;
    reference reference;
    fastest fastest;
    barrier barrier;
    bench_phase phase;  /* of the current round; rank 0 sets it while the others wait */
    struct word *words; /* [nranks]: the last words of launched ranks */
    int64_t batch;      /* number of moves in a round */

    double seconds, memcpy_seconds; /* of one move; the minimum of all rounds */
    double stream_rate;     /* bytes per second read and written by the fastest pass; median */
    double stream_fraction; /* fraction of that rate that the move reached; median of all rounds */
    const char *stream_name; /* name of its loop */
    pattern_fault fault;
} comparison;

rsh_status comparison_run(comparison *c);

#endif

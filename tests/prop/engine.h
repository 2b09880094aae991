/* Engine: the ranks on which a property runs.
 *
 * By default a test program runs its ranks as threads; programs that are built with
 * RESHARD_TEST_NODES run them as threads of several nodes with messages between them, with another
 * map of nodes for every case.  With RESHARD_TEST_ENGINE the program is one rank of a job: "shm"
 * under `reshard run`, "mpi" under mpirun (RESHARD_TEST_MPI names the library to load,
 * RESHARD_TEST_PER_NODE is the number of ranks per node; without it all are on one).  Then every
 * process makes the same cases from the same seed, does its own rank's work, and checks only
 * that. */
#ifndef RESHARD_TESTS_ENGINE_H
#define RESHARD_TESTS_ENGINE_H

#include <reshard.h>

/* Like rsh_run.  In a job the comm is the job's, which has at least n ranks. */
rsh_status engine_run(int n, rsh_rank_fn fn, void *ctx);
void engine_case(
    uint64_t seed); /* a new case begins: random properties of the ranks are derived from this */
bool engine_is_job(void);
int engine_ranks(int most); /* how many ranks a case may have: `most`, or as many as the job */
bool engine_has_nodes(
    void); /* may messages be needed, between nodes or for memory that peers cannot reach? */
bool engine_sees(int64_t rank); /* can this process read what this rank wrote? */
uint64_t engine_seed(uint64_t mine); /* rank 0's seed, on all ranks */

#endif

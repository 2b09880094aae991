/* Engine: the ranks on which a property runs.
 *
 * By itself a test program runs its ranks as threads; the programs that are built with
 * RESHARD_TEST_NODES as threads of several nodes with messages between them, another map of nodes
 * for every case.  With RESHARD_TEST_ENGINE it is one rank of a job that a launcher started several
 * times: "shm" under `reshard run`, "mpi" under mpirun (RESHARD_TEST_MPI names the library to load,
 * RESHARD_TEST_PER_NODE says how many ranks a node has; without it all are on one).  Then every
 * process makes the same cases from the same seed, does its own rank's share, and looks at nothing
 * but that. */
#ifndef RESHARD_TESTS_ENGINE_H
#define RESHARD_TESTS_ENGINE_H

#include <reshard.h>

/* As rsh_run.  In a job the comm is the job's, which has at least n ranks. */
rsh_status engine_run(int n, rsh_rank_fn fn, void *ctx);
void engine_case(
    uint64_t seed); /* a new case begins: what is random about the ranks follows from this */
bool engine_is_job(void);
int engine_ranks(int most); /* how many ranks a case may have: `most`, or as many as the job */
bool engine_has_nodes(
    void); /* may messages be needed, between nodes or for memory that peers do not reach? */
bool engine_sees(int64_t rank); /* is what this rank wrote to be seen here? */
uint64_t engine_seed(uint64_t mine); /* the same everywhere: rank 0's */

#endif

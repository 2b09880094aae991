/* launched: the ranks that mpirun started, of which this process is one.  The command links no MPI;
 * it loads libreshard-mpi when it is asked to. */
#ifndef RESHARD_CLI_LAUNCHED_H
#define RESHARD_CLI_LAUNCHED_H

#include "parts.h"

typedef struct launched {
    rsh_comm *comm; /* NULL: ranks are threads or processes of this one */
    rsh_status (*close)(rsh_comm *comm);
} launched;

/* Did mpirun start several of us, for `verb`, without being asked for the engine mpi?  True after a
 * sentence of the first, which names the default `engine`. */
bool launched_forgotten(const char *verb, const char *engine);
/* Joins the others if `engine` is mpi; from then on only rank 0 prints.  DONE, or FAILED after a
 * sentence. */
int launched_open(launched *l, const char *engine);
/* Leaves them.  Returns `result`, or FAILED. */
int launched_close(launched *l, int result);
/* Are there as many ranks as the layouts have?  DONE, or FAILED after a sentence. */
int launched_check(const launched *l, const layout_pair *pair);
/* Tell the plan which ranks are on one node, where that is not all of them. */
rsh_status launched_nodes(const launched *l, rsh_plan_opts *opts);
/* Does this process give the answers? */
bool launched_speaks(const launched *l);
/* Is libreshard-mpi there, and an MPI for it? */
bool launched_possible(void);

#endif

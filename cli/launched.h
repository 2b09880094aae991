/* launched: the ranks that mpirun started, of which this process is one.  The command does not link
 * MPI; it loads libreshard-mpi on demand. */
#ifndef RESHARD_CLI_LAUNCHED_H
#define RESHARD_CLI_LAUNCHED_H

#include "parts.h"

typedef struct launched {
    rsh_comm *comm; /* NULL: ranks are threads or processes of this one */
    rsh_status (*close)(rsh_comm *comm);
} launched;

/* Did mpirun start several processes without --engine?  If so, the first of them prints an error
 * that names `verb` and the default `engine`. */
bool launched_forgotten(const char *verb, const char *engine);
/* Joins the other ranks if `engine` is mpi; afterwards only rank 0 prints.  Returns DONE, or FAILED
 * after printing an error. */
int launched_open(launched *l, const char *engine);
/* Leaves the other ranks.  Returns `result`, or FAILED. */
int launched_close(launched *l, int result);
/* Checks that the number of ranks matches the layouts.  Returns DONE, or FAILED after printing an
 * error. */
int launched_check(const launched *l, const layout_pair *pair);
/* Sets the options that tell the plan which ranks share a node. */
rsh_status launched_nodes(const launched *l, rsh_plan_opts *opts);
/* Is this the process that prints? */
bool launched_speaks(const launched *l);
/* Are libreshard-mpi and an MPI for it available? */
bool launched_possible(void);

#endif

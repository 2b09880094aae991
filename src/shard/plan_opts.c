/* Plan options: copies the nodes of a comm into plan options. */
#include "comm/comm.h"
#include "shard/shard.h"

rsh_status rsh_plan_opts_from_comm(const rsh_comm *comm, rsh_plan_opts *opts) {
    RSH_REQUIRE(comm && opts, RSH_EVALUE, "comm and opts must not be NULL");
    RSHI_CHECK_RESULT(opts, RSH_PLAN_OPTS_INIT);
    if (!comm->node) return RSH_OK;
    opts->node_of = comm->node;
    opts->nnode_of = comm->size;
    opts->ranks_per_node = 0;
    return RSH_OK;
}

/* Simulate: how long a plan takes on a machine that need not be here.
 *
 * A machine is a few numbers: rates of memory and of network cards, and a latency.  In every stage
 * of the plan each node copies and each network card sends and receives; these overlap, so the
 * stage takes as long as the slowest of them, and a latency.  Stages follow each other.
 * docs/simulate.md says what is counted how. */
#ifndef RESHARD_SIMULATE_H
#define RESHARD_SIMULATE_H

#include <reshard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rates are in bytes a second.  Copying counts the bytes that are written, with as many read. */
typedef struct rsh_machine {
    size_t struct_size; /* sizeof(rsh_machine) */
    double memory;      /* what the ranks of a node copy together */
    double core;        /* what one rank copies alone; 0: as `memory` */
    double nic;         /* into a node, and at the same time out of it; 0: the plan has one node */
    double latency;     /* seconds from one rank to another */
    double run_bytes;   /* a run of contiguous bytes costs as much as so many bytes more */
    double transposed;  /* as `memory`, where source and destination have different fastest dims;
                           0: half of `memory` */
    double combined;    /* as `memory`, where contributions are combined: half of what is read and
                           written; 0: as `memory` */
} rsh_machine;
#define RSH_MACHINE_INIT {sizeof(rsh_machine), 0, 0, 0, 0, 0, 0, 0}

/* What may limit a stage. */
typedef enum rsh_resource {
    RSH_RESOURCE_MEMORY,  /* all ranks of a node together */
    RSH_RESOURCE_CORE,    /* one rank */
    RSH_RESOURCE_NIC_IN,  /* a node's network card, what it receives */
    RSH_RESOURCE_NIC_OUT, /* and what it sends */
    RSH_RESOURCE_LATENCY,
    RSH_RESOURCE_COUNT
} rsh_resource;
/* "memory", "core", "nic in", "nic out", "latency"; "?" for anything else.  Pure. */
RSH_API const char *rsh_resource_name(rsh_resource r);

#define RSH_MAX_STAGES 4 /* of a plan */

/* One stage.  Bytes are those of the node that has most of them. */
typedef struct rsh_simulated_stage {
    double seconds;                     /* the longest of the first four, and the latency */
    double resource[RSH_RESOURCE_COUNT]; /* seconds that each would take alone */
    rsh_resource limit;                 /* the one that takes longest */
    int64_t bytes_copied;               /* written on the node */
    int64_t bytes_in, bytes_out;        /* of its network card */
    int64_t peers; /* ranks of other nodes that one rank receives from, at most */
} rsh_simulated_stage;

typedef struct rsh_simulation {
    size_t struct_size; /* sizeof(rsh_simulation); set by the caller */
    int nstages;
    rsh_simulated_stage stage[RSH_MAX_STAGES];
    double seconds;     /* the sum of the stages */
    rsh_resource limit; /* the resource that the stages' limits name for the longest time */
    double lower_bound; /* seconds that no plan goes below on this machine */
    rsh_resource lower_bound_limit;
    int64_t ranks, nodes;
    int64_t ranks_walked; /* whose shares were looked at: all of them in plans of up to 256 ranks,
                             otherwise those of some nodes, which stand for the others */
} rsh_simulation;
#define RSH_SIMULATION_INIT                                                                        \
    { sizeof(rsh_simulation), 0, {{0, {0}, RSH_RESOURCE_MEMORY, 0, 0, 0, 0}}, 0,                   \
      RSH_RESOURCE_MEMORY, 0, RSH_RESOURCE_MEMORY, 0, 0, 0 }

/* What the plan takes on the machine, with the node map of its options.
 * RSH_EVALUE if the machine does not start from RSH_MACHINE_INIT, has no rate of memory, a number
 * is negative or not finite, or there are several nodes and no rate of network cards; RSH_ENOMEM.
 * Pure. */
RSH_API rsh_status rsh_simulate(const rsh_plan *p, const rsh_machine *m, rsh_simulation *out);

/* Measures this machine with all of its cores, for some seconds: everything but `nic`, which stays
 * as it was in *m.  Other work that the machine does at the time makes it look slower.
 * RSH_EVALUE if *m does not start from RSH_MACHINE_INIT; RSH_ENOMEM; RSH_ERUNTIME if threads cannot
 * be started.  Local. */
RSH_API rsh_status rsh_machine_calibrate(rsh_machine *m);

#ifdef __cplusplus
}
#endif
#endif

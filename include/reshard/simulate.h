/* Simulate: estimates how long a plan takes on another machine.
 *
 * A machine is described by a few numbers: rates of memory and of network cards, and a latency.  In
 * every stage of the plan each node copies data, and each network card sends and receives.  These
 * overlap, so a stage takes as long as the slowest of them, plus a latency.  Stages do not overlap.
 * docs/simulate.md describes the model. */
#ifndef RESHARD_SIMULATE_H
#define RESHARD_SIMULATE_H

#include <reshard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rates are in bytes per second.  A copy counts the bytes written, not those read. */
typedef struct rsh_machine {
    size_t struct_size; /* sizeof(rsh_machine) */
    double memory;      /* copy rate of all ranks of a node together */
    double core;        /* copy rate of one rank alone; 0: as `memory` */
    double nic;         /* rate into a node, and at the same time out of it; 0: only one node */
    double latency;     /* seconds from one rank to another */
    double run_bytes;   /* each contiguous run costs as much as copying this many bytes */
    double transposed; /* copy rate of a node if source and destination have different fastest dims;
                          0: half of `memory` */
    double combined; /* rate of a node for reductions, counting half of the bytes read and written;
                        0: as `memory` */
} rsh_machine;
#define RSH_MACHINE_INIT {sizeof(rsh_machine), 0, 0, 0, 0, 0, 0, 0}

/* The resource that limits a stage. */
typedef enum rsh_resource {
    RSH_RESOURCE_MEMORY,  /* memory of a node */
    RSH_RESOURCE_CORE,    /* one rank */
    RSH_RESOURCE_NIC_IN,  /* network card of a node, receiving */
    RSH_RESOURCE_NIC_OUT, /* network card of a node, sending */
    RSH_RESOURCE_LATENCY,
    RSH_RESOURCE_COUNT
} rsh_resource;
/* Returns "memory", "core", "nic in", "nic out" or "latency"; "?" for an unknown value.  Pure. */
RSH_API const char *rsh_resource_name(rsh_resource r);

#define RSH_MAX_STAGES 4 /* of a plan */

/* One stage.  Bytes are those of the node with the largest number. */
typedef struct rsh_simulated_stage {
    double seconds;                     /* maximum of the first four resources, plus the latency */
    double resource[RSH_RESOURCE_COUNT]; /* seconds that each resource would take alone */
    rsh_resource limit;                 /* the resource that takes longest */
    int64_t bytes_copied;               /* written on the node */
    int64_t bytes_in, bytes_out;        /* received and sent by its network card */
    int64_t peers; /* largest number of ranks of other nodes that one rank receives from */
} rsh_simulated_stage;

typedef struct rsh_simulation {
    size_t struct_size; /* sizeof(rsh_simulation); set by the caller */
    int nstages;
    rsh_simulated_stage stage[RSH_MAX_STAGES];
    double seconds;     /* sum of all stages */
    rsh_resource limit; /* the resource that limits stages for the longest total time */
    double lower_bound; /* lower bound in seconds for any plan on this machine */
    rsh_resource lower_bound_limit;
    int64_t ranks, nodes;
    int64_t ranks_walked; /* number of ranks that were examined: all of them in plans of up to 256
                             ranks, otherwise those of some nodes, which represent the others */
} rsh_simulation;
#define RSH_SIMULATION_INIT                                                                        \
    { sizeof(rsh_simulation), 0, {{0, {0}, RSH_RESOURCE_MEMORY, 0, 0, 0, 0}}, 0,                   \
      RSH_RESOURCE_MEMORY, 0, RSH_RESOURCE_MEMORY, 0, 0, 0 }

/* Estimates the time of a plan on a machine.  The nodes are those of the plan's options.
 * RSH_EVALUE if the machine does not start from RSH_MACHINE_INIT, `memory` is 0, a number is
 * negative or not finite, or there are several nodes and `nic` is 0; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_simulate(const rsh_plan *p, const rsh_machine *m, rsh_simulation *out);

/* Measures this machine on all of its cores, for some seconds, and sets everything except `nic`,
 * which is not changed.  Other load on the machine makes the results slower.
 * RSH_EVALUE if *m does not start from RSH_MACHINE_INIT; RSH_ENOMEM; RSH_ERUNTIME if threads cannot
 * be started.  Local. */
RSH_API rsh_status rsh_machine_calibrate(rsh_machine *m);

#ifdef __cplusplus
}
#endif
#endif

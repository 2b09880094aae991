/* binding: an exec under construction: a rank's share of a plan, its parts, and the records of the
 * others. */
#ifndef RESHARD_SHARD_BINDING_H
#define RESHARD_SHARD_BINDING_H

#include "shard/comm_cache.h"
#include "shard/exec.h"
#include "shard/foreign.h"

/* The record that a rank sends when it opens a bind. */
typedef struct rshi_bind_card {
    rshi_handle flag, table, messages; /* for peers of its node */
    uint64_t start;                    /* the flag's value at bind */
    uint64_t wants_messages; /* not 0: other ranks cannot reach a part of this rank that they would
                                have to read */
    uint64_t serial;         /* of a cached binding of this rank; 0: it must bind again */
    union {
        struct {
            rshi_address_range src, dst; /* of all its parts, if ranks are threads; see foreign.c */
        };
        uint64_t cores[RSHI_CORE_WORDS]; /* it may run on, if ranks are processes; see team.c */
    };
} rshi_bind_card;
_Static_assert(sizeof(rshi_bind_card) <= RSHI_CARD_BYTES, "it must fit into the opening exchange");

/* Temporary data of a bind, until the exec is complete. */
typedef struct rshi_binding {
    rsh_exec *e;        /* borrowed */
    rsh_share *share;   /* owned: this rank's */
    int *peer_of;       /* owned: by rank, index + 1 into peers; 0: none */
    rshi_location *src; /* owned: the locations of the sources of the current transfer */
    int64_t room;
} rshi_binding;

/* Local.  Makes an exec without memory; it holds the plan.  Free it with rshi_exec_end. */
rsh_status rshi_exec_new(const rsh_plan *plan, rsh_comm *comm, rsh_exec **out);
void rshi_exec_end(rsh_exec *e);

/* Local.  Does everything that needs no other rank, and fills the record for the opening
 * exchange. */
rsh_status rshi_binding_begin(rshi_binding *b, rsh_exec *e, const rshi_taken_parts *parts,
                              rshi_bind_card *mine);
/* Collective, right after an opening exchange in which every rank sent its record: completes the
 * exec, which can then run. */
rsh_status rshi_binding_complete(rshi_binding *b, rshi_bind_card *mine);
void rshi_binding_end(rshi_binding *b); /* Local.  Also after a failed or unfinished begin. */

#endif

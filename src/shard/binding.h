/* binding: an exec in the making: a rank's share of a plan, its parts, and what it hears of the
 * others. */
#ifndef RESHARD_SHARD_BINDING_H
#define RESHARD_SHARD_BINDING_H

#include "shard/comm_cache.h"
#include "shard/exec.h"
#include "shard/foreign.h"

/* What a rank says when it opens a bind. */
typedef struct rshi_bind_card {
    rshi_handle flag, table, messages; /* how a peer of its node finds them */
    uint64_t start;                    /* the flag's value at bind */
    uint64_t wants_messages; /* others cannot reach a part of this rank that they would read */
    uint64_t serial;         /* of a binding that this rank remembers; 0: it binds anew */
    union {
        struct {
            rshi_address_range src, dst; /* of all its parts, if ranks are threads; see foreign.c */
        };
        uint64_t cores[RSHI_CORE_WORDS]; /* it may run on, where ranks are processes; see team.c */
    };
} rshi_bind_card;
_Static_assert(sizeof(rshi_bind_card) <= RSHI_CARD_BYTES, "it travels in the opening exchange");

/* What is needed until the exec is complete. */
typedef struct rshi_binding {
    rsh_exec *e;        /* borrowed */
    rsh_share *share;   /* owned: this rank's */
    int *peer_of;       /* owned: by rank, index + 1 into peers; 0: none */
    rshi_location *src; /* owned: of the sources of the transfer at hand */
    int64_t room;
} rshi_binding;

/* Local.  A new exec without memory, which holds the plan; rshi_exec_end frees it. */
rsh_status rshi_exec_new(const rsh_plan *plan, rsh_comm *comm, rsh_exec **out);
void rshi_exec_end(rsh_exec *e);

/* Local.  Everything that needs no other rank, and the card for the opening exchange. */
rsh_status rshi_binding_begin(rshi_binding *b, rsh_exec *e, const rshi_taken_parts *parts,
                              rshi_bind_card *mine);
/* Collective, right after an opening exchange in which every rank gave its card: the rest.  The
 * exec can run. */
rsh_status rshi_binding_complete(rshi_binding *b, rshi_bind_card *mine);
void rshi_binding_end(rshi_binding *b); /* Local.  Also after a failed or unfinished begin. */

#endif

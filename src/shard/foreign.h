/* foreign: memory of other ranks, where ranks are threads: a destination of one may lie in a part
 * of another.  Where ranks are processes it cannot: each writes memory of its own. */
#ifndef RESHARD_SHARD_FOREIGN_H
#define RESHARD_SHARD_FOREIGN_H

#include "comm/comm.h"
#include "plan/plan.h"

/* From the first to one past the last byte of a rank's parts; equal: it has none. */
typedef struct rshi_address_range {
    uint64_t start, end;
} rshi_address_range;

struct rsh_exec;
struct rshi_taken_parts;
struct rshi_bind_card;

/* Local.  Put the spans of this rank's parts on its card, where ranks are threads. */
void rshi_foreign_show(const rsh_comm *comm, const struct rshi_taken_parts *parts,
                       struct rshi_bind_card *mine);
/* Local, right after an opening exchange of cards: does the destination of any rank lie, by spans,
 * where parts of another rank are?  The same answer on every rank. */
bool rshi_foreign_suspected(const rsh_comm *comm);
/* Local, as above: RSH_EVALUE if destinations of this rank share memory with parts of others, or if
 * that cannot be told. */
rsh_status rshi_foreign_check(const struct rsh_exec *e);

#endif

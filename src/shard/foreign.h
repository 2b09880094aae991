/* foreign: memory of other ranks.  If ranks are threads, a destination of one may overlap a part of
 * another.  If ranks are processes, it cannot, because each writes its own memory. */
#ifndef RESHARD_SHARD_FOREIGN_H
#define RESHARD_SHARD_FOREIGN_H

#include "comm/comm.h"
#include "plan/plan.h"

/* The addresses of the first byte of a rank's parts and of one past the last byte; equal if there
 * are no bytes. */
typedef struct rshi_address_range {
    uint64_t start, end;
} rshi_address_range;

struct rsh_exec;
struct rshi_taken_parts;
struct rshi_bind_card;

/* Local.  Writes the address ranges of this rank's parts to its record, if ranks are threads. */
void rshi_foreign_show(const rsh_comm *comm, const struct rshi_taken_parts *parts,
                       struct rshi_bind_card *mine);
/* Local, right after an opening exchange: does the destination range of any rank overlap the range
 * of another rank's parts?  The result is the same on every rank. */
bool rshi_foreign_suspected(const rsh_comm *comm);
/* Local, as above: RSH_EVALUE if destinations of this rank overlap parts of others, or if that is
 * unknown. */
rsh_status rshi_foreign_check(const struct rsh_exec *e);

#endif

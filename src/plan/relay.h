/* relay: how the ranks of a node that want the same fetch it together, and pass it on. */
#ifndef RESHARD_PLAN_RELAY_H
#define RESHARD_PLAN_RELAY_H

#include "plan/impl.h"

/* Part of a piece that is near, along the dim that is cut: `across` elements at each of its indices
 * that are also the piece's. */
typedef struct rshi_near {
    rshi_stripe along;
    int64_t across;
} rshi_near;
/* Cut a stripe of `across` elements an index into n ranges of indices [at[i], at[i + 1]) with
 * equally many elements that are not near, as far as whole indices allow; near parts are disjoint.
 * `at` has n + 1 entries. */
rsh_status rshi_far_cuts(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t nnear,
                         int64_t n, int64_t *at);

/* How the ranks of a node that hold a destination piece divide among them what they must fetch. */
typedef struct rshi_relay {
    int64_t tensor, node;
    rshi_piece b;    /* at its first holder */
    int64_t *nodes;  /* owned: where few hold the piece, the node of each */
    int64_t n;       /* holders on the node */
    int64_t *holder; /* owned: their numbers, ascending */
    int64_t *at;     /* owned, n + 1: holder i fetches what is in [at[i], at[i + 1]) along `dim` */
    rshi_near *near; /* owned, nnear: what the node holds of the piece */
    int64_t nnear;
    bool banded; /* along the dim the piece is one block, and what is near are blocks with all that
                    it has there, ascending: in between all is far */
    int64_t nodes_room, holder_room, at_room, near_room;
    int dim;
} rshi_relay;
/* Of b's node; kept in `edges` for the next region of the same piece. */
rsh_status rshi_relay_find(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                           rshi_rank_edges *edges, const rshi_relay **out);
void rshi_relay_free(rshi_relay *r);
/* Of a relay that is banded: the next stretch from *lo on, and before `end`, of which the node
 * holds nothing; false: there is none. */
bool rshi_relay_next_far(const rshi_relay *r, int64_t end, int64_t *lo, int64_t *hi);
/* Could the ranks of a node, so many, hold so little of a destination piece with these sets that
 * its ranges are cut evenly, whatever they do hold? */
bool rshi_relay_is_even(const rshi_pair *pair, const rshi_stripe *b, int64_t ranks);
/* The holders, of n on a node, that then fetch the region of source piece a and destination piece
 * b: from number `first` to `last`.  Range i begins at index rshi_relay_even_cut of the dim. */
typedef struct rshi_owners {
    int dim;
    int64_t first, last;
} rshi_owners;
rshi_owners rshi_relay_even_owners(const rsh_layout *to, const rshi_piece *a, const rshi_piece *b,
                                   int64_t n);
/* The next after `owner` whose range may have something of the region; n: none. */
int64_t rshi_relay_next_owner(const rsh_layout *to, const rshi_piece *a, const rshi_piece *b,
                              int64_t n, int64_t owner);
int64_t rshi_relay_even_cut(const rsh_layout *to, const rshi_piece *b, int64_t n, int64_t i);
/* Whose turn it is to give to the owner of a range, which is at that position of `to`. */
int64_t rshi_relay_turn(const rsh_layout *to, int64_t position);
/* May regions of the pair be relayed? */
bool rshi_pair_relays(const rsh_plan *p, const rshi_pair *pair);

/* Is what the ranks of the node pass on told in stretches?  Both sides of it ask. */
bool rshi_relay_in_stretches(const rsh_plan *p, int64_t tensor, const rshi_relay *relay,
                             const rshi_rank_edges *edges);
/* Add the edges of such a relay by which b's rank, one of its holders, takes from the other holders
 * on its node what they fetched; and those by which it gives them what it fetched. */
rsh_status rshi_relayed_takes(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                              const rshi_relay *relay, rshi_rank_edges *edges, rshi_edges *out);
rsh_status rshi_relayed_gives(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                              const rshi_relay *relay, rshi_rank_edges *edges, rshi_edges *out);

#endif

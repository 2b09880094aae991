/* piece holders: the ranks that hold a destination piece, by node, and the slice of it that each
 * keeps. */
#ifndef RESHARD_PLAN_PIECE_HOLDERS_H
#define RESHARD_PLAN_PIECE_HOLDERS_H

#include "plan/impl.h"

/* One holder of a piece. */
typedef struct rshi_holder {
    int64_t node, holder, rank;
    /* the holders on its node: the index of the first in the list, and their number */
    int64_t first, on_node;
} rshi_holder;
typedef struct rshi_holder_list {
    int64_t tensor;  /* -1: the list is empty */
    int64_t serial;  /* changes with every piece */
    rshi_piece b;    /* at its first holder */
    int dim;         /* the dim that is cut */
    int64_t n;       /* number of holders */
    rshi_holder *at; /* owned: sorted by node, then by holder number */
    int64_t *place;  /* owned: index in `at`, by holder number */
    int64_t at_room, place_room;
} rshi_holder_list;
/* Lists the holders of b.  The list is kept in `w` for the next region of the same piece. */
rsh_status rshi_holder_list_find(rshi_walk *w, int64_t tensor, const rshi_piece *b,
                                 const rshi_holder_list **out);
const rshi_holder *rshi_holder_list_at(const rshi_holder_list *list, int64_t holder);
void rshi_holder_list_free(rshi_holder_list *list);

/* Does the rank hold the region's source piece?  Always false for reductions: there a rank holds
 * only contributions. */
bool rshi_holds_source(const rshi_region *r, int64_t rank);

/* The relays of a region on one node: the holders of b on it that do not hold the source.  Each
 * takes a slice for the node and passes it on to the others. */
typedef struct rshi_relays {
    const rshi_holder_list *list; /* borrowed */
    int64_t n, first;
    /* NULL: entries `first` to first + n - 1 of the list; otherwise n entries */
    const int64_t *chosen;
    int64_t me; /* index of the holder that was asked for; -1: it is no relay */
} rshi_relays;
/* Finds the relays on the node of holder `me`.  Valid until the next call. */
rsh_status rshi_relays_find(rshi_walk *w, const rshi_region *r, const rshi_holder_list *list,
                            int64_t me, rshi_relays *out);
const rshi_holder *rshi_relays_at(const rshi_relays *relays, int64_t i);
/* index of a holder; -1: it is no relay */
int64_t rshi_relays_index(const rshi_relays *relays, int64_t holder);

/* The nodes that hold the source piece, and the holders of b on them (the holders beside a
 * source).  Empty for reductions. */
typedef struct rshi_source_nodes {
    int64_t serial; /* of the holder list that this belongs to; -1: nothing is known */
    rshi_piece a;
    int64_t *node;   /* owned: the nodes of the holders of `a`, ascending; only for list_beside */
    int64_t *holder; /* owned: numbers of the n holders of b beside a source, ascending */
    int64_t n, node_room, holder_room;
} rshi_source_nodes;
rsh_status rshi_source_nodes_find(rshi_walk *w, const rshi_region *r, const rshi_holder_list *list,
                                  const rshi_source_nodes **out);
bool rshi_is_beside_source(const rshi_source_nodes *beside, int64_t holder);
void rshi_source_nodes_free(rshi_source_nodes *beside);

/* The slice of relay i of n in the node cut, and the number of the slice that contains index x. */
rshi_range rshi_node_slice(const rshi_region *r, const rshi_holder_list *list, int64_t n,
                           int64_t i);
int64_t rshi_node_slice_at(const rshi_region *r, const rshi_holder_list *list, int64_t n,
                           int64_t x);

/* The cut among all holders that are not beside a source. */
typedef struct rshi_all_cut {
    const rshi_holder_list *list;    /* borrowed */
    const rshi_source_nodes *beside; /* borrowed */
    int64_t owners, slices;          /* slices <= owners; 0: the piece is too small for this cut */
} rshi_all_cut;
rshi_all_cut rshi_all_cut_of(const rshi_region *r, const rshi_holder_list *list,
                             const rshi_source_nodes *beside);
rshi_range rshi_all_slice(const rshi_all_cut *cut, int64_t i);
/* the number of the slice that contains index x */
int64_t rshi_all_slice_at(const rshi_all_cut *cut, int64_t x);
/* the number of the holder that owns slice i */
int64_t rshi_all_owner(const rshi_all_cut *cut, int64_t i);
/* the slice that a holder owns; -1: none */
int64_t rshi_all_slice_of(const rshi_all_cut *cut, int64_t holder);

#endif

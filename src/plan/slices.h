/* slices: the holders of a destination piece, by node, and the slice of it that each keeps. */
#ifndef RESHARD_PLAN_SLICES_H
#define RESHARD_PLAN_SLICES_H

#include "plan/impl.h"

/* One holder of a piece.  Its crew are the holders on its node. */
typedef struct rshi_member {
    int64_t node, holder, rank;
    int64_t first, crew; /* where the crew begins among the members, and how many they are */
} rshi_member;
typedef struct rshi_crews {
    int64_t tensor; /* -1: nothing is known */
    int64_t serial; /* another one for every piece that was looked at */
    rshi_piece b;   /* at its first holder */
    int dim;        /* along which it is cut */
    int64_t n;      /* holders */
    rshi_member *member; /* owned: by node, then by number */
    int64_t *place;      /* owned: which member a holder is, by its number */
    int64_t member_room, place_room;
} rshi_crews;
/* The holders of b; kept in `w` for the next region of the same piece. */
rsh_status rshi_crews_find(rshi_walk *w, int64_t tensor, const rshi_piece *b,
                           const rshi_crews **out);
const rshi_member *rshi_crews_member(const rshi_crews *c, int64_t holder);
void rshi_crews_free(rshi_crews *c);

/* The holders on one node that share a piece among them: those that do not hold the source. */
typedef struct rshi_node_team {
    const rshi_crews *crews; /* borrowed */
    int64_t n, first;
    const int64_t *list; /* NULL: members `first` to first + n - 1; else n members */
    int64_t me;          /* which of them a holder is; -1: none */
} rshi_node_team;
/* That of holder `me`; valid until the next one is asked for. */
rsh_status rshi_team_find(rshi_walk *w, const rshi_region *r, const rshi_crews *c, int64_t me,
                          rshi_node_team *out);
const rshi_member *rshi_team_member(const rshi_node_team *t, int64_t i);
int64_t rshi_team_index(const rshi_node_team *t, int64_t holder); /* which member it is; -1: none */

/* Holders of b on nodes that hold the source piece; none for reductions. */
typedef struct rshi_near {
    int64_t serial; /* of the crews that it belongs to; -1: nothing is known */
    rshi_piece a;
    int64_t *node, *holder; /* owned: nodes of the source; numbers of the holders, ascending */
    int64_t n, node_room, holder_room;
} rshi_near;
rsh_status rshi_near_find(rshi_walk *w, const rshi_region *r, const rshi_crews *c,
                          const rshi_near **out);
bool rshi_near_has(const rshi_near *near, int64_t holder);
void rshi_near_free(rshi_near *near);

/* Indices [lo, hi) of the dim that is cut. */
typedef struct rshi_range {
    int64_t lo, hi;
} rshi_range;
/* The slice of the i-th of a team of n in the node cut of a region, and the number of the slice
 * that has index x. */
rshi_range rshi_node_slice(const rshi_region *r, const rshi_crews *c, int64_t n, int64_t i);
int64_t rshi_node_slice_at(const rshi_region *r, const rshi_crews *c, int64_t n, int64_t x);

/* The cut among all holders that are not near. */
typedef struct rshi_all_cut {
    const rshi_crews *crews; /* borrowed */
    const rshi_near *near;   /* borrowed */
    int64_t owners, slices;  /* slices <= owners; 0: the piece is too small to be cut among all */
} rshi_all_cut;
rshi_all_cut rshi_all_cut_of(const rshi_region *r, const rshi_crews *c, const rshi_near *near);
rshi_range rshi_all_slice(const rshi_all_cut *cut, int64_t i);
int64_t rshi_all_slice_at(const rshi_all_cut *cut, int64_t x); /* the slice that has index x */
int64_t rshi_all_owner(const rshi_all_cut *cut, int64_t i); /* the holder that has slice i */
int64_t rshi_all_slice_of(const rshi_all_cut *cut, int64_t holder); /* its slice; -1: none */

#endif

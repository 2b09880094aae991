/* node_sums: the state of adding up a pair of layouts, node by node. */
#ifndef RESHARD_PLAN_NODE_SUMS_H
#define RESHARD_PLAN_NODE_SUMS_H

#include "plan/relay.h"
#include "plan/sums.h"

/* A holder of a group that is on the node at hand. */
typedef struct rshi_member {
    int64_t group, index; /* number among the group's holders */
    int64_t rank, place;  /* ordinal; number among the ranks of the node */
} rshi_member;

/* What one cell of a source group covers for ranks that serve from afar, to be added up later. */
typedef struct rshi_brick {
    int64_t class_; /* partial position and turn; see rshi_sums.classes */
    int64_t weight;
    rshi_clip cell;
} rshi_brick;

/* Elements that a source group of the node has of the clips at hand. */
typedef struct rshi_shared {
    int64_t first, end; /* its members among the sources */
    int64_t n;
} rshi_shared;

typedef struct rshi_list {
    rshi_member *member; /* owned: by group, then index */
    int64_t n, room;
} rshi_list;

typedef struct rshi_sums {
    const rsh_plan *p;
    const rshi_pair *pair;
    rshi_grouped_side a, b;
    int ndim;
    bool nodes;  /* there are several */
    bool relays; /* what several ranks of a node want enters it once */
    bool clips;  /* relays or slices: a rank may fetch a part of what it wants only */
    bool flips;  /* messages are counted from the sources' side */
    bool boxes;  /* sources are boxes */
    bool looks;  /* and looked up one by one */
    int64_t classes;        /* partial positions (where each moves on its own) times turns */
    int64_t size, out_size; /* bytes of an element on its way; and where a result is passed on */
    int64_t work;           /* pairs of ranks that were looked at one by one */
    bool given_up;          /* it would take too long: the edges are walked instead */

    int64_t *sent, *received, *kept; /* owned: bytes by ordinal */
    int64_t *weight;          /* owned, by destination group: how often it is fetched from afar */
    rshi_brick *brick;        /* owned: with several turns, the same as cells */
    int64_t nbricks, bricks_room;
    int64_t *met; /* owned, by destination part: sources that meet all of it; -1: unknown */
    rshi_encounter *meeting; /* owned: with the sources' parts, or if `flips` the destinations' */
    rsh_plan_totals *t;
    rshi_progress *w; /* told how far it is; may be NULL */

    /* the node at hand */
    int64_t node;          /* its number here */
    rshi_crew crew;
    rshi_list sources, targets;
    unsigned char *mark;   /* owned: does the rank at place i send to that at place j? */
    int64_t mark_room;
    int64_t *at;           /* owned: cuts of relayed groups */
    int64_t nat, at_room;
    int64_t *cut_of;       /* owned: by member of `targets`: where its group's cuts begin, or -1 */
    int64_t cut_of_room;
    rshi_near *near;       /* owned */
    int64_t near_room;
    rshi_clip *clip;       /* owned: cells of a rank */
    int64_t nclips, clips_room;
    rshi_shared *shared;   /* owned */
    int64_t nshared, shared_room;
    int64_t *tick;         /* owned: by source group, the node that it was last seen on */
    int64_t *begins;       /* owned: by source group, where its members begin on that node */
    int64_t *heard;        /* owned: by ordinal, who heard from it last */
} rshi_sums;

/* Add up one node: its ranks are those of s->crew. */
rsh_status rshi_sums_add_node(rshi_sums *s);
/* The holders of a half's groups that are on the node at hand, by group, then index; and where
 * those of the group that begins at i end. */
rsh_status rshi_sums_list_members(const rshi_sums *s, const rshi_grouped_side *side,
                                  rshi_list *list);
int64_t rshi_sums_group_end(const rshi_list *list, int64_t i);
/* All of a pair that nodes combine first. */
rsh_status rshi_sums_by_node(rshi_sums *s);
/* Add up what the owners of slices of a result pass on to ranks of other nodes. */
rsh_status rshi_sums_add_gathers(rshi_sums *s);

/* Slice i of n of a cell, along its longest dim. */
rshi_clip rshi_cell_slice(int ndim, const rshi_stripe *cell, int64_t n, int64_t i);
int64_t rshi_clip_size(int ndim, const rshi_clip *c); /* elements */

#endif

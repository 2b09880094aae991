/* Doors: the public functions by which a caller can move a tensor. */
#ifndef RESHARD_TESTS_DOORS_H
#define RESHARD_TESTS_DOORS_H

#include "stage.h"

/* Moves the stage's source to its destination (some twice, with other values) and checks the
 * result. */
typedef struct door {
    const char *name;
    bool (*go)(prop_case *c, stage *s);
} door;

extern const door local_doors[], rank_doors[];
enum { LOCAL_DOORS = 4, RANK_DOORS = 8 };

/* The arguments of a rank in a collective call. */
typedef struct rank_share {
    int64_t rank;
    const rsh_memory *src, *dst; /* its parts in the stage's memory; NULL: none */
} rank_share;
rank_share share_of(const stage *s, const rsh_comm *comm);
/* Copies the elements of this rank's parts of `t` to the side's memory. */
void show_parts(side *s, int64_t rank, const rsh_sharded *t);

#endif

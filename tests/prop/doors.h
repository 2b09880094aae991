/* Doors: the ways through which a caller may have a tensor moved. */
#ifndef RESHARD_TESTS_DOORS_H
#define RESHARD_TESTS_DOORS_H

#include "stage.h"

/* Moves the stage's source to its destination (some twice, with other values) and checks what came
 * of it. */
typedef struct door {
    const char *name;
    bool (*go)(prop_case *c, stage *s);
} door;

extern const door local_doors[], rank_doors[];
enum { LOCAL_DOORS = 4, RANK_DOORS = 8 };

/* What a rank brings to a collective call. */
typedef struct rank_share {
    int64_t rank;
    const rsh_memory *src, *dst; /* its parts in the stage's memory; NULL where it has none */
} rank_share;
rank_share share_of(const stage *s, const rsh_comm *comm);
/* The elements of this rank's parts of `t`, into the side's memory. */
void show_parts(side *s, int64_t rank, const rsh_sharded *t);

#endif

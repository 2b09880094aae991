/* parts: all parts of a layout, one behind the other in one block of memory, rank after rank
 * ascending. */
#ifndef RESHARD_CLI_PARTS_H
#define RESHARD_CLI_PARTS_H

#include "cli.h"

typedef struct parts {
    const rsh_layout *layout;
    size_t bytes;
    int64_t n;
    rsh_memory *memory; /* n of them, as rsh_plan_run_local wants them */
    char *data;
    rsh_tensor *owner; /* of data, unless it is mapped */
    size_t mapped;     /* bytes of the mapping that begins at `mapping` */
    void *mapping;
    int64_t (*strides)[RSH_MAX_NDIM]; /* [n], where memory is not in the layout's order; or NULL */
} parts;

/* Counts parts and bytes; no memory yet.  DONE, or FAILED after a sentence. */
int parts_measure(parts *p, const rsh_layout *layout);
rsh_status parts_allocate(parts *p);
void parts_settle(parts *p, char *data); /* the block begins at `data` */
/* Elements are row by row in each part, or with `fortran` the first dim is the fastest, whatever
 * the layout says.  DONE, or FAILED after a sentence. */
int parts_order(parts *p, bool fortran);
void dense_strides(int ndim, const int64_t *shape, bool fortran, int64_t *strides);
/* The first part of a rank, among all. */
int64_t parts_of(const parts *p, int64_t rank);
size_t parts_bytes(const parts *p, int64_t i); /* of part i */
void parts_free(parts *p);

#endif

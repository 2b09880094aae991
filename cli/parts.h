/* parts: all parts of a layout in one block of memory, in rank order. */
#ifndef RESHARD_CLI_PARTS_H
#define RESHARD_CLI_PARTS_H

#include "cli.h"

typedef struct parts {
    const rsh_layout *layout;
    size_t bytes;
    int64_t n;
    rsh_memory *memory; /* n entries, in the order of rsh_plan_run_local */
    char *data;
    rsh_tensor *owner; /* of data, unless it is mapped */
    size_t mapped;     /* bytes of the mapping that begins at `mapping` */
    void *mapping;
    int64_t (*strides)[RSH_MAX_NDIM]; /* [n], if memory is not in the layout's order; or NULL */
} parts;

/* Counts parts and bytes without allocating the block.  Returns DONE, or FAILED after printing an
 * error. */
int parts_measure(parts *p, const rsh_layout *layout);
rsh_status parts_allocate(parts *p);
void parts_settle(parts *p, char *data); /* sets the address of the block */
/* Sets row-major strides, or with `fortran` column-major ones, instead of the layout's order.
 * Returns DONE, or FAILED after printing an error. */
int parts_order(parts *p, bool fortran);
void dense_strides(int ndim, const int64_t *shape, bool fortran, int64_t *strides);
/* Returns the index of the first part of a rank. */
int64_t parts_of(const parts *p, int64_t rank);
size_t parts_bytes(const parts *p, int64_t i); /* of part i */
void parts_free(parts *p);

#endif

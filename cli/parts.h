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
} parts;

/* Counts parts and bytes; no memory yet.  All of these return an exit status, after a sentence
 * where it is not DONE. */
int parts_measure(parts *p, const rsh_layout *layout);
int parts_allocate(parts *p);
int parts_allocate_shared(parts *p); /* with processes that are forked later */
void parts_settle(parts *p, char *data); /* the block begins at `data` */
/* Memory and contents from a file descriptor that must hold exactly these bytes. */
int parts_read(parts *p, int fd);
int parts_write(const parts *p, int fd);
/* The first part of a rank, among all. */
int64_t parts_of(const parts *p, int64_t rank);
size_t parts_bytes(const parts *p, int64_t i); /* of part i */
void parts_free(parts *p);

#endif

/* name_table: a hash table from names to numbers. */
#ifndef RESHARD_CKPT_NAME_TABLE_H
#define RESHARD_CKPT_NAME_TABLE_H

#include "base/base.h"

/* An empty table is all zero. */
typedef struct rshi_name_table {
    struct rshi_name_slot *slot; /* owned; its names are borrowed */
    int64_t nslots, n;
} rshi_name_table;

/* Returns the number that was added with the name; -1: there is none. */
int64_t rshi_name_table_find(const rshi_name_table *t, const char *name);
/* Adds a name that is not in the table.  The name is borrowed.  RSH_ENOMEM. */
rsh_status rshi_name_table_add(rshi_name_table *t, const char *name, int64_t number);
void rshi_name_table_free(rshi_name_table *t);

#endif

/* draft: a file that appears under its name when it is complete.  Until then it lies beside it, as
 * NAME.reshard-partial; whatever was at NAME before stays as it was. */
#ifndef RESHARD_CLI_DRAFT_H
#define RESHARD_CLI_DRAFT_H

#include "cli.h"

#include <limits.h>

typedef struct draft {
    char name[PATH_MAX]; /* of the file, links followed */
    char path[PATH_MAX + 20]; /* where it is written: a device or a pipe is what it is, and no file */
} draft;

/* A descriptor to write to; -1 and errno.  A signal that ends the command removes what is there. */
int draft_open(draft *d, const char *name);
bool draft_is_beside(const draft *d);
/* Closes it, and gives it its name; -1 and errno after removing it. */
int draft_publish(draft *d, int fd);
/* Closes it and removes it; errno stays. */
void draft_abandon(const draft *d, int fd);

#endif

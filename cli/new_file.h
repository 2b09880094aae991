/* new_file: a file that appears under its name when it is complete.  Until then it lies beside it,
 * as NAME.reshard-partial; whatever was at NAME before stays as it was. */
#ifndef RESHARD_CLI_NEW_FILE_H
#define RESHARD_CLI_NEW_FILE_H

#include "cli.h"

#include <limits.h>

typedef struct new_file {
    char name[PATH_MAX];      /* of the file, links followed */
    char path[PATH_MAX + 20]; /* where it is written; a device or a pipe is written itself */
} new_file;

/* A descriptor to write to; -1 and errno.  A signal that ends the command removes what is there. */
int new_file_open(new_file *d, const char *name);
bool new_file_is_beside(const new_file *d);
/* Closes it, and gives it its name; -1 and errno after removing it. */
int new_file_publish(new_file *d, int fd);
/* Closes it and removes it; errno stays. */
void new_file_abandon(const new_file *d, int fd);

#endif

/* new_file: writes a file as NAME.reshard-partial and renames it to NAME when it is complete. Until
 * then an existing NAME is unchanged. */
#ifndef RESHARD_CLI_NEW_FILE_H
#define RESHARD_CLI_NEW_FILE_H

#include "cli.h"

#include <limits.h>

typedef struct new_file {
    char name[PATH_MAX];      /* of the file, links followed */
    char path[PATH_MAX + 20]; /* the file that is written; same as name for a device or a pipe */
} new_file;

/* Returns a descriptor to write to, or -1 with errno.  A terminating signal removes the file. */
int new_file_open(new_file *d, const char *name);
bool new_file_is_beside(const new_file *d); /* is it written under another name first? */
/* Closes and renames the file.  On failure removes it and returns -1 with errno. */
int new_file_publish(new_file *d, int fd);
/* Closes and removes the file; does not change errno. */
void new_file_abandon(const new_file *d, int fd);

#endif

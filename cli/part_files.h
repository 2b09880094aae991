/* part_files: reads or writes all parts of a layout in order: a standard stream, one file, or one
 * file per rank; raw, or .npy with one part per file. */
#ifndef RESHARD_CLI_PART_FILES_H
#define RESHARD_CLI_PART_FILES_H

#include "new_file.h"
#include "parts.h"

#include <limits.h>

typedef struct files {
    const char *name;   /* with %d: one file per rank; NULL: the standard stream */
    const char *side;   /* "FROM" or "TO", for messages */
    const parts *parts; /* borrowed */
    bool out;           /* files are written; false: read */
    bool each, npy;     /* one file per rank; .npy format */
    bool fortran;       /* .npy: the first dim is the fastest */

    int64_t units, unit; /* number of files; the current one */
    int64_t part;        /* index of the first part of the current file */
    int fd;              /* of the current file; -1: not open */
    size_t left;         /* bytes left in the current file */
    new_file new;        /* the current file, if it is written */
    char path[PATH_MAX];
} files;

/* Is the name valid?  A percent sign must be followed by "d", by "0", digits and "d", or by another
 * percent sign. */
bool files_name_known(const char *name);
/* Makes the name for a rank.  False: it is too long.  *has: the name contains the rank. */
bool part_path(const char *name, int64_t rank, char path[PATH_MAX], bool *has);
/* Opens.  With `look` also checks all files that will be read, and whether those that will be
 * written can be created.  RSH_EIO; RSH_EVALUE; RSH_EUNSUP. */
rsh_status files_open(files *f, const char *name, const char *side, const parts *p, bool out,
                      bool look);
/* Reads or writes the next bytes. */
rsh_status files_move(files *f, char *data, size_t bytes);
/* Called after the last byte: fails if a file that was read has more bytes, and completes files
 * that were written. */
rsh_status files_finish(files *f);
void files_abandon(files *f); /* after a failure: removes the incomplete file */
/* Reads all parts into memory; maps the file if possible. */
rsh_status files_load(files *f, parts *p);
/* For .npy files: sets the strides of `p` to the order of the files. */
int files_order(const files *f, parts *p);

#endif

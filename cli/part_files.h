/* files: the bytes of all parts of a layout, in their order, from or to a standard stream, one
 * file, or a file for each rank; raw, or .npy with one part in a file. */
#ifndef RESHARD_CLI_PART_FILES_H
#define RESHARD_CLI_PART_FILES_H

#include "new_file.h"
#include "parts.h"

#include <limits.h>

typedef struct files {
    const char *name;   /* with %d: a file for each rank; NULL: the standard stream */
    const char *side;   /* "FROM" or "TO", for sentences */
    const parts *parts; /* borrowed */
    bool out;           /* are they written? */
    bool each, npy;
    bool fortran; /* .npy: is the first dim the fastest? */

    int64_t units, unit; /* files, and the one at hand */
    int64_t part;        /* the first of that file */
    int fd;              /* -1: it is not open */
    size_t left;         /* bytes of it */
    new_file new;        /* of one that is written */
    char path[PATH_MAX];
} files;

/* Is this a name that files_open takes?  A percent sign is followed by d, by 0, digits and d, or by
 * another percent sign. */
bool files_name_known(const char *name);
/* The name for a rank.  False: it is too long for a path.  `has`: is the rank in it? */
bool part_path(const char *name, int64_t rank, char path[PATH_MAX], bool *has);
/* With `look`: looks at all files that will be read, and whether those that will be written have a
 * place.  RSH_EIO, RSH_EVALUE or RSH_EUNSUP with a sentence. */
rsh_status files_open(files *f, const char *name, const char *side, const parts *p, bool out,
                      bool look);
/* The next bytes, read or written. */
rsh_status files_move(files *f, char *data, size_t bytes);
/* All bytes have moved: is there more in a file that was read, and has all arrived that was
 * written? */
rsh_status files_finish(files *f);
void files_abandon(files *f); /* after a failure: nothing half written stays */
/* Memory for all parts, with what is in the files: mapped where it can be. */
rsh_status files_load(files *f, parts *p);
/* The order of elements in each part, where it is not the layout's: strides for `p`. */
int files_order(const files *f, parts *p);

#endif

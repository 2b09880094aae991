/* library: libraries of this build that the command does not link, found when they are needed. */
#ifndef RESHARD_CLI_LIBRARY_H
#define RESHARD_CLI_LIBRARY_H

/* "libreshard-mpi.so" of the command's own version: beside the command, beside the core
 * library, or where the system looks; NULL: not there, and dlerror says why.  Its symbols are
 * global. */
void *library_load(const char *name);

#endif

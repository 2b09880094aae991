/* library: loads libraries of this build on demand. */
#ifndef RESHARD_CLI_LIBRARY_H
#define RESHARD_CLI_LIBRARY_H

/* Loads a library such as "libreshard-mpi.so" in the command's own version, from the directory of
 * the command, of the core library, or from the system's path.  Its symbols are global.  NULL: see
 * dlerror. */
void *library_load(const char *name);

#endif

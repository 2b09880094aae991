/* npy: the header of numpy's files of one array. */
#ifndef RESHARD_CLI_NPY_H
#define RESHARD_CLI_NPY_H

#include "cli.h"

typedef struct npy_array {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    bool fortran; /* is the first dim the fastest? */
} npy_array;

#define NPY_HEADER 512 /* bytes of the longest header that is written */
#define NPY_TEXT 256

/* numpy's name, "<f4"; NULL where it has none.  Static. */
const char *npy_descr(rsh_dtype dtype);
/* Reads the header; the array follows.  RSH_EVALUE for what is no such file, or an array that no
 * layout can have, with a sentence that begins with the path. */
rsh_status npy_read(int fd, const char *path, npy_array *out);
size_t npy_write(const npy_array *a, char header[NPY_HEADER]); /* its length */
const char *npy_print(const npy_array *a, char text[NPY_TEXT]); /* "f32[4, 8]" */

#endif

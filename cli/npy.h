/* npy: the header of NumPy's .npy files. */
#ifndef RESHARD_CLI_NPY_H
#define RESHARD_CLI_NPY_H

#include "cli.h"

typedef struct npy_array {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    bool fortran; /* the first dim is the fastest */
} npy_array;

#define NPY_HEADER 512 /* bytes of the longest header that npy_write writes */
#define NPY_TEXT 256

/* NumPy's name of a dtype, such as "<f4"; NULL: it has none.  Static. */
const char *npy_descr(rsh_dtype dtype);
/* Reads the header; the array follows in the file.  RSH_EVALUE if it is not a .npy file, or no
 * layout can have such an array. */
rsh_status npy_read(int fd, const char *path, npy_array *out);
size_t npy_write(const npy_array *a, char header[NPY_HEADER]); /* returns the length */
const char *npy_print(const npy_array *a, char text[NPY_TEXT]); /* "f32[4, 8]" */

#endif

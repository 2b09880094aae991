/* Archive: a zip archive somewhere in a file, and the tensor that torch.save put into it. */
#ifndef RESHARD_CKPT_ARCHIVE_H
#define RESHARD_CKPT_ARCHIVE_H

#include "base/base.h"

/* A span of a file that is open for reading.  Borrowed. */
typedef struct rshi_file_span {
    int fd;
    const char *file; /* for messages */
    uint64_t at, bytes;
} rshi_file_span;

/* Bytes of a span; RSH_EVALUE if they are not all inside, RSH_EIO if they cannot be read. */
rsh_status rshi_file_span_read(const rshi_file_span *s, uint64_t at, void *to, uint64_t n);

/* Finds an entry of the archive that fills the span, by the end of its name ("/data.pkl"), which
 * must be the end of one name only; *entry becomes the span of its bytes.  The entry must be
 * stored, not compressed.  ZIP64 is read.  RSH_EVALUE names file and byte; RSH_EUNSUP if it is
 * compressed or encrypted; RSH_EKEY if there is no such entry. */
rsh_status rshi_archive_find(const rshi_file_span *archive, const char *ending,
                             rshi_file_span *entry);

/* A tensor as torch.save stored it. */
typedef struct rshi_saved_tensor {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM]; /* strides in elements, not negative */
    uint64_t at; /* byte offset of its first element in the file */
} rshi_saved_tensor;

/* Reads where the one tensor of an archive lies, and checks that its elements lie in its storage.
 * Errors as for rshi_archive_find and rshi_pickle_read. */
rsh_status rshi_saved_tensor_read(const rshi_file_span *archive, rshi_saved_tensor *out);

#endif

/* Archive: a zip archive somewhere in a file, and the tensors that torch.save put into it. */
#ifndef RESHARD_CKPT_ARCHIVE_H
#define RESHARD_CKPT_ARCHIVE_H

#include "ckpt/ckpt.h"
#include "ckpt/pickle.h"

/* A span of a file that is open for reading.  Borrowed. */
typedef struct rshi_file_span {
    int fd;
    const char *file; /* for messages */
    uint64_t at, bytes;
} rshi_file_span;

/* Bytes of a span; RSH_EVALUE if they are not all inside, RSH_EIO if they cannot be read. */
rsh_status rshi_file_span_read(const rshi_file_span *s, uint64_t at, void *to, uint64_t n);

/* The directory of an archive. */
typedef struct rshi_archive {
    rshi_file_span span;
    struct rshi_archive_entry *entry; /* owned */
    int64_t nentries;
    rshi_name_table names; /* of entries */
    rshi_ckpt_store store;
} rshi_archive;

/* Reads the directory of the archive that fills the span; entries must not overlap, and no name
 * stands twice.  ZIP64 is read.  RSH_EVALUE names file and byte; RSH_ENOMEM.  The caller closes it,
 * also after an error. */
rsh_status rshi_archive_open(const rshi_file_span *span, rshi_archive *out);
void rshi_archive_close(rshi_archive *a);
/* The name of the only entry whose name has that end; NULL: there is none, or there are several. */
const char *rshi_archive_ending(const rshi_archive *a, const char *ending);
/* The bytes of an entry, which must be stored, not compressed.  RSH_EKEY if there is no such entry;
 * RSH_EUNSUP if it is compressed or encrypted; RSH_EVALUE; RSH_EIO. */
rsh_status rshi_archive_find(const rshi_archive *a, const char *name, rshi_file_span *entry);

/* ---- what torch.save wrote ---- */

/* A file of torch.save, or a span of one: the pickle that describes it, and where the elements are.
 */
typedef struct rshi_torch_file {
    rshi_file_span span;
    rshi_pickle pickle;
    unsigned char *bytes;    /* owned; of the pickle */
    rshi_archive archive;    /* of a zip archive */
    char *prefix;            /* owned; "NAME/data/" of its storages; NULL: an older stream */
    rshi_name_table keys;    /* of an older stream: numbers of storages */
    rshi_file_span *storage; /* owned; their elements */
    int64_t nstorages;
    rshi_ckpt_store store;
} rshi_torch_file;

/* Reads the description.  RSH_EVALUE names file and byte of what is wrong; RSH_EUNSUP for the tar
 * format, compressed archives and big-endian numbers; RSH_EIO; RSH_ENOMEM.  The caller closes it,
 * also after an error. */
rsh_status rshi_saved_open(const rshi_file_span *span, rshi_torch_file *out);
void rshi_saved_close(rshi_torch_file *s);
/* Do the first bytes of a file look like one of torch.save's formats? */
bool rshi_saved_detect(const unsigned char *bytes, size_t n);
#define RSHI_SAVED_HEAD 264 /* bytes that it looks at */

/* The elements of a storage.  RSH_EKEY or RSH_EVALUE if there is none of that key. */
rsh_status rshi_saved_storage(const rshi_torch_file *s, const rshi_pickle_value *key,
                              rshi_file_span *out);

/* A tensor as torch.save stored it. */
typedef struct rshi_saved_tensor {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM]; /* strides in elements, not negative */
    uint64_t at; /* byte offset of its first element in the file */
} rshi_saved_tensor;

/* Is the value a plain tensor or parameter? */
bool rshi_saved_is_tensor(const rshi_pickle_value *v);
/* Where the elements of such a value lie; checks that they lie in their storage.  RSH_EUNSUP for a
 * lazily conjugated or negated one.  Errors as for rshi_saved_open. */
rsh_status rshi_saved_tensor_of(const rshi_torch_file *s, const rshi_pickle_value *v,
                                rshi_saved_tensor *out);
/* The one tensor that is all of a span. */
rsh_status rshi_saved_tensor_read(const rshi_file_span *span, rshi_saved_tensor *out);

/* Adds the box of a tensor that begins at `offset` and is stored as t says: as one box, or as
 * several if its strides are unusual.  RSH_EUNSUP if they would be too many. */
rsh_status rshi_ckpt_add_saved(rsh_ckpt *c, int64_t tensor, const int64_t *offset,
                               const rshi_saved_tensor *t, int32_t file);

#endif

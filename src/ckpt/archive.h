/* Archive: a zip archive in a file, and the tensors that torch.save wrote to it. */
#ifndef RESHARD_CKPT_ARCHIVE_H
#define RESHARD_CKPT_ARCHIVE_H

#include "ckpt/ckpt.h"
#include "ckpt/pickle.h"

/* A range of bytes of an open file.  The descriptor is borrowed. */
typedef struct rshi_file_span {
    int fd;
    const char *file; /* for messages */
    uint64_t at, bytes;
} rshi_file_span;

/* Reads n bytes of a span.  RSH_EVALUE if they are not all inside it; RSH_EIO if reading fails. */
rsh_status rshi_file_span_read(const rshi_file_span *s, uint64_t at, void *to, uint64_t n);

/* The directory of an archive. */
typedef struct rshi_archive {
    rshi_file_span span;
    struct rshi_archive_entry *entry; /* owned */
    int64_t nentries;
    rshi_name_table names; /* of entries */
    rshi_ckpt_store store;
} rshi_archive;

/* Reads the directory of the archive that fills the span.  Entries must not overlap and names must
 * be unique.  Supports ZIP64.  RSH_EVALUE names file and byte; RSH_ENOMEM.  The caller closes *out,
 * also after an error. */
rsh_status rshi_archive_open(const rshi_file_span *span, rshi_archive *out);
void rshi_archive_close(rshi_archive *a);
/* Returns the name of the only entry whose name ends so; NULL: there is none, or several. */
const char *rshi_archive_ending(const rshi_archive *a, const char *ending);
/* Finds the bytes of an entry, which must not be compressed.  RSH_EKEY if there is no such entry;
 * RSH_EUNSUP if it is compressed or encrypted; RSH_EVALUE; RSH_EIO. */
rsh_status rshi_archive_find(const rshi_archive *a, const char *name, rshi_file_span *entry);

/* ---- what torch.save wrote ---- */

/* A file of torch.save, or a span of one: its pickle, and the positions of its storages. */
typedef struct rshi_torch_file {
    rshi_file_span span;
    rshi_pickle pickle;
    unsigned char *bytes;    /* owned; of the pickle */
    rshi_archive archive;    /* if it is a zip archive */
    char *prefix;            /* owned; "NAME/data/" of its storages; NULL: the format before 1.6 */
    rshi_name_table keys;    /* of the format before 1.6: indices in `storage` */
    rshi_file_span *storage; /* owned; positions of their elements */
    int64_t nstorages;
    rshi_ckpt_store store;
} rshi_torch_file;

/* Reads the pickle.  RSH_EVALUE, naming file and byte, if it is malformed; RSH_EUNSUP for the tar
 * format, compressed archives and big-endian numbers; RSH_EIO; RSH_ENOMEM.  The caller closes *out,
 * also after an error. */
rsh_status rshi_saved_open(const rshi_file_span *span, rshi_torch_file *out);
void rshi_saved_close(rshi_torch_file *s);
/* Do the first bytes of a file look like one of torch.save's formats? */
bool rshi_saved_detect(const unsigned char *bytes, size_t n);
#define RSHI_SAVED_HEAD 264 /* bytes that rshi_saved_detect needs */

/* Finds the elements of a storage.  RSH_EKEY or RSH_EVALUE if there is none of that key. */
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
/* Finds the elements of such a value and checks that they are inside their storage.  RSH_EUNSUP for
 * a lazily conjugated or negated tensor; otherwise the errors of rshi_saved_open. */
rsh_status rshi_saved_tensor_of(const rshi_torch_file *s, const rshi_pickle_value *v,
                                rshi_saved_tensor *out);
/* Reads a span that holds a single tensor. */
rsh_status rshi_saved_tensor_read(const rshi_file_span *span, rshi_saved_tensor *out);

/* Adds the box of a tensor that begins at `offset` and is stored as t describes: as one box, or as
 * several if its strides are not row-major.  RSH_EUNSUP if that needs too many boxes. */
rsh_status rshi_ckpt_add_saved(rsh_ckpt *c, int64_t tensor, const int64_t *offset,
                               const rshi_saved_tensor *t, int32_t file);

#endif

/* Pickle: reads the values of a pickle that PyTorch wrote.
 *
 * No code of a pickle is run.  The reader knows the classes that describe tensors; of an object of
 * any other class (an "opaque" object) it keeps only the name of the class. */
#ifndef RESHARD_CKPT_PICKLE_H
#define RESHARD_CKPT_PICKLE_H

#include "base/base.h"

typedef enum rshi_pickle_kind {
    RSHI_PICKLE_NONE,
    RSHI_PICKLE_BOOL,   /* number */
    RSHI_PICKLE_INT,    /* number */
    RSHI_PICKLE_LONG,   /* an integer of more than 64 bits: text, n bytes, little-endian */
    RSHI_PICKLE_FLOAT,  /* text, 8 bytes, big-endian */
    RSHI_PICKLE_TEXT,   /* text, n bytes */
    RSHI_PICKLE_BYTES,  /* text, n bytes */
    RSHI_PICKLE_TUPLE,  /* n items; also a torch.Size */
    RSHI_PICKLE_LIST,   /* n items */
    RSHI_PICKLE_SET,    /* n items; also a frozenset */
    RSHI_PICKLE_DICT,   /* n items: key, value, key, value */
    RSHI_PICKLE_CLASS,  /* class; of dtypes and storages: number; if opaque: text, n bytes */
    RSHI_PICKLE_OBJECT, /* class; n items: its arguments, or its state; if opaque: its class */
    RSHI_PICKLE_MARK    /* occurs only on the stack */
} rshi_pickle_kind;

typedef enum rshi_pickle_class {
    RSHI_CLASS_METADATA,
    RSHI_CLASS_TENSOR_STORAGE,
    RSHI_CLASS_CHUNK_STORAGE,
    RSHI_CLASS_BYTES_STORAGE,
    RSHI_CLASS_INDEX,
    RSHI_CLASS_STORAGE_META,
    RSHI_CLASS_PROPERTIES,
    RSHI_CLASS_DTENSOR_SPEC,
    RSHI_CLASS_DEVICE_MESH,
    RSHI_CLASS_MESH_LAYOUT,
    RSHI_CLASS_SHARD, /* placements: Shard(dim) */
    RSHI_CLASS_STRIDED_SHARD,
    RSHI_CLASS_REPLICATE,
    RSHI_CLASS_PARTIAL,
    RSHI_CLASS_LOCAL_SHARD, /* of a ShardedTensor: a tensor and its metadata */
    RSHI_CLASS_SHARD_METADATA,
    RSHI_CLASS_STORAGE_INFO, /* objects of the classes up to here are made empty and then get a
                                state */
    RSHI_CLASS_MEMORY_FORMAT,
    RSHI_CLASS_GET_LAYOUT,
    RSHI_CLASS_GETATTR,
    RSHI_CLASS_SIZE,
    RSHI_CLASS_ORDERED_DICT,
    RSHI_CLASS_DEFAULT_DICT,
    RSHI_CLASS_SET,
    RSHI_CLASS_PATH,
    RSHI_CLASS_TENSOR_V2, /* its objects have the arguments of _rebuild_tensor_v2 */
    RSHI_CLASS_TENSOR_V3,
    RSHI_CLASS_PARAMETER,
    RSHI_CLASS_FROM_TYPE, /* (function, type, arguments, state) */
    RSHI_CLASS_WRAPPER,   /* a subclass of Tensor without its own storage */
    RSHI_CLASS_DTENSOR,
    RSHI_CLASS_SHARDED_TENSOR,
    RSHI_CLASS_OPAQUE,
    RSHI_CLASS_DTYPE,     /* number: an rsh_dtype */
    RSHI_CLASS_STORAGE,   /* number: an rsh_dtype; RSH_DTYPE_NONE: untyped, bytes */
    RSHI_CLASS_PERSISTENT /* its objects have the items of a persistent id */
} rshi_pickle_class;

typedef struct rshi_pickle_value rshi_pickle_value;
struct rshi_pickle_value {
    uint8_t kind, class;
    uint32_t room; /* capacity of `item` */
    uint32_t at;   /* offset of the opcode that made it */
    uint32_t n;
    union {
        int64_t number;
        const char *text; /* not NUL-terminated; points into the pickle */
        rshi_pickle_value **item;
    };
};

#define RSHI_PICKLE_MOST ((size_t)1 << 30) /* bytes of a pickle */

typedef struct rshi_pickle {
    const char *file;                /* borrowed; for messages */
    uint64_t base;                   /* offset of the pickle in it */
    const unsigned char *bytes;      /* borrowed; values point to texts in it */
    size_t length;
    size_t end;                      /* offset in `bytes` of the end of the pickle */
    const rshi_pickle_value *root;   /* the pickled value */
    const rshi_pickle_value **id;    /* owned; all persistent ids, in order */
    int64_t nids, ids_room;
    struct rshi_pickle_block *block; /* owned: memory of values and of lists of values */
    size_t used;                     /* of the first block, bytes */
    size_t total;                    /* bytes used of all blocks */
} rshi_pickle;

/* Reads the pickle at the start of these bytes; more bytes may follow it.  The bytes are borrowed
 * and must outlive the values.  RSH_EVALUE, naming file and byte offset, if the pickle is malformed
 * or has an unknown opcode; RSH_EUNSUP for an unsupported dtype; RSH_ENOMEM.  The caller frees
 * *out, also after an error. */
rsh_status rshi_pickle_read(const void *bytes, size_t n, const char *file, uint64_t base,
                            rshi_pickle *out);
void rshi_pickle_free(rshi_pickle *p);

/* Sets the error "FILE: byte N: ..." for a value and returns RSH_EVALUE. */
rsh_status rshi_pickle_fail(const rshi_pickle *p, const rshi_pickle_value *v, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));
bool rshi_pickle_is(const rshi_pickle_value *v,
                    rshi_pickle_class class); /* is it an object of the class? */
bool rshi_pickle_is_class(const rshi_pickle_value *v, rshi_pickle_class class);
bool rshi_pickle_text_is(const rshi_pickle_value *v, const char *text);
/* Returns a field of an object whose state is a dict, or a tuple of two dicts (attributes and
 * slots); NULL: there is none. */
const rshi_pickle_value *rshi_pickle_field(const rshi_pickle_value *object, const char *name);
/* Returns the value of a text key of a dict; NULL if there is none, or if `dict` is not a dict. */
const rshi_pickle_value *rshi_pickle_get(const rshi_pickle_value *dict, const char *key);
/* Reads at most RSH_MAX_NDIM non-negative integers from a tuple or list.  RSH_EVALUE if it is not
 * such a list, RSH_EUNSUP if it is longer; `what` names it in messages. */
rsh_status rshi_pickle_sizes(const rshi_pickle *p, const rshi_pickle_value *v, const char *what,
                             int *n, int64_t *sizes);

/* Allocates memory that lives as long as the pickle; NULL: out of memory. */
void *rshi_pickle_memory(rshi_pickle *p, size_t bytes);

/* ---- known classes: pickle_classes.c ---- */

/* Looks up a class.  RSH_EUNSUP for an unsupported dtype; the caller adds file and offset to the
 * message. */
rsh_status rshi_pickle_find(const char *module, size_t mlength, const char *name, size_t nlength,
                            rshi_pickle_value *out);

#endif

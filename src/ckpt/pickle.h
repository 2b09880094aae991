/* Pickle: the values of a pickle that PyTorch wrote.
 *
 * Nothing in a pickle is run.  The reader knows the classes that describe tensors; an object of any
 * other class becomes an opaque value, which has the name of its class and nothing more. */
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
    RSHI_PICKLE_TUPLE,  /* n items; a torch.Size too */
    RSHI_PICKLE_LIST,   /* n items */
    RSHI_PICKLE_SET,    /* n items; a frozenset too */
    RSHI_PICKLE_DICT,   /* n items: key, value, key, value */
    RSHI_PICKLE_CLASS,  /* class; number of dtypes and storages; text, n bytes of an opaque one */
    RSHI_PICKLE_OBJECT, /* class; n items: what it was made from, or its one state; of an opaque one
                           its class alone */
    RSHI_PICKLE_MARK    /* only on the stack */
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
    RSHI_CLASS_LOCAL_SHARD, /* of a ShardedTensor: a tensor with its metadata */
    RSHI_CLASS_SHARD_METADATA,
    RSHI_CLASS_STORAGE_INFO, /* those up to here are made empty and then get a state */
    RSHI_CLASS_MEMORY_FORMAT,
    RSHI_CLASS_GET_LAYOUT,
    RSHI_CLASS_GETATTR,
    RSHI_CLASS_SIZE,
    RSHI_CLASS_ORDERED_DICT,
    RSHI_CLASS_DEFAULT_DICT,
    RSHI_CLASS_SET,
    RSHI_CLASS_PATH,
    RSHI_CLASS_TENSOR_V2, /* an object of it: what _rebuild_tensor_v2 was given */
    RSHI_CLASS_TENSOR_V3,
    RSHI_CLASS_PARAMETER,
    RSHI_CLASS_FROM_TYPE, /* (function, type, arguments, state) */
    RSHI_CLASS_WRAPPER,   /* a subclass of tensors that has no storage of its own */
    RSHI_CLASS_DTENSOR,
    RSHI_CLASS_SHARDED_TENSOR,
    RSHI_CLASS_OPAQUE,
    RSHI_CLASS_DTYPE,     /* number: an rsh_dtype */
    RSHI_CLASS_STORAGE,   /* number: an rsh_dtype; RSH_DTYPE_NONE: untyped, bytes */
    RSHI_CLASS_PERSISTENT /* an object of it: a persistent id, with its items */
} rshi_pickle_class;

typedef struct rshi_pickle_value rshi_pickle_value;
struct rshi_pickle_value {
    uint8_t kind, class;
    uint32_t room; /* of items that may still grow */
    uint32_t at;   /* offset of the opcode that made it */
    uint32_t n;
    union {
        int64_t number;
        const char *text; /* not NUL-terminated; in the bytes that were read */
        rshi_pickle_value **item;
    };
};

#define RSHI_PICKLE_MOST ((size_t)1 << 30) /* bytes of a pickle */

typedef struct rshi_pickle {
    const char *file;                /* borrowed; for messages */
    uint64_t base;                   /* where the pickle starts in it */
    const unsigned char *bytes;      /* borrowed; values point to texts in it */
    size_t length;
    size_t end;                      /* where the pickle ends in `bytes` */
    const rshi_pickle_value *root;   /* what the pickle is a pickle of */
    const rshi_pickle_value **id;    /* owned; every persistent id, in their order */
    int64_t nids, ids_room;
    struct rshi_pickle_block *block; /* owned: values, and lists of them */
    size_t used;                     /* of the first block, bytes */
    size_t total;                    /* bytes taken from all blocks */
} rshi_pickle;

/* Reads the pickle that begins with these bytes and may end before them; they stay in memory as
 * long as its values.  RSH_EVALUE names file and byte offset of what is wrong, or of an opcode that
 * is not known; RSH_EUNSUP for a dtype that we do not have; RSH_ENOMEM.  The caller frees it, also
 * after an error. */
rsh_status rshi_pickle_read(const void *bytes, size_t n, const char *file, uint64_t base,
                            rshi_pickle *out);
void rshi_pickle_free(rshi_pickle *p);

/* Refuses a value: RSH_EVALUE with "FILE: byte N: " before the sentence. */
rsh_status rshi_pickle_fail(const rshi_pickle *p, const rshi_pickle_value *v, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));
bool rshi_pickle_is(const rshi_pickle_value *v, rshi_pickle_class class); /* an object of it? */
bool rshi_pickle_is_class(const rshi_pickle_value *v, rshi_pickle_class class);
bool rshi_pickle_text_is(const rshi_pickle_value *v, const char *text);
/* A field of an object whose state is a dict, or a tuple of two (attributes and slots); NULL: there
 * is none. */
const rshi_pickle_value *rshi_pickle_field(const rshi_pickle_value *object, const char *name);
/* The value of a text key of a dict; NULL: there is none, or it is no dict. */
const rshi_pickle_value *rshi_pickle_get(const rshi_pickle_value *dict, const char *key);
/* At most RSH_MAX_NDIM numbers from a tuple or list, none negative.  RSH_EVALUE, or RSH_EUNSUP if
 * there are more; `what` is for the sentence. */
rsh_status rshi_pickle_sizes(const rshi_pickle *p, const rshi_pickle_value *v, const char *what,
                             int *n, int64_t *sizes);

/* Memory that lives as long as the pickle; NULL: there is none. */
void *rshi_pickle_memory(rshi_pickle *p, size_t bytes);

/* ---- what names in a pickle mean; pickle_classes.c ---- */

/* RSH_EUNSUP without a place: the caller puts it in front. */
rsh_status rshi_pickle_find(const char *module, size_t mlength, const char *name, size_t nlength,
                            rshi_pickle_value *out);

#endif

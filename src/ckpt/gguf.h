/* gguf: the types of GGUF tensors, and the metadata of a GGUF checkpoint. */
#ifndef RESHARD_CKPT_GGUF_H
#define RESHARD_CKPT_GGUF_H

#include "ckpt/ckpt.h"

/* A type of tensors. */
struct rshi_packing {
    const char *name; /* "Q4_K"; NULL: no type has this number */
    uint16_t elements, bytes; /* of a block */
};

/* Returns the type with this number; NULL: unknown. */
const rshi_packing *rshi_gguf_type(uint64_t number);
uint32_t rshi_gguf_number(const rshi_packing *type);
/* Sets *out to the dtype of an unquantised type; false: the type is quantised. */
bool rshi_gguf_dtype(const rshi_packing *type, rsh_dtype *out);
/* Returns the GGUF type of a tensor; NULL: GGUF has no type for its dtype. */
const rshi_packing *rshi_gguf_type_of(const rshi_ckpt_tensor *t);

/* A metadata entry: the byte range of its key, type and value in a file. */
typedef struct rshi_gguf_pair {
    int32_t file;
    uint64_t at, bytes;
} rshi_gguf_pair;

/* Metadata of GGUF files, without the keys that describe how they are split. */
struct rshi_gguf {
    uint32_t version; /* of the first file */
    uint64_t align;   /* alignment of the data of the first file, in bytes */
    rshi_gguf_pair
        *pair; /* owned; entries of the first file, then entries of other files with new keys */
    int64_t npairs, room;
    rshi_name_table keys; /* indices in `pair` by key; keys are in the checkpoint's store */
    char *stem; /* owned; name of the model: the file name without "-00001-of-00003.gguf" */
    uint64_t tensors;     /* split.tensors.count of the first file; 0: it has no such key */
};

#define RSHI_GGUF_ALIGN 32 /* default alignment in bytes */

/* Returns the length of a file name before "-00002-of-00003.gguf" and sets *count to 3; for other
 * names, the length before ".gguf" and 0. */
size_t rshi_gguf_stem(const char *name, int64_t *count);

#endif

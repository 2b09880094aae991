/* gguf: the types of GGUF tensors, and what a GGUF checkpoint has beside its tensors. */
#ifndef RESHARD_CKPT_GGUF_H
#define RESHARD_CKPT_GGUF_H

#include "ckpt/ckpt.h"

/* A type of tensors: a block of so many elements has so many bytes. */
struct rshi_packing {
    const char *name; /* "Q4_K"; NULL: no type has this number */
    uint16_t elements, bytes;
};

/* The type of that number; NULL if it is unknown. */
const rshi_packing *rshi_gguf_type(uint64_t number);
uint32_t rshi_gguf_number(const rshi_packing *type);
/* The dtype of the elements of a type; false if the type is quantised. */
bool rshi_gguf_dtype(const rshi_packing *type, rsh_dtype *out);
/* The type of a tensor of a GGUF checkpoint; NULL if GGUF has none for its dtype. */
const rshi_packing *rshi_gguf_type_of(const rshi_ckpt_tensor *t);

/* An entry of the metadata, kept as the bytes that the file has: key, type and value. */
typedef struct rshi_gguf_pair {
    int32_t file;
    uint64_t at, bytes;
} rshi_gguf_pair;

/* What GGUF files have beside tensors; keys that describe a split are left out. */
struct rshi_gguf {
    uint32_t version; /* of the first file */
    uint64_t align;   /* of the data of the first file; bytes */
    rshi_gguf_pair *pair; /* owned; those of the first file, then those that only others have */
    int64_t npairs, room;
    rshi_name_table keys; /* names are in the checkpoint's store */
    char *stem;           /* owned; name of the model: the file's without "-00001-of-00003.gguf" */
    uint64_t tensors;     /* of all files, as the first file states; 0: it does not */
};

#define RSHI_GGUF_ALIGN 32 /* bytes, if no key says otherwise */

/* The part of a file name before "-00002-of-00003.gguf", and the 3; before ".gguf" with *count 0 if
 * the name is not that of a split. */
size_t rshi_gguf_stem(const char *name, int64_t *count);

#endif

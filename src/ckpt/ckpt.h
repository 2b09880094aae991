/* ckpt: the model of a checkpoint that every source fills and every reader uses.
 *
 * A checkpoint is a list of files and a list of named tensors.  A tensor is a layout whose parts
 * lie at byte offsets in files: part i of the list lies dense, in the layout's order, at parts[i].
 * Sources (one file each: source_*.c) know a format; nothing else does.  They add files, tensors
 * and where the bytes are; rshi_ckpt_seal then checks that every element is there and lies inside
 * its file. */
#ifndef RESHARD_CKPT_CKPT_H
#define RESHARD_CKPT_CKPT_H

#include <reshard/ckpt.h>

#include "base/base.h"
#include "ckpt/name_table.h"
#include "layout/layout.h"

/* ---- the model ---- */

typedef struct rshi_ckpt_file {
    char *path;    /* owned; as given to open(2) */
    char *name;    /* owned; as messages name it: below the checkpoint's directory, or the path */
    uint64_t size; /* bytes */
    int64_t mtime; /* nanoseconds */
    uint64_t hash; /* of the bytes that describe tensors (header, index); 0 if there are none */
} rshi_ckpt_file;

/* Where one part of a tensor lies. */
typedef struct rshi_ckpt_part {
    int32_t file; /* number of the file; -1: this rank's copy was not stored, another rank has it */
    uint64_t at;  /* byte offset of its first element in the file */
} rshi_ckpt_part;

typedef struct rshi_packing rshi_packing; /* see gguf.h */

typedef struct rshi_ckpt_tensor {
    const char *name; /* NUL-terminated; in the checkpoint's store of names */
    rsh_dtype dtype;  /* may be storage-only: see rsh_dtype_bits */
    int ndim;
    const int64_t *shape; /* ndim of them, global; in the checkpoint's store of shapes */
    rsh_layout *layout;   /* owned; NULL: whole, dense and row-major, in the single part.  Rank
                             numbers mean rank files, or just number the parts (boxes) */
    int64_t nparts;       /* 1, or the parts of all ranks of the layout */
    int64_t part;       /* of ckpt->parts: its first; rank after rank ascending, part after part */
    const char *digest; /* as its files state it, or NULL; in the store */
    int32_t named_in;     /* the file that named it first; -1: none */
    bool ranks_are_files; /* do ranks of the layout mean ranks, or do they only number the parts? */
    const rshi_packing *packing; /* NULL; or elements are quantised: the last size counts bytes */
    /* of a mapped checkpoint (see map.h) */
    const struct rshi_ckpt_view *view; /* what it is made of; NULL: parts say where it lies */
    int64_t source;   /* number in the base of the tensor that it equals; -1: it has a view */
    int64_t rule;     /* number of the line that made it; -1: none */
    int64_t scales;   /* number of the line that lays it out as scales; -1: none */
    int64_t instance; /* see ckpt->instance; -1: none */
} rshi_ckpt_tensor;

/* What is in a checkpoint and is no tensor (an integer, a pickled object). */
typedef struct rshi_ckpt_other {
    char *name; /* owned */
    char *what; /* owned; a few words: "pickled bytes, 312 B" */
} rshi_ckpt_other;

typedef struct rshi_ckpt_pair {
    char *key, *value; /* owned */
} rshi_ckpt_pair;

/* Text that many entries share the life of: blocks that never move. */
typedef struct rshi_ckpt_store {
    void **block; /* owned */
    int64_t nblocks, room;
    size_t used, size; /* of the last block, bytes */
} rshi_ckpt_store;

/* n bytes that live as long as the store; NULL and a sentence without memory. */
void *rshi_store_take(rshi_ckpt_store *s, size_t n, size_t align);
char *rshi_store_text(rshi_ckpt_store *s, const char *text, size_t length);
void rshi_store_free(rshi_ckpt_store *s);

typedef struct rshi_ckpt_kind rshi_ckpt_kind;

/* A path that somebody wants to open. */
typedef struct rshi_ckpt_place {
    const char *path;
    bool is_directory;
    char **name; /* of a directory: the names in it, ascending */
    int64_t nnames;
    const rsh_ckpt_rules *from; /* may be NULL */
} rshi_ckpt_place;

struct rsh_ckpt {
    const rshi_ckpt_kind *kind;
    char *path; /* owned; as opened */
    rshi_ckpt_file *file;
    int64_t nfiles, files_room;
    rshi_ckpt_tensor *tensor; /* in the order in which their bytes lie in the files */
    int64_t ntensors, tensors_room;
    rshi_ckpt_part *parts;
    int64_t nparts, parts_room;
    rshi_ckpt_pair *meta; /* metadata of the checkpoint, without what describes tensors */
    int64_t nmeta, meta_room;
    rshi_ckpt_other *other;
    int64_t nothers, others_room;
    rshi_ckpt_pair *beside; /* key: name, value: path of a regular file that is copied along */
    int64_t nbeside, beside_room;
    int64_t folders; /* subdirectories, of which nothing is copied */
    rshi_name_table file_names, meta_keys; /* numbers in `file` and `meta` */
    rshi_ckpt_store store;
    struct rshi_ckpt_slot {
        uint64_t hash;  /* of the name */
        int64_t tensor; /* -1: free */
    } * slot;           /* names to tensors: open addressing */
    int64_t nslots;
    struct rshi_ckpt_boxes *boxes; /* of tensors that are made of boxes, until the seal */
    int64_t nboxes, boxes_room;
    struct rshi_ckpt_reading *reading; /* open files; see reading.c */
    struct rshi_gguf *gguf; /* owned; of GGUF files; see gguf.h */
    /* of a mapped checkpoint: all but tensors, slots, store and path is the base's */
    const rsh_ckpt *base;   /* borrowed; NULL: it is not mapped */
    const rsh_ckpt_rules *rules; /* borrowed; NULL: tensors are as in the base */
    struct rshi_map_instance *instance; /* owned; see map.h */
    int64_t ninstances, instances_room;
    int64_t unchecked; /* tensors of the base whose stated digests cannot be checked */
    struct rshi_ckpt_dropped {
        int64_t source, rule; /* number in the base; number of the line */
    } * dropped;              /* owned */
    int64_t ndropped, dropped_room;
    int64_t *apart; /* owned; tensors of the base that are read whole, but not on the way: scales */
    int64_t napart, apart_room;
};

int64_t rshi_ckpt_count(const rshi_ckpt_tensor *t); /* elements */
/* "f32[4, 64]" or "Q4_K[4, 64]", in `room` bytes of text. */
void rshi_ckpt_shape_text(const rshi_ckpt_tensor *t, char *text, size_t room);
void rshi_gguf_free(struct rshi_gguf *g); /* NULL is allowed */
char *rshi_ckpt_copy(const char *text);             /* new (rshi_free); NULL: no memory */
/* "directory/name", or the name alone; new (rshi_free). */
rsh_status rshi_ckpt_join(const char *directory, const char *name, char **out);

/* ---- filling it: for sources ----
 *
 * All of them: RSH_ENOMEM, and the errors that they name. */

/* A file below `directory` (NULL: path alone).  RSH_EIO if there is no such regular file. */
rsh_status rshi_ckpt_add_file(rsh_ckpt *c, const char *directory, const char *name, int32_t *file);
int64_t rshi_ckpt_find_file(const rsh_ckpt *c, const char *name); /* -1: none has that name */
/* A tensor without its bytes.  RSH_EVALUE if the name is there already (`file` and `at`, the place
 * that named it, are for the sentence), or the shape's product overflows. */
rsh_status rshi_ckpt_add_tensor(rsh_ckpt *c, const char *name, size_t length, rsh_dtype dtype,
                                int ndim, const int64_t *shape, int32_t file, uint64_t at,
                                int64_t *tensor);
/* The tensor of that name, or -1. */
int64_t rshi_ckpt_find(const rsh_ckpt *c, const char *name, size_t length);
/* RSH_EVALUE with "FILE: byte N: tensor "NAME": " before the sentence. */
rsh_status rshi_ckpt_refuse(const rsh_ckpt *c, int32_t file, uint64_t at, const char *name,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Where the bytes are; for each tensor one of these three ways. */
/* The whole tensor, dense and row-major. */
rsh_status rshi_ckpt_set_whole(rsh_ckpt *c, int64_t tensor, int32_t file, uint64_t at);
/* The parts of a layout, rank after rank, part after part; ranks are rank files.  The layout is
 * held, the list is copied. */
rsh_status rshi_ckpt_set_parts(rsh_ckpt *c, int64_t tensor, const rsh_layout *layout,
                               int64_t nparts, const rshi_ckpt_part *parts);
/* One box of the tensor, dense and row-major at the offset; called for each.  Boxes tile the
 * tensor, or are copies of one another.  `lo` and `size` have ndim entries. */
rsh_status rshi_ckpt_add_box(rsh_ckpt *c, int64_t tensor, const int64_t *lo, const int64_t *size,
                             int32_t file, uint64_t at);
/* Elements [first, first + count) of the flattened tensor. */
rsh_status rshi_ckpt_add_range(rsh_ckpt *c, int64_t tensor, int64_t first, int64_t count,
                               int32_t file, uint64_t at);
/* The same of a box of it: lo and size have ndim entries. */
rsh_status rshi_ckpt_add_range_in(rsh_ckpt *c, int64_t tensor, const int64_t *lo,
                                  const int64_t *size, int64_t first, int64_t count, int32_t file,
                                  uint64_t at);

rsh_status rshi_ckpt_add_meta(rsh_ckpt *c, const char *key, const char *value);
rsh_status rshi_ckpt_add_other(rsh_ckpt *c, const char *name, const char *what);
/* Files of the directory that no source file is: config.json, tokenizers.  Links are followed. */
rsh_status rshi_ckpt_add_beside(rsh_ckpt *c, const rshi_ckpt_place *place);
rsh_status rshi_ckpt_add_beside_file(rsh_ckpt *c, const char *name, const char *path);
/* The file described tensors by these bytes: they count for its hash. */
void rshi_ckpt_hash(rsh_ckpt *c, int32_t file, const void *bytes, size_t n);

/* After a source has read everything: boxes become layouts (RSH_EVALUE names a missing or doubled
 * element), every part lies inside its file (RSH_EVALUE names file, tensor and offset). */
rsh_status rshi_ckpt_seal(rsh_ckpt *c);

/* ---- sources ---- */

/* What is at the path, with its names if it is a directory.  RSH_EIO; RSH_ENOMEM.  The caller
 * closes it, also after an error. */
rsh_status rshi_ckpt_place_open(const char *path, const rsh_ckpt_rules *from, rshi_ckpt_place *p);
void rshi_ckpt_place_close(rshi_ckpt_place *p);

/* Is there an entry whose name has this beginning and end? */
bool rshi_ckpt_place_has(const rshi_ckpt_place *p, const char *prefix, const char *suffix);

/* One way to store a checkpoint. */
struct rshi_ckpt_kind {
    const char *name; /* for messages and `inspect`: "Hugging Face directory" */
    /* Is it this?  By names and, for single files, the first bytes; reads no more. */
    bool (*detect)(const rshi_ckpt_place *place);
    /* Fills the checkpoint; the caller seals it, or frees it after an error. */
    rsh_status (*read)(const rshi_ckpt_place *place, rsh_ckpt *c);
    bool uses_from; /* does it need the rules of `from`?  Other kinds refuse them */
};

/* Reads what is at the place, by the first kind that detects it; the caller seals it. */
rsh_status rshi_ckpt_read_place(const rshi_ckpt_place *p, rsh_ckpt *c);

/* Kinds in the order in which they are tried; the first that detects reads. */
extern const rshi_ckpt_kind rshi_kind_megatron;     /* latest_checkpointed_iteration.txt */
extern const rshi_ckpt_kind rshi_kind_rank_files;   /* --from with `files` */
extern const rshi_ckpt_kind rshi_kind_distcp;       /* .metadata and *.distcp */
extern const rshi_ckpt_kind rshi_kind_torch_shards; /* shard-*-model-*-of-*.safetensors */
extern const rshi_ckpt_kind rshi_kind_index;        /* our generic index.json */
extern const rshi_ckpt_kind rshi_kind_ranks;        /* our own rank-*-of-*.safetensors */
extern const rshi_ckpt_kind rshi_kind_hf;   /* *.safetensors.index.json, model.safetensors */
extern const rshi_ckpt_kind rshi_kind_zero;        /* zero_pp_rank_*_optim_states.pt */
extern const rshi_ckpt_kind rshi_kind_deepspeed;   /* a file `latest` that names a directory */
extern const rshi_ckpt_kind rshi_kind_torch_ranks; /* KEY_RANK.pt of torch.save */
extern const rshi_ckpt_kind rshi_kind_torch_model; /* pytorch_model.bin */
extern const rshi_ckpt_kind rshi_kind_torch_file;  /* one file of torch.save */
extern const rshi_ckpt_kind rshi_kind_gguf; /* *.gguf */
extern const rshi_ckpt_kind rshi_kind_file; /* one .safetensors file */

bool rshi_ckpt_ends(const char *text, const char *suffix);
/* Is `name` a name in the directory, and no link out of it?  Links of a download cache, from
 * snapshots/REVISION to blobs, may leave it.  RSH_EVALUE; RSH_EIO if there is no such file. */
rsh_status rshi_ckpt_inside(const char *directory, const char *name);
/* The shape under which a part lies in a file: sizes in the layout's order, slowest first. */
void rshi_part_stored_shape(const rsh_layout *l, const rsh_part *p, int64_t *shape);
/* A safetensors file with its tensors, which are whole. */
rsh_status rshi_ckpt_add_safetensors(rsh_ckpt *c, const char *directory, const char *name,
                                     int32_t *file);

/* Copies of parts may be stored once, by their first holder; RSH_EVALUE names a part that is in no
 * file. */
rsh_status rshi_ckpt_check_parts(const rsh_ckpt *c);

/* ---- the safetensors header ---- */

#define RSHI_HEADER_MOST 100000000u /* bytes of JSON; as the reference implementation */

/* One entry.  40 bytes, and 8 for each dim. */
typedef struct rshi_header_tensor {
    const char *name; /* NUL-terminated, in the header's store */
    uint32_t shape;   /* number of the first size in header->shapes */
    uint32_t at;      /* byte offset in the file of its entry */
    uint8_t dtype, ndim;
    uint64_t begin, end; /* bytes, from the start of the file */
} rshi_header_tensor;

typedef struct rshi_header {
    rshi_header_tensor *tensor; /* by begin; no holes and no overlaps, to the end of the file */
    int64_t ntensors, room;
    int64_t *shapes;
    int64_t nshapes, shapes_room;
    rshi_ckpt_pair *meta; /* of __metadata__ */
    int64_t nmeta, meta_room;
    rshi_ckpt_store store;
    uint64_t data; /* where the data starts: 8 + length of the JSON */
    uint64_t hash; /* of the JSON */
} rshi_header;

/* Reads and checks the header of one file; `name` is for messages.  RSH_EIO if it cannot be read;
 * RSH_EVALUE, naming file, tensor and byte offset, if it is not safetensors; RSH_EUNSUP for a dtype
 * or a number of dims that we do not have.  rshi_header_free frees what *out has. */
rsh_status rshi_header_read(const char *path, const char *name, rshi_header *out);
void rshi_header_free(rshi_header *h);
const char *rshi_header_meta(const rshi_header *h, const char *key); /* NULL: no such key */
/* The value of the key `prefix` + `name`; NULL: no such key. */
rsh_status rshi_header_meta_of(const rshi_header *h, const char *prefix, const char *name,
                               const char **out);
/* The digest that the header states for a tensor, in the checkpoint's store; NULL: none. */
rsh_status rshi_ckpt_take_digest(rsh_ckpt *c, const rshi_header *h, const char *name,
                                 const char **out);

/* The name that safetensors has for a dtype: "BF16"; NULL: none. */
const char *rshi_safetensors_name(rsh_dtype dtype);

/* ---- JSON, read in one pass without a tree ----
 *
 * A pull reader: rshi_json_next gives one token after the other.  It checks the grammar, and that
 * no more than RSHI_JSON_DEEP objects and lists are open. */

#define RSHI_JSON_DEEP   32
#define RSHI_JSON_WINDOW 65536 /* bytes held of the input; a longer string is kept whole */

typedef enum rshi_json_token {
    RSHI_JSON_END,
    RSHI_JSON_OBJECT,     /* { */
    RSHI_JSON_OBJECT_END, /* } */
    RSHI_JSON_LIST,       /* [ */
    RSHI_JSON_LIST_END,   /* ] */
    RSHI_JSON_KEY,        /* text, length */
    RSHI_JSON_STRING,     /* text, length */
    RSHI_JSON_NUMBER,     /* text, length; is_int: number */
    RSHI_JSON_TRUE,
    RSHI_JSON_FALSE,
    RSHI_JSON_NULL
} rshi_json_token;

typedef struct rshi_json {
    /* the input: `fd` from `offset` for `left` more bytes, or, with fd -1, `text` */
    int fd;
    uint64_t offset, left;
    const char *file;               /* borrowed; for messages */
    const unsigned char *from, *to; /* bytes at hand */
    uint64_t base;                  /* offset in the file of the first byte of the buffer or text */
    unsigned char *buffer;          /* owned; RSHI_JSON_WINDOW bytes; NULL for text */
    const unsigned char *whole;     /* borrowed; a text in memory */
    /* the token */
    char *text; /* owned; decoded as UTF-8 and NUL-terminated; of keys, strings, numbers */
    size_t length, text_room;
    bool is_int;
    int64_t number;
    uint64_t at; /* byte offset of the token in the file */
    /* the grammar */
    int depth;
    bool in_object[RSHI_JSON_DEEP];
    int state;
    uint64_t hash; /* of all bytes read so far */
} rshi_json;

/* Opens on bytes [at, at + bytes) of a file, or on a text in memory, which is borrowed. */
rsh_status rshi_json_open(rshi_json *j, int fd, uint64_t at, uint64_t bytes, const char *file);
rsh_status rshi_json_open_text(rshi_json *j, const char *text, size_t bytes, const char *file);
void rshi_json_close(rshi_json *j);
/* The next token.  After the outermost value only blanks may follow; then RSHI_JSON_END.
 * RSH_EVALUE, naming file and offset; RSH_EIO; RSH_ENOMEM. */
rsh_status rshi_json_next(rshi_json *j, rshi_json_token *out);
/* The next token must be `want`. */
rsh_status rshi_json_want(rshi_json *j, rshi_json_token want);
/* Inside an object: the next key, or its end (*more is false).  Inside a list: the first token of
 * the next value, or its end. */
rsh_status rshi_json_key(rshi_json *j, bool *more);
rsh_status rshi_json_item(rshi_json *j, rshi_json_token *out, bool *more);
/* Skips one value: the next, or, if `started`, the rest of the one whose first token was just read.
 */
rsh_status rshi_json_skip(rshi_json *j, rshi_json_token started);
bool rshi_is_utf8(const char *text, size_t n); /* as all strings of JSON are */
/* Refuses the token just read: RSH_EVALUE with "FILE: byte N: " before the sentence. */
rsh_status rshi_json_fail(const rshi_json *j, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- reading and writing bytes ---- */

struct stat;
int64_t rshi_mtime(const struct stat *s); /* nanoseconds */
rsh_status rshi_io_fail(const char *path); /* RSH_EIO with the reason in errno */
rsh_status rshi_write_fully(int fd, const char *path, uint64_t at, const void *from, size_t n);
/* What rshi_put, the function of a sink, writes to, one text behind the other. */
typedef struct rshi_putting {
    int fd;
    const char *path; /* for the sentence; borrowed */
    uint64_t at;
    rsh_status st; /* of the last write */
} rshi_putting;
int rshi_put(void *ctx, const char *bytes, size_t n);
rsh_status rshi_read_fully(int fd, const char *path, uint64_t at, void *to, size_t n);
rsh_status rshi_reading_open(rsh_ckpt *c);
void rshi_reading_close(rsh_ckpt *c);
/* Closes a file that is not being read; false: there is none.  From any thread. */
bool rshi_reading_release(const rsh_ckpt *c);
/* RSH_EIO if the file is not as it was when its header was read; fd -1: looked up by its path. */
rsh_status rshi_ckpt_unchanged(const rshi_ckpt_file *f, int fd);
/* Bytes [at, at + n) of a file.  From any thread, after the seal.  RSH_EIO names file and offset,
 * also if the file ends early or changed since it was opened. */
rsh_status rshi_ckpt_pread(const rsh_ckpt *c, int32_t file, uint64_t at, void *to, size_t n);
/* The same into a file, by the system; *done is false if it cannot. */
rsh_status rshi_ckpt_send(const rsh_ckpt *c, int32_t file, uint64_t at, int to, uint64_t to_at,
                          size_t n, bool *done);

/* ---- rules ---- */

#define RSHI_MOST_RANKS 65536 /* that a mesh of rules may name: every rank has a file */

typedef struct rshi_ckpt_rule rshi_ckpt_rule; /* see rules.h */
/* Does the name match?  Globs where `*` and `?` match any character, `<a-b>` an integer. */
bool rshi_glob(const char *pattern, const char *name);
/* `files` with {rank} and {part} put in, new (rshi_free); and back: does `name` follow it, and with
 * which numbers?  rank or part are -1 if the pattern does not name them. */
rsh_status rshi_files_name(const char *files, int64_t rank, int64_t part, char **out);
bool rshi_files_match(const char *files, const char *name, int64_t *rank, int64_t *part);
bool rshi_files_names(const char *files, const char *word); /* does it name {rank} or {part}? */

#endif

/* ckpt: the in-memory description of a checkpoint, filled by the format readers (source_*.c).
 *
 * A checkpoint is a list of files and a list of named tensors.  A tensor is a layout whose parts
 * are stored at byte offsets in files: part i is contiguous, in the layout's order, at parts[i].
 * Each file format is known to one source_*.c only.  It adds files, tensors and the offsets of
 * their bytes.  rshi_ckpt_seal then checks that no element is missing and that every part is inside
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
    char *name;    /* owned; for messages: relative to the checkpoint's directory, or the path */
    uint64_t size; /* bytes */
    int64_t mtime; /* nanoseconds */
    uint64_t hash; /* of the bytes that describe tensors (header, index); 0 if it has none */
} rshi_ckpt_file;

/* The file position of one part of a tensor. */
typedef struct rshi_ckpt_part {
    int32_t file; /* index of the file; -1: not stored, because another rank stored its copy */
    uint64_t at;  /* byte offset of its first element in the file */
} rshi_ckpt_part;

typedef struct rshi_packing rshi_packing; /* see gguf.h */

typedef struct rshi_ckpt_tensor {
    const char *name; /* NUL-terminated; allocated in ckpt->store */
    rsh_dtype dtype;  /* may be storage-only: see rsh_dtype_bits */
    int ndim;
    const int64_t *shape; /* ndim global sizes; allocated in ckpt->store */
    rsh_layout *layout;   /* owned; NULL: one part, contiguous and row-major */
    int64_t nparts;       /* 1, or the number of parts of all ranks of the layout */
    int64_t part;         /* index in ckpt->parts of its first part; parts are in rank order */
    const char *digest;   /* the digest that its files state, in ckpt->store; NULL: none */
    int32_t named_in;     /* the first file that named it; -1: none */
    bool ranks_are_files; /* ranks of the layout are ranks of a job; false: they number parts */
    const rshi_packing *packing; /* NULL: not quantised; otherwise the last size counts bytes */
    /* of a mapped checkpoint (see map.h) */
    const struct rshi_ckpt_view *view; /* how it is built; NULL: `parts` says where it is stored */
    int64_t source;   /* index in the base of the tensor that it equals; -1: it has a view */
    int64_t rule;     /* index of the rule that made it; -1: none */
    int64_t scales;   /* index of the `scales` rule that lays it out; -1: none */
    int64_t instance; /* index in ckpt->instance; -1: none */
} rshi_ckpt_tensor;

/* A non-tensor entry of a checkpoint (an integer, a pickled object). */
typedef struct rshi_ckpt_other {
    char *name; /* owned */
    char *what; /* owned; a short description: "pickled bytes, 312 B" */
} rshi_ckpt_other;

typedef struct rshi_ckpt_pair {
    char *key, *value; /* owned */
} rshi_ckpt_pair;

/* An arena for names and shapes: its blocks never move and are freed together. */
typedef struct rshi_ckpt_store {
    void **block; /* owned */
    int64_t nblocks, room;
    size_t used, size; /* of the last block, bytes */
} rshi_ckpt_store;

/* Allocates n bytes that live as long as the store.  Returns NULL and sets the error if memory runs
 * out. */
void *rshi_store_take(rshi_ckpt_store *s, size_t n, size_t align);
char *rshi_store_text(rshi_ckpt_store *s, const char *text, size_t length);
void rshi_store_free(rshi_ckpt_store *s);

typedef struct rshi_ckpt_kind rshi_ckpt_kind;

/* A path to open, with its directory listing. */
typedef struct rshi_ckpt_place {
    const char *path;
    bool is_directory;
    char **name; /* of a directory: the names of its entries, sorted */
    int64_t nnames;
    const rsh_ckpt_rules *from; /* may be NULL */
} rshi_ckpt_place;

struct rsh_ckpt {
    const rshi_ckpt_kind *kind;
    char *path; /* owned; as opened */
    rshi_ckpt_file *file;
    int64_t nfiles, files_room;
    rshi_ckpt_tensor *tensor; /* in the order in which they are stored in the files */
    int64_t ntensors, tensors_room;
    rshi_ckpt_part *parts;
    int64_t nparts, parts_room;
    rshi_ckpt_pair *meta; /* metadata of the checkpoint, without keys that describe tensors */
    int64_t nmeta, meta_room;
    rshi_ckpt_other *other;
    int64_t nothers, others_room;
    rshi_ckpt_pair *beside; /* other regular files, which are copied: key is name, value is path */
    int64_t nbeside, beside_room;
    rshi_ckpt_pair *folder; /* owned; subdirectories, and links: key is name, value is path */
    int64_t nfolders, folders_room;
    rshi_ckpt_pair *left;   /* owned; entries that are not copied: key is name, value is reason */
    int64_t nleft, left_room;
    rshi_name_table file_names, meta_keys; /* indices in `file` and `meta` */
    rshi_ckpt_store store;
    struct rshi_ckpt_slot {
        uint64_t hash;  /* of the name */
        int64_t tensor; /* -1: free */
    } * slot;           /* hash table from names to tensors, with open addressing */
    int64_t nslots;
    struct rshi_ckpt_boxes *boxes; /* of tensors stored as boxes, until rshi_ckpt_seal */
    int64_t nboxes, boxes_room;
    struct rshi_ckpt_reading *reading; /* open files; see reading.c */
    struct rshi_gguf *gguf; /* owned; metadata of GGUF files, see gguf.h; NULL: another format */
    /* of a mapped checkpoint: everything except tensors, slots, store and path belongs to the base
     */
    const rsh_ckpt *base;   /* borrowed; NULL: not mapped */
    const rsh_ckpt_rules *rules; /* borrowed; NULL: the same tensors as in the base */
    struct rshi_map_instance *instance; /* owned; see map.h */
    int64_t ninstances, instances_room;
    int64_t unchecked; /* number of tensors of the base whose stated digests cannot be checked */
    struct rshi_ckpt_dropped {
        int64_t source, rule; /* index of the tensor in the base; index of the rule */
    } * dropped;              /* owned */
    int64_t ndropped, dropped_room;
    int64_t *apart; /* owned; scale tensors of the base; read separately to check their digests */
    int64_t napart, apart_room;
};

int64_t rshi_ckpt_count(const rshi_ckpt_tensor *t); /* number of elements */
/* Writes "f32[4, 64]" or "Q4_K[4, 64]" to text, which has `room` bytes. */
void rshi_ckpt_shape_text(const rshi_ckpt_tensor *t, char *text, size_t room);
void rshi_gguf_free(struct rshi_gguf *g); /* NULL is allowed */
char *rshi_ckpt_copy(const char *text); /* a copy to free with rshi_free; NULL: out of memory */
/* Joins "directory/name" (directory NULL: the name alone).  The caller frees it with rshi_free. */
rsh_status rshi_ckpt_join(const char *directory, const char *name, char **out);

/* ---- for sources: adding files and tensors ----
 *
 * All of these return RSH_ENOMEM, and the errors named below. */

/* Adds a file in `directory` (NULL: `name` is a path).  RSH_EIO if it is not a regular file. */
rsh_status rshi_ckpt_add_file(rsh_ckpt *c, const char *directory, const char *name, int32_t *file);
int64_t rshi_ckpt_find_file(const rsh_ckpt *c, const char *name); /* -1: none has that name */
/* Adds a tensor; the position of its bytes is set afterwards.  `file` and `at` say where its name
 * was found, for messages.  RSH_EVALUE if the name already exists or the number of elements
 * overflows. */
rsh_status rshi_ckpt_add_tensor(rsh_ckpt *c, const char *name, size_t length, rsh_dtype dtype,
                                int ndim, const int64_t *shape, int32_t file, uint64_t at,
                                int64_t *tensor);
/* Returns the index of the tensor of that name, or -1. */
int64_t rshi_ckpt_find(const rsh_ckpt *c, const char *name, size_t length);
/* Sets the error "FILE: byte N: tensor "NAME": ..." and returns RSH_EVALUE. */
rsh_status rshi_ckpt_refuse(const rsh_ckpt *c, int32_t file, uint64_t at, const char *name,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The position of the bytes of a tensor.  Use one of the following functions for each tensor. */
/* Sets the position of a whole tensor that is contiguous and row-major. */
rsh_status rshi_ckpt_set_whole(rsh_ckpt *c, int64_t tensor, int32_t file, uint64_t at);
/* Sets the positions of the parts of a layout, in rank order; each rank has its own file.  Holds
 * the layout and copies the list. */
rsh_status rshi_ckpt_set_parts(rsh_ckpt *c, int64_t tensor, const rsh_layout *layout,
                               int64_t nparts, const rshi_ckpt_part *parts);
/* Adds one box of the tensor, contiguous and row-major at the offset.  All boxes of a tensor must
 * tile it; equal boxes are copies.  `lo` and `size` have ndim entries. */
rsh_status rshi_ckpt_add_box(rsh_ckpt *c, int64_t tensor, const int64_t *lo, const int64_t *size,
                             int32_t file, uint64_t at);
/* Adds elements [first, first + count) of the flattened tensor. */
rsh_status rshi_ckpt_add_range(rsh_ckpt *c, int64_t tensor, int64_t first, int64_t count,
                               int32_t file, uint64_t at);
/* Adds elements [first, first + count) of a flattened box of the tensor. */
rsh_status rshi_ckpt_add_range_in(rsh_ckpt *c, int64_t tensor, const int64_t *lo,
                                  const int64_t *size, int64_t first, int64_t count, int32_t file,
                                  uint64_t at);

rsh_status rshi_ckpt_add_meta(rsh_ckpt *c, const char *key, const char *value);
rsh_status rshi_ckpt_add_other(rsh_ckpt *c, const char *name, const char *what);
/* Adds the files of the directory that hold no tensors (config.json, tokenizers), which a
 * conversion copies, and lists its subdirectories.  Follows links. */
rsh_status rshi_ckpt_add_beside(rsh_ckpt *c, const rshi_ckpt_place *place);
/* Adds such files of the subdirectories.  RSH_EIO, also for a file that cannot be read. */
rsh_status rshi_ckpt_add_folders(rsh_ckpt *c);
rsh_status rshi_ckpt_add_folder(rsh_ckpt *c, const char *name, const char *path);
rsh_status rshi_ckpt_add_left(rsh_ckpt *c, const char *name, const char *why);
rsh_status rshi_ckpt_add_beside_file(rsh_ckpt *c, const char *name, const char *path);
/* Adds bytes that describe tensors to the file's hash. */
void rshi_ckpt_hash(rsh_ckpt *c, int32_t file, const void *bytes, size_t n);

/* Called after a source has read everything.  Turns boxes into layouts (RSH_EVALUE names a missing
 * or duplicate element) and checks that every part is inside its file (RSH_EVALUE names file,
 * tensor and offset). */
rsh_status rshi_ckpt_seal(rsh_ckpt *c);

/* ---- sources ---- */

/* Looks at a path, and lists it if it is a directory.  RSH_EIO; RSH_ENOMEM.  The caller closes *p,
 * also after an error. */
rsh_status rshi_ckpt_place_open(const char *path, const rsh_ckpt_rules *from, rshi_ckpt_place *p);
void rshi_ckpt_place_close(rshi_ckpt_place *p);

/* Is there an entry whose name has this prefix and this suffix? */
bool rshi_ckpt_place_has(const rshi_ckpt_place *p, const char *prefix, const char *suffix);

/* Checks that no file of a numbered series is missing, such as model-00002-of-00003.safetensors.
 * RSH_EVALUE names it. */
rsh_status rshi_ckpt_check_series(const rshi_ckpt_place *p, const char *suffix);
/* Is it in the format of some checkpoint? */
bool rshi_ckpt_place_is_known(const rshi_ckpt_place *p);

/* A checkpoint format. */
struct rshi_ckpt_kind {
    const char *name; /* for messages and `inspect`: "Hugging Face directory" */
    /* Does the path have this format?  Looks at names and, for single files, the first bytes. */
    bool (*detect)(const rshi_ckpt_place *place);
    /* Fills the checkpoint.  The caller seals it, or frees it after an error. */
    rsh_status (*read)(const rshi_ckpt_place *place, rsh_ckpt *c);
    bool uses_from; /* the format needs the `from` rules; other formats reject them */
};

/* Reads the checkpoint with the first format that detects it.  The caller seals it. */
rsh_status rshi_ckpt_read_place(const rshi_ckpt_place *p, rsh_ckpt *c);

/* Formats, in the order in which they are tried. */
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
/* Checks that `name` is a file in the directory and not a link that leads out of it.  Links of a
 * download cache, from snapshots/REVISION to blobs, may lead out.  RSH_EVALUE; RSH_EIO if there is
 * no such file. */
rsh_status rshi_ckpt_inside(const char *directory, const char *name);
/* Does the path lead out of the directory, or to nothing?  Download caches as above. */
bool rshi_ckpt_is_outside(const char *directory, const char *path);
/* The shape of a part as stored in a file: sizes in the layout's order, slowest dim first. */
void rshi_part_stored_shape(const rsh_layout *l, const rsh_part *p, int64_t *shape);
/* Adds a safetensors file and its tensors, each of which is whole. */
rsh_status rshi_ckpt_add_safetensors(rsh_ckpt *c, const char *directory, const char *name,
                                     int32_t *file);

/* Checks that every part is stored, by its own rank or by the first rank that holds the same part.
 * RSH_EVALUE names a part that is in no file. */
rsh_status rshi_ckpt_check_parts(const rsh_ckpt *c);

/* ---- the safetensors header ---- */

#define RSHI_HEADER_MOST 100000000u /* bytes of JSON; the limit of the reference implementation */

/* One entry.  40 bytes, and 8 for each dim. */
typedef struct rshi_header_tensor {
    const char *name; /* NUL-terminated, in the header's store */
    uint32_t shape;   /* index in header->shapes of its first size */
    uint32_t at;      /* byte offset of its entry in the file */
    uint8_t dtype, ndim;
    uint64_t begin, end; /* bytes, from the start of the file */
} rshi_header_tensor;

typedef struct rshi_header {
    rshi_header_tensor
        *tensor; /* sorted by begin; without gaps or overlaps, to the end of the file */
    int64_t ntensors, room;
    int64_t *shapes;
    int64_t nshapes, shapes_room;
    rshi_ckpt_pair *meta; /* of __metadata__ */
    int64_t nmeta, meta_room;
    rshi_ckpt_store store;
    uint64_t data; /* byte offset of the data: 8 + length of the JSON */
    uint64_t hash; /* of the JSON */
} rshi_header;

/* Reads and checks the header of one file; `name` is for messages.  RSH_EIO if it cannot be read;
 * RSH_EVALUE, naming file, tensor and byte offset, if it is not valid safetensors; RSH_EUNSUP for
 * an unsupported dtype or too many dims.  Free *out with rshi_header_free. */
rsh_status rshi_header_read(const char *path, const char *name, rshi_header *out);
void rshi_header_free(rshi_header *h);
const char *rshi_header_meta(const rshi_header *h, const char *key); /* NULL: no such key */
/* Returns in *out the value of the key `prefix` + `name`; NULL: no such key. */
rsh_status rshi_header_meta_of(const rshi_header *h, const char *prefix, const char *name,
                               const char **out);
/* Copies the digest that the header states for a tensor into the checkpoint's store; NULL: none. */
rsh_status rshi_ckpt_take_digest(rsh_ckpt *c, const rshi_header *h, const char *name,
                                 const char **out);

/* Returns the name of a dtype in safetensors, such as "BF16"; NULL if it has none. */
const char *rshi_safetensors_name(rsh_dtype dtype);

/* ---- a JSON pull parser ----
 *
 * rshi_json_next returns one token at a time; no tree is built.  The parser checks the grammar and
 * limits nesting to RSHI_JSON_DEEP objects and lists. */

#define RSHI_JSON_DEEP   32
#define RSHI_JSON_WINDOW 65536 /* size of the input buffer in bytes; strings may be longer */

typedef enum rshi_json_token {
    RSHI_JSON_END,
    RSHI_JSON_OBJECT,     /* { */
    RSHI_JSON_OBJECT_END, /* } */
    RSHI_JSON_LIST,       /* [ */
    RSHI_JSON_LIST_END,   /* ] */
    RSHI_JSON_KEY,        /* text, length */
    RSHI_JSON_STRING,     /* text, length */
    RSHI_JSON_NUMBER,     /* text, length; if is_int also number */
    RSHI_JSON_TRUE,
    RSHI_JSON_FALSE,
    RSHI_JSON_NULL
} rshi_json_token;

typedef struct rshi_json {
    /* the input: `left` bytes of `fd` from `offset` on, or, with fd -1, the text `whole` */
    int fd;
    uint64_t offset, left;
    const char *file;               /* borrowed; for messages */
    const unsigned char *from, *to; /* unread bytes of the buffer or text */
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

/* Starts parsing bytes [at, at + bytes) of a file, or a text in memory, which is borrowed. */
rsh_status rshi_json_open(rshi_json *j, int fd, uint64_t at, uint64_t bytes, const char *file);
rsh_status rshi_json_open_text(rshi_json *j, const char *text, size_t bytes, const char *file);
void rshi_json_close(rshi_json *j);
/* Reads the next token.  After the outermost value only blanks may follow; then RSHI_JSON_END.
 * RSH_EVALUE, naming file and offset; RSH_EIO; RSH_ENOMEM. */
rsh_status rshi_json_next(rshi_json *j, rshi_json_token *out);
/* Reads the next token, which must be `want`. */
rsh_status rshi_json_want(rshi_json *j, rshi_json_token want);
/* Inside an object: reads the next key, or the end (*more is false).  Inside a list: reads the
 * first token of the next value, or the end. */
rsh_status rshi_json_key(rshi_json *j, bool *more);
rsh_status rshi_json_item(rshi_json *j, rshi_json_token *out, bool *more);
/* Skips one value: the next, or, if `started`, the rest of the one whose first token was just read.
 */
rsh_status rshi_json_skip(rshi_json *j, rshi_json_token started);
bool rshi_is_utf8(const char *text, size_t n); /* is it valid UTF-8? */
/* Sets the error "FILE: byte N: ..." for the token just read and returns RSH_EVALUE. */
rsh_status rshi_json_fail(const rshi_json *j, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- reading and writing bytes ---- */

struct stat;
int64_t rshi_mtime(const struct stat *s); /* nanoseconds */
rsh_status rshi_io_fail(const char *path); /* sets the error "PATH: strerror(errno)"; RSH_EIO */
rsh_status rshi_write_fully(int fd, const char *path, uint64_t at, const void *from, size_t n);
/* The context of the sink function rshi_put, which appends to a file. */
typedef struct rshi_putting {
    int fd;
    const char *path; /* for messages; borrowed */
    uint64_t at;
    rsh_status st; /* of the last write */
} rshi_putting;
int rshi_put(void *ctx, const char *bytes, size_t n);
rsh_status rshi_read_fully(int fd, const char *path, uint64_t at, void *to, size_t n);
rsh_status rshi_reading_open(rsh_ckpt *c);
void rshi_reading_close(rsh_ckpt *c);
/* Closes a file that is not in use; false: there is none.  From any thread. */
bool rshi_reading_release(const rsh_ckpt *c);
/* RSH_EIO if size or time of the file changed since its header was read; fd -1: uses its path. */
rsh_status rshi_ckpt_unchanged(const rshi_ckpt_file *f, int fd);
/* Reads bytes [at, at + n) of a file.  From any thread, after rshi_ckpt_seal.  RSH_EIO names file
 * and offset, also if the file ends early or changed since it was opened. */
rsh_status rshi_ckpt_pread(const rsh_ckpt *c, int32_t file, uint64_t at, void *to, size_t n);
/* Copies them to another file inside the kernel; *done is false if the kernel cannot. */
rsh_status rshi_ckpt_send(const rsh_ckpt *c, int32_t file, uint64_t at, int to, uint64_t to_at,
                          size_t n, bool *done);

/* ---- rules ---- */

#define RSHI_MOST_RANKS 65536 /* of a mesh in rules; every rank has a file */

typedef struct rshi_ckpt_rule rshi_ckpt_rule; /* see rules.h */
/* Does the name match?  In the pattern `*` matches any text, `?` any character, `<a-b>` an integer.
 */
bool rshi_glob(const char *pattern, const char *name);
/* Takes the digits at *p as a number; false: there are none, or more than 18. */
bool rshi_take_number(const char **p, int64_t *out);
#define RSHI_MOST_LEVELS 32 /* of directories in a files line */
/* Checks the pattern of a files line: RSH_EVALUE if a name made from it would leave its directory
 * or could not be read back, or if {rank} is missing. */
rsh_status rshi_files_check(const char *files);
/* Replaces {rank} and {part} in the pattern `files`; the caller frees *out with rshi_free. */
rsh_status rshi_files_name(const char *files, int64_t rank, int64_t part, char **out);
/* Does `name` match the pattern, and with which numbers?  *rank or *part is -1 if the pattern does
 * not have it. */
bool rshi_files_match(const char *files, const char *name, int64_t *rank, int64_t *part);
bool rshi_files_names(const char *files, const char *word); /* does it have {rank}, or {part}? */
/* Calls fn for every file below the place that matches the pattern, sorted by name.  The name is
 * relative to the place and, like `rank`, valid during the call.  RSH_EVALUE for a link that leads
 * out of its directory; RSH_EIO. */
typedef rsh_status (*rshi_files_fn)(void *ctx, const char *name, int64_t rank);
rsh_status rshi_files_each(const char *files, const rshi_ckpt_place *place, rshi_files_fn fn,
                           void *ctx);

#endif

/* DCP directory: reads PyTorch's distributed checkpoints: .metadata lists the tensors, .distcp files contain them.
 *
 * .metadata is a pickle.  For every name it lists sizes and chunks, and for every chunk a file and a span of it; the
 * span is an archive of torch.save with one tensor.  Names without chunks are Python objects, which are only listed. */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/torch_values.h"

typedef rshi_pickle_value value;

/* The file position of one chunk of a tensor, or of one object. */
typedef struct stored {
    const value *name, *path; /* texts: name and path */
    int ndim;                 /* -1: the entry has no offset */
    int64_t offset[RSH_MAX_NDIM];
    uint64_t at, bytes;
    int32_t file;
} stored;

typedef struct distcp {
    rsh_ckpt *c;
    const char *directory;
    int32_t metadata; /* index of the file with the metadata */
    bool several;     /* every rank has its own metadata */
    rshi_pickle pickle;
    stored *stored; /* owned */
    int64_t nstored;
    uint64_t nchunks;      /* number of chunks read so far */
    const value *mcore;    /* Megatron's dict of facts about tensors; NULL: none */
    rshi_name_table facts; /* indices in `mcore`, by name */
    rshi_ckpt_store store; /* memory of these names */
    int fd;                /* the last file that was read; -1: none */
    int32_t open;
} distcp;

/* ---- the pickle ---- */

static int compare_text(const value *a, const value *b) {
    int c = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
    return c ? c : (a->n > b->n) - (a->n < b->n);
}

static int by_path(const void *a, const void *b) {
    return compare_text(((const stored *)a)->path, ((const stored *)b)->path);
}

static int by_name(const void *a, const void *b) {
    const stored *x = a, *y = b;
    int c = compare_text(x->name, y->name);
    if (c || x->ndim != y->ndim) return c ? c : x->ndim - y->ndim;
    for (int d = 0; d < x->ndim; d++)
        if (x->offset[d] != y->offset[d]) return x->offset[d] < y->offset[d] ? -1 : 1;
    return 0;
}

/* Returns whether a value is a non-empty text without NUL. */
static bool is_name(const value *v) { return v && v->kind == RSHI_PICKLE_TEXT && v->n && !memchr(v->text, 0, v->n); }

static bool is_absent(const value *v) { return !v || v->kind == RSHI_PICKLE_NONE; }

static bool is_absent_or_empty(const value *v) { return is_absent(v) || (v->kind == RSHI_PICKLE_LIST && !v->n); }

static rsh_status read_stored(distcp *r, const value *index, const value *info, stored *out) {
    if (!rshi_pickle_is(index, RSHI_CLASS_INDEX) || !rshi_pickle_is(info, RSHI_CLASS_STORAGE_INFO))
        return rshi_pickle_fail(&r->pickle, index, "storage_data must map MetadataIndex to _StorageInfo");
    const value *offset = rshi_pickle_field(index, "offset"), *at = rshi_pickle_field(info, "offset"),
                *bytes = rshi_pickle_field(info, "length");
    *out =
        (stored){.name = rshi_pickle_field(index, "fqn"), .path = rshi_pickle_field(info, "relative_path"), .ndim = -1};
    if (!is_name(out->name) || !is_name(out->path) || !at || at->kind != RSHI_PICKLE_INT || at->number < 0 || !bytes ||
        bytes->kind != RSHI_PICKLE_INT || bytes->number < 0)
        return rshi_pickle_fail(&r->pickle, info, "an entry of storage_data lacks its name, file, offset or length");
    if (!is_absent_or_empty(rshi_pickle_field(info, "transform_descriptors")))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %u: chunks that were saved with a transform (compression) are not supported; "
                         "save without it",
                         r->pickle.file, info->at);
    out->at = (uint64_t)at->number;
    out->bytes = (uint64_t)bytes->number;
    return is_absent(offset) ? RSH_OK
                             : rshi_pickle_sizes(&r->pickle, offset, "the offset of a chunk", &out->ndim, out->offset);
}

/* Adds the files in the order of their names. */
static rsh_status add_files(distcp *r) {
    for (int64_t i = 0; i < r->nstored; i++) {
        stored *s = &r->stored[i];
        if (i && !by_path(s - 1, s)) {
            s->file = s[-1].file;
            continue;
        }
        char *name = rshi_store_text(&r->c->store, s->path->text, s->path->n);
        if (!name) return rshi_nomem();
        int64_t known = rshi_ckpt_find_file(r->c, name);
        s->file = (int32_t)known;
        if (known >= 0) continue; /* the metadata of another rank named the file already */
        RSH_TRY(rshi_ckpt_inside(r->directory, name));
        RSH_TRY(rshi_ckpt_add_file(r->c, r->directory, name, &s->file));
    }
    return RSH_OK;
}

static rsh_status check_spans(const distcp *r) {
    for (int64_t i = 0; i < r->nstored; i++) {
        const stored *s = &r->stored[i];
        const rshi_ckpt_file *f = &r->c->file[s->file];
        if (s->at > f->size || s->bytes > f->size - s->at)
            return rshi_fail(
                RSH_EVALUE,
                "%.150s: \"%.*s\" has %" PRIu64 " bytes from byte %" PRIu64 " on, but the file ends at byte %" PRIu64
                "; the file is truncated or damaged",
                f->name, (int)(s->name->n < 200 ? s->name->n : 200), s->name->text, s->bytes, s->at, f->size);
        if (i && !by_name(s - 1, s)) return rshi_pickle_fail(&r->pickle, s->name, "duplicate chunk in storage_data");
    }
    return RSH_OK;
}

static rsh_status read_storage_data(distcp *r, const value *data) {
    if (!data || data->kind != RSHI_PICKLE_DICT)
        return rshi_pickle_fail(&r->pickle, data, "the metadata has no storage_data");
    r->stored = rshi_alloc(data->n / 2, sizeof *r->stored);
    if (!r->stored) return rshi_nomem();
    for (uint32_t i = 0; i + 1 < data->n; i += 2)
        RSH_TRY(read_stored(r, data->item[i], data->item[i + 1], &r->stored[r->nstored++]));
    if (r->nstored) qsort(r->stored, (size_t)r->nstored, sizeof *r->stored, by_path);
    RSH_TRY(add_files(r));
    if (r->nstored) qsort(r->stored, (size_t)r->nstored, sizeof *r->stored, by_name);
    return check_spans(r);
}

static const stored *find_stored(const distcp *r, const value *name, int ndim, const int64_t *offset) {
    stored key = {.name = name, .ndim = ndim};
    if (ndim > 0) memcpy(key.offset, offset, (size_t)ndim * sizeof *offset);
    return r->nstored ? bsearch(&key, r->stored, (size_t)r->nstored, sizeof key, by_name) : NULL;
}

/* Reads TensorProperties: (dtype, layout, requires_grad, memory_format, pin_memory), or the same as named fields. */
static rsh_status read_properties(const distcp *r, const value *v, rsh_dtype *dtype) {
    const value *state = rshi_pickle_is(v, RSHI_CLASS_PROPERTIES) && v->n == 1 ? v->item[0] : NULL;
    bool tuple = state && state->kind == RSHI_PICKLE_TUPLE && state->n >= 2;
    const value *type = tuple ? state->item[0] : state ? rshi_pickle_field(v, "dtype") : NULL;
    const value *layout = tuple ? state->item[1] : state ? rshi_pickle_field(v, "layout") : NULL;
    if (!type || type->kind != RSHI_PICKLE_CLASS || type->class != RSHI_CLASS_DTYPE)
        return rshi_pickle_fail(&r->pickle, v, "the dtype of a tensor is missing");
    *dtype = (rsh_dtype)type->number;
    if (is_absent(layout)) return RSH_OK;
    bool strided = rshi_pickle_is(layout, RSHI_CLASS_GET_LAYOUT) && layout->n == 1 &&
                   layout->item[0]->kind == RSHI_PICKLE_TEXT && layout->item[0]->n == 13 &&
                   !memcmp(layout->item[0]->text, "torch.strided", 13);
    if (!strided)
        return rshi_fail(RSH_EUNSUP, "%.150s: byte %u: only tensors with layout torch.strided are supported",
                         r->pickle.file, layout->at);
    return RSH_OK;
}

/* ---- chunks to boxes ---- */

static rsh_status open_file(distcp *r, int32_t file) {
    if (r->fd >= 0 && r->open == file) return RSH_OK;
    if (r->fd >= 0) close(r->fd);
    r->fd = open(r->c->file[file].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    r->open = file;
    RSH_REQUIRE(r->fd >= 0, RSH_EIO, "%.150s: %s", r->c->file[file].path, strerror(errno));
    return RSH_OK;
}

static rsh_status refuse_chunk(const distcp *r, const stored *s, rsh_status status, const char *sentence) {
    return rshi_fail(status, "%.150s: byte %" PRIu64 ": tensor \"%.*s\": %s", r->c->file[s->file].name, s->at,
                     (int)(s->name->n < 200 ? s->name->n : 200), s->name->text, sentence);
}

static bool is_empty(int ndim, const int64_t *size) {
    for (int d = 0; d < ndim; d++)
        if (!size[d]) return true;
    return false;
}

/* The shape of a tensor in the metadata.  Megatron stores optimizer states flat: the tensor is cut into a grid of equal
 * boxes, the first dims are the indices in the grid, and the last dim counts the elements of a flattened box. */
typedef struct shaped {
    int ndim; /* number of dims of the stored shape, and of sizes and offsets of chunks */
    int64_t shape[RSH_MAX_NDIM];
    bool flat;
    int whole_ndim; /* number of dims before flattening */
    int64_t whole[RSH_MAX_NDIM];
} shaped;

/* Adds chunk [offset, offset + size) of a flattened tensor, which must be inside one box of its grid. */
static rsh_status add_flat(distcp *r, int64_t tensor, const shaped *x, const int64_t *offset, const int64_t *size,
                           const stored *s, const rshi_saved_tensor *t) {
    int64_t lo[RSH_MAX_NDIM], extent[RSH_MAX_NDIM];
    int last = x->whole_ndim;
    for (int d = 0; d < last; d++) {
        if (size[d] != 1) return refuse_chunk(r, s, RSH_EUNSUP, "a chunk must not span several flattened boxes");
        extent[d] = x->whole[d] / x->shape[d];
        lo[d] = offset[d] * extent[d];
    }
    if (size[last] > 1 && t->strides[last] != 1)
        return refuse_chunk(r, s, RSH_EUNSUP, "a flattened chunk must be contiguous");
    return rshi_ckpt_add_range_in(r->c, tensor, lo, extent, offset[last], size[last], s->file, t->at);
}

static rsh_status read_chunk(distcp *r, int64_t tensor, const value *name, const shaped *x, const int64_t *offset,
                             const int64_t *size, bool only) {
    rshi_saved_tensor t;
    const stored *s = find_stored(r, name, x->ndim, offset);
    if (!s && only) s = find_stored(r, name, -1, NULL);
    if (is_empty(x->ndim, size)) return RSH_OK;
    if (!s) return rshi_pickle_fail(&r->pickle, name, "storage_data lacks a chunk of this tensor");
    RSH_TRY(open_file(r, s->file));
    RSH_TRY(rshi_saved_tensor_read(&(rshi_file_span){r->fd, r->c->file[s->file].name, s->at, s->bytes}, &t));
    if (t.dtype != r->c->tensor[tensor].dtype)
        return refuse_chunk(r, s, RSH_EVALUE, "its dtype differs from the metadata");
    if (t.ndim != x->ndim || (x->ndim && memcmp(t.shape, size, (size_t)x->ndim * sizeof *size)))
        return refuse_chunk(r, s, RSH_EVALUE, "its shape differs from the metadata");
    return x->flat ? add_flat(r, tensor, x, offset, size, s, &t)
                   : rshi_ckpt_add_saved(r->c, tensor, offset, &t, s->file);
}

/* ---- Megatron's facts ---- */

static rsh_status read_facts(distcp *r, const value *facts) {
    if (!facts || facts->kind != RSHI_PICKLE_DICT) return RSH_OK;
    r->mcore = facts;
    for (uint32_t i = 0; i + 1 < facts->n; i += 2) {
        if (!is_name(facts->item[i])) continue;
        char *name = rshi_store_text(&r->store, facts->item[i]->text, facts->item[i]->n);
        if (!name) return rshi_nomem();
        if (rshi_name_table_find(&r->facts, name) < 0) RSH_TRY(rshi_name_table_add(&r->facts, name, i + 1));
    }
    return RSH_OK;
}

/* Returns the shape of a tensor before flattening; NULL: it is not flattened. */
static const value *find_fact(const distcp *r, const char *name) {
    int64_t at = rshi_name_table_find(&r->facts, name);
    const value *facts = at < 0 ? NULL : r->mcore->item[at];
    for (uint32_t i = 0; facts && facts->kind == RSHI_PICKLE_DICT && i + 1 < facts->n && i < 32; i += 2)
        if (rshi_pickle_text_is(facts->item[i], "nd_reformulated_orig_global_shape")) return facts->item[i + 1];
    return NULL;
}

static rsh_status read_shape(distcp *r, const value *name, const value *v, shaped *out) {
    int64_t elements = 1;
    RSH_TRY(
        rshi_pickle_sizes(&r->pickle, rshi_pickle_field(v, "size"), "the size of a tensor", &out->ndim, out->shape));
    char *text = rshi_store_text(&r->store, name->text, name->n);
    if (!text) return rshi_nomem();
    const value *whole = find_fact(r, text);
    out->flat = whole != NULL;
    out->whole_ndim = out->ndim;
    memcpy(out->whole, out->shape, sizeof out->whole);
    if (!whole) return RSH_OK;
    RSH_TRY(rshi_pickle_sizes(&r->pickle, whole, "the shape of a flattened tensor", &out->whole_ndim, out->whole));
    bool fits = out->ndim == out->whole_ndim + 1;
    for (int d = 0; d < out->whole_ndim && fits; d++)
        fits = out->shape[d] && out->whole[d] % out->shape[d] == 0 &&
               rshi_mul(elements, out->whole[d] / out->shape[d], &elements);
    if (!fits || out->shape[out->ndim - 1] != elements)
        return rshi_pickle_fail(&r->pickle, v, "the shape of a flattened tensor does not match its original shape");
    return RSH_OK;
}

/* ---- names ---- */

/* Finds the tensor if the metadata of another rank has already added it; otherwise adds it. */
static rsh_status whole_tensor(distcp *r, const value *name, rsh_dtype dtype, const shaped *x, int64_t *tensor) {
    *tensor = r->several ? rshi_ckpt_find(r->c, name->text, name->n) : -1;
    if (*tensor < 0)
        return rshi_ckpt_add_tensor(r->c, name->text, name->n, dtype, x->whole_ndim, x->whole, r->metadata, name->at,
                                    tensor);
    const rshi_ckpt_tensor *t = &r->c->tensor[*tensor];
    if (t->dtype != dtype || t->ndim != x->whole_ndim ||
        (t->ndim && memcmp(t->shape, x->whole, (size_t)t->ndim * sizeof *t->shape)))
        return rshi_pickle_fail(&r->pickle, name, "ranks state different dtypes or shapes of this tensor");
    return RSH_OK;
}

static rsh_status read_tensor(distcp *r, const value *name, const value *v) {
    const value *chunks = rshi_pickle_field(v, "chunks");
    int n[2];
    int64_t box[2][RSH_MAX_NDIM], tensor;
    shaped x;
    rsh_dtype dtype = RSH_DTYPE_NONE;
    RSH_TRY(read_properties(r, rshi_pickle_field(v, "properties"), &dtype));
    RSH_TRY(read_shape(r, name, v, &x));
    RSH_TRY(whole_tensor(r, name, dtype, &x, &tensor));
    if (!chunks || chunks->kind != RSHI_PICKLE_LIST)
        return rshi_pickle_fail(&r->pickle, v, "the chunks of a tensor are missing");
    r->nchunks += chunks->n; /* counted, because a list shared by many tensors would be read for each of them */
    if (r->nchunks > r->pickle.length)
        return rshi_pickle_fail(&r->pickle, v, "damaged metadata: it has more chunks than bytes");
    for (uint32_t i = 0; i < chunks->n; i++) {
        const value *chunk = chunks->item[i];
        if (!rshi_pickle_is(chunk, RSHI_CLASS_CHUNK_STORAGE))
            return rshi_pickle_fail(&r->pickle, chunk, "expected ChunkStorageMetadata in the list of chunks");
        RSH_TRY(
            rshi_pickle_sizes(&r->pickle, rshi_pickle_field(chunk, "offsets"), "the offset of a chunk", &n[0], box[0]));
        RSH_TRY(rshi_pickle_sizes(&r->pickle, rshi_pickle_field(chunk, "sizes"), "the size of a chunk", &n[1], box[1]));
        if (n[0] != x.ndim || n[1] != x.ndim)
            return rshi_pickle_fail(&r->pickle, chunk, "a chunk and its tensor have different numbers of dims");
        RSH_TRY(read_chunk(r, tensor, name, &x, box[0], box[1], chunks->n == 1));
    }
    return RSH_OK;
}

static rsh_status read_object(distcp *r, const value *name) {
    const stored *s = find_stored(r, name, -1, NULL);
    rshi_text what = {0}, text = {0};
    rshi_text_add(&text, "%.*s", (int)name->n, name->text);
    rshi_text_add(&what, "a Python object");
    if (s) rshi_text_add(&what, ", pickled, %" PRIu64 " B", s->bytes);
    rsh_status st = what.failed || text.failed ? rshi_nomem() : rshi_ckpt_add_other(r->c, text.data, what.data);
    rshi_text_free(&what);
    rshi_text_free(&text);
    return st;
}

static rsh_status read_names(distcp *r, const value *names) {
    if (!names || names->kind != RSHI_PICKLE_DICT)
        return rshi_pickle_fail(&r->pickle, names, "the metadata has no state_dict_metadata");
    for (uint32_t i = 0; i + 1 < names->n; i += 2) {
        const value *name = names->item[i], *v = names->item[i + 1];
        if (!is_name(name)) return rshi_pickle_fail(&r->pickle, name, "expected the name of a tensor as a text");
        if (rshi_pickle_is(v, RSHI_CLASS_TENSOR_STORAGE)) {
            RSH_TRY(read_tensor(r, name, v));
        } else if (rshi_pickle_is(v, RSHI_CLASS_BYTES_STORAGE)) {
            RSH_TRY(read_object(r, name));
        } else {
            return rshi_pickle_fail(
                &r->pickle, v, "entries of state_dict_metadata must be TensorStorageMetadata or BytesStorageMetadata");
        }
    }
    return RSH_OK;
}

/* ---- the directory ---- */

static rsh_status read_metadata(distcp *r, const char *name, unsigned char **bytes) {
    RSH_TRY(rshi_ckpt_inside(r->directory, name));
    RSH_TRY(rshi_ckpt_add_file(r->c, r->directory, name, &r->metadata));
    const rshi_ckpt_file *f = &r->c->file[r->metadata];
    RSH_REQUIRE(f->size <= RSHI_PICKLE_MOST, RSH_EVALUE,
                "%.150s: the metadata has %" PRIu64 " bytes; at most %zu are supported", f->path, f->size,
                RSHI_PICKLE_MOST);
    *bytes = rshi_alloc(f->size, 1);
    if (!*bytes) return rshi_nomem();
    RSH_TRY(open_file(r, r->metadata));
    RSH_TRY(rshi_file_span_read(&(rshi_file_span){r->fd, f->name, 0, f->size}, 0, *bytes, f->size));
    rshi_ckpt_hash(r->c, r->metadata, *bytes, f->size);
    return rshi_pickle_read(*bytes, f->size, r->c->file[r->metadata].name, 0, &r->pickle);
}

static rsh_status read_distcp(const char *directory, const char *name, bool several, rsh_ckpt *c) {
    distcp r = {.c = c, .directory = directory, .several = several, .fd = -1};
    unsigned char *bytes = NULL;
    rsh_status st;
    RSH_GOTO(read_metadata(&r, name, &bytes));
    if (!rshi_pickle_is(r.pickle.root, RSHI_CLASS_METADATA))
        RSH_GOTO(rshi_pickle_fail(&r.pickle, r.pickle.root,
                                  "expected the metadata of a DCP checkpoint, got another pickle"));
    RSH_GOTO(read_storage_data(&r, rshi_pickle_field(r.pickle.root, "storage_data")));
    RSH_GOTO(read_facts(&r, rshi_pickle_field(r.pickle.root, "mcore_data")));
    RSH_GOTO(read_names(&r, rshi_pickle_field(r.pickle.root, "state_dict_metadata")));
out:
    if (r.fd >= 0) close(r.fd);
    rshi_free(r.stored);
    rshi_name_table_free(&r.facts);
    rshi_store_free(&r.store);
    rshi_pickle_free(&r.pickle);
    rshi_free(bytes);
    return st;
}

/* Is it the metadata of one rank, such as "__3.metadata"? */
static bool is_rank_metadata(const char *name) {
    return !strncmp(name, "__", 2) && strspn(name + 2, "0123456789") > 0 &&
           !strcmp(name + 2 + strspn(name + 2, "0123456789"), ".metadata");
}

static bool has_metadata(const rshi_ckpt_place *place) {
    return place->is_directory && rshi_ckpt_place_has(place, ".metadata", ".metadata");
}

static bool detect_distcp(const rshi_ckpt_place *place) {
    bool found = has_metadata(place);
    for (int64_t i = 0; i < place->nnames && !found; i++) found = is_rank_metadata(place->name[i]);
    return found;
}

/* Lists common.pt, in which Megatron keeps objects that are equal on all ranks; the file is copied. */
static rsh_status list_common(const rshi_ckpt_place *place, rsh_ckpt *c) {
    rshi_torch_gathering g = {.c = c};
    int32_t file;
    if (!rshi_ckpt_place_has(place, "common.pt", "common.pt") || !rshi_ckpt_is_torch(place->path, "common.pt"))
        return RSH_OK;
    rsh_status st = rshi_ckpt_inside(place->path, "common.pt");
    if (!st) st = rshi_torch_gather(&g, place->path, "common.pt", -1, "common.", &file);
    if (!st) st = rshi_torch_finish(&g);
    if (!st) st = rshi_ckpt_add_beside_file(c, "common.pt", c->file[file].path);
    rshi_torch_gathering_free(&g);
    return st;
}

static rsh_status read_distcp_directory(const rshi_ckpt_place *place, rsh_ckpt *c) {
    bool one = has_metadata(place);
    if (one) RSH_TRY(read_distcp(place->path, ".metadata", false, c));
    for (int64_t i = 0; i < place->nnames && !one; i++)
        if (is_rank_metadata(place->name[i])) RSH_TRY(read_distcp(place->path, place->name[i], true, c));
    RSH_TRY(list_common(place, c));
    return rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_distcp = {"DCP directory", detect_distcp, read_distcp_directory, false};

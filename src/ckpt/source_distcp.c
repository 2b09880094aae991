/* DCP directory: PyTorch's distributed checkpoints: .metadata says what there is, .distcp files hold it.
 *
 * .metadata is a pickle.  For every name it lists sizes and chunks, and for every chunk a file and a span of it; the
 * span is an archive of torch.save with one tensor.  Names without chunks are Python objects, of which we only say that
 * they are there. */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/archive.h"
#include "ckpt/pickle.h"

#define BOXES_MOST 65536 /* runs into which one chunk with unusual strides is taken apart */

typedef rshi_pickle_value value;

/* Where one chunk of a tensor, or one object, is stored. */
typedef struct stored {
    const value *name, *path; /* texts */
    int ndim;                 /* -1: the index names no offset */
    int64_t offset[RSH_MAX_NDIM];
    uint64_t at, bytes;
    int32_t file;
} stored;

typedef struct distcp {
    rsh_ckpt *c;
    const char *directory;
    int32_t metadata; /* number of its file */
    rshi_pickle pickle;
    stored *stored; /* owned */
    int64_t nstored;
    uint64_t nchunks; /* read so far */
    int fd;           /* of the file read last; -1: none */
    int32_t open;
} distcp;

/* ---- what the pickle says ---- */

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

/* A text without NUL, which no name of PyTorch's has. */
static bool is_name(const value *v) {
    return v && v->kind == RSHI_PICKLE_TEXT && v->n && !memchr(v->text, 0, v->n);
}

static bool is_absent(const value *v) { return !v || v->kind == RSHI_PICKLE_NONE; }

static bool is_absent_or_empty(const value *v) { return is_absent(v) || (v->kind == RSHI_PICKLE_LIST && !v->n); }

static rsh_status read_stored(distcp *r, const value *index, const value *info, stored *out) {
    if (!rshi_pickle_is(index, RSHI_CLASS_INDEX) || !rshi_pickle_is(info, RSHI_CLASS_STORAGE_INFO))
        return rshi_pickle_fail(&r->pickle, index, "storage_data has other entries than chunks and where they are");
    const value *offset = rshi_pickle_field(index, "offset"), *at = rshi_pickle_field(info, "offset"),
                *bytes = rshi_pickle_field(info, "length");
    *out =
        (stored){.name = rshi_pickle_field(index, "fqn"), .path = rshi_pickle_field(info, "relative_path"), .ndim = -1};
    if (!is_name(out->name) || !is_name(out->path) || !at || at->kind != RSHI_PICKLE_INT || at->number < 0 || !bytes ||
        bytes->kind != RSHI_PICKLE_INT || bytes->number < 0)
        return rshi_pickle_fail(&r->pickle, info, "storage_data has an entry without name, file, offset or length");
    if (!is_absent_or_empty(rshi_pickle_field(info, "transform_descriptors")))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %u: chunks that were transformed (compressed) on saving are not read",
                         r->pickle.file, info->at);
    out->at = (uint64_t)at->number;
    out->bytes = (uint64_t)bytes->number;
    return is_absent(offset) ? RSH_OK
                             : rshi_pickle_sizes(&r->pickle, offset, "the offset of a chunk", &out->ndim, out->offset);
}

/* Files get their numbers in the order of their names. */
static rsh_status add_files(distcp *r) {
    for (int64_t i = 0; i < r->nstored; i++) {
        stored *s = &r->stored[i];
        if (i && !by_path(s - 1, s)) {
            s->file = s[-1].file;
            continue;
        }
        char *name = rshi_store_text(&r->c->store, s->path->text, s->path->n);
        if (!name) return rshi_nomem();
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
                "%.150s: \"%.*s\": %" PRIu64 " bytes from byte %" PRIu64 " on, but the file ends at byte %" PRIu64,
                f->name, (int)(s->name->n < 200 ? s->name->n : 200), s->name->text, s->bytes, s->at, f->size);
        if (i && !by_name(s - 1, s))
            return rshi_pickle_fail(&r->pickle, s->name, "storage_data has a chunk twice");
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

/* TensorProperties: (dtype, layout, requires_grad, memory_format, pin_memory), or the same by names. */
static rsh_status read_properties(const distcp *r, const value *v, rsh_dtype *dtype) {
    const value *state = rshi_pickle_is(v, RSHI_CLASS_PROPERTIES) && v->n == 1 ? v->item[0] : NULL;
    bool tuple = state && state->kind == RSHI_PICKLE_TUPLE && state->n >= 2;
    const value *type = tuple ? state->item[0] : state ? rshi_pickle_field(v, "dtype") : NULL;
    const value *layout = tuple ? state->item[1] : state ? rshi_pickle_field(v, "layout") : NULL;
    if (!type || type->kind != RSHI_PICKLE_CLASS || type->class != RSHI_CLASS_DTYPE)
        return rshi_pickle_fail(&r->pickle, v, "a tensor without a dtype");
    *dtype = (rsh_dtype)type->number;
    if (is_absent(layout)) return RSH_OK;
    bool strided = rshi_pickle_is(layout, RSHI_CLASS_GET_LAYOUT) && layout->n == 1 &&
                   layout->item[0]->kind == RSHI_PICKLE_TEXT && layout->item[0]->n == 13 &&
                   !memcmp(layout->item[0]->text, "torch.strided", 13);
    if (!strided)
        return rshi_fail(RSH_EUNSUP, "%.150s: byte %u: a tensor whose layout is not torch.strided", r->pickle.file,
                         layout->at);
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

/* Which dims must be walked, so that what is left lies dense and row-major: dims are left from the fastest on, as long
 * as each stands before those that are left already.  How many boxes that makes; more than BOXES_MOST count as that. */
static int64_t find_walked(const rshi_saved_tensor *t, bool *walked) {
    int64_t dense = 1, boxes = 1;
    int first = t->ndim; /* of those that are left */
    for (int d = t->ndim; d-- > 0;) walked[d] = t->shape[d] != 1;
    for (int d = t->ndim; d-- > 0;)
        if (walked[d] && d < first && t->strides[d] == dense) {
            walked[d] = false;
            first = d;
            dense *= t->shape[d];
        }
    for (int d = 0; d < t->ndim; d++)
        if (walked[d] && (!rshi_mul(boxes, t->shape[d], &boxes) || boxes > BOXES_MOST)) return BOXES_MOST + 1;
    return boxes;
}

/* Is it dense with its dims in another order?  Which, from the slowest to the fastest? */
static bool find_order(const rshi_saved_tensor *t, int *order) {
    int64_t dense = 1;
    bool used[RSH_MAX_NDIM] = {false};
    for (int k = t->ndim; k--;) {
        int next = -1;
        for (int d = t->ndim; d--;)
            if (!used[d] && (t->shape[d] == 1 || t->strides[d] == dense) && (next < 0 || t->shape[next] == 1)) next = d;
        if (next < 0) return false;
        used[next] = true;
        order[k] = next;
        dense *= t->shape[next];
    }
    return true;
}

static rsh_status set_ordered(distcp *r, int64_t tensor, const rshi_saved_tensor *t, const int *order, int32_t file) {
    rsh_layout_desc desc = {.dtype = t->dtype, .ndim = t->ndim, .has_order = true};
    rsh_layout *layout;
    for (int d = 0; d < t->ndim; d++) {
        desc.dim[d].size = t->shape[d];
        desc.order[d] = order[d];
    }
    RSH_TRY(rsh_layout_new(&desc, &layout));
    rsh_status st = rshi_ckpt_set_parts(r->c, tensor, layout, 1, &(rshi_ckpt_part){file, t->at});
    rsh_layout_free(layout);
    r->c->tensor[tensor].ranks_are_files = false; /* it has one part, which is no rank's */
    return st;
}

/* One box for each index of the dims that are walked. */
static rsh_status add_boxes(distcp *r, int64_t tensor, const int64_t *offset, const rshi_saved_tensor *t,
                            const bool *walked, int32_t file) {
    int64_t index[RSH_MAX_NDIM] = {0}, lo[RSH_MAX_NDIM], size[RSH_MAX_NDIM];
    for (;;) {
        uint64_t at = t->at;
        for (int d = 0; d < t->ndim; d++) {
            lo[d] = offset[d] + index[d];
            size[d] = walked[d] ? 1 : t->shape[d];
            at += (uint64_t)(index[d] * t->strides[d]) * (uint64_t)rsh_dtype_bits(t->dtype) / 8;
        }
        RSH_TRY(rshi_ckpt_add_box(r->c, tensor, lo, size, file, at));
        int d = t->ndim;
        while (d && (!walked[d - 1] || ++index[d - 1] == t->shape[d - 1])) index[--d] = 0;
        if (!d) return RSH_OK;
    }
}

static rsh_status refuse(const distcp *r, const stored *s, rsh_status status, const char *sentence) {
    return rshi_fail(status, "%.150s: byte %" PRIu64 ": tensor \"%.*s\": %s", r->c->file[s->file].name, s->at,
                     (int)(s->name->n < 200 ? s->name->n : 200), s->name->text, sentence);
}

static rsh_status place_chunk(distcp *r, int64_t tensor, const stored *s, const int64_t *offset,
                              const rshi_saved_tensor *t) {
    bool walked[RSH_MAX_NDIM];
    int order[RSH_MAX_NDIM];
    int64_t boxes = find_walked(t, walked);
    const rshi_ckpt_tensor *whole = &r->c->tensor[tensor];
    if (boxes > 1 && !memcmp(whole->shape, t->shape, (size_t)t->ndim * sizeof *t->shape) && find_order(t, order))
        return set_ordered(r, tensor, t, order, s->file);
    if (boxes > BOXES_MOST)
        return refuse(r, s, RSH_EUNSUP, "the chunk is stored with strides that leave too many single runs");
    return add_boxes(r, tensor, offset, t, walked, s->file);
}

static bool is_empty(int ndim, const int64_t *size) {
    for (int d = 0; d < ndim; d++)
        if (!size[d]) return true;
    return false;
}

static rsh_status read_chunk(distcp *r, int64_t tensor, const value *name, int ndim, const int64_t *offset,
                             const int64_t *size, bool only) {
    rshi_saved_tensor t;
    const stored *s = find_stored(r, name, ndim, offset);
    if (!s && only) s = find_stored(r, name, -1, NULL);
    if (is_empty(ndim, size)) return RSH_OK;
    if (!s) return rshi_pickle_fail(&r->pickle, name, "a chunk of this tensor is not in storage_data");
    RSH_TRY(open_file(r, s->file));
    RSH_TRY(rshi_saved_tensor_read(&(rshi_file_span){r->fd, r->c->file[s->file].name, s->at, s->bytes}, &t));
    if (t.dtype != r->c->tensor[tensor].dtype) return refuse(r, s, RSH_EVALUE, "another dtype than the metadata says");
    if (t.ndim != ndim || (ndim && memcmp(t.shape, size, (size_t)ndim * sizeof *size)))
        return refuse(r, s, RSH_EVALUE, "another shape than the metadata says");
    return place_chunk(r, tensor, s, offset, &t);
}

/* ---- names ---- */

static rsh_status read_tensor(distcp *r, const value *name, const value *v) {
    const value *chunks = rshi_pickle_field(v, "chunks");
    int ndim, n[2];
    int64_t shape[RSH_MAX_NDIM], box[2][RSH_MAX_NDIM], tensor;
    rsh_dtype dtype = RSH_DTYPE_COUNT;
    RSH_TRY(read_properties(r, rshi_pickle_field(v, "properties"), &dtype));
    RSH_TRY(rshi_pickle_sizes(&r->pickle, rshi_pickle_field(v, "size"), "the size of a tensor", &ndim, shape));
    RSH_TRY(rshi_ckpt_add_tensor(r->c, name->text, name->n, dtype, ndim, shape, r->metadata, name->at, &tensor));
    if (!chunks || chunks->kind != RSHI_PICKLE_LIST) return rshi_pickle_fail(&r->pickle, v, "a tensor without chunks");
    r->nchunks += chunks->n; /* a list that many tensors share would cost its length for each of them */
    if (r->nchunks > r->pickle.length)
        return rshi_pickle_fail(&r->pickle, v, "the tensors have more chunks than the metadata has bytes");
    for (uint32_t i = 0; i < chunks->n; i++) {
        const value *chunk = chunks->item[i];
        if (!rshi_pickle_is(chunk, RSHI_CLASS_CHUNK_STORAGE))
            return rshi_pickle_fail(&r->pickle, chunk, "a chunk that is none");
        RSH_TRY(
            rshi_pickle_sizes(&r->pickle, rshi_pickle_field(chunk, "offsets"), "the offset of a chunk", &n[0], box[0]));
        RSH_TRY(rshi_pickle_sizes(&r->pickle, rshi_pickle_field(chunk, "sizes"), "the size of a chunk", &n[1], box[1]));
        if (n[0] != ndim || n[1] != ndim)
            return rshi_pickle_fail(&r->pickle, chunk, "a chunk has another number of dims than its tensor");
        RSH_TRY(read_chunk(r, tensor, name, ndim, box[0], box[1], chunks->n == 1));
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
        if (!is_name(name)) return rshi_pickle_fail(&r->pickle, name, "a name that is no text");
        if (rshi_pickle_is(v, RSHI_CLASS_TENSOR_STORAGE)) {
            RSH_TRY(read_tensor(r, name, v));
        } else if (rshi_pickle_is(v, RSHI_CLASS_BYTES_STORAGE)) {
            RSH_TRY(read_object(r, name));
        } else {
            return rshi_pickle_fail(&r->pickle, v, "state_dict_metadata has something else than tensors and objects");
        }
    }
    return RSH_OK;
}

/* ---- the directory ---- */

static rsh_status read_metadata(distcp *r, unsigned char **bytes) {
    RSH_TRY(rshi_ckpt_add_file(r->c, r->directory, ".metadata", &r->metadata));
    const rshi_ckpt_file *f = &r->c->file[r->metadata];
    RSH_REQUIRE(f->size <= RSHI_PICKLE_MOST, RSH_EVALUE, "%.150s: %" PRIu64 " bytes; at most %zu are read", f->path,
                f->size, RSHI_PICKLE_MOST);
    *bytes = rshi_alloc(f->size, 1);
    if (!*bytes) return rshi_nomem();
    RSH_TRY(open_file(r, r->metadata));
    RSH_TRY(rshi_file_span_read(&(rshi_file_span){r->fd, f->name, 0, f->size}, 0, *bytes, f->size));
    rshi_ckpt_hash(r->c, r->metadata, *bytes, f->size);
    return rshi_pickle_read(*bytes, f->size, r->c->file[r->metadata].name, 0, &r->pickle);
}

static rsh_status read_all(const rshi_ckpt_place *place, rsh_ckpt *c) {
    distcp r = {.c = c, .directory = place->path, .fd = -1};
    unsigned char *bytes = NULL;
    rsh_status st;
    RSH_GOTO(read_metadata(&r, &bytes));
    if (!rshi_pickle_is(r.pickle.root, RSHI_CLASS_METADATA))
        RSH_GOTO(rshi_pickle_fail(&r.pickle, r.pickle.root, "the pickle is not the metadata of a checkpoint"));
    RSH_GOTO(read_storage_data(&r, rshi_pickle_field(r.pickle.root, "storage_data")));
    RSH_GOTO(read_names(&r, rshi_pickle_field(r.pickle.root, "state_dict_metadata")));
out:
    if (r.fd >= 0) close(r.fd);
    rshi_free(r.stored);
    rshi_pickle_free(&r.pickle);
    rshi_free(bytes);
    return st ? st : rshi_ckpt_add_beside(c, place);
}

static bool detect(const rshi_ckpt_place *place) {
    return place->is_directory && rshi_ckpt_place_has(place, ".metadata", ".metadata");
}

const rshi_ckpt_kind rshi_kind_distcp = {"DCP directory", detect, read_all, false};

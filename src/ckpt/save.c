/* Save: writes sharded tensors of all ranks to a directory of rank files, which is renamed when it is complete. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/impl.h"
#include "comm/comm.h"
#include "shard/shard.h"

#define WINDOW ((int64_t)4 << 20) /* bytes packed at once if a part is not contiguous */

typedef struct saving {
    rsh_comm *comm;
    int64_t n;
    const char *const *names;
    const rsh_sharded *const *given;
    rsh_save_opts opts;
    /* owned list of tensors: those given or, if a rank has several parts, those in `flat` */
    const rsh_sharded **tensor;
    rsh_sharded **flat;         /* owned; NULL if no tensor has several parts on a rank */
    rsh_ckpt *model;            /* owned: names, shapes and metadata */
    rshi_target target;         /* this rank's file */
    rsh_digest *digests;        /* owned */
    rshi_ckpt_partial partial;      /* used by rank 0 only */
    char *file;                 /* owned: path of this rank's file */
    bool begun;                 /* every rank has begun to write its file */
} saving;

/* ---- checking the arguments ---- */

static rsh_status check_tensor(const saving *s, int64_t i) {
    RSH_REQUIRE(s->names[i] && *s->names[i] && s->given[i], RSH_EVALUE,
                "rsh_ckpt_save: tensor %" PRId64 " has no name or is NULL", i);
    const rsh_layout *l = rsh_sharded_layout(s->given[i]);
    RSH_REQUIRE(rsh_sharded_comm(s->given[i]) == s->comm, RSH_EVALUE,
                "rsh_ckpt_save: tensor \"%.300s\" must be on the comm that was passed", s->names[i]);
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP,
                "cannot save tensor \"%.200s\" with a partial layout: %.300s; reshard it first", s->names[i],
                rsh_layout_text(l));
    RSH_REQUIRE(rshi_safetensors_name(rsh_layout_dtype(l)), RSH_EUNSUP,
                "tensor \"%.300s\": safetensors has no dtype %s", s->names[i], rsh_dtype_name(rsh_layout_dtype(l)));
    return RSH_OK;
}

static rsh_status check_opts(const rsh_save_opts *o) {
    RSH_REQUIRE(o->nmeta >= 0 && (!o->nmeta || (o->keys && o->values)), RSH_EVALUE,
                "rsh_ckpt_save: opts->nmeta must be the number of keys and values, got %" PRId64 "; the count is "
                "negative or a list is NULL", o->nmeta);
    for (int64_t i = 0; i < o->nmeta; i++)
        RSH_REQUIRE(o->keys[i] && o->values[i] && strncmp(o->keys[i], "reshard.", 8), RSH_EVALUE,
                    "metadata entry %" PRId64 " is NULL, or its key starts with \"reshard.\", which is reserved", i);
    return RSH_OK;
}

/* Checks the path, on rank 0 only.  This saves requests to a file server, and keeps other machines from caching a
 * negative lookup. */
static rsh_status check_path(const saving *s, const char *path) {
    struct stat found;
    bool looks = !rsh_comm_rank(s->comm) && !s->opts.force;
    RSH_REQUIRE(path && *path, RSH_EVALUE, "rsh_ckpt_save: path is NULL or empty");
    RSH_REQUIRE(!rshi_target_is_file(path), RSH_EVALUE,
                "%s: rank files are saved in a directory, whose name must not end in %s", path, strrchr(path, '.'));
    RSH_REQUIRE(!looks || lstat(path, &found), RSH_EVALUE,
                "%s already exists (set opts->force to replace it)", path);
    return RSH_OK;
}

static rsh_status prepare_save(saving *s, const char *path) {
    RSH_TRY(check_opts(&s->opts));
    RSH_TRY(check_path(s, path));
    RSH_REQUIRE(s->n >= 0, RSH_EVALUE, "rsh_ckpt_save: n must be at least 0, got %" PRId64, s->n);
    RSH_REQUIRE(!s->n || (s->names && s->given), RSH_EVALUE, "rsh_ckpt_save: names or tensors are NULL");
    s->tensor = rshi_alloc((size_t)s->n, sizeof *s->tensor);
    s->flat = rshi_calloc((size_t)s->n, sizeof *s->flat);
    s->digests = rshi_calloc((size_t)s->n, sizeof *s->digests);
    s->model = RSHI_NEW(rsh_ckpt);
    if (!s->tensor || !s->flat || !s->digests || !s->model) return rshi_nomem();
    s->model->path = rshi_ckpt_copy(path);
    if (!s->model->path) return rshi_nomem();
    for (int64_t i = 0; i < s->n; i++) {
        int64_t t;
        RSH_TRY(check_tensor(s, i));
        s->tensor[i] = s->given[i];
        const rsh_layout *l = rsh_sharded_layout(s->given[i]);
        RSH_TRY(rshi_ckpt_add_tensor(s->model, s->names[i], strlen(s->names[i]), rsh_layout_dtype(l),
                                     rsh_layout_ndim(l), rsh_layout_shape(l), -1, 0, &t));
    }
    for (int64_t i = 0; i < s->opts.nmeta; i++) {
        RSH_TRY(rshi_ckpt_add_meta(s->model, s->opts.keys[i], s->opts.values[i]));
        RSH_REQUIRE(s->model->nmeta == i + 1, RSH_EVALUE, "duplicate metadata key \"%.300s\"", s->opts.keys[i]);
    }
    return RSH_OK;
}

static uint64_t fingerprint(const saving *s) {
    uint64_t hash = rshi_hash(s->model->path, strlen(s->model->path), (uint64_t)s->n);
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t layout = rsh_layout_hash(rsh_sharded_layout(s->given[i]));
        hash = rshi_hash(s->names[i], strlen(s->names[i]), rshi_hash(&layout, sizeof layout, hash));
    }
    for (int64_t i = 0; i < s->model->nmeta; i++) {
        hash = rshi_hash(s->model->meta[i].key, strlen(s->model->meta[i].key), hash);
        hash = rshi_hash(s->model->meta[i].value, strlen(s->model->meta[i].value), hash);
    }
    bool flags[2] = {s->opts.force, s->opts.no_digest};
    return rshi_hash(flags, sizeof flags, hash);
}

/* ---- tensors with several parts per rank ---- */

static bool has_several(const rsh_layout *l) {
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++)
        if (rsh_layout_nparts(l, rsh_layout_rank(l, i)) > 1) return true;
    return !rsh_layout_nranks(l); /* no rank would store the tensor's name */
}

/* Creates a layout in which each rank of the comm has one flat range of the tensor. */
static rsh_status flat_layout(const rsh_comm *comm, const rsh_layout *l, rsh_layout **out) {
    rsh_layout_desc d = {.dtype = rsh_layout_dtype(l), .ndim = rsh_layout_ndim(l), .naxes = 1};
    for (int k = 0; k < d.ndim; k++) d.dim[k].size = rsh_layout_shape(l)[k];
    d.flat = (rsh_cut){.naxes = 1, .rule = RSH_CUT_BALANCED};
    d.axis[0] = (rsh_axis){"rank", rsh_comm_size(comm)};
    return rsh_layout_new(&d, out);
}

static rsh_status flatten_tensors(saving *s) {
    for (int64_t i = 0; i < s->n; i++) {
        rsh_layout *l = NULL;
        if (!has_several(rsh_sharded_layout(s->given[i]))) continue;
        rsh_status st = rsh_comm_agree(s->comm, flat_layout(s->comm, rsh_sharded_layout(s->given[i]), &l));
        if (!st) st = rsh_reshard(s->given[i], l, NULL, &s->flat[i]);
        rsh_layout_free(l);
        if (st) return st;
        s->tensor[i] = s->flat[i];
    }
    return RSH_OK;
}

/* ---- this rank's file ---- */

/* Returns whether this rank stores its part: it does if it is the first holder of some piece of it. */
static rsh_status is_stored(const saving *s, const rsh_layout *l, bool *out) {
    rshi_piece *list = NULL;
    int64_t n = 0, rank = rsh_comm_rank(s->comm);
    rsh_part part;
    *out = false;
    if (!rsh_layout_nparts(l, rank)) return RSH_OK;
    RSH_TRY(rsh_layout_part(l, rank, 0, &part));
    RSH_TRY(rshi_layout_pieces(l, rank, &list, &n));
    for (int64_t i = 0; i < n && !*out; i++) *out = rshi_piece_holder_index(l, &list[i], rank) == 0;
    if (!rsh_layout_count(l)) *out = rsh_layout_rank(l, 0) == rank; /* one file must have the name of an empty tensor */
    rshi_free(list);
    return RSH_OK;
}

static rsh_status add_entry(saving *s, int64_t i, uint64_t *at) {
    rshi_target *t = &s->target;
    const rsh_layout *l = t->tensor[i].layout;
    rsh_part part;
    bool stored;
    RSH_TRY(is_stored(s, l, &stored));
    if (!stored) return RSH_OK;
    RSH_TRY(rsh_layout_part(l, rsh_comm_rank(s->comm), 0, &part));
    RSH_TRY(RSHI_GROW(t->entry, t->nentries + 1, &t->entries_room));
    uint64_t end = *at + (uint64_t)part.count * rsh_dtype_size(rsh_layout_dtype(l));
    t->entry[t->nentries++] = (rshi_target_entry){i, rshi_layout_ordinal(l, rsh_comm_rank(s->comm)), *at, end};
    *at = end;
    return RSH_OK;
}

/* Adds the tensors to the file.  Those with larger elements come first, so that all are aligned without padding. */
static rsh_status add_entries(saving *s) {
    uint64_t at = 0;
    for (size_t size = 16; size; size /= 2)
        for (int64_t i = 0; i < s->n; i++)
            if (rsh_dtype_size(s->target.tensor[i].dtype) == size) RSH_TRY(add_entry(s, i, &at));
    s->target.file->nentries = s->target.nentries;
    return RSH_OK;
}

static int count_bytes(void *ctx, const char *text, size_t n) {
    (void)text;
    *(uint64_t *)ctx += n;
    return 0;
}

static rsh_status describe_file(saving *s) {
    rshi_target *t = &s->target;
    uint64_t header = 0;
    rshi_text name = {0};
    *t = (rshi_target){.source = s->model, .digests = !s->opts.no_digest, .ntensors = s->n};
    t->tensor = rshi_calloc((size_t)s->n, sizeof *t->tensor);
    t->file = RSHI_NEW(rshi_target_file);
    if (!t->tensor || !t->file) return rshi_nomem();
    for (int64_t i = 0; i < s->n; i++) {
        rsh_layout *l = rsh_layout_hold(rsh_sharded_layout(s->tensor[i]));
        t->tensor[i] = (rshi_target_tensor){.source = i, .dtype = rsh_layout_dtype(l), .layout = l, .rule = -1};
    }
    t->nfiles = 1;
    t->file->rank = rsh_comm_rank(s->comm);
    rshi_text_add(&name, "rank-%05d-of-%05d.safetensors", rsh_comm_rank(s->comm), rsh_comm_size(s->comm));
    if (name.failed) return rshi_text_free(&name), rshi_nomem();
    t->file->name = name.data;
    RSH_TRY(add_entries(s));
    RSH_TRY(rshi_target_header(t, 0, NULL, &(rsh_sink){count_bytes, &header}));
    RSH_REQUIRE(header - 8 <= RSHI_HEADER_MOST, RSH_EUNSUP,
                "%s: too many tensors: the header would have %" PRIu64 " bytes; safetensors allows %u", t->file->name,
                header - 8, RSHI_HEADER_MOST);
    t->file->header = header;
    return RSH_OK;
}

/* ---- writing ---- */

/* Packs the rows of a part that is not contiguous in its layout's order. */
typedef struct packing {
    rshi_putting *to;
    const rsh_part *part;
    const int64_t *strides; /* strides of the memory in elements */
    int order[RSH_MAX_NDIM];
    int64_t size;
    char *window;
    size_t used;
} packing;

static void find_order(packing *p) {
    for (int d = 0; d < p->part->ndim; d++) {
        int k = d;
        for (; k && p->part->strides[p->order[k - 1]] < p->part->strides[d]; k--) p->order[k] = p->order[k - 1];
        p->order[k] = d;
    }
}

static rsh_status flush_window(packing *p) {
    rshi_put(p->to, p->window, p->used);
    p->used = 0;
    return p->to->st;
}

static rsh_status pack_rows(packing *p, int level, const char *from) {
    if (level == p->part->ndim) {
        if (p->used + (size_t)p->size > (size_t)WINDOW) RSH_TRY(flush_window(p));
        memcpy(p->window + p->used, from, (size_t)p->size);
        p->used += (size_t)p->size;
        return RSH_OK;
    }
    int d = p->order[level];
    for (int64_t i = 0; i < p->part->shape[d]; i++)
        RSH_TRY(pack_rows(p, level + 1, from + i * p->strides[d] * p->size));
    return RSH_OK;
}

static bool is_dense(const rsh_part *part, const int64_t *strides) {
    for (int d = 0; d < part->ndim; d++)
        if (part->shape[d] > 1 && part->strides[d] != strides[d]) return false;
    return true;
}

static rsh_status put_part(const rsh_sharded *s, rshi_putting *to) {
    const rsh_tensor *t = rsh_sharded_part(s, 0);
    rsh_part part;
    RSH_TRY(rsh_layout_part(rsh_sharded_layout(s), rsh_comm_rank(rsh_sharded_comm(s)), 0, &part));
    if (!part.count) return RSH_OK;
    packing p = {.to = to, .part = &part, .strides = rsh_tensor_strides(t)};
    p.size = (int64_t)rsh_dtype_size(rsh_layout_dtype(rsh_sharded_layout(s)));
    if (is_dense(&part, p.strides)) {
        rshi_put(to, rsh_tensor_data(t), (size_t)(part.count * p.size));
        return to->st;
    }
    p.window = rshi_alloc((size_t)WINDOW, 1);
    if (!p.window) return rshi_nomem();
    find_order(&p);
    rsh_status st = pack_rows(&p, 0, rsh_tensor_data(t));
    if (!st) st = flush_window(&p);
    rshi_free(p.window);
    return st;
}

static rsh_status put_file(saving *s) {
    const rshi_target *t = &s->target;
    rshi_putting to = {.path = s->file};
    to.fd = open(s->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (to.fd < 0) return rshi_io_fail(s->file);
    rsh_status st = rshi_target_header(t, 0, s->digests, &(rsh_sink){rshi_put, &to});
    for (int64_t i = 0; i < t->nentries && !st; i++) st = put_part(s->tensor[t->entry[i].tensor], &to);
    if (!st && fdatasync(to.fd)) st = rshi_io_fail(s->file);
    if (close(to.fd) && !st) st = rshi_io_fail(s->file);
    return st;
}

static rsh_status compute_digests(saving *s) {
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < s->n && s->target.digests && !st; i++)
        st = rsh_sharded_digest(s->tensor[i], &s->digests[i]);
    return st;
}

/* ---- the directory, which rank 0 creates and publishes ---- */

static const rshi_target no_files;

static rsh_status make_directory(saving *s, const char *path) {
    rsh_convert_opts o = RSH_CONVERT_OPTS_INIT;
    bool going;
    o.force = true; /* the path has been checked; data of an interrupted save is replaced */
    if (rsh_comm_rank(s->comm)) return RSH_OK;
    return rshi_partial_open(path, &no_files, 0, &o, &s->partial, &going);
}

static rsh_status name_file(saving *s) {
    rshi_text t = {0};
    char *home = NULL;
    RSH_TRY(rshi_partial_home(s->model->path, &home));
    rshi_text_add(&t, "%s/data/%s", home, s->target.file->name);
    rshi_free(home);
    if (t.failed) return rshi_text_free(&t), rshi_nomem();
    s->file = t.data;
    return RSH_OK;
}

static rsh_status publish_save(saving *s) {
    if (rsh_comm_rank(s->comm)) return RSH_OK;
    RSH_TRY(rshi_partial_flush(&s->partial));
    return rshi_partial_publish(&s->partial, s->opts.force);
}

/* Removes everything that a failed save wrote.  All ranks wait until rank 0 has done so, because launchers kill a job
 * when its first rank exits with an error. */
static void abandon_save(saving *s) {
    char why[RSHI_DETAIL_BYTES];
    if (s->partial.home) rshi_partial_abandon(&s->partial);
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    if (s->begun) rsh_comm_barrier(s->comm);
    rshi_set_detail(why);
}

static void free_save(saving *s) {
    if (s->partial.home) rshi_partial_close(&s->partial);
    for (int64_t i = 0; s->flat && i < s->n; i++) rsh_sharded_free(s->flat[i]);
    rshi_target_free(&s->target);
    rsh_ckpt_free(s->model);
    rshi_free(s->tensor);
    rshi_free(s->flat);
    rshi_free(s->digests);
    rshi_free(s->file);
}

/* Saves without a map.  `st` is an error that this rank has already found; the opening exchange passes it to all
 * ranks. */
static rsh_status save_plain(rsh_comm *comm, const char *path, int64_t n, const char *const *names,
                             const rsh_sharded *const *tensors, const rsh_save_opts *opts, rsh_status st) {
    saving s = {.comm = comm, .n = n, .names = names, .given = tensors, .opts = *opts};
    if (!st) st = prepare_save(&s, path);
    st = rshi_comm_open(comm, "save of a checkpoint", st ? 0 : fingerprint(&s), path ? path : "", st);
    if (!st) st = flatten_tensors(&s);
    if (!st) st = rsh_comm_agree(comm, describe_file(&s));
    if (!st) st = compute_digests(&s);
    s.begun = !st;
    if (!st) st = rsh_comm_agree(comm, make_directory(&s, path));
    if (!st) {
        rsh_status mine = name_file(&s);
        if (!mine) mine = put_file(&s);
        st = rsh_comm_agree(comm, mine);
    }
    if (!st) st = rsh_comm_agree(comm, publish_save(&s));
    if (st) abandon_save(&s);
    free_save(&s);
    return st;
}

/* ---- with a map: tensors are saved under a temporary name, and rank 0 converts the result ---- */

static rsh_status convert_saved(const char *from, const char *path, const rsh_save_opts *o) {
    rsh_convert_opts opts = RSH_CONVERT_OPTS_INIT;
    opts.to = o->map;
    opts.force = o->force;
    opts.no_digest = o->no_digest;
    rsh_status st = rsh_ckpt_convert(from, path, &opts, NULL);
    char why[RSHI_DETAIL_BYTES];
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    rsh_status removed = rshi_remove(from);
    if (st) rshi_set_detail(why);
    return st ? st : removed;
}

static rsh_status save_mapped(rsh_comm *comm, const char *path, int64_t n, const char *const *names,
                              const rsh_sharded *const *tensors, const rsh_save_opts *opts) {
    rsh_save_opts plain = *opts;
    rshi_text beside = {0};
    plain.map = NULL;
    plain.force = true;
    rshi_text_add(&beside, "%s.reshard-unmapped", path ? path : "");
    rsh_status st = path && !beside.failed ? RSH_OK : rshi_fail(RSH_EVALUE, "rsh_ckpt_save: path is NULL");
    st = rsh_comm_agree(comm, st);
    if (!st) st = save_plain(comm, beside.data, n, names, tensors, &plain, RSH_OK);
    if (!st) st = rsh_comm_agree(comm, rsh_comm_rank(comm) ? RSH_OK : convert_saved(beside.data, path, opts));
    rshi_text_free(&beside);
    return st;
}

rsh_status rsh_ckpt_save(rsh_comm *comm, const char *path, int64_t n, const char *const *names,
                         const rsh_sharded *const *tensors, const rsh_save_opts *opts) {
    RSH_REQUIRE(comm, RSH_EVALUE, "rsh_ckpt_save: comm is NULL");
    rsh_save_opts o = RSH_SAVE_OPTS_INIT;
    rsh_status st = RSHI_READ_OPTIONS(opts, RSH_SAVE_OPTS_INIT, &o);
    if (!st && o.map) return save_mapped(comm, path, n, names, tensors, &o);
    return save_plain(comm, path, n, names, tensors, &o, st);
}

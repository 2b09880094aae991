/* Torch gather: adds the tensors of torch.save files to a checkpoint. */
#include "ckpt/torch_values.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A plain tensor of one file, without placements. */
typedef struct rshi_torch_plain {
    const char *name; /* in the gathering's store */
    int64_t rank;
    int32_t file;
    uint32_t entry; /* byte offset of the tensor in its pickle */
    rshi_saved_tensor tensor;
} plain;

static rsh_status full_name(rshi_torch_gathering *g, const char *name, char **out) {
    rshi_text text = {0};
    rshi_text_add(&text, "%s%s", g->prefix, name);
    if (text.failed) return rshi_text_free(&text), rshi_nomem();
    *out = rshi_store_text(&g->store, text.data, text.length);
    rshi_text_free(&text);
    return *out ? RSH_OK : rshi_nomem();
}

/* ---- the tensors of a file ---- */

static rsh_status add_plain(rshi_torch_gathering *g, char *name, const rshi_pickle_value *v) {
    RSH_TRY(RSHI_GROW(g->plain, g->nplain + 1, &g->room));
    plain *p = &g->plain[g->nplain];
    *p = (plain){.name = name, .rank = g->rank, .file = g->file, .entry = v->at};
    RSH_TRY(rshi_saved_tensor_of(g->saved, v, &p->tensor));
    g->nplain++;
    return RSH_OK;
}

/* The current sharded tensor. */
typedef struct sharded {
    rshi_torch_gathering *g;
    const char *name;
    const rshi_pickle_value *v;
} sharded;

/* Finds the whole tensor if another rank has already added it; otherwise adds it. */
static rsh_status whole_tensor(const sharded *x, const rshi_torch_box *b, int64_t *tensor) {
    rsh_ckpt *c = x->g->c;
    *tensor = rshi_ckpt_find(c, x->name, strlen(x->name));
    if (*tensor < 0)
        return rshi_ckpt_add_tensor(c, x->name, strlen(x->name), b->local.dtype, b->ndim, b->shape, x->g->file,
                                    x->v->at, tensor);
    const rshi_ckpt_tensor *t = &c->tensor[*tensor];
    if (t->dtype != b->local.dtype || t->ndim != b->ndim ||
        (t->ndim && memcmp(t->shape, b->shape, (size_t)t->ndim * sizeof *t->shape)))
        return rshi_ckpt_refuse(c, x->g->file, x->v->at, x->name, "its dtype or shape differs between ranks");
    return RSH_OK;
}

static rsh_status add_box(void *ctx, const rshi_torch_box *b) {
    const sharded *x = ctx;
    rsh_ckpt *c = x->g->c;
    int64_t tensor;
    RSH_TRY(whole_tensor(x, b, &tensor));
    if (c->tensor[tensor].nparts) return RSH_OK; /* the tensor is whole and not row-major, so one copy is enough */
    return rshi_ckpt_add_saved(c, tensor, b->offset, &b->local, x->g->file);
}

static rsh_status take_tensor(void *ctx, const char *name, const rshi_pickle_value *v) {
    rshi_torch_gathering *g = ctx;
    char *full;
    RSH_TRY(full_name(g, name, &full));
    if (!rshi_torch_is_sharded(v)) return add_plain(g, full, v);
    sharded x = {g, full, v};
    return rshi_torch_boxes(g->saved, v, g->rank, add_box, &x);
}

static rsh_status list_other(rshi_torch_gathering *g, const char *name, const char *what) {
    if (rshi_name_table_find(&g->others, name) >= 0) return RSH_OK; /* the name is already listed for another rank */
    RSH_TRY(rshi_ckpt_add_other(g->c, name, what));
    return rshi_name_table_add(&g->others, name, 0);
}

static rsh_status take_other(void *ctx, const char *name, const char *what) {
    rshi_torch_gathering *g = ctx;
    char *full;
    RSH_TRY(full_name(g, name, &full));
    return list_other(g, full, what);
}

/* Returns "model" for "model.pt". */
static rsh_status stem_of(const char *name, char **out) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strrchr(base, '.');
    rshi_text text = {0};
    rshi_text_add(&text, "%.*s", dot && dot > base ? (int)(dot - base) : (int)strlen(base), base);
    if (text.failed) return rshi_text_free(&text), rshi_nomem();
    *out = text.data;
    return RSH_OK;
}

static rsh_status walk_file(rshi_torch_gathering *g, rshi_torch_file *s, const char *name) {
    rshi_torch_visitor to = {take_tensor, take_other, g};
    char *stem = NULL;
    RSH_TRY(stem_of(name, &stem));
    g->saved = s;
    rshi_ckpt_hash(g->c, g->file, s->bytes, s->pickle.end);
    rsh_status st = rshi_torch_walk(s, stem, &to);
    rshi_free(stem);
    return st;
}

rsh_status rshi_torch_gather(rshi_torch_gathering *g, const char *directory, const char *name, int64_t rank,
                             const char *prefix, int32_t *file) {
    rshi_torch_file s;
    RSH_TRY(rshi_ckpt_add_file(g->c, directory, name, &g->file));
    const rshi_ckpt_file *f = &g->c->file[g->file];
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(f->path);
    g->rank = rank;
    g->prefix = prefix;
    *file = g->file;
    rsh_status st = rshi_saved_open(&(rshi_file_span){fd, f->path, 0, f->size}, &s);
    if (!st) st = walk_file(g, &s, name);
    rshi_saved_close(&s);
    g->saved = NULL;
    close(fd);
    return st;
}

/* ---- after the last file ---- */

static int by_name(const void *a, const void *b) {
    const plain *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_place(const void *a, const void *b) {
    const plain *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->tensor.at > y->tensor.at) - (x->tensor.at < y->tensor.at);
}

static bool is_dense(const rshi_saved_tensor *t, int64_t *bytes) {
    int64_t dense = 1;
    bool right = true;
    for (int d = t->ndim; d--; dense *= t->shape[d]) right &= t->shape[d] <= 1 || t->strides[d] == dense;
    *bytes = dense * rsh_dtype_bits(t->dtype) / 8;
    return right || !dense;
}

static rsh_status same_bytes(int a, int b, const plain *x, const plain *y, const rsh_ckpt *c, int64_t bytes,
                             bool *same) {
    char left[16384], right[16384];
    for (int64_t at = 0; at < bytes && *same; at += (int64_t)sizeof left) {
        size_t n = (size_t)rshi_min((int64_t)sizeof left, bytes - at);
        RSH_TRY(rshi_read_fully(a, c->file[x->file].path, x->tensor.at + (uint64_t)at, left, n));
        RSH_TRY(rshi_read_fully(b, c->file[y->file].path, y->tensor.at + (uint64_t)at, right, n));
        *same = !memcmp(left, right, n);
    }
    return RSH_OK;
}

/* Do two ranks have the same elements? */
static rsh_status compare_plain(const rsh_ckpt *c, const plain *x, const plain *y, bool *same) {
    const rshi_saved_tensor *t = &x->tensor, *u = &y->tensor;
    int64_t bytes, other;
    *same = t->dtype == u->dtype && t->ndim == u->ndim &&
            !memcmp(t->shape, u->shape, (size_t)t->ndim * sizeof *t->shape) && is_dense(t, &bytes) &&
            is_dense(u, &other);
    if (!*same) return RSH_OK;
    int a = open(c->file[x->file].path, O_RDONLY | O_CLOEXEC), b = open(c->file[y->file].path, O_RDONLY | O_CLOEXEC);
    rsh_status st =
        a < 0 || b < 0 ? rshi_io_fail(c->file[a < 0 ? x->file : y->file].path) : same_bytes(a, b, x, y, c, bytes, same);
    if (a >= 0) close(a);
    if (b >= 0) close(b);
    return st;
}

/* Checks tensors of one name; *same is false if they differ between ranks. */
static rsh_status check_group(const rshi_torch_gathering *g, const plain *p, int64_t n, bool *same) {
    *same = true;
    for (int64_t i = 1; i < n && *same; i++) {
        if (p[i].rank == p[i - 1].rank)
            return rshi_ckpt_refuse(g->c, p[i].file, p[i].entry, p[i].name, "duplicate tensor");
        RSH_TRY(compare_plain(g->c, p, &p[i], same));
    }
    return RSH_OK;
}

/* Keeps one copy of each tensor that is equal on all ranks; *left is the number of tensors left. */
static rsh_status drop_copies(rshi_torch_gathering *g, int64_t *left) {
    *left = 0;
    if (g->nplain) qsort(g->plain, (size_t)g->nplain, sizeof *g->plain, by_name);
    for (int64_t i = 0, n; i < g->nplain; i += n) {
        bool same;
        for (n = 1; i + n < g->nplain && !strcmp(g->plain[i].name, g->plain[i + n].name);) n++;
        RSH_TRY(check_group(g, &g->plain[i], n, &same));
        if (same)
            g->plain[(*left)++] = g->plain[i];
        else
            RSH_TRY(list_other(g, g->plain[i].name, "a tensor without placements that differs between ranks"));
    }
    return RSH_OK;
}

rsh_status rshi_torch_finish(rshi_torch_gathering *g) {
    static const int64_t zero[RSH_MAX_NDIM];
    int64_t n, tensor;
    RSH_TRY(drop_copies(g, &n));
    if (n) qsort(g->plain, (size_t)n, sizeof *g->plain, by_place);
    for (int64_t i = 0; i < n; i++) {
        const plain *p = &g->plain[i];
        RSH_TRY(rshi_ckpt_add_tensor(g->c, p->name, strlen(p->name), p->tensor.dtype, p->tensor.ndim, p->tensor.shape,
                                     p->file, p->entry, &tensor));
        RSH_TRY(rshi_ckpt_add_saved(g->c, tensor, zero, &p->tensor, p->file));
    }
    g->nplain = 0;
    return RSH_OK;
}

void rshi_torch_gathering_free(rshi_torch_gathering *g) {
    rshi_free(g->plain);
    rshi_name_table_free(&g->others);
    rshi_store_free(&g->store);
    *g = (rshi_torch_gathering){0};
}

rsh_status rshi_ckpt_add_torch(rsh_ckpt *c, const char *directory, const char *name, int32_t *file) {
    rshi_torch_gathering g = {.c = c};
    rsh_status st = rshi_torch_gather(&g, directory, name, -1, "", file);
    if (!st) st = rshi_torch_finish(&g);
    rshi_torch_gathering_free(&g);
    return st;
}

/* ---- for rank files that rules describe ---- */

typedef struct handing {
    rsh_ckpt *c;
    rshi_name_table *others;
    const rshi_torch_file *file;
    rshi_torch_plain_fn fn;
    void *ctx;
} handing;

static rsh_status pass_tensor(void *ctx, const char *name, const rshi_pickle_value *v) {
    const handing *h = ctx;
    rshi_saved_tensor t;
    if (rshi_torch_is_sharded(v))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %" PRIu64 ": \"%.200s\" is a sharded tensor, which describes its own layout; "
                         "omit --from",
                         h->file->span.file, h->file->pickle.base + v->at, name);
    RSH_TRY(rshi_saved_tensor_of(h->file, v, &t));
    return h->fn(h->ctx, name, v, &t);
}

static rsh_status list_non_tensor(void *ctx, const char *name, const char *what) {
    const handing *h = ctx;
    if (rshi_name_table_find(h->others, name) >= 0) return RSH_OK;
    char *kept = rshi_store_text(&h->c->store, name, strlen(name));
    if (!kept) return rshi_nomem();
    RSH_TRY(rshi_ckpt_add_other(h->c, kept, what));
    return rshi_name_table_add(h->others, kept, 0);
}

rsh_status rshi_torch_each_plain(rsh_ckpt *c, int32_t file, rshi_name_table *others, rshi_torch_plain_fn fn,
                                 void *ctx) {
    const rshi_ckpt_file *f = &c->file[file];
    rshi_torch_file s;
    handing h = {c, others, &s, fn, ctx};
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(f->path);
    rsh_status st = rshi_saved_open(&(rshi_file_span){fd, f->path, 0, f->size}, &s);
    if (!st) rshi_ckpt_hash(c, file, s.bytes, s.pickle.end);
    if (!st) st = rshi_torch_walk(&s, "tensor", &(rshi_torch_visitor){pass_tensor, list_non_tensor, &h});
    rshi_saved_close(&s);
    close(fd);
    return st;
}

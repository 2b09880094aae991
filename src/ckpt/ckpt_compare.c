/* Compare: compares every element of two checkpoints, whose layouts may differ. */
#include "ckpt/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_MEM (UINT64_C(256) << 20)

typedef struct comparing {
    const rsh_ckpt *a, *b;
    int64_t *pair; /* owned: n pairs of indices, in a and in b */
    int64_t n;
    bool converted, allow_missing;
    rsh_ckpt_difference out;
} comparing;

static void set_difference(comparing *c, const char *tensor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void set_difference(comparing *c, const char *tensor, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(c->out.sentence, sizeof c->out.sentence, format, list);
    va_end(list);
    snprintf(c->out.tensor, sizeof c->out.tensor, "%s", tensor);
    c->out.found = true;
}

/* ---- names, shapes and dtypes ---- */

static bool same_shape(const comparing *c, const rshi_ckpt_tensor *x, const rshi_ckpt_tensor *y) {
    if (x->ndim != y->ndim || memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape)) return false;
    if (x->packing != y->packing) return false;
    return x->dtype == y->dtype || (c->converted && !rsh_dtype_check_convert(x->dtype, y->dtype));
}

static bool pair_up(comparing *c, int64_t i) {
    const rshi_ckpt_tensor *x = &c->a->tensor[i];
    int64_t k = rshi_ckpt_find(c->b, x->name, strlen(x->name));
    char left[260], right[260];
    if (k < 0) {
        if (!c->allow_missing) set_difference(c, x->name, "tensor \"%.300s\" is not in %.300s", x->name, c->b->path);
        return c->allow_missing;
    }
    rshi_ckpt_shape_text(x, left, sizeof left);
    rshi_ckpt_shape_text(&c->b->tensor[k], right, sizeof right);
    if (!same_shape(c, x, &c->b->tensor[k])) {
        set_difference(c, x->name, "tensor \"%.300s\" is %s in %.200s and %s in %.200s", x->name, left, c->a->path,
                       right, c->b->path);
        return false;
    }
    c->pair[2 * c->n] = i;
    c->pair[2 * c->n++ + 1] = k;
    return true;
}

static bool pair_all(comparing *c) {
    for (int64_t i = 0; i < c->a->ntensors; i++)
        if (!pair_up(c, i)) return false;
    for (int64_t k = 0; k < c->b->ntensors; k++) {
        const char *name = c->b->tensor[k].name;
        if (rshi_ckpt_find(c->a, name, strlen(name)) >= 0) continue;
        set_difference(c, name, "tensor \"%.300s\" is not in %.300s", name, c->a->path);
        return false;
    }
    return true;
}

/* ---- elements ---- */

static rshi_file_tensor stored_tensor(const rsh_ckpt *c, int64_t i) {
    const rshi_ckpt_tensor *t = &c->tensor[i];
    return (rshi_file_tensor){t->name, t->dtype, t->ndim, t->shape, t->layout, c->parts + t->part, t->view};
}

static void describe_sides(void *ctx, int64_t tensor, rshi_file_tensor *from, rshi_file_tensor *to) {
    const comparing *c = ctx;
    *from = stored_tensor(c->a, c->pair[2 * tensor]);
    *to = stored_tensor(c->b, c->pair[2 * tensor + 1]);
}

static rsh_status read_b(void *ctx, int32_t file, uint64_t at, void *to, size_t n) {
    return rshi_ckpt_pread(ctx, file, at, to, n);
}

/* Writes "[3, 4]". */
static void index_text(const rsh_ckpt_difference *d, char text[200]) {
    int used = snprintf(text, 200, "[");
    for (int k = 0; k < d->ndim; k++)
        used += snprintf(text + used, 200 - (size_t)used, "%s%" PRId64, k ? ", " : "", d->index[k]);
    snprintf(text + used, 200 - (size_t)used, "]");
}

static void describe_difference(comparing *c, const rshi_job *j) {
    const rshi_ckpt_tensor *x = &c->a->tensor[c->pair[2 * j->different]];
    rsh_ckpt_difference *d = &c->out;
    char index[200];
    int bits = rsh_dtype_bits(x->dtype);
    d->has_index = true;
    d->ndim = x->ndim;
    memcpy(d->index, j->differing.index, sizeof d->index);
    if (bits < 8 && x->ndim) d->index[x->ndim - 1] = d->index[x->ndim - 1] * 8 / bits;
    index_text(d, index);
    const rshi_ckpt_tensor *y = &c->b->tensor[c->pair[2 * j->different + 1]];
    char where[64] = "";
    if (y->layout && y->ranks_are_files)
        snprintf(where, sizeof where, ", in the part of rank %" PRId64, j->differing.rank);
    set_difference(c, x->name, "tensor \"%.300s\" differs first at %s%s of %.300s", x->name, index, where, c->b->path);
}

static rsh_status compare_elements(comparing *c, const rsh_compare_opts *o) {
    rshi_files files = {NULL, read_b, NULL, (void *)(uintptr_t)c->b};
    rshi_job j = {.source = c->a,
                  .files = &files,
                  .mode = RSHI_WINDOW_COMPARE,
                  .describe = describe_sides,
                  .ctx = c,
                  .ntensors = c->n};
    j.mem = (o->mem ? o->mem : DEFAULT_MEM) * 3 / 4;
    j.threads = o->threads;
    j.progress = o->progress;
    j.progress_ctx = o->progress_ctx;
    rsh_status st = rshi_job_plan(&j);
    if (!st) st = rshi_job_run(&j);
    if (!st && j.different >= 0) describe_difference(c, &j);
    rshi_job_free(&j);
    return st;
}

/* Do several ranks store the same elements? */
static rsh_status has_copies(const rshi_ckpt_tensor *t, bool *has) {
    int64_t stored = 0;
    *has = false;
    for (int64_t i = 0; t->layout && i < rsh_layout_nranks(t->layout); i++) {
        rsh_part part;
        RSH_TRY(rsh_layout_part(t->layout, rsh_layout_rank(t->layout, i), 0, &part));
        stored += part.count; /* at most the bytes of the files */
    }
    *has = stored > rshi_ckpt_count(t);
    return RSH_OK;
}

rsh_status rshi_ckpt_check_copies(const rsh_ckpt *ckpt, const rsh_convert_opts *opts) {
    rsh_compare_opts o = RSH_COMPARE_OPTS_INIT;
    comparing c = {.a = ckpt, .b = ckpt};
    rsh_status st = RSH_OK;
    if (opts->no_digest && !opts->verify) return RSH_OK;
    o.mem = opts->mem;
    o.threads = opts->threads;
    c.pair = rshi_alloc((size_t)ckpt->ntensors * 2, sizeof *c.pair);
    if (!c.pair) return rshi_nomem();
    for (int64_t i = 0; i < ckpt->ntensors && !st; i++) {
        bool has = false;
        st = has_copies(&ckpt->tensor[i], &has);
        if (has) c.pair[2 * c.n] = c.pair[2 * c.n + 1] = i, c.n++;
    }
    if (!st && c.n) st = compare_elements(&c, &o);
    rshi_free(c.pair);
    RSH_TRY(st);
    if (!c.out.found) return RSH_OK;
    char index[200];
    index_text(&c.out, index);
    return rshi_fail(RSH_EVALUE,
                     "%.300s: tensor \"%.300s\" is not the same on all ranks that should have copies, first at %s; if "
                     "ranks have different parts of it, correct its rule in --from",
                     ckpt->path, c.out.tensor, index);
}

rsh_status rsh_ckpt_compare(const rsh_ckpt *a, const rsh_ckpt *b, const rsh_compare_opts *opts,
                            rsh_ckpt_difference *out) {
    RSH_NEEDS(a);
    RSH_NEEDS(b);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_CKPT_DIFFERENCE_INIT);
    rsh_compare_opts o = RSH_COMPARE_OPTS_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(opts, RSH_COMPARE_OPTS_INIT, &o));
    RSH_REQUIRE(o.threads >= 0 && o.threads <= 256, RSH_EVALUE, "threads must be from 0 to 256, got %d", o.threads);
    RSH_REQUIRE(!o.mem || o.mem >= RSHI_LEAST_MEM, RSH_EVALUE, "--mem must be at least 1 MiB, got %" PRIu64 " B",
                o.mem);
    RSH_REQUIRE(!b->base, RSH_EUNSUP, "%s: the second checkpoint must not be a mapped one; pass it as the first",
                b->path);
    comparing c = {.a = a, .b = b, .converted = o.converted, .allow_missing = o.allow_missing};
    c.pair = rshi_alloc((size_t)a->ntensors * 2, sizeof *c.pair);
    if (!c.pair) return rshi_nomem();
    rsh_status st = pair_all(&c) ? compare_elements(&c, &o) : RSH_OK;
    rshi_free(c.pair);
    if (!st) rshi_result_write(&c.out, sizeof c.out, out);
    return st;
}

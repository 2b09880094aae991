/* Rank files: reads a directory of rank files of another tool; rules describe their layouts.
 *
 * The sizes of a whole tensor follow from the local sizes on all ranks and the cuts in the rules.  Then every rank's
 * part is checked against the layout. */
#include "ckpt/rules.h"
#include "ckpt/torch_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The part that one rank has of one tensor. */
typedef struct held {
    const char *name; /* in the checkpoint's store */
    int64_t rank;
    int32_t file;
    uint32_t entry; /* byte offset of the tensor's entry in the file */
    uint64_t at;    /* byte offset of the tensor's elements */
    rsh_dtype dtype;
    int ndim;
    int64_t size[RSH_MAX_NDIM]; /* stored shape */
} held;

typedef struct gathering {
    rsh_ckpt *c;
    const rshi_ckpt_place *place;
    const rsh_ckpt_rules *rules;
    held *held; /* owned */
    int64_t n, room;
    rshi_name_table others; /* names of non-tensor entries */
    int32_t file;           /* the current file */
    int64_t rank;
} gathering;

#define REFUSE(g, h, ...) rshi_ckpt_refuse((g)->c, (h)->file, (h)->entry, (h)->name, __VA_ARGS__)

/* ---- files ---- */

static rsh_status add_held(gathering *g, int32_t file, int64_t rank, const rshi_header *h,
                           const rshi_header_tensor *t) {
    RSH_TRY(RSHI_GROW(g->held, g->n + 1, &g->room));
    held *e = &g->held[g->n];
    *e = (held){
        .rank = rank, .file = file, .entry = t->at, .at = t->begin, .dtype = (rsh_dtype)t->dtype, .ndim = t->ndim};
    if (t->ndim) memcpy(e->size, h->shapes + t->shape, t->ndim * sizeof *e->size);
    e->name = rshi_store_text(&g->c->store, t->name, strlen(t->name));
    if (!e->name) return rshi_nomem();
    g->n++;
    return RSH_OK;
}

static rsh_status read_safetensors(gathering *g, const rshi_ckpt_file *f, int32_t file, int64_t rank) {
    rshi_header h;
    RSH_TRY(rshi_header_read(f->path, f->path, &h));
    g->c->file[file].hash = h.hash;
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < h.ntensors && !st; i++) st = add_held(g, file, rank, &h, &h.tensor[i]);
    for (int64_t i = 0; i < h.nmeta && !st; i++)
        if (strncmp(h.meta[i].key, "reshard.", 8)) st = rshi_ckpt_add_meta(g->c, h.meta[i].key, h.meta[i].value);
    rshi_header_free(&h);
    return st;
}

/* Adds a tensor of a torch.save file, which must be contiguous. */
static rsh_status add_plain(void *ctx, const char *name, const rshi_pickle_value *v, const rshi_saved_tensor *t) {
    gathering *g = ctx;
    int64_t dense = 1;
    bool right = true;
    RSH_TRY(RSHI_GROW(g->held, g->n + 1, &g->room));
    held *e = &g->held[g->n];
    *e = (held){.rank = g->rank, .file = g->file, .entry = v->at, .at = t->at, .dtype = t->dtype, .ndim = t->ndim};
    e->name = rshi_store_text(&g->c->store, name, strlen(name));
    if (!e->name) return rshi_nomem();
    for (int d = t->ndim; d--; dense *= t->shape[d]) {
        right &= t->shape[d] <= 1 || t->strides[d] == dense;
        e->size[d] = t->shape[d];
    }
    g->n++;
    return right || !dense ? RSH_OK : REFUSE(g, e, "it is not contiguous in its file; save it with .contiguous()");
}

static rsh_status read_file(void *ctx, const char *name, int64_t rank) {
    gathering *g = ctx;
    RSH_TRY(rshi_ckpt_add_file(g->c, g->place->path, name, &g->file));
    g->rank = rank;
    const rshi_ckpt_file *f = &g->c->file[g->file];
    if (rshi_ckpt_ends(name, ".safetensors") || !rshi_ckpt_is_torch(NULL, f->path))
        return read_safetensors(g, f, g->file, rank);
    return rshi_torch_each_plain(g->c, g->file, &g->others, add_plain, g);
}

static rsh_status read_files(gathering *g) {
    RSH_TRY(rshi_files_each(g->rules->files, g->place, read_file, g));
    RSH_REQUIRE(g->c->nfiles, RSH_EVALUE, "%.150s: no file name matches \"files %.150s\" of %.150s", g->place->path,
                g->rules->files, g->rules->name);
    return RSH_OK;
}

static int by_name(const void *a, const void *b) {
    const held *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

/* ---- sizes of whole tensors ---- */

/* One tensor: the parts of the ranks in ascending order, and the form of its rule. */
typedef struct solving {
    const gathering *g;
    const held *held;
    int64_t n;
    const rshi_ckpt_rule *rule;
    const rsh_layout_desc *form;
    int64_t positions; /* number of positions of the form's mesh */
} solving;

static int64_t positions_of(const rsh_layout_desc *f) {
    int64_t n = 1;
    for (int a = 0; a < f->naxes; a++)
        if (!rshi_mul(n, f->axis[a].size, &n)) return 0;
    return n;
}

/* Returns the number of mesh positions that hold the same part of a dim with this cut. */
static int64_t copies_of_cut(const solving *s, const rsh_cut *cut) {
    int64_t n = s->positions;
    for (int a = 0; a < cut->naxes; a++) n /= s->form->axis[cut->axes[a]].size;
    return n;
}

/* Returns the stored size of tensor dim d; files list dims in storage order. */
static int64_t local_size(const solving *s, const held *h, int d) {
    if (s->form->has_order)
        for (int k = 0; k < s->form->ndim; k++)
            if (s->form->order[k] == d) return h->size[k];
    return h->size[d];
}

/* Sums the local sizes along dim d (-1: numbers of elements) over all positions of the mesh. */
static rsh_status sum_local_sizes(const solving *s, int d, int64_t *sum) {
    *sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t size = 1;
        bool fits = d < 0 ? rshi_product(s->held[i].ndim, s->held[i].size, &size)
                          : (size = local_size(s, &s->held[i], d), true);
        if (!fits || !rshi_add(*sum, size, sum))
            return REFUSE(s->g, &s->held[i], "its number of elements exceeds 2^63 - 1");
    }
    if (s->n == s->positions) return RSH_OK;
    return REFUSE(s->g, s->held, "found on %" PRId64 " ranks, but its rule \"%.100s\" (%.100s:%d) is for %" PRId64,
                  s->n, rsh_form_text(s->rule->form), s->g->rules->name, s->rule->line, s->positions);
}

/* Solves  hole * times = sum - known. */
static rsh_status solve_hole(const solving *s, int d, int64_t sum, int64_t known, int64_t times, int64_t *hole) {
    int64_t rest = sum - known;
    if (rest < 0 || rest % times)
        return REFUSE(s->g, s->held,
                      "the sizes of dim %d on ranks %" PRId64 " to %" PRId64 " add up to %" PRId64
                      ", which contradicts \"%.100s\" (%.100s:%d)",
                      d, s->held[0].rank, s->held[s->n - 1].rank, sum, rsh_form_text(s->rule->form), s->g->rules->name,
                      s->rule->line);
    *hole = rest / times;
    return RSH_OK;
}

/* Solves a dim of segments, of which one may be `_`. */
static rsh_status solve_segments(const solving *s, int d, int64_t *size) {
    const rsh_dim *dim = &s->form->dim[d];
    int64_t sum, known = 0, all = 0, times = 0, hole = 0;
    RSH_TRY(sum_local_sizes(s, d, &sum));
    for (int i = 0; i < dim->nsegments; i++) {
        const rsh_cut *cut = dim->cut.naxes ? &dim->cut : &dim->segment[i].cut;
        int64_t seg = dim->segment[i].size, part;
        if (seg == RSH_HOLE) {
            if (times)
                return REFUSE(s->g, s->held, "dim %d has two segments of unknown size; write the size of one of them",
                              d);
            times = copies_of_cut(s, cut);
        } else if (!rshi_mul(seg, copies_of_cut(s, cut), &part) || !rshi_add(known, part, &known) ||
                   !rshi_add(all, seg, &all)) {
            return REFUSE(s->g, s->held, "its number of elements exceeds 2^63 - 1");
        }
    }
    if (!times) return *size = all, RSH_OK;
    RSH_TRY(solve_hole(s, d, sum, known, times, &hole));
    *size = all + hole;
    return RSH_OK;
}

static rsh_status solve_dim(const solving *s, int d, int64_t *size) {
    const rsh_dim *dim = &s->form->dim[d];
    int64_t sum;
    if (dim->nsegments) return solve_segments(s, d, size);
    if (dim->size != RSH_HOLE) return *size = dim->size, RSH_OK;
    if (!dim->cut.naxes) return *size = local_size(s, s->held, d), RSH_OK;
    RSH_TRY(sum_local_sizes(s, d, &sum));
    return solve_hole(s, d, sum, 0, copies_of_cut(s, &dim->cut), size);
}

/* Finds the sizes of a flat layout.  A flat part only shows its number of elements, so only one size may be `_`. */
static rsh_status solve_flat(const solving *s, int64_t *shape) {
    int64_t sum, times = s->positions, known = 1;
    int hole = -1;
    if (s->form->ndim == RSH_HOLE) return REFUSE(s->g, s->held, "its rule has a flat cut, so it must state the sizes");
    for (int d = 0; d < s->form->ndim; d++) {
        const rsh_dim *dim = &s->form->dim[d];
        if (dim->nsegments || dim->size == RSH_HOLE) {
            if (hole >= 0 || dim->nsegments)
                return REFUSE(s->g, s->held, "its rule has a flat cut, so it must state all sizes except one");
            hole = d;
        } else if (!rshi_mul(known, shape[d] = dim->size, &known)) {
            return REFUSE(s->g, s->held, "its number of elements exceeds 2^63 - 1");
        }
        for (int a = 0; a < dim->cut.naxes; a++) times /= s->form->axis[dim->cut.axes[a]].size;
    }
    if (hole < 0) return RSH_OK;
    for (int a = 0; a < s->form->flat.naxes; a++) times /= s->form->axis[s->form->flat.axes[a]].size;
    RSH_TRY(sum_local_sizes(s, -1, &sum));
    if (!rshi_mul(known, times, &known) || !known)
        return REFUSE(s->g, s->held, "its sizes cannot be derived from the rank files; write them in the rule");
    return solve_hole(s, hole, sum, 0, known, &shape[hole]);
}

static rsh_status solve_shape(const solving *s, int *ndim, int64_t *shape) {
    if (s->form->flat.naxes) {
        *ndim = s->form->ndim;
        return solve_flat(s, shape);
    }
    *ndim = s->held->ndim;
    if (s->form->ndim == RSH_HOLE) {
        memcpy(shape, s->held->size, sizeof s->held->size);
        return RSH_OK;
    }
    if (s->form->ndim != *ndim)
        return REFUSE(s->g, s->held, "it has %d dims, but its rule \"%.100s\" (%.100s:%d) has %d", *ndim,
                      rsh_form_text(s->rule->form), s->g->rules->name, s->rule->line, s->form->ndim);
    for (int d = 0; d < *ndim; d++) RSH_TRY(solve_dim(s, d, &shape[d]));
    return RSH_OK;
}

/* ---- parts ---- */

static rsh_status check_held(const solving *s, const held *h, const rsh_layout *l) {
    rsh_part part;
    int64_t want[RSH_MAX_NDIM];
    if (rsh_layout_nparts(l, h->rank) != 1)
        return REFUSE(s->g, h, "rank %" PRId64 " has a part of it, but is not in its layout %.200s", h->rank,
                      rsh_layout_text(l));
    RSH_TRY(rsh_layout_part(l, h->rank, 0, &part));
    rshi_part_stored_shape(l, &part, want);
    for (int d = 0; d < part.ndim && h->ndim == part.ndim; d++)
        if (h->size[d] != want[d])
            return REFUSE(s->g, h,
                          "rank %" PRId64 " has size %" PRId64 " in dim %d, but %.200s (%.100s:%d) requires %" PRId64,
                          h->rank, h->size[d], d, rsh_layout_text(l), s->g->rules->name, s->rule->line, want[d]);
    if (h->ndim != part.ndim)
        return REFUSE(s->g, h, "rank %" PRId64 " has %d dims, but %.200s requires %d", h->rank, h->ndim,
                      rsh_layout_text(l), part.ndim);
    return RSH_OK;
}

static rsh_status add_parts(const solving *s, int64_t tensor, const rsh_layout *l) {
    int64_t n = rsh_layout_nranks(l);
    rshi_ckpt_part *parts = rshi_alloc((size_t)n, sizeof *parts);
    rsh_status st = parts ? RSH_OK : rshi_nomem();
    for (int64_t i = 0; i < n && !st; i++) parts[i] = (rshi_ckpt_part){-1, 0};
    for (int64_t i = 0; i < s->n && !st; i++) {
        st = check_held(s, &s->held[i], l);
        if (!st) parts[rshi_layout_ordinal(l, s->held[i].rank)] = (rshi_ckpt_part){s->held[i].file, s->held[i].at};
    }
    if (!st) st = rshi_ckpt_set_parts(s->g->c, tensor, l, n, parts);
    rshi_free(parts);
    return st;
}

static rsh_status add_solved(solving *s) {
    const held *h = s->held;
    int64_t shape[RSH_MAX_NDIM] = {0}, tensor;
    int ndim = 0;
    rsh_layout *l = NULL;
    RSH_TRY(solve_shape(s, &ndim, shape));
    rsh_status st = rsh_form_fill(s->rule->form, h->dtype, ndim, shape, NULL, &l);
    if (st == RSH_EVALUE || st == RSH_ETYPE)
        return rshi_fail(st, "%.120s: tensor \"%.120s\": %.120s:%d: %s", s->g->c->path, h->name, s->g->rules->name,
                         s->rule->line, rsh_error_detail());
    if (!st && rsh_layout_dtype(l) != h->dtype)
        st = REFUSE(s->g, h, "its dtype is %s, but its rule requires %s", rsh_dtype_name(h->dtype),
                    rsh_dtype_name(rsh_layout_dtype(l)));
    if (!st)
        st = rshi_ckpt_add_tensor(s->g->c, h->name, strlen(h->name), h->dtype, ndim, rsh_layout_shape(l), h->file,
                                  h->entry, &tensor);
    if (!st) st = add_parts(s, tensor, l);
    rsh_layout_free(l);
    return st;
}

/* Adds the tensor that the ranks store under one name. */
static rsh_status add_tensor(gathering *g, const held *h, int64_t n) {
    int64_t rule = rshi_rules_match(g->rules, h->name);
    if (rule < 0)
        return REFUSE(g, h,
                      "no rule of %.150s matches its name; add \"* [...]\" as the last line if all ranks "
                      "have the same tensor",
                      g->rules->name);
    for (int64_t i = 1; i < n; i++) {
        if (h[i].rank == h[i - 1].rank)
            return REFUSE(g, &h[i], "rank %" PRId64 " has two tensors of this name", h[i].rank);
        if (h[i].dtype != h->dtype || h[i].ndim != h->ndim)
            return REFUSE(g, &h[i], "dtype or number of dims on rank %" PRId64 " differs from rank %" PRId64,
                          h[i].rank, h->rank);
    }
    solving s = {.g = g, .held = h, .n = n, .rule = &g->rules->rule[rule]};
    s.form = rsh_form_describe(s.rule->form);
    s.positions = positions_of(s.form);
    return add_solved(&s);
}

static bool detect_rank_files(const rshi_ckpt_place *place) {
    return place->is_directory && place->from && place->from->files;
}

static rsh_status read_rank_files(const rshi_ckpt_place *place, rsh_ckpt *c) {
    gathering g = {.c = c, .place = place, .rules = place->from};
    rsh_status st = read_files(&g);
    if (!st && g.n) qsort(g.held, (size_t)g.n, sizeof *g.held, by_name);
    for (int64_t i = 0, end; i < g.n && !st; i = end) {
        for (end = i + 1; end < g.n && !strcmp(g.held[i].name, g.held[end].name);) end++;
        st = add_tensor(&g, g.held + i, end - i);
    }
    if (!st) st = rshi_ckpt_check_parts(c);
    rshi_free(g.held);
    rshi_name_table_free(&g.others);
    return st ? st : rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_rank_files = {"rank files", detect_rank_files, read_rank_files, true};

/* Rank files: a directory of files that another tool wrote for each rank, cut as rules say.
 *
 * The files say what each rank has; the rules say how a tensor is cut.  From the local sizes on all ranks and the cuts
 * follow the sizes of the whole tensor, and then every rank's part must be as the layout says. */
#include "ckpt/rules.h"
#include "ckpt/torch_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What one rank has of one tensor. */
typedef struct held {
    const char *name; /* in the checkpoint's store */
    int64_t rank;
    int32_t file;
    uint32_t entry; /* byte offset in the file of its entry */
    uint64_t at;    /* and of its elements */
    rsh_dtype dtype;
    int ndim;
    int64_t size[RSH_MAX_NDIM]; /* as stored */
} held;

typedef struct gathering {
    rsh_ckpt *c;
    const rsh_ckpt_rules *rules;
    held *held; /* owned */
    int64_t n, room;
    rshi_name_table others; /* names of what is no tensor */
    int32_t file;           /* the one at hand */
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
    for (int64_t i = 0; i < h.nmeta && !st; i++) st = rshi_ckpt_add_meta(g->c, h.meta[i].key, h.meta[i].value);
    rshi_header_free(&h);
    return st;
}

/* Tensors of torch.save, which the rules must describe as they are: plain and dense. */
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
    return right || !dense ? RSH_OK : REFUSE(g, e, "it is not dense and row-major in its file");
}

static rsh_status read_file(gathering *g, const char *directory, const char *name, int64_t rank) {
    RSH_TRY(rshi_ckpt_add_file(g->c, directory, name, &g->file));
    g->rank = rank;
    const rshi_ckpt_file *f = &g->c->file[g->file];
    if (rshi_ckpt_ends(name, ".safetensors") || !rshi_ckpt_is_torch(NULL, f->path))
        return read_safetensors(g, f, g->file, rank);
    return rshi_torch_each_plain(g->c, g->file, &g->others, add_plain, g);
}

/* One level of `files`: of the directory `below` (NULL: the checkpoint's own) the entries that the pattern fits up to
 * its byte `length`.  At the last level they are files; before it, directories. */
static rsh_status read_level(gathering *g, const rshi_ckpt_place *top, const char *below, size_t length) {
    const char *files = g->rules->files, *next = files[length] ? strchr(files + length + 1, '/') : NULL;
    rshi_ckpt_place own = {0};
    const rshi_ckpt_place *place = below ? &own : top;
    char *path = NULL, *pattern = rshi_ckpt_copy(files);
    rsh_status st = pattern ? RSH_OK : rshi_nomem();
    if (!st) pattern[length] = 0;
    if (!st && below) st = rshi_ckpt_join(top->path, below, &path);
    if (!st && below) st = rshi_ckpt_place_open(path, NULL, &own);
    for (int64_t i = 0; !st && i < place->nnames; i++) {
        char *name = NULL;
        int64_t rank, part;
        st = rshi_ckpt_join(below, place->name[i], &name);
        bool fits = !st && rshi_files_match(pattern, name, &rank, &part);
        if (fits) st = rshi_ckpt_inside(place->path, place->name[i]);
        if (fits && !st && files[length])
            st = read_level(g, top, name, next ? (size_t)(next - files) : strlen(files));
        else if (fits && !st)
            st = read_file(g, top->path, name, rank);
        rshi_free(name);
    }
    if (below) rshi_ckpt_place_close(&own);
    rshi_free(pattern);
    rshi_free(path);
    return st;
}

static rsh_status read_files(gathering *g, const rshi_ckpt_place *place) {
    RSH_TRY(read_level(g, place, NULL, strcspn(g->rules->files, "/")));
    RSH_REQUIRE(g->c->nfiles, RSH_EVALUE, "%.150s: no file is named as %.150s says: %.150s", place->path,
                g->rules->name, g->rules->files);
    return RSH_OK;
}

static int by_name(const void *a, const void *b) {
    const held *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

/* ---- sizes of whole tensors ---- */

/* One tensor: what the ranks have of it, ascending, and the form of its rule. */
typedef struct solving {
    const gathering *g;
    const held *held;
    int64_t n;
    const rshi_ckpt_rule *rule;
    const rsh_layout_desc *form;
    int64_t positions; /* of the form's mesh */
} solving;

static int64_t positions_of(const rsh_layout_desc *f) {
    int64_t n = 1;
    for (int a = 0; a < f->naxes; a++)
        if (!rshi_mul(n, f->axis[a].size, &n)) return 0;
    return n;
}

/* How many positions of the mesh have the same share of what is cut along these axes. */
static int64_t copies(const solving *s, const rsh_cut *cut) {
    int64_t n = s->positions;
    for (int a = 0; a < cut->naxes; a++) n /= s->form->axis[cut->axes[a]].size;
    return n;
}

/* The number in the file's shape that is tensor dim d: files have dims in the order of storage. */
static int64_t local_size(const solving *s, const held *h, int d) {
    if (s->form->has_order)
        for (int k = 0; k < s->form->ndim; k++)
            if (s->form->order[k] == d) return h->size[k];
    return h->size[d];
}

/* The sum over all positions of the mesh of what they have along dim d (-1: of elements), where a copy that is not
 * stored counts as the ones that are. */
static rsh_status sum_up(const solving *s, int d, int64_t *sum) {
    *sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t size = 1;
        bool fits = d < 0 ? rshi_product(s->held[i].ndim, s->held[i].size, &size)
                          : (size = local_size(s, &s->held[i], d), true);
        if (!fits || !rshi_add(*sum, size, sum))
            return REFUSE(s->g, &s->held[i], "more elements than 64 bits can count");
    }
    if (s->n == s->positions) return RSH_OK;
    return REFUSE(s->g, s->held, "it is on %" PRId64 " ranks, its rule \"%.100s\" (%.100s:%d) is for %" PRId64, s->n,
                  rsh_form_text(s->rule->form), s->g->rules->name, s->rule->line, s->positions);
}

/* hole * times = sum - known */
static rsh_status solve(const solving *s, int d, int64_t sum, int64_t known, int64_t times, int64_t *hole) {
    int64_t rest = sum - known;
    if (rest < 0 || rest % times)
        return REFUSE(s->g, s->held,
                      "the sizes of dim %d on ranks %" PRId64 " to %" PRId64 " add up to %" PRId64
                      ", which does not fit \"%.100s\" (%.100s:%d)",
                      d, s->held[0].rank, s->held[s->n - 1].rank, sum, rsh_form_text(s->rule->form), s->g->rules->name,
                      s->rule->line);
    *hole = rest / times;
    return RSH_OK;
}

/* A dim of segments; one of them may be a hole. */
static rsh_status solve_segments(const solving *s, int d, int64_t *size) {
    const rsh_dim *dim = &s->form->dim[d];
    int64_t sum, known = 0, all = 0, times = 0, hole = 0;
    RSH_TRY(sum_up(s, d, &sum));
    for (int i = 0; i < dim->nsegments; i++) {
        const rsh_cut *cut = dim->cut.naxes ? &dim->cut : &dim->segment[i].cut;
        int64_t seg = dim->segment[i].size, part;
        if (seg == RSH_HOLE) {
            if (times) return REFUSE(s->g, s->held, "dim %d has two segments of unknown size", d);
            times = copies(s, cut);
        } else if (!rshi_mul(seg, copies(s, cut), &part) || !rshi_add(known, part, &known) ||
                   !rshi_add(all, seg, &all)) {
            return REFUSE(s->g, s->held, "more elements than 64 bits can count");
        }
    }
    if (!times) return *size = all, RSH_OK;
    RSH_TRY(solve(s, d, sum, known, times, &hole));
    *size = all + hole;
    return RSH_OK;
}

static rsh_status solve_dim(const solving *s, int d, int64_t *size) {
    const rsh_dim *dim = &s->form->dim[d];
    int64_t sum;
    if (dim->nsegments) return solve_segments(s, d, size);
    if (dim->size != RSH_HOLE) return *size = dim->size, RSH_OK;
    if (!dim->cut.naxes) return *size = local_size(s, s->held, d), RSH_OK;
    RSH_TRY(sum_up(s, d, &sum));
    return solve(s, d, sum, 0, copies(s, &dim->cut), size);
}

/* A flat part says how many elements there are, no more: one size may be unknown. */
static rsh_status solve_flat(const solving *s, int64_t *shape) {
    int64_t sum, times = s->positions, known = 1;
    int hole = -1;
    if (s->form->ndim == RSH_HOLE) return REFUSE(s->g, s->held, "a flat cut: its rule must name the sizes");
    for (int d = 0; d < s->form->ndim; d++) {
        const rsh_dim *dim = &s->form->dim[d];
        if (dim->nsegments || dim->size == RSH_HOLE) {
            if (hole >= 0 || dim->nsegments)
                return REFUSE(s->g, s->held, "a flat cut: its rule must name all sizes but one");
            hole = d;
        } else if (!rshi_mul(known, shape[d] = dim->size, &known)) {
            return REFUSE(s->g, s->held, "more elements than 64 bits can count");
        }
        for (int a = 0; a < dim->cut.naxes; a++) times /= s->form->axis[dim->cut.axes[a]].size;
    }
    if (hole < 0) return RSH_OK;
    for (int a = 0; a < s->form->flat.naxes; a++) times /= s->form->axis[s->form->flat.axes[a]].size;
    RSH_TRY(sum_up(s, -1, &sum));
    if (!rshi_mul(known, times, &known) || !known) return REFUSE(s->g, s->held, "its sizes cannot be worked out");
    return solve(s, hole, sum, 0, known, &shape[hole]);
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
        return REFUSE(s->g, s->held, "it has %d dims, its rule \"%.100s\" (%.100s:%d) has %d", *ndim,
                      rsh_form_text(s->rule->form), s->g->rules->name, s->rule->line, s->form->ndim);
    for (int d = 0; d < *ndim; d++) RSH_TRY(solve_dim(s, d, &shape[d]));
    return RSH_OK;
}

/* ---- parts ---- */

static rsh_status check_held(const solving *s, const held *h, const rsh_layout *l) {
    rsh_part part;
    int64_t want[RSH_MAX_NDIM];
    if (rsh_layout_nparts(l, h->rank) != 1)
        return REFUSE(s->g, h, "rank %" PRId64 " has it, but its layout %.200s has no such rank", h->rank,
                      rsh_layout_text(l));
    RSH_TRY(rsh_layout_part(l, h->rank, 0, &part));
    rshi_part_stored_shape(l, &part, want);
    for (int d = 0; d < part.ndim && h->ndim == part.ndim; d++)
        if (h->size[d] != want[d])
            return REFUSE(s->g, h,
                          "rank %" PRId64 " has size %" PRId64 " in dim %d; %.200s (%.100s:%d) gives it %" PRId64,
                          h->rank, h->size[d], d, rsh_layout_text(l), s->g->rules->name, s->rule->line, want[d]);
    if (h->ndim != part.ndim)
        return REFUSE(s->g, h, "rank %" PRId64 " has %d dims; %.200s gives it %d", h->rank, h->ndim, rsh_layout_text(l),
                      part.ndim);
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
        st = REFUSE(s->g, h, "it is of %s, its rule says %s", rsh_dtype_name(h->dtype),
                    rsh_dtype_name(rsh_layout_dtype(l)));
    if (!st)
        st = rshi_ckpt_add_tensor(s->g->c, h->name, strlen(h->name), h->dtype, ndim, rsh_layout_shape(l), h->file,
                                  h->entry, &tensor);
    if (!st) st = add_parts(s, tensor, l);
    rsh_layout_free(l);
    return st;
}

/* What the ranks have of one name. */
static rsh_status add_tensor(gathering *g, const held *h, int64_t n) {
    int64_t rule = rshi_rules_match(g->rules, h->name);
    if (rule < 0) return REFUSE(g, h, "no rule of %.150s matches its name", g->rules->name);
    for (int64_t i = 1; i < n; i++) {
        if (h[i].rank == h[i - 1].rank) return REFUSE(g, &h[i], "rank %" PRId64 " has it twice", h[i].rank);
        if (h[i].dtype != h->dtype || h[i].ndim != h->ndim)
            return REFUSE(g, &h[i], "rank %" PRId64 " has another dtype or number of dims than rank %" PRId64,
                          h[i].rank, h->rank);
    }
    solving s = {.g = g, .held = h, .n = n, .rule = &g->rules->rule[rule]};
    s.form = rsh_form_describe(s.rule->form);
    s.positions = positions_of(s.form);
    return add_solved(&s);
}

static bool detect(const rshi_ckpt_place *place) { return place->is_directory && place->from && place->from->files; }

static rsh_status read_all(const rshi_ckpt_place *place, rsh_ckpt *c) {
    gathering g = {.c = c, .rules = place->from};
    rsh_status st = read_files(&g, place);
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

const rshi_ckpt_kind rshi_kind_rank_files = {"rank files", detect, read_all, true};

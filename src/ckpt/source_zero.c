/* ZeRO: reads DeepSpeed checkpoints of a model whose optimizer states are divided among ranks.
 *
 * The files of all ranks hold flat pieces of fp32 weights and of the optimizer's moments; a file of model states lists
 * the parameters in order, with their shapes.  Stages 1 and 2 concatenate all parameters of a group and give each rank
 * an equal piece, padded at the end.  Stage 3 gives each rank an equal piece of every parameter, padded if the size is
 * not divisible by the number of ranks.  A model that is also divided by tensor parallelism has such files for each
 * mp_rank.  They do not say along which dims tensors are cut, so the tensors of each part get a prefix. */
#include "ckpt/torch_values.h"
#include "ckpt/zero_names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef rshi_pickle_value value;

enum { FLATS_MOST = 1 << 16 }; /* most flat tensors of a rank */

/* A parameter. */
typedef struct parameter {
    const char *name; /* in the checkpoint's store */
    uint32_t group;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], count;
    /* offset of the first element: in its group (stages 1, 2), or in the flat tensors of a rank (stage 3) */
    int64_t at;
} parameter;

typedef struct reading {
    rsh_ckpt *c;
    const rshi_ckpt_place *place;
    int64_t mp;         /* number of the tensor-parallel part */
    const char *prefix; /* prefix of all names: "", or "mp_rank_01." if there are several parts */
    int64_t stage, nranks;
    parameter *parameter; /* owned */
    int64_t n, room;
    rshi_name_table names;   /* hash table of the parameters' names */
    int64_t *begin, *length; /* owned: first element and length of this rank's piece of each group (stages 1 and 2) */
    uint32_t ngroups;
    bool frozen; /* stage 3: there are frozen parameters */
    /* the current file */
    const rshi_torch_file *s;
    int32_t file;
    int64_t rank;
} reading;

static rsh_status refuse_value(const reading *r, const value *v, const char *sentence) {
    return rshi_pickle_fail(&r->s->pickle, v, "%s", sentence);
}

/* ---- parameters ---- */

static rsh_status add_parameter(reading *r, const value *name, const value *shape, uint32_t group) {
    if (name->kind != RSHI_PICKLE_TEXT || memchr(name->text, 0, name->n))
        return refuse_value(r, name, "expected the name of a parameter as a text");
    RSH_TRY(RSHI_GROW(r->parameter, r->n + 1, &r->room));
    parameter *p = &r->parameter[r->n];
    *p = (parameter){.group = group, .name = rshi_store_text(&r->c->store, name->text, name->n)};
    if (!p->name) return rshi_nomem();
    RSH_TRY(rshi_pickle_sizes(&r->s->pickle, shape, "the shape of a parameter", &p->ndim, p->shape));
    if (!rshi_product(p->ndim, p->shape, &p->count))
        return refuse_value(r, shape, "the number of elements of a parameter exceeds 2^63 - 1");
    if (rshi_name_table_find(&r->names, p->name) >= 0) return refuse_value(r, name, "duplicate parameter");
    return rshi_name_table_add(&r->names, p->name, r->n++);
}

/* Reads [{name: shape, ...}, ...], one dict per group; a single group may be a dict without a list. */
static rsh_status read_parameters(reading *r, const value *groups) {
    bool list = groups && groups->kind == RSHI_PICKLE_LIST;
    if (!groups || (!list && groups->kind != RSHI_PICKLE_DICT))
        return refuse_value(r, groups, "the file of model states has no param_shapes");
    for (uint32_t g = 0; g < (list ? groups->n : 1); g++) {
        const value *dict = list ? groups->item[g] : groups;
        if (dict->kind != RSHI_PICKLE_DICT) return refuse_value(r, dict, "param_shapes must be a list of dicts");
        for (uint32_t i = 0; i + 1 < dict->n; i += 2) RSH_TRY(add_parameter(r, dict->item[i], dict->item[i + 1], g));
        if (r->n > (int64_t)r->s->pickle.length)
            return refuse_value(r, dict, "damaged file: it has more parameters than bytes");
    }
    return RSH_OK;
}

/* Computes the offset of each parameter. */
static rsh_status compute_offsets(reading *r) {
    int64_t at = 0;
    for (int64_t i = 0; i < r->n; i++) {
        parameter *p = &r->parameter[i];
        if (r->stage < 3 && i && p->group != p[-1].group) at = 0;
        p->at = at;
        if (!rshi_add(at, r->stage < 3 ? p->count : rshi_ceil_div(p->count, r->nranks), &at))
            return rshi_fail(RSH_EVALUE, "%s: the total number of elements exceeds 2^63 - 1",
                             r->place->path);
    }
    return RSH_OK;
}

/* ---- flat pieces ---- */

/* The flat tensors of one rank: the weights, or one kind of moments. */
typedef struct flats {
    const char *prefix;      /* prefix of names: "" or "exp_avg." */
    rshi_saved_tensor *list; /* owned: the flat tensor of each group */
    uint32_t n;
} flats;

static rsh_status read_flat(const reading *r, const value *v, rshi_saved_tensor *out) {
    if (!rshi_saved_is_tensor(v)) return refuse_value(r, v, "expected a tensor as a flat group");
    RSH_TRY(rshi_saved_tensor_of(r->s, v, out));
    if (out->ndim != 1 || (out->shape[0] > 1 && out->strides[0] != 1))
        return refuse_value(r, v, "a flat group must be a contiguous 1-D tensor");
    return RSH_OK;
}

/* Finds the tensor of a parameter, or adds it on the first rank. */
static rsh_status find_tensor(reading *r, const char *prefix, const parameter *p, rsh_dtype dtype, int64_t *tensor) {
    rshi_text name = {0};
    rshi_text_add(&name, "%s%s%s", r->prefix, prefix, p->name);
    if (name.failed) return rshi_text_free(&name), rshi_nomem();
    *tensor = r->rank ? rshi_ckpt_find(r->c, name.data, name.length) : -1;
    rsh_status st = RSH_OK;
    if (*tensor < 0)
        st = rshi_ckpt_add_tensor(r->c, name.data, name.length, dtype, p->ndim, p->shape, r->file, 0, tensor);
    else if (r->c->tensor[*tensor].dtype != dtype)
        st = rshi_fail(RSH_EVALUE, "%s: the dtype of \"%.200s\" differs from rank 0", r->c->file[r->file].path,
                       name.data);
    rshi_text_free(&name);
    return st;
}

/* Adds elements [first, first + count) of a parameter, which are at offset `from` of a flat tensor. */
static rsh_status add_elements(reading *r, const char *prefix, const parameter *p, const rshi_saved_tensor *flat,
                               int64_t from, int64_t first, int64_t count) {
    int64_t tensor;
    RSH_TRY(find_tensor(r, prefix, p, flat->dtype, &tensor));
    if (count <= 0) return RSH_OK;
    uint64_t size = (uint64_t)rsh_dtype_bits(flat->dtype) / 8;
    return rshi_ckpt_add_range(r->c, tensor, first, count, r->file, flat->at + (uint64_t)from * size);
}

/* Stages 1 and 2: adds a parameter.  The group is the concatenation of the pieces of all ranks; the last piece may lack
 * its padding. */
static rsh_status add_from_group(reading *r, const flats *f, const parameter *p) {
    if (p->group >= f->n)
        return refuse_value(r, r->s->pickle.root, "the optimizer states have fewer flat groups than param_shapes");
    const rshi_saved_tensor *flat = &f->list[p->group];
    int64_t begin = r->begin[p->group], end = begin + flat->shape[0];
    int64_t from = rshi_max(begin, p->at), to = rshi_min(end, p->at + p->count);
    return add_elements(r, f->prefix, p, flat, from - begin, from - p->at, to - from);
}

/* Stage 3: adds a parameter.  This rank has piece number `rank` of each parameter; the groups are concatenated. */
static rsh_status add_piece(reading *r, const flats *f, const parameter *p) {
    int64_t piece = rshi_ceil_div(p->count, r->nranks), first = rshi_min(p->count, r->rank * piece), base = 0;
    int64_t left = rshi_min(p->count - first, piece), at = p->at;
    if (!left) return f->n ? add_elements(r, f->prefix, p, &f->list[0], 0, 0, 0) : RSH_OK;
    for (uint32_t g = 0; g < f->n && left; g++) {
        int64_t n = f->list[g].shape[0], from = at - base, some = rshi_min(left, n - from);
        base += n;
        if (some <= 0) continue;
        RSH_TRY(add_elements(r, f->prefix, p, &f->list[g], from, first, some));
        first += some;
        at += some;
        left -= some;
    }
    return left ? refuse_value(r, r->s->pickle.root, "the flat groups are too short for the parameters") : RSH_OK;
}

static rsh_status add_flats(reading *r, const flats *f) {
    for (int64_t i = 0; i < r->n; i++) RSH_TRY((r->stage < 3 ? add_from_group : add_piece)(r, f, &r->parameter[i]));
    return RSH_OK;
}

/* Stores the lengths of this rank's pieces; weights and moments have pieces of the same lengths. */
static rsh_status store_lengths(reading *r, const flats *f) {
    if (!r->begin) {
        r->ngroups = f->n;
        r->begin = rshi_calloc(f->n, sizeof *r->begin);
        r->length = rshi_calloc(f->n, sizeof *r->length);
        if (!r->begin || !r->length) return rshi_nomem();
    }
    if (f->n != r->ngroups) return refuse_value(r, r->s->pickle.root, "the number of flat groups differs from rank 0");
    for (uint32_t g = 0; g < f->n; g++) {
        int64_t end;
        if (!rshi_add(r->begin[g], r->length[g], &r->begin[g]) || !rshi_add(r->begin[g], f->list[g].shape[0], &end))
            return refuse_value(r, r->s->pickle.root, "the number of elements of the flat groups exceeds 2^63 - 1");
        r->length[g] = f->list[g].shape[0];
    }
    return RSH_OK;
}

static rsh_status read_weights(reading *r, const value *list) {
    flats f = {.prefix = ""};
    if (!list || list->kind != RSHI_PICKLE_LIST || list->n > FLATS_MOST)
        return refuse_value(r, list, "the optimizer states have no flat groups of fp32 weights");
    f.list = rshi_alloc(list->n, sizeof *f.list);
    rsh_status st = f.list ? RSH_OK : rshi_nomem();
    for (; f.n < list->n && !st; f.n++) st = read_flat(r, list->item[f.n], &f.list[f.n]);
    if (!st) st = store_lengths(r, &f);
    if (!st) st = add_flats(r, &f);
    rshi_free(f.list);
    return st;
}

/* ---- moments ---- */

/* Returns the state of group g: from a dict with integer keys, or from a list. */
static const value *group_state(const value *state, uint32_t g) {
    if (!state) return NULL;
    if (state->kind == RSHI_PICKLE_LIST) return g < state->n ? state->item[g] : NULL;
    for (uint32_t i = 0; state->kind == RSHI_PICKLE_DICT && i + 1 < state->n; i += 2)
        if (state->item[i]->kind == RSHI_PICKLE_INT && state->item[i]->number == g) return state->item[i + 1];
    return NULL;
}

/* Reads one kind of moments for all groups. */
static rsh_status read_moment(reading *r, const value *state, uint32_t ngroups, const char *key) {
    rshi_text prefix = {0};
    flats f = {0};
    rshi_text_add(&prefix, "%s.", key);
    f.list = rshi_alloc(ngroups, sizeof *f.list);
    f.prefix = prefix.data;
    rsh_status st = f.list && !prefix.failed ? RSH_OK : rshi_nomem();
    for (; f.n < ngroups && !st; f.n++) {
        const value *v = rshi_pickle_get(group_state(state, f.n), key);
        st = v ? read_flat(r, v, &f.list[f.n])
               : refuse_value(r, state, "the optimizer state must have moments for every group");
        if (!st && f.list[f.n].shape[0] != r->length[f.n])
            st = refuse_value(r, v, "the moments of a group must have as many elements as its weights");
    }
    if (!st) st = add_flats(r, &f);
    rshi_text_free(&prefix);
    rshi_free(f.list);
    return st;
}

/* Reads all kinds of moments: every flat tensor in the first group's state is one, whatever its key. */
static rsh_status read_moments(reading *r, const value *state, uint32_t ngroups) {
    const value *first = ngroups ? group_state(state, 0) : NULL;
    for (uint32_t i = 0; first && first->kind == RSHI_PICKLE_DICT && i + 1 < first->n && i < 128; i += 2) {
        const value *key = first->item[i], *v = first->item[i + 1];
        rshi_saved_tensor t;
        char name[64];
        if (key->kind != RSHI_PICKLE_TEXT || key->n >= sizeof name || !rshi_saved_is_tensor(v)) continue;
        RSH_TRY(rshi_saved_tensor_of(r->s, v, &t));
        if (t.ndim != 1) continue; /* a tensor such as the step */
        memcpy(name, key->text, key->n);
        name[key->n] = 0;
        RSH_TRY(read_moment(r, state, ngroups, name));
    }
    return RSH_OK;
}

static rsh_status read_optimizer(reading *r) {
    const value *all = rshi_pickle_get(r->s->pickle.root, "optimizer_state_dict");
    const value *weights = rshi_pickle_get(all, r->stage < 3 ? "single_partition_of_fp32_groups" : "fp32_flat_groups");
    const value *base = rshi_pickle_get(all, r->stage < 3 ? "base_optimizer_state" : "optimizer_state_dict");
    const value *state = rshi_pickle_get(base, "state");
    RSH_TRY(read_weights(r, weights));
    return read_moments(r, state ? state : base, weights->n);
}

/* ---- model states ---- */

/* Reads {name: other name of the same parameter}. */
static rsh_status add_shared(reading *r, const value *shared) {
    for (uint32_t i = 0; shared && shared->kind == RSHI_PICKLE_DICT && i + 1 < shared->n; i += 2) {
        const value *name = shared->item[i], *of = shared->item[i + 1];
        if (name->kind != RSHI_PICKLE_TEXT || of->kind != RSHI_PICKLE_TEXT)
            return refuse_value(r, name, "expected the name of a parameter as a text");
        char *text = rshi_store_text(&r->c->store, of->text, of->n),
             *own = rshi_store_text(&r->c->store, name->text, name->n);
        if (!text || !own) return rshi_nomem();
        int64_t at = rshi_name_table_find(&r->names, text);
        if (at < 0) return refuse_value(r, of, "a shared parameter is not in param_shapes");
        RSH_TRY(RSHI_GROW(r->parameter, r->n + 1, &r->room));
        r->parameter[r->n] = r->parameter[at];
        r->parameter[r->n++].name = own;
    }
    return RSH_OK;
}

/* Adds a buffer, or a frozen parameter of stage 1 or 2, which is whole. */
static rsh_status add_whole(reading *r, const value *name, const value *v) {
    static const int64_t zero[RSH_MAX_NDIM];
    rshi_saved_tensor t;
    int64_t tensor;
    rshi_text full = {0};
    if (memchr(name->text, 0, name->n))
        return refuse_value(r, name, "expected the name of a tensor as a text without NUL bytes");
    RSH_TRY(rshi_saved_tensor_of(r->s, v, &t));
    rshi_text_add(&full, "%s%.*s", r->prefix, (int)name->n, name->text);
    rsh_status st = full.failed ? rshi_nomem() : RSH_OK;
    if (!st)
        st = rshi_ckpt_add_tensor(r->c, full.data, full.length, t.dtype, t.ndim, t.shape, r->file, name->at, &tensor);
    rshi_text_free(&full);
    return st ? st : rshi_ckpt_add_saved(r->c, tensor, zero, &t, r->file);
}

static rsh_status name_buffers(reading *r, const value *names, rshi_name_table *out) {
    for (uint32_t i = 0; names && names->kind == RSHI_PICKLE_LIST && i < names->n; i++) {
        if (names->item[i]->kind != RSHI_PICKLE_TEXT) continue;
        char *name = rshi_store_text(&r->c->store, names->item[i]->text, names->item[i]->n);
        if (!name) return rshi_nomem();
        if (rshi_name_table_find(out, name) < 0) RSH_TRY(rshi_name_table_add(out, name, i));
    }
    return RSH_OK;
}

static rsh_status add_buffers(reading *r, const value *names, const value *module) {
    rshi_name_table buffers = {0};
    rsh_status st = name_buffers(r, names, &buffers);
    for (uint32_t i = 0; !st && module && module->kind == RSHI_PICKLE_DICT && i + 1 < module->n; i += 2) {
        const value *key = module->item[i], *v = module->item[i + 1];
        if (key->kind != RSHI_PICKLE_TEXT || !rshi_saved_is_tensor(v)) continue;
        char *name = rshi_store_text(&r->c->store, key->text, key->n);
        st = !name ? rshi_nomem() : rshi_name_table_find(&buffers, name) < 0 ? RSH_OK : add_whole(r, key, v);
    }
    rshi_name_table_free(&buffers);
    return st;
}

/* Stage 3: adds this rank's piece of a frozen parameter, which is in its file of model states. */
static rsh_status add_frozen_piece(reading *r, const value *name, const value *v, const value *shapes) {
    parameter p = {.name = rshi_store_text(&r->c->store, name->text, name->n)};
    rshi_saved_tensor flat;
    if (!p.name) return rshi_nomem();
    const value *shape = rshi_pickle_get(shapes, p.name);
    if (!shape) return refuse_value(r, name, "a frozen parameter is not in frozen_param_shapes");
    RSH_TRY(rshi_pickle_sizes(&r->s->pickle, shape, "the shape of a frozen parameter", &p.ndim, p.shape));
    if (!rshi_product(p.ndim, p.shape, &p.count))
        return refuse_value(r, shape, "the number of elements of a parameter exceeds 2^63 - 1");
    RSH_TRY(read_flat(r, v, &flat));
    int64_t piece = rshi_ceil_div(p.count, r->nranks), first = rshi_min(p.count, r->rank * piece);
    int64_t count = rshi_min(p.count - first, piece);
    if (flat.shape[0] < count)
        return refuse_value(r, v, "a piece of a frozen parameter has fewer elements than its shape requires");
    return add_elements(r, "", &p, &flat, 0, first, count);
}

static rsh_status add_frozen(reading *r) {
    const value *frozen = rshi_pickle_get(r->s->pickle.root, "frozen_param_fragments");
    const value *shapes = rshi_pickle_get(r->s->pickle.root, "frozen_param_shapes");
    if (!frozen || frozen->kind != RSHI_PICKLE_DICT) return RSH_OK;
    r->frozen = frozen->n > 0;
    for (uint32_t i = 0; i + 1 < frozen->n; i += 2) {
        const value *name = frozen->item[i], *v = frozen->item[i + 1];
        if (name->kind != RSHI_PICKLE_TEXT || !rshi_saved_is_tensor(v)) continue;
        RSH_TRY(r->stage < 3 ? add_whole(r, name, v) : add_frozen_piece(r, name, v, shapes));
    }
    return RSH_OK;
}

static rsh_status read_model(reading *r) {
    const value *root = r->s->pickle.root;
    RSH_TRY(read_parameters(r, rshi_pickle_get(root, "param_shapes")));
    RSH_TRY(compute_offsets(r));
    RSH_TRY(add_shared(r, rshi_pickle_get(root, "shared_params")));
    RSH_TRY(add_buffers(r, rshi_pickle_get(root, "buffer_names"), rshi_pickle_get(root, "module")));
    return add_frozen(r);
}

/* ---- the directory ---- */

typedef rsh_status (*read_fn)(reading *r);

static rsh_status with_file(reading *r, const char *name, read_fn fn) {
    rshi_torch_file s;
    r->file = (int32_t)rshi_ckpt_find_file(r->c, name);
    if (r->file < 0) {
        RSH_TRY(rshi_ckpt_inside(r->place->path, name));
        RSH_TRY(rshi_ckpt_add_file(r->c, r->place->path, name, &r->file));
    }
    const rshi_ckpt_file *f = &r->c->file[r->file];
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(f->path);
    rsh_status st = rshi_saved_open(&(rshi_file_span){fd, f->path, 0, f->size}, &s);
    r->s = &s;
    if (!st) rshi_ckpt_hash(r->c, r->file, s.bytes, s.pickle.end);
    if (!st) st = fn(r);
    r->s = NULL;
    rshi_saved_close(&s);
    close(fd);
    return st;
}

static rsh_status read_stage(reading *r) {
    const value *all = rshi_pickle_get(r->s->pickle.root, "optimizer_state_dict"),
                *stage = rshi_pickle_get(all, "zero_stage");
    if (!stage || stage->kind != RSHI_PICKLE_INT || stage->number < 1 || stage->number > 3)
        return refuse_value(r, all, "the optimizer states must have a zero_stage of 1, 2 or 3");
    r->stage = stage->number;
    return RSH_OK;
}

static rsh_status read_files(reading *r) {
    const char *name;
    while (r->nranks < r->place->nnames) { /* ranks are numbered from 0 without gaps */
        RSH_TRY(rshi_zero_find(r->place, r->nranks, r->mp, RSHI_ZERO_OPTIMIZER, &name));
        if (!name) break;
        r->nranks++;
    }
    for (int64_t i = 0, mp = -1; i < r->place->nnames; i++)
        RSH_REQUIRE(rshi_zero_rank(r->place->name[i], RSHI_ZERO_OPTIMIZER, &mp) < r->nranks || mp != r->mp, RSH_EVALUE,
                    "%s: found %s, but zero_pp_rank_%" PRId64 "_mp_rank_%02" PRId64 "_optim_states.pt is missing",
                    r->place->path, r->place->name[i], r->nranks, r->mp);
    RSH_TRY(rshi_zero_find(r->place, 0, r->mp, RSHI_ZERO_OPTIMIZER, &name));
    RSH_TRY(with_file(r, name, read_stage));
    RSH_TRY(rshi_zero_find(r->place, r->stage < 3 ? -1 : 0, r->mp, RSHI_ZERO_MODEL, &name));
    RSH_REQUIRE(name, RSH_EVALUE, "%s: the file of model states (%smp_rank_%02" PRId64 "_model_states.pt) is missing",
                r->place->path, r->stage < 3 ? "" : "zero_pp_rank_0_", r->mp);
    RSH_TRY(with_file(r, name, read_model));
    for (r->rank = 0; r->rank < r->nranks; r->rank++) {
        RSH_TRY(rshi_zero_find(r->place, r->rank, r->mp, RSHI_ZERO_OPTIMIZER, &name));
        RSH_TRY(with_file(r, name, read_optimizer));
        if (!r->rank || r->stage < 3 || !r->frozen) continue;
        RSH_TRY(rshi_zero_find(r->place, r->rank, r->mp, RSHI_ZERO_MODEL, &name));
        RSH_REQUIRE(name, RSH_EVALUE,
                    "%s: zero_pp_rank_%" PRId64 "_mp_rank_%02" PRId64
                    "_model_states.pt is missing; it has the pieces of "
                    "frozen parameters of that rank",
                    r->place->path, r->rank, r->mp);
        RSH_TRY(with_file(r, name, add_frozen));
    }
    return RSH_OK;
}

static rsh_status read_part(const rshi_ckpt_place *place, int64_t mp, const char *prefix, rsh_ckpt *c) {
    reading r = {.c = c, .place = place, .mp = mp, .prefix = prefix};
    rsh_status st = read_files(&r);
    rshi_name_table_free(&r.names);
    rshi_free(r.parameter);
    rshi_free(r.begin);
    rshi_free(r.length);
    return st;
}

static rsh_status read_zero(const rshi_ckpt_place *place, rsh_ckpt *c) {
    int64_t nparts;
    RSH_TRY(rshi_zero_parts(place, &nparts));
    if (nparts == 1) return read_part(place, 0, "", c);
    for (int64_t mp = 0; mp < nparts; mp++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "mp_rank_%02" PRId64 ".", mp);
        RSH_TRY(read_part(place, mp, prefix, c));
    }
    return RSH_OK;
}

static bool detect_zero(const rshi_ckpt_place *place) {
    int64_t mp;
    for (int64_t i = 0; i < place->nnames; i++)
        if (rshi_zero_rank(place->name[i], RSHI_ZERO_OPTIMIZER, &mp) >= 0) return true;
    return false;
}

const rshi_ckpt_kind rshi_kind_zero = {"DeepSpeed ZeRO directory", detect_zero, read_zero, false};

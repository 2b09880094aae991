/* Module load: loads a tree and its optimizer from a checkpoint, completely or not at all.
 *
 * Every rank reads the headers and compares names and shapes.  Then elements are loaded into new memory, in the layouts
 * of the tree's values.  They are copied into the tree only when all ranks have succeeded. */
#include <reshard/nn/checkpoint.h>

#include <stdio.h>
#include <string.h>

#include "nn/fit_report.h"
#include "nn/impl.h"
#include "nn/joint_layouts.h"
#include "nn/model_state.h"
#include "nn/module.h"
#include "nn/optim.h"
#include "nn/state_dict.h"

/* The state dict to which a tensor of the files belongs. */
typedef enum home { MODEL, OPTIMIZER, EXTRA } home;

typedef struct item {
    int64_t tensor; /* index of the tensor in the checkpoint */
    home home;
    char *name;       /* owned: name in the state dict of `home` */
    rsh_value *fresh; /* owned: the loaded value */
    bool is_number;   /* true: a number of an optimizer, which has already been read */
} item;

typedef struct loading {
    rsh_comm *comm;
    rsh_module *m;
    rsh_module_load_opts o;
    rsh_ckpt *files, *mapped; /* owned: the files, and the files after applying the map (NULL: there is no map) */
    const rsh_ckpt *ckpt;     /* borrowed: `mapped` or `files`; tensors are loaded from it */
    rsh_state_dict *model;    /* owned: the values of the tree */
    rshn_tied tied;
    char *used; /* owned: a flag for each tensor of the checkpoint */
    item *at;
    int64_t n, room;
    rshn_fit_report report;
    rsh_state_dict *state[3]; /* owned: the loaded values, by home */
    rshn_trained *fresh;      /* owned: new state of the optimizer */
} loading;

/* ---- matching tensors with values ---- */

static rsh_status add_item(loading *l, int64_t tensor, home home, const char *name, const rsh_value *like) {
    NN_TRY(RSHN_GROW(l->at, l->n + 1, &l->room));
    item *it = &l->at[l->n++];
    *it = (item){.tensor = tensor, .home = home, .name = rshn_duplicate(name)};
    if (!it->name) return rshn_fail(RSH_ENOMEM, "out of memory for the name \"%s\"", name);
    return rshn_zeros_like(like, &it->fresh);
}

static bool fits(const rsh_ckpt_entry *e, const rsh_value *v) {
    return e->ndim == rsh_value_ndim(v) &&
           (!e->ndim || !memcmp(e->shape, rsh_value_shape(v), (size_t)e->ndim * sizeof *e->shape));
}

/* Requests a tensor of the files for a value; it is loaded with the value's dtype and layout. */
static rsh_status request_tensor(loading *l, const char *file_name, home home, const char *name,
                                 const rsh_value *like) {
    int64_t t = rsh_ckpt_find(l->ckpt, file_name);
    rsh_ckpt_entry e = RSH_CKPT_ENTRY_INIT;
    if (t < 0) return rshn_fit_missing(&l->report, file_name), RSH_OK;
    NN_TRY(rsh_ckpt_get_tensor(l->ckpt, t, &e));
    l->used[t] = 1;
    if (!fits(&e, like)) return rshn_fit_misfit(&l->report, file_name, e.ndim, e.shape, like), RSH_OK;
    rsh_status st = rsh_dtype_check_convert(e.dtype, rsh_value_dtype(like));
    if (st)
        return rshn_fail(st, "\"%.300s\": cannot convert %s in the files to %s in the model", file_name,
                         rsh_dtype_name(e.dtype), rsh_dtype_name(rsh_value_dtype(like)));
    return add_item(l, t, home, name, like);
}

/* A tied parameter may be stored under any of its paths. */
static const char *stored_name(const loading *l, const char *first) {
    if (rsh_ckpt_find(l->ckpt, first) >= 0) return first;
    for (int64_t i = 0; i < l->tied.n; i++)
        if (!strcmp(l->tied.at[i].first, first) && rsh_ckpt_find(l->ckpt, l->tied.at[i].path) >= 0)
            return l->tied.at[i].path;
    return first;
}

static rsh_status request_model(loading *l) {
    NN_TRY(rsh_state_dict_new(&l->model));
    NN_TRY(rshn_model_state(l->m, l->model));
    NN_TRY(rshn_tied_of(l->m, &l->tied));
    for (int64_t i = 0; i < rsh_state_dict_count(l->model); i++) {
        const char *name = rsh_state_dict_name(l->model, i);
        NN_TRY(request_tensor(l, stored_name(l, name), MODEL, name, rsh_state_dict_value(l->model, i)));
    }
    for (int64_t i = 0; i < l->tied.n; i++) { /* further copies of a tied parameter are not reported as unexpected */
        int64_t t = rsh_ckpt_find(l->ckpt, l->tied.at[i].path);
        if (t >= 0) l->used[t] = 1;
    }
    return RSH_OK;
}

static rsh_status request_extra(loading *l) {
    char name[1300];
    for (int64_t i = 0; i < rsh_state_dict_count(l->o.extra); i++) {
        const char *own = rsh_state_dict_name(l->o.extra, i);
        snprintf(name, sizeof name, RSHN_EXTRA_PREFIX "%.1200s", own);
        NN_TRY(request_tensor(l, name, EXTRA, own, rsh_state_dict_value(l->o.extra, i)));
    }
    return RSH_OK;
}

/* ---- the optimizer ---- */

static rsh_status read_number(loading *l, int64_t t, const char *name) {
    rsh_tensor *number = NULL;
    rsh_value *v = NULL;
    NN_TRY(rshn_number(RSH_F64, 0, &number));
    rsh_status st = rsh_ckpt_read(l->ckpt, t, NULL, &(rsh_memory){rsh_tensor_data(number), NULL});
    if (!st) st = rsh_value_adopt_tensor(number, false, &v);
    if (st) return rsh_tensor_free(number), st;
    st = add_item(l, t, OPTIMIZER, name, v);
    if (st) return rsh_value_free(v), st;
    item *it = &l->at[l->n - 1];
    rsh_value_free(it->fresh);
    it->fresh = v;
    it->is_number = true;
    return RSH_OK;
}

/* Handles a tensor of the files whose name begins with "optimizer.". */
static rsh_status request_state_tensor(loading *l, int64_t t, const rsh_ckpt_entry *e) {
    const char *name = e->name + strlen(RSHN_OPTIMIZER_PREFIX);
    const rsh_value *like = NULL;
    switch (rshn_optimizer_entry(l->o.optimizer, name, &like)) {
    case RSHN_STATE_SLOT: return request_tensor(l, e->name, OPTIMIZER, name, like);
    case RSHN_STATE_NUMBER:
        l->used[t] = 1;
        if (!e->ndim && e->dtype == RSH_F64) return read_number(l, t, name);
        return rshn_fail(RSH_EVALUE, "\"%.300s\" must be a 0-D f64, got a %d-D %s", e->name, e->ndim,
                         rsh_dtype_name(e->dtype));
    case RSHN_STATE_UNKNOWN: break;
    }
    return RSH_OK; /* it is not marked as used, so it is reported as unexpected */
}

static void note_needed(void *ctx, const char *name) {
    loading *l = ctx;
    char whole[1300];
    snprintf(whole, sizeof whole, RSHN_OPTIMIZER_PREFIX "%.1200s", name);
    if (rsh_ckpt_find(l->ckpt, whole) < 0) rshn_fit_missing(&l->report, whole);
}

static bool begins_with(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static rsh_status request_state(loading *l) {
    rsh_ckpt_entry e = RSH_CKPT_ENTRY_INIT;
    if (!l->o.optimizer) return RSH_OK;
    for (int64_t t = 0; t < rsh_ckpt_ntensors(l->ckpt); t++) {
        NN_TRY(rsh_ckpt_get_tensor(l->ckpt, t, &e));
        if (begins_with(e.name, RSHN_OPTIMIZER_PREFIX)) NN_TRY(request_state_tensor(l, t, &e));
    }
    NN_TRY(rsh_state_dict_new(&l->state[OPTIMIZER]));
    for (int64_t i = 0; i < l->n; i++)
        if (l->at[i].home == OPTIMIZER)
            NN_TRY(rsh_state_dict_set(l->state[OPTIMIZER], l->at[i].name, l->at[i].fresh));
    return rshn_optimizer_each_needed(l->o.optimizer, l->state[OPTIMIZER], note_needed, l);
}

/* Reports tensors that nothing uses.  State of an optimizer and extra values may be left unused. */
static rsh_status note_unexpected(loading *l) {
    rsh_ckpt_entry e = RSH_CKPT_ENTRY_INIT;
    for (int64_t t = 0; t < rsh_ckpt_ntensors(l->ckpt); t++) {
        NN_TRY(rsh_ckpt_get_tensor(l->ckpt, t, &e));
        bool left = (!l->o.optimizer && begins_with(e.name, RSHN_OPTIMIZER_PREFIX)) ||
                    begins_with(e.name, RSHN_EXTRA_PREFIX);
        if (!l->used[t] && !left) rshn_fit_unexpected(&l->report, e.name);
    }
    return RSH_OK;
}

static rsh_status compare_names(loading *l, const char *path) {
    NN_TRY(rsh_ckpt_open(path, l->o.from, &l->files));
    if (l->o.map) NN_TRY(rsh_ckpt_map(l->files, l->o.map, &l->mapped));
    l->ckpt = l->mapped ? l->mapped : l->files;
    l->used = rshn_calloc((size_t)rsh_ckpt_ntensors(l->ckpt) + 1, 1);
    if (!l->used) return rshn_fail(RSH_ENOMEM, "out of memory: cannot load a checkpoint");
    NN_TRY(request_model(l));
    NN_TRY(request_extra(l));
    NN_TRY(request_state(l));
    NN_TRY(note_unexpected(l));
    return rshn_fit_status(&l->report, path, l->o.flags & RSH_LOAD_NONSTRICT);
}

/* ---- elements ---- */

/* Lists for rsh_ckpt_load.  If ranks have several layouts for a tensor, it appears once for each of them. */
typedef struct lists {
    const char **name;
    rsh_sharded **tensor;
    int64_t n;
} lists;

static rsh_status list_one(const loading *l, const rshn_joint *j, int64_t k, const item *it, lists *out) {
    rsh_ckpt_entry e = RSH_CKPT_ENTRY_INIT;
    NN_TRY(rsh_ckpt_get_tensor(l->ckpt, it->tensor, &e));
    for (int class = 0; class < j->nclasses; class++) {
        if (rshn_joint_first(j, class, k) != class) continue;
        out->name[out->n] = e.name;
        NN_TRY(rshn_joint_tensor(j, class, k, it->fresh, &out->tensor[out->n]));
        out->n++;
    }
    return RSH_OK;
}

static rsh_status make_lists(const loading *l, const rshn_joint *j, const int64_t *index, lists *out) {
    size_t most = (size_t)(j->n * j->nclasses) + 1;
    out->name = rshn_malloc(most * sizeof *out->name);
    out->tensor = rshn_calloc(most, sizeof *out->tensor);
    if (!out->name || !out->tensor) return rshn_fail(RSH_ENOMEM, "out of memory: cannot load %zu tensors", most);
    for (int64_t k = 0; k < j->n; k++) NN_TRY(list_one(l, j, k, &l->at[index[k]], out));
    return RSH_OK;
}

/* Values that are loaded from the files. */
typedef struct wanted {
    int64_t n;
    rsh_value **value;
    const char **name;
    int64_t *index; /* index of the item */
} wanted;

static rsh_status list_wanted(const loading *l, wanted *w) {
    size_t most = (size_t)l->n + 1;
    w->value = rshn_malloc(most * sizeof *w->value);
    w->name = rshn_malloc(most * sizeof *w->name);
    w->index = rshn_malloc(most * sizeof *w->index);
    if (!w->value || !w->name || !w->index) return rshn_fail(RSH_ENOMEM,
            "out of memory: cannot load %zu tensors", most - 1);
    for (int64_t i = 0; i < l->n; i++) {
        if (l->at[i].is_number) continue;
        w->value[w->n] = l->at[i].fresh;
        w->name[w->n] = l->at[i].name;
        w->index[w->n++] = i;
    }
    return RSH_OK;
}

static void end_wanted(wanted *w) {
    rshn_free(w->value);
    rshn_free(w->name);
    rshn_free(w->index);
}

static rsh_status load_elements(loading *l, rsh_status st) {
    wanted w = {0};
    rshn_joint joint = {0};
    lists all = {0};
    if (!st) st = list_wanted(l, &w);
    st = rshn_joint_make(l->comm, st, w.n, w.name, w.value, &joint);
    if (!st) st = rsh_comm_agree(l->comm, make_lists(l, &joint, w.index, &all));
    if (!st) st = rsh_ckpt_load(l->ckpt, l->comm, all.n, all.name, all.tensor, NULL);
    for (int64_t i = 0; all.tensor && i < all.n; i++) rsh_sharded_free(all.tensor[i]);
    rshn_free(all.tensor);
    rshn_free(all.name);
    rshn_joint_end(&joint);
    end_wanted(&w);
    return st;
}

/* ---- installing ---- */

static rsh_status prepare_state(loading *l) {
    for (int h = MODEL; h <= EXTRA; h += EXTRA - MODEL) NN_TRY(rsh_state_dict_new(&l->state[h]));
    for (int64_t i = 0; i < l->n; i++)
        if (l->at[i].home != OPTIMIZER)
            NN_TRY(rsh_state_dict_set(l->state[l->at[i].home], l->at[i].name, l->at[i].fresh));
    return l->o.optimizer ? rshn_optimizer_prepare(l->o.optimizer, l->state[OPTIMIZER], &l->fresh) : RSH_OK;
}

/* Installs the loaded values and calls the hooks, which see them.  After the ranks have agreed nothing can fail. */
static rsh_status install_values(loading *l) {
    NN_TRY(rshn_module_load_state(l->m, l->state[MODEL], RSH_LOAD_NONSTRICT, l->comm));
    if (l->o.optimizer) rshn_optimizer_commit(l->o.optimizer, l->state[OPTIMIZER], l->fresh);
    for (int64_t i = 0; i < l->n; i++)
        if (l->at[i].home == EXTRA)
            NN_TRY(rshn_copy_value(l->at[i].fresh, rsh_state_dict_find(l->o.extra, l->at[i].name)));
    return RSH_OK;
}

static void free_loading(loading *l) {
    for (int64_t i = 0; i < l->n; i++) {
        rsh_value_free(l->at[i].fresh);
        rshn_free(l->at[i].name);
    }
    rshn_free(l->at);
    if (l->o.optimizer) rshn_optimizer_discard(l->o.optimizer, l->fresh);
    for (int h = MODEL; h <= EXTRA; h++) rsh_state_dict_free(l->state[h]);
    rsh_state_dict_free(l->model);
    rshn_tied_end(&l->tied);
    rshn_free(l->used);
    rsh_ckpt_free(l->mapped);
    rsh_ckpt_free(l->files);
}

static rsh_status read_arguments(loading *l, const char *path, const rsh_module_load_opts *given) {
    if (!l->m || !path) return rshn_fail(RSH_EVALUE, "rsh_module_load: %s is NULL", l->m ? "path" : "m");
    NN_READ_OPTS(given, RSH_MODULE_LOAD_OPTS_INIT, &l->o);
    return RSH_OK;
}

rsh_status rsh_module_load(rsh_module *m, rsh_comm *comm, const char *path, const rsh_module_load_opts *opts) {
    loading l = {.comm = comm, .m = m, .o = RSH_MODULE_LOAD_OPTS_INIT};
    if (!comm) return rshn_fail(RSH_EVALUE, "rsh_module_load: comm is NULL");
    rsh_status st = read_arguments(&l, path, opts);
    if (!st) st = compare_names(&l, path);
    st = load_elements(&l, st);
    if (!st) st = rsh_comm_agree(comm, prepare_state(&l));
    if (!st) st = install_values(&l);
    free_loading(&l);
    return st;
}

/* Module save: saves a tree and its optimizer as one checkpoint. */
#include <reshard/nn/checkpoint.h>

#include <string.h>

#include "nn/impl.h"
#include "nn/joint_layouts.h"
#include "nn/model_state.h"

/* The values that this rank saves. */
typedef struct saving {
    rsh_state_dict *all;
    const char **name; /* owned list of borrowed names */
    rsh_value **value; /* owned list of borrowed values */
    int64_t n;
    rshn_joint joint;
    rsh_sharded **tensor; /* owned list of sharded tensors */
} saving;

static rsh_status read_arguments(rsh_module *m, const char *path, const rsh_module_save_opts *given,
                                 rsh_module_save_opts *o) {
    if (!m || !path) return rshn_fail(RSH_EVALUE, "rsh_module_save: %s is NULL", m ? "path" : "m");
    NN_READ_OPTS(given, RSH_MODULE_SAVE_OPTS_INIT, o);
    return RSH_OK;
}

static rsh_status gather_values(saving *s, rsh_module *m, const rsh_module_save_opts *o) {
    rsh_state_dict *state = NULL;
    NN_TRY(rsh_state_dict_new(&s->all));
    NN_TRY(rshn_model_state(m, s->all));
    if (o->optimizer) NN_TRY(rsh_optimizer_state_dict(o->optimizer, &state));
    rsh_status st = rshn_prefixed_state(state, RSHN_OPTIMIZER_PREFIX, s->all);
    rsh_state_dict_free(state);
    return st ? st : rshn_prefixed_state(o->extra, RSHN_EXTRA_PREFIX, s->all);
}

static rsh_status list_values(saving *s) {
    s->n = rsh_state_dict_count(s->all);
    s->name = rshn_malloc(((size_t)s->n + 1) * sizeof *s->name);
    s->value = rshn_malloc(((size_t)s->n + 1) * sizeof *s->value);
    s->tensor = rshn_calloc((size_t)s->n + 1, sizeof *s->tensor);
    if (!s->name || !s->value || !s->tensor)
        return rshn_fail(RSH_ENOMEM, "out of memory: cannot save %lld tensors", (long long)s->n);
    for (int64_t i = 0; i < s->n; i++) {
        s->name[i] = rsh_state_dict_name(s->all, i);
        s->value[i] = rsh_state_dict_value(s->all, i);
    }
    return RSH_OK;
}

/* Creates the tensors to save.  If there are several classes, the first one is saved. */
static rsh_status make_tensors(saving *s) {
    for (int64_t i = 0; i < s->n; i++) NN_TRY(rshn_joint_tensor(&s->joint, 0, i, s->value[i], &s->tensor[i]));
    return RSH_OK;
}

static void free_saving(saving *s) {
    for (int64_t i = 0; s->tensor && i < s->n; i++) rsh_sharded_free(s->tensor[i]);
    rshn_free(s->tensor);
    rshn_free(s->name);
    rshn_free(s->value);
    rshn_joint_end(&s->joint);
    rsh_state_dict_free(s->all);
}

rsh_status rsh_module_save(rsh_module *m, rsh_comm *comm, const char *path, const rsh_module_save_opts *opts) {
    rsh_module_save_opts o = RSH_MODULE_SAVE_OPTS_INIT;
    saving s = {0};
    if (!comm) return rshn_fail(RSH_EVALUE, "rsh_module_save: comm is NULL");
    rsh_status st = read_arguments(m, path, opts, &o);
    if (!st) st = gather_values(&s, m, &o);
    if (!st) st = list_values(&s);
    st = rshn_joint_make(comm, st, s.n, s.name, s.value, &s.joint);
    if (!st) st = rsh_comm_agree(comm, make_tensors(&s));
    if (!st) st = rsh_ckpt_save(comm, path, s.n, s.name, (const rsh_sharded *const *)s.tensor, o.files);
    free_saving(&s);
    return st;
}

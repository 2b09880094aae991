/* Param group: settings for a subset of an optimizer's parameters. */
#include <fnmatch.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/optim.h"

void rshn_optimizer_settings(rsh_optimizer *o, double weight_decay) {
    for (int64_t i = 0; i < o->n; i++) o->trained[i].weight_decay = weight_decay;
}

static rsh_status read_group(const rsh_param_group *given, rsh_param_group *g) {
    if (!given) return rshn_fail(RSH_EVALUE, "rsh_optimizer_add_group: group is NULL");
    NN_READ_OPTS(given, RSH_PARAM_GROUP_INIT, g);
    NN_TRY(rshn_not_negative("lr_scale", g->lr_scale));
    NN_TRY(rshn_not_negative("weight_decay", g->weight_decay));
    bool lists = g->npaths >= 0 && (!g->npaths || g->paths);
    for (int i = 0; lists && i < g->npaths; i++) lists = g->paths[i] != NULL;
    if (lists) return RSH_OK;
    return rshn_fail(RSH_EVALUE,
                     "rsh_optimizer_add_group: paths must be %d patterns, but one of them or the list is "
                     "NULL",
                     g->npaths);
}

static bool selects(const rsh_param_group *g, const rshn_trained *t) {
    if (g->ndim_below && rsh_value_ndim(t->parameter) >= g->ndim_below) return false;
    bool any = !g->npaths;
    for (int i = 0; !any && i < g->npaths; i++) any = !fnmatch(g->paths[i], t->path, 0);
    return any;
}

rsh_status rsh_optimizer_add_group(rsh_optimizer *o, const rsh_param_group *group, int64_t *count) {
    int64_t n = 0;
    if (!o) return rshn_fail(RSH_EVALUE, "rsh_optimizer_add_group: o is NULL");
    rsh_param_group g = RSH_PARAM_GROUP_INIT;
    NN_TRY(read_group(group, &g));
    for (int64_t i = 0; i < o->n; i++) {
        rshn_trained *t = &o->trained[i];
        if (!selects(&g, t)) continue;
        t->lr_scale = g.lr_scale;
        t->weight_decay = g.weight_decay;
        t->grouped = true;
        n++;
    }
    if (!n)
        return rshn_fail(RSH_EATTR,
                         "rsh_optimizer_add_group: the group selects none of the %lld parameters; "
                         "check its patterns",
                         (long long)o->n);
    if (count) *count = n;
    return RSH_OK;
}

rsh_status rsh_optimizer_get_settings(const rsh_optimizer *o, const char *path, double *lr, double *weight_decay) {
    if (!o || !path) return rshn_fail(RSH_EVALUE, "rsh_optimizer_get_settings: %s is NULL", o ? "path" : "o");
    for (int64_t i = 0; i < o->n; i++) {
        const rshn_trained *t = &o->trained[i];
        if (strcmp(t->path, path)) continue;
        if (lr) *lr = o->lr * t->lr_scale;
        if (weight_decay) *weight_decay = t->weight_decay;
        return RSH_OK;
    }
    return rshn_fail(RSH_EATTR, "the optimizer has no parameter \"%s\"", path);
}

/* Ckpt map: the public function that applies rules to an open checkpoint. */
#include "ckpt/map.h"

rsh_status rsh_ckpt_map(const rsh_ckpt *c, const rsh_ckpt_rules *map, rsh_ckpt **out) {
    rsh_ckpt *m = NULL;
    RSH_NEEDS(c);
    RSH_NEEDS(map);
    RSH_NEEDS(out);
    RSH_REQUIRE(!c->base, RSH_EUNSUP, "%s: the checkpoint is already mapped; put all rules into one map", c->path);
    RSH_TRY(rshi_map_apply(c, map, NULL, &m));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < m->ntensors && !st; i++)
        if (m->tensor[i].view) st = rshi_view_check(m, m->tensor[i].view, m->tensor[i].name);
    if (st)
        rsh_ckpt_free(m);
    else
        *out = m;
    return st;
}

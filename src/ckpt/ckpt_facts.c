/* Facts: what an open checkpoint answers. */
#include "ckpt/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *rsh_ckpt_kind(const rsh_ckpt *c) { return c ? c->kind->name : NULL; }
int64_t rsh_ckpt_ntensors(const rsh_ckpt *c) { return c ? c->ntensors : 0; }
int64_t rsh_ckpt_nfiles(const rsh_ckpt *c) { return c ? c->nfiles : 0; }
int64_t rsh_ckpt_nmeta(const rsh_ckpt *c) { return c ? c->nmeta : 0; }
int64_t rsh_ckpt_nnon_tensors(const rsh_ckpt *c) { return c ? c->nothers : 0; }

int64_t rsh_ckpt_find(const rsh_ckpt *c, const char *name) {
    return c && name ? rshi_ckpt_find(c, name, strlen(name)) : -1;
}

void rshi_ckpt_shape_text(const rshi_ckpt_tensor *t, char *text, size_t room) {
    const rshi_packing *p = t->packing;
    size_t used = (size_t)snprintf(text, room, "%s[", p ? p->name : rsh_dtype_name(t->dtype));
    for (int d = 0; d < t->ndim && used < room; d++) {
        int64_t size = p && d == t->ndim - 1 ? t->shape[d] / p->bytes * p->elements : t->shape[d];
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, d ? ", " : "", size);
    }
    if (used < room) snprintf(text + used, room - used, "]");
}

static rsh_status check(int64_t i, int64_t n, const char *what) {
    RSH_REQUIRE(i >= 0 && i < n, RSH_EINDEX, "%s %" PRId64 "; the checkpoint has %" PRId64, what, i, n);
    return RSH_OK;
}

rsh_status rsh_ckpt_get_tensor(const rsh_ckpt *c, int64_t i, rsh_ckpt_entry *out) {
    RSH_NEEDS(c);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_CKPT_ENTRY_INIT);
    RSH_TRY(check(i, c->ntensors, "tensor"));
    const rshi_ckpt_tensor *t = &c->tensor[i];
    rsh_ckpt_entry made = {.name = t->name,
                           .dtype = t->dtype,
                           .ndim = t->ndim,
                           .shape = t->shape,
                           .layout = t->layout,
                           .by_rank = t->layout && t->ranks_are_files,
                           .bytes = (uint64_t)rshi_ckpt_count(t) * (uint64_t)rsh_dtype_bits(t->dtype) / 8,
                           .digest = t->digest};
    if (t->packing) {
        made.packing = t->packing->name;
        made.block_elements = t->packing->elements;
        made.block_bytes = t->packing->bytes;
    }
    rshi_result_write(&made, sizeof made, out);
    return RSH_OK;
}

rsh_status rsh_ckpt_get_file(const rsh_ckpt *c, int64_t i, const char **name, uint64_t *bytes) {
    RSH_NEEDS(c);
    RSH_NEEDS(name);
    RSH_NEEDS(bytes);
    RSH_TRY(check(i, c->nfiles, "file"));
    *name = c->file[i].name;
    *bytes = c->file[i].size;
    return RSH_OK;
}

rsh_status rsh_ckpt_get_meta(const rsh_ckpt *c, int64_t i, const char **key, const char **value) {
    RSH_NEEDS(c);
    RSH_NEEDS(key);
    RSH_NEEDS(value);
    RSH_TRY(check(i, c->nmeta, "entry"));
    *key = c->meta[i].key;
    *value = c->meta[i].value;
    return RSH_OK;
}

rsh_status rsh_ckpt_get_non_tensor(const rsh_ckpt *c, int64_t i, const char **name, const char **what) {
    RSH_NEEDS(c);
    RSH_NEEDS(name);
    RSH_NEEDS(what);
    RSH_TRY(check(i, c->nothers, "entry"));
    *name = c->other[i].name;
    *what = c->other[i].what;
    return RSH_OK;
}

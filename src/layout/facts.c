/* Facts: getters of a layout: text, hash and description, shape, ranks and parts. */
#include "layout/impl.h"

#include <string.h>

const char *rsh_layout_text(const rsh_layout *l) { return l ? l->text : NULL; }
uint64_t rsh_layout_hash(const rsh_layout *l) { return l ? l->hash : 0; }

bool rsh_layout_equal(const rsh_layout *a, const rsh_layout *b) {
    if (!a || !b) return false;
    return a == b || (a->hash == b->hash && !strcmp(a->text, b->text));
}

const rsh_layout_desc *rsh_layout_describe(const rsh_layout *l) { return l ? &l->desc : NULL; }
rsh_dtype rsh_layout_dtype(const rsh_layout *l) { return l ? l->desc.dtype : RSH_DTYPE_NONE; }
int rsh_layout_ndim(const rsh_layout *l) { return l ? l->desc.ndim : -1; }
const int64_t *rsh_layout_shape(const rsh_layout *l) { return l ? l->shape : NULL; }
int64_t rsh_layout_count(const rsh_layout *l) { return l ? l->count : 0; }
rsh_op rsh_layout_op(const rsh_layout *l) { return l ? l->desc.op : RSH_OP_NONE; }
int64_t rsh_layout_nranks(const rsh_layout *l) { return l ? l->nranks : 0; }

int64_t rsh_layout_rank(const rsh_layout *l, int64_t i) {
    if (!l || i < 0 || i >= l->nranks) return -1;
    return l->entry ? l->entry[i].rank : l->desc.first_rank + i;
}

int64_t rsh_layout_nparts(const rsh_layout *l, int64_t rank) {
    if (!l) return 0;
    if (!l->entry) return rank >= l->desc.first_rank && rank - l->desc.first_rank < l->nranks;
    int64_t i = rshi_find(l->entry, l->nranks, sizeof *l->entry, rank);
    if (i < 0) return 0;
    return l->desc.is_boxes ? l->entry[i + 1].value - l->entry[i].value : 1;
}

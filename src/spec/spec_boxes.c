/* Boxes spec: a list of disjoint boxes, with or without owners. */
#include "spec/impl.h"

#include <string.h>

static void free_boxes(void *self) {
    rshi_boxes_spec *b = self;
    rshi_free(b->shards);
    rshi_free(b);
}

static rsh_status new_boxes(int64_t n, const rsh_shard_meta *shards, rshi_boxes_spec **out) {
    rshi_boxes_spec *b = RSHI_NEW(rshi_boxes_spec);
    if (b) b->shards = rshi_alloc((size_t)n, sizeof *shards);
    if (!b || !b->shards) {
        rshi_free(b);
        return rshi_nomem();
    }
    b->n = n;
    memcpy(b->shards, shards, (size_t)n * sizeof *shards);
    *out = b;
    return RSH_OK;
}

rsh_status rsh_spec_boxes(int64_t n, const rsh_shard_meta *shards, rsh_spec **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "boxes spec: out is NULL");
    RSH_REQUIRE(n >= 1, RSH_EVALUE, "boxes spec has %lld shards: at least one is required", (long long)n);
    RSH_TRY(rsh_shards_check_overlap(n, shards));
    rshi_boxes_spec *b = NULL;
    RSH_TRY(new_boxes(n, shards, &b));
    return rshi_spec_take(&rshi_boxes_kind, b, out);
}

static rsh_status print_boxes(const void *self, const rsh_sink *sink) {
    const rshi_boxes_spec *b = self;
    char text[RSHI_SHARD_TEXT];
    for (int64_t i = 0; i < b->n; i++) {
        rshi_shard_print(&b->shards[i], text);
        RSH_TRY(rshi_sink_format(sink, "%s%s", i ? "; " : "", text));
    }
    return RSH_OK;
}

static rsh_status build_boxes(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                              rsh_tensor_meta **out) {
    const rshi_boxes_spec *b = self;
    RSH_TRY(rsh_shards_check_tensor(b->n, b->shards, ndim, size));
    return rsh_tensor_meta_new(b->n, b->shards, ndim, size, props, out);
}

const rsh_spec_kind rshi_boxes_kind = {
    .name = "boxes", .build = build_boxes, .free = free_boxes, .print = print_boxes};

/* Chunk spec: cuts one dim into chunks, each with an owner. */
#include "spec/impl.h"

#include <string.h>

/* ---- creating ---- */

static void free_chunk(void *self) {
    rshi_chunk_spec *c = self;
    rshi_free(c->placements);
    rshi_free(c);
}

/* Creates a chunk spec whose placements the caller fills in; NULL if memory runs out. */
static rshi_chunk_spec *new_chunk(int dim, int64_t n) {
    rshi_chunk_spec *c = RSHI_NEW(rshi_chunk_spec);
    if (!c) return NULL;
    c->dim = dim;
    c->n = n;
    c->placements = rshi_calloc((size_t)n, sizeof *c->placements);
    if (c->placements) return c;
    free_chunk(c);
    return NULL;
}

static rsh_status check_count(int64_t n, rsh_spec **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "chunk spec: out is NULL");
    RSH_REQUIRE(n >= 1, RSH_EVALUE, "chunk spec has %lld placements: at least one is required", (long long)n);
    return RSH_OK;
}

rsh_status rsh_spec_chunk(int dim, int64_t n, const rsh_remote_device *placements, rsh_spec **out) {
    RSH_TRY(check_count(n, out));
    RSH_REQUIRE(placements, RSH_EVALUE, "chunk spec: placements is NULL, expected %lld of them", (long long)n);
    for (int64_t i = 0; i < n; i++) RSH_TRY(rshi_remote_device_sound(&placements[i]));
    rshi_chunk_spec *c = new_chunk(dim, n);
    if (!c) return rshi_nomem();
    memcpy(c->placements, placements, (size_t)n * sizeof *placements);
    return rshi_spec_take(&rshi_chunk_kind, c, out);
}

rsh_status rsh_spec_chunk_ranks(int dim, int64_t n, const int *ranks, rsh_spec **out) {
    RSH_TRY(check_count(n, out));
    RSH_REQUIRE(ranks || n <= INT32_MAX, RSH_EVALUE,
                "chunk spec: at most %d chunks are supported without ranks, got %lld", INT32_MAX, (long long)n);
    for (int64_t i = 0; ranks && i < n; i++)
        RSH_REQUIRE(ranks[i] >= 0, RSH_EVALUE, "chunk spec: chunk %lld is on an invalid rank %d", (long long)i,
                    ranks[i]);
    rshi_chunk_spec *c = new_chunk(dim, n);
    if (!c) return rshi_nomem();
    for (int64_t i = 0; i < n; i++)
        c->placements[i] = (rsh_remote_device){.rank = ranks ? ranks[i] : (int)i, .device = {RSH_DEVICE_CPU, -1}};
    return rshi_spec_take(&rshi_chunk_kind, c, out);
}

/* ---- functions of the kind ---- */

static rsh_status print_chunk(const void *self, const rsh_sink *sink) {
    const rshi_chunk_spec *c = self;
    char text[RSH_REMOTE_DEVICE_TEXT];
    RSH_TRY(rshi_sink_format(sink, "%d;", c->dim));
    for (int64_t i = 0; i < c->n; i++) {
        rsh_remote_device_print(&c->placements[i], text);
        RSH_TRY(rshi_sink_format(sink, "%s %s", i ? "," : "", text));
    }
    return RSH_OK;
}

static rsh_status normal_dim(const rshi_chunk_spec *c, int ndim, int *out) {
    RSH_REQUIRE(c->dim >= -ndim && c->dim < ndim, RSH_EVALUE,
                "chunk spec: dim %d is out of range for a tensor of %d dims", c->dim,
                ndim);
    *out = c->dim < 0 ? c->dim + ndim : c->dim;
    return RSH_OK;
}

static rsh_status build_chunk(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                              rsh_tensor_meta **out) {
    const rshi_chunk_spec *c = self;
    int dim = 0;
    int64_t s = 0;
    RSH_TRY(normal_dim(c, ndim, &dim));
    RSH_TRY(rsh_chunk_split(size[dim], c->n, &s));
    rsh_shard_meta *shards = rshi_calloc((size_t)c->n, sizeof *shards);
    if (!shards) return rshi_nomem();
    for (int64_t i = 0; i < c->n; i++) {
        shards[i] = (rsh_shard_meta){.ndim = ndim, .has_placement = true, .placement = c->placements[i]};
        memcpy(shards[i].sizes, size, (size_t)ndim * sizeof *size);
        shards[i].offsets[dim] = rsh_chunk_offset(size[dim], s, i);
        shards[i].sizes[dim] = rsh_chunk_size(size[dim], s, i);
    }
    rsh_status st = rsh_tensor_meta_new(c->n, shards, ndim, size, props, out);
    rshi_free(shards);
    return st;
}

const rsh_spec_kind rshi_chunk_kind = {
    .name = "chunk", .build = build_chunk, .free = free_chunk, .print = print_chunk};

/* ---- getters ---- */

/* Returns the data of a chunk spec.  For other specs returns RSH_EUNSUP with the name of the kind. */
static rsh_status as_chunk(const rsh_spec *s, const char *asked, const rshi_chunk_spec **out) {
    RSH_REQUIRE(s, RSH_EVALUE, "%s: chunk spec is NULL", asked);
    RSH_REQUIRE(rshi_spec_is_chunk(s), RSH_EUNSUP, "%s: requires a chunk spec, got kind \"%.100s\"", asked,
                s->kind->name);
    *out = s->self;
    return RSH_OK;
}

rsh_status rsh_spec_chunk_dim(const rsh_spec *s, int ndim, int *dim) {
    const rshi_chunk_spec *c = NULL;
    RSH_REQUIRE(dim, RSH_EVALUE, "dim of a chunk spec: out is NULL");
    RSH_TRY(as_chunk(s, "rsh_spec_chunk_dim", &c));
    return normal_dim(c, ndim, dim);
}

rsh_status rsh_spec_chunk_placements(const rsh_spec *s, int64_t *n, const rsh_remote_device **placements) {
    const rshi_chunk_spec *c = NULL;
    RSH_REQUIRE(n && placements, RSH_EVALUE, "placements of a chunk spec: out is NULL");
    RSH_TRY(as_chunk(s, "rsh_spec_chunk_placements", &c));
    *n = c->n;
    *placements = c->placements;
    return RSH_OK;
}

/* Returns the first chunk of a rank; -1: none. */
static int64_t find_rank(const rshi_chunk_spec *c, int rank) {
    int64_t i = 0;
    while (i < c->n && (rank < 0 || c->placements[i].rank != rank)) i++;
    return i < c->n ? i : -1;
}

rsh_status rsh_spec_chunk_index(const rsh_spec *s, int rank, int64_t *out) {
    const rshi_chunk_spec *c = NULL;
    RSH_REQUIRE(out, RSH_EVALUE, "chunk of a rank: out is NULL");
    RSH_TRY(as_chunk(s, "rsh_spec_chunk_index", &c));
    int64_t i = find_rank(c, rank);
    RSH_REQUIRE(i >= 0, RSH_ERUNTIME, "rank %d owns no shard of spec %.200s", rank, s->text);
    *out = i;
    return RSH_OK;
}

rsh_status rsh_spec_chunk_params(const rsh_spec *s, int64_t n, int64_t W, int rank, int64_t *start, int64_t *size) {
    const rshi_chunk_spec *c = NULL;
    int64_t split = 0;
    RSH_REQUIRE(start && size, RSH_EVALUE, "chunk of a rank: out is NULL");
    RSH_TRY(as_chunk(s, "rsh_spec_chunk_params", &c));
    RSH_TRY(rsh_chunk_split(n, W, &split));
    int64_t i = find_rank(c, rank);
    RSH_REQUIRE(i >= 0, RSH_EVALUE, "rank %d owns no shard of spec %.200s", rank, s->text);
    *start = rsh_chunk_offset(n, split, i);
    *size = rsh_chunk_size(n, split, i);
    return RSH_OK;
}

/* Shard meta: a box of a tensor, and its owner. */
#include "spec/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

rsh_status rshi_size_check(int ndim, const int64_t *size) {
    RSH_REQUIRE(ndim >= 0 && ndim <= RSH_MAX_NDIM, RSH_EVALUE, "cannot have %d dims: expected 0 to %d", ndim,
                RSH_MAX_NDIM);
    RSH_REQUIRE(!ndim || size, RSH_EVALUE, "got %d dims but size is NULL", ndim);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(size[d] >= 0, RSH_EVALUE, "dim %d must not have a negative size, got %lld", d, (long long)size[d]);
    return RSH_OK;
}

/* Names a shard in a message; if i < 0, there is only one shard. */
static const char *name_of(int64_t i, char who[40]) {
    if (i < 0) return "the shard";
    snprintf(who, 40, "shard %" PRId64, i);
    return who;
}

rsh_status rshi_shard_meta_check(const rsh_shard_meta *m, int64_t i) {
    char who[40];
    RSH_REQUIRE(m->ndim >= 0 && m->ndim <= RSH_MAX_NDIM, RSH_EVALUE, "%s cannot have %d dims: expected 0 to %d",
                name_of(i, who), m->ndim, RSH_MAX_NDIM);
    for (int d = 0; d < m->ndim; d++) {
        int64_t end;
        RSH_REQUIRE(m->offsets[d] >= 0, RSH_EVALUE, "%s has a negative offset %lld along dim %d", name_of(i, who),
                    (long long)m->offsets[d], d);
        RSH_REQUIRE(m->sizes[d] >= 0, RSH_EVALUE, "%s has a negative size %lld along dim %d", name_of(i, who),
                    (long long)m->sizes[d], d);
        RSH_REQUIRE(rshi_add(m->offsets[d], m->sizes[d], &end), RSH_EVALUE, "%s ends beyond 2^63 along dim %d",
                    name_of(i, who), d);
    }
    return m->has_placement ? rshi_remote_device_sound(&m->placement) : RSH_OK;
}

rsh_status rsh_shard_meta_make(int noffsets, const int64_t *offsets, int nsizes, const int64_t *sizes,
                               const char *placement, rsh_shard_meta *out) {
    RSH_REQUIRE(out, RSH_EVALUE, "shard: out is NULL");
    RSH_REQUIRE(noffsets == nsizes, RSH_EVALUE, "shard must have as many offsets as sizes, got %d and %d", noffsets,
                nsizes);
    RSH_REQUIRE(nsizes >= 0 && nsizes <= RSH_MAX_NDIM, RSH_EVALUE, "shard cannot have %d dims: expected 0 to %d",
                nsizes,
                RSH_MAX_NDIM);
    RSH_REQUIRE(!nsizes || (offsets && sizes), RSH_EVALUE, "shard has %d dims but %s is NULL", nsizes,
                offsets ? "sizes" : "offsets");
    rsh_shard_meta m = {.ndim = nsizes, .has_placement = placement != NULL};
    for (int d = 0; d < nsizes; d++) m.offsets[d] = offsets[d], m.sizes[d] = sizes[d];
    RSH_TRY(rshi_shard_meta_check(&m, -1));
    if (placement) RSH_TRY(rsh_remote_device_parse(placement, &m.placement));
    *out = m;
    return RSH_OK;
}

bool rsh_shard_meta_equal(const rsh_shard_meta *a, const rsh_shard_meta *b) {
    if (!a || !b || a->ndim != b->ndim || a->has_placement != b->has_placement) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->offsets[d] != b->offsets[d] || a->sizes[d] != b->sizes[d]) return false;
    return !a->has_placement || rsh_remote_device_equal(&a->placement, &b->placement);
}

bool rshi_shard_empty(const rsh_shard_meta *m) {
    for (int d = 0; d < m->ndim; d++)
        if (!m->sizes[d]) return true;
    return false;
}

int64_t rsh_shard_meta_count(const rsh_shard_meta *m) {
    int64_t n = 0;
    if (m && !rshi_shard_empty(m) && !rshi_product(m->ndim, m->sizes, &n)) n = INT64_MAX;
    return n;
}

/* Eight dims with 2 * 20 characters each, and a placement, always fit. */
const char *rshi_shard_print(const rsh_shard_meta *m, char text[RSHI_SHARD_TEXT]) {
    int at = snprintf(text, RSHI_SHARD_TEXT, "[");
    for (int d = 0; d < m->ndim; d++)
        at += snprintf(text + at, RSHI_SHARD_TEXT - (size_t)at, "%s%" PRId64, d ? "," : "", m->offsets[d]);
    at += snprintf(text + at, RSHI_SHARD_TEXT - (size_t)at, "]+[");
    for (int d = 0; d < m->ndim; d++)
        at += snprintf(text + at, RSHI_SHARD_TEXT - (size_t)at, "%s%" PRId64, d ? "," : "", m->sizes[d]);
    at += snprintf(text + at, RSHI_SHARD_TEXT - (size_t)at, "]");
    char placement[RSH_REMOTE_DEVICE_TEXT];
    if (!m->has_placement) return text;
    rsh_remote_device_print(&m->placement, placement);
    snprintf(text + at, RSHI_SHARD_TEXT - (size_t)at, " %s", placement);
    return text;
}

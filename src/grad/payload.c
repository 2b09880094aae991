/* Payload: the elements of a value, and the profile (shape, dtype and layout) that its gradient must match. */
#include "grad/impl.h"

#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

rshi_payload *rshi_payload_new(rsh_tensor *t, rsh_sharded *s) {
    rshi_tape *tape = rshi_tape_mine();
    rshi_payload *p = tape ? rshi_shelf_take(&tape->payloads, sizeof *p) : NULL;
    if (p) *p = (rshi_payload){.refs = 1, .tensor = t, .sharded = s};
    return p;
}

rshi_payload *rshi_payload_hold(rshi_payload *p) {
    if (p) p->refs++;
    return p;
}

void rshi_payload_drop(rshi_payload *p) {
    if (!p || --p->refs) return;
    rsh_tensor_free(p->tensor);
    rsh_sharded_free(p->sharded);
    for (int64_t i = 0; i < p->nlist; i++) rsh_tensor_free(p->list[i]);
    rshi_free(p->list);
    if (p->kind) rshi_payload_set_kind(p, NULL, NULL);
    rshi_payload_block_give(p);
}

void rshi_payload_set_kind(rshi_payload *p, const rsh_value_kind *kind, void *kind_data) {
    if (kind && kind->hold) kind->hold(kind_data);
    if (p->kind && p->kind->drop) p->kind->drop(p->kind_data);
    p->kind = kind;
    p->kind_data = kind_data;
}

int64_t rshi_payload_nparts(const rshi_payload *p) {
    return p->sharded ? p->sharded->nparts : p->list ? p->nlist : 1;
}

const rsh_tensor *rshi_payload_part(const rshi_payload *p, int64_t part) {
    if (p->tensor) return p->tensor;
    if (p->sharded) return rsh_sharded_part(p->sharded, part);
    return part >= 0 && part < p->nlist ? p->list[part] : NULL;
}

uint64_t rshi_payload_version(const rshi_payload *p) {
    if (p->tensor) return rsh_tensor_version(p->tensor);
    uint64_t sum = 0;
    for (int64_t i = 0; i < rshi_payload_nparts(p); i++) sum += rsh_tensor_version(rshi_payload_part(p, i));
    return sum;
}

bool rshi_payload_alone(const rshi_payload *p) {
    if (p->refs > 1) return false;
    for (int64_t i = 0; i < rshi_payload_nparts(p); i++)
        if (!rshi_tensor_alone(rshi_payload_part(p, i))) return false;
    return true;
}

/* ---- profile ---- */

void rshi_profile_of(const rshi_payload *p, rshi_profile *out) {
    const rsh_layout *l = p->sharded ? p->sharded->layout : NULL;
    const rsh_tensor *t = l ? NULL : rshi_payload_part(p, 0);
    out->dtype = l ? rsh_layout_dtype(l) : rsh_tensor_dtype(t);
    out->ndim = l ? rsh_layout_ndim(l) : rsh_tensor_ndim(t);
    const int64_t *shape = l ? rsh_layout_shape(l) : rsh_tensor_shape(t);
    for (int d = 0; d < out->ndim; d++) out->shape[d] = shape[d];
    out->layout = rsh_layout_hold(l);
    out->comm = l ? p->sharded->comm : NULL;
}

void rshi_profile_end(rshi_profile *f) {
    rsh_layout_free(f->layout);
    f->layout = NULL;
}

#define PROFILE_TEXT 128

/* Writes dtype and shape, such as "f32[3, 4]". */
static void write_text(const rshi_profile *f, char text[PROFILE_TEXT]) {
    int n = snprintf(text, PROFILE_TEXT, "%s[", rsh_dtype_name(f->dtype));
    for (int d = 0; d < f->ndim && n < PROFILE_TEXT; d++)
        n += snprintf(text + n, PROFILE_TEXT - (size_t)n, d ? ", %lld" : "%lld", (long long)f->shape[d]);
    if (n < PROFILE_TEXT) snprintf(text + n, PROFILE_TEXT - (size_t)n, "]");
}

static bool same_shape(const rshi_profile *f, const rsh_value *v) {
    return f->ndim == rsh_value_ndim(v) &&
           !memcmp(f->shape, rsh_value_shape(v), (size_t)f->ndim * sizeof *f->shape);
}

rsh_status rshi_profile_match_shape(const rshi_profile *f, const rsh_value *v, const char *who, const char *what) {
    if (f->dtype == rsh_value_dtype(v) && same_shape(f, v)) return RSH_OK;
    char wanted[PROFILE_TEXT], found[PROFILE_TEXT];
    rshi_profile other;
    rshi_profile_of(v->payload, &other);
    write_text(f, wanted);
    write_text(&other, found);
    rshi_profile_end(&other);
    return rshi_fail(RSH_EVALUE, "%s: %s must be %s, got %s", who, what, wanted, found);
}

static const char *layout_text(const rsh_layout *l) { return l ? rsh_layout_text(l) : "none (plain)"; }

rsh_status rshi_profile_match(const rshi_profile *f, const rsh_value *v, const char *who, const char *what) {
    const rsh_layout *l = rsh_value_layout(v);
    RSH_TRY(rshi_profile_match_shape(f, v, who, what));
    RSH_REQUIRE(l == f->layout || (l && f->layout && rsh_layout_equal(l, f->layout)), RSH_EVALUE,
                "%s: %s must have layout \"%.300s\", got \"%.300s\"", who, what, layout_text(f->layout),
                layout_text(l));
    return RSH_OK;
}

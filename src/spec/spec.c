/* Spec: a way to cut tensors, defined by its kind and the data of the kind, with a canonical text. */
#include "spec/impl.h"

#include <string.h>

/* ---- calling the functions of a kind ---- */

rsh_status rshi_kind_said(uint64_t before, rsh_status st, const char *name, const char *asked) {
    if (st && rshi_sentences() == before)
        return rshi_fail(st, "spec of kind \"%.100s\" failed to %s without an error message", name, asked);
    return st;
}

/* ---- creating ---- */

static int append_text(void *ctx, const char *text, size_t length) {
    rshi_text *t = ctx;
    rshi_text_add(t, "%.*s", (int)length, text);
    return t->failed;
}

/* Writes "name(...)" with the text that the kind prints. */
static rsh_status write_text(const rsh_spec_kind *kind, const void *self, char **out) {
    rshi_text t = {0};
    rsh_sink sink = {append_text, &t};
    rsh_status st = RSH_OK;
    rshi_text_add(&t, "%s(", kind->name);
    uint64_t before = rshi_sentences();
    if (kind->print) st = rshi_kind_said(before, kind->print(self, &sink), kind->name, "print itself");
    rshi_text_add(&t, ")");
    if (t.failed) st = rshi_nomem();
    if (st)
        rshi_text_free(&t);
    else
        *out = t.data;
    return st;
}

static void free_self(const rsh_spec_kind *kind, void *self) {
    if (self && kind->free) kind->free(self);
}

static rsh_status make_spec(const rsh_spec_kind *kind, void *self, rsh_spec **out) {
    rsh_spec *s = RSHI_NEW(rsh_spec);
    rsh_status st = s ? write_text(kind, self, &s->text) : rshi_nomem();
    if (st) {
        rshi_free(s);
        return st;
    }
    atomic_init(&s->refs, 1);
    s->kind = kind;
    s->self = self;
    *out = s;
    return RSH_OK;
}

rsh_status rshi_spec_take(const rsh_spec_kind *kind, void *self, rsh_spec **out) {
    rsh_status st = make_spec(kind, self, out);
    if (st) free_self(kind, self);
    return st;
}

rsh_status rsh_spec_new(const rsh_spec_kind *kind, void *self, rsh_spec **out) {
    RSH_REQUIRE(kind && out, RSH_EVALUE, "spec: %s is NULL", kind ? "out" : "kind");
    RSH_REQUIRE(kind->name && kind->name[0], RSH_EVALUE, "spec kind has no name");
    RSH_REQUIRE(kind->build, RSH_EVALUE, "spec kind \"%.100s\" has no build function", kind->name);
    bool ours = !strcmp(kind->name, rshi_chunk_kind.name) || !strcmp(kind->name, rshi_boxes_kind.name);
    RSH_REQUIRE(!ours, RSH_EVALUE, "spec kind \"%s\" is built in; choose a different name", kind->name);
    return make_spec(kind, self, out);
}

rsh_spec *rsh_spec_hold(const rsh_spec *s) {
    rsh_spec *held = (rsh_spec *)s; /* the reference count is the only member that changes */
    if (held)
        atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed); /* the caller's own reference keeps it alive */
    return held;
}

void rsh_spec_free(rsh_spec *s) {
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    free_self(s->kind, s->self);
    rshi_free(s->text);
    rshi_free(s);
}

/* ---- getters ---- */

static bool is_built_in(const rsh_spec *s) { return s->kind == &rshi_chunk_kind || s->kind == &rshi_boxes_kind; }

const char *rsh_spec_kind_name(const rsh_spec *s) { return s ? s->kind->name : NULL; }
const void *rsh_spec_self(const rsh_spec *s) { return !s || is_built_in(s) ? NULL : s->self; }
const char *rsh_spec_text(const rsh_spec *s) { return s ? s->text : NULL; }
const rsh_spec_kind *rshi_spec_kind(const rsh_spec *s) { return s->kind; }
const void *rshi_spec_inside(const rsh_spec *s) { return s->self; }
bool rshi_spec_is_chunk(const rsh_spec *s) { return s->kind == &rshi_chunk_kind; }

static int normal_dim(int dim, int ndim) { return dim < 0 && ndim >= 0 ? dim + ndim : dim; }

static bool equal_chunks(const rshi_chunk_spec *a, const rshi_chunk_spec *b, int ndim) {
    if (normal_dim(a->dim, ndim) != normal_dim(b->dim, ndim) || a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (!rsh_remote_device_equal(&a->placements[i], &b->placements[i])) return false;
    return true;
}

bool rsh_spec_equal(const rsh_spec *a, const rsh_spec *b, int ndim) {
    if (!a || !b) return false;
    if (rshi_spec_is_chunk(a) && rshi_spec_is_chunk(b)) return equal_chunks(a->self, b->self, ndim);
    return !strcmp(a->text, b->text) && !strcmp(a->kind->name, b->kind->name);
}

/* Checks the result of a kind's `build` against the requested size and properties, because a user-defined kind may
 * build anything. */
static rsh_status check_built(const rsh_spec *s, const rsh_tensor_meta *m, int ndim, const int64_t *size,
                              const rsh_tensor_props *props) {
    RSH_REQUIRE(m->ndim == ndim, RSH_ERUNTIME, "spec %.200s built metadata with %d dims, expected %d", s->text,
                m->ndim, ndim);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(m->size[d] == size[d], RSH_ERUNTIME,
                    "spec %.200s built metadata with size %lld along dim %d, expected %lld", s->text,
                    (long long)m->size[d], d, (long long)size[d]);
    RSH_REQUIRE(rsh_tensor_props_equal(&m->props, props), RSH_ERUNTIME,
                "spec %.200s built metadata for dtype %s with different properties than requested (dtype %s)",
                s->text, rsh_dtype_name(m->props.dtype), rsh_dtype_name(props->dtype));
    return RSH_OK;
}

rsh_status rsh_spec_build(const rsh_spec *s, int ndim, const int64_t *size, const rsh_tensor_props *props,
                          rsh_tensor_meta **out) {
    const rsh_tensor_props usual = RSH_TENSOR_PROPS_INIT;
    RSH_REQUIRE(s && out, RSH_EVALUE, "metadata: %s is NULL", s ? "out" : "spec");
    RSH_TRY(rshi_size_check(ndim, size));
    rsh_tensor_meta *m = NULL;
    if (!props) props = &usual;
    uint64_t before = rshi_sentences();
    RSH_TRY(rshi_kind_said(before, s->kind->build(s->self, ndim, size, props, &m), s->kind->name, "build metadata"));
    RSH_REQUIRE(m, RSH_ERUNTIME, "spec %.200s reported success but built no metadata", s->text);
    rsh_status st = check_built(s, m, ndim, size, props);
    if (st)
        rsh_tensor_meta_free(m);
    else
        *out = m;
    return st;
}

/* Digest: the same number for the same values at the same positions, in any layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "stage.h"

typedef struct tensor {
    gen_shape shape;
    ora_dtype dtype;
    int64_t count;
    size_t size;
    unsigned char *value;
} tensor;

static tensor any_tensor(gen_rng *g) {
    tensor t = {.shape = gen_any_shape(g), .dtype = gen_any_dtype(g), .count = 1};
    for (int d = 0; d < t.shape.ndim; d++) t.count *= t.shape.size[d];
    t.size = ora_size(t.dtype);
    t.value = prop_alloc((size_t)t.count * t.size);
    for (int64_t i = 0; i < t.count; i++) value_any(g, t.dtype, t.value + (size_t)i * t.size);
    return t;
}

static void whole_text(const tensor *t, char out[GEN_TEXT]) {
    size_t n = (size_t)snprintf(out, GEN_TEXT, "%s[", ora_dtype_name(t->dtype));
    for (int d = 0; d < t->shape.ndim; d++)
        n += (size_t)snprintf(out + n, GEN_TEXT - n, d ? ", %d" : "%d", (int)t->shape.size[d]);
    snprintf(out + n, GEN_TEXT - n, "]");
}

static void any_text(gen_rng *g, const tensor *t, bool replicas, char out[GEN_TEXT]) {
    gen_wish w = {t->shape, t->dtype, ORA_NONE, (int)gen_between(g, 1, 10), replicas, false};
    gen_side(g, &w, out);
}

typedef struct everybody {
    const side *s;
    rsh_digest found[GEN_MAX_ROLES + 1];
} everybody;

static rsh_status digest_on_rank(void *ctx, rsh_comm *comm) {
    everybody *w = ctx;
    rsh_sharded *t = NULL;
    int64_t r = rsh_comm_rank(comm);
    const rsh_memory *mine = ora_has_rank(w->s->o, r) ? w->s->memory + side_first(w->s, r) : NULL;
    rsh_status status = rsh_sharded_wrap(comm, w->s->l, mine, &t);
    if (status == RSH_OK) status = rsh_sharded_digest(t, &w->found[r]);
    rsh_sharded_free(t);
    return status;
}

static bool same(rsh_digest a, rsh_digest b) { return a.hi == b.hi && a.lo == b.lo; }

static bool digest_by_ranks(prop_case *c, const side *s, rsh_digest local) {
    everybody w = {.s = s};
    int n = (int)side_last_rank(s) + 1;
    PROP_OK(c, engine_run(n, digest_on_rank, &w));
    for (int r = 0; r < n; r++)
        PROP(c, !engine_sees(r) || same(w.found[r], local), "rank %d finds another digest than rsh_digest_local", r);
    return true;
}

/* Computes the digest of these values in this layout. */
static bool digest_of(prop_case *c, const char *text, const unsigned char *value, bool ranks, rsh_digest *out) {
    side s;
    bool ok = side_new(&s, c, text, true);
    if (ok) {
        side_set(&s, value);
        rsh_status status = rsh_digest_local(s.l, s.memory, out);
        ok = status == RSH_OK || prop_say(c, "rsh_digest_local: %s: %s", rsh_status_name(status), rsh_error_detail());
    }
    ok = ok && (!ranks || digest_by_ranks(c, &s, *out));
    side_free(&s);
    return ok;
}

static bool same_in_every_layout(prop_case *c, const tensor *t) {
    rsh_digest whole, found;
    char text[RSH_DIGEST_TEXT];
    whole_text(t, c->from);
    if (!digest_of(c, c->from, t->value, true, &whole)) return false;
    rsh_digest_text(whole, text);
    PROP(c, strlen(text) == RSH_DIGEST_TEXT - 1 && !strncmp(text, "d2:", 3), "the text is \"%s\"", text);
    for (int i = 0; i < 3; i++) {
        any_text(&c->rng, t, true, c->to);
        if (!digest_of(c, c->to, t->value, i == 0, &found)) return false;
        PROP(c, same(found, whole), "two layouts of the same values have different digests");
    }
    return true;
}

static bool every_layout(prop_case *c) {
    tensor t = any_tensor(&c->rng);
    bool ok = same_in_every_layout(c, &t);
    free(t.value);
    return ok;
}

/* A change that must be detected; returns false if there is nothing to change. */
typedef bool (*change_fn)(gen_rng *g, const tensor *t, unsigned char *value);

static bool swap_two(gen_rng *g, const tensor *t, unsigned char *value) {
    unsigned char keep[16];
    unsigned char *a = value + (size_t)gen_below(g, t->count) * t->size,
                  *b = value + (size_t)gen_below(g, t->count) * t->size;
    if (!memcmp(a, b, t->size)) return false;
    memcpy(keep, a, t->size);
    memcpy(a, b, t->size);
    memcpy(b, keep, t->size);
    return true;
}

static bool flip_bit(gen_rng *g, const tensor *t, unsigned char *value) {
    int64_t bit = gen_below(g, (int64_t)t->size * 8);
    if (t->dtype == ORA_BOOL) bit = 0;
    value[(size_t)gen_below(g, t->count) * t->size + (size_t)bit / 8] ^= (unsigned char)(1 << bit % 8);
    return true;
}

static bool shift_by_one(gen_rng *g, const tensor *t, unsigned char *value) {
    (void)g;
    unsigned char *before = prop_alloc((size_t)t->count * t->size);
    memcpy(before, value, (size_t)t->count * t->size);
    for (int64_t i = 0; i < t->count; i++)
        memcpy(value + (size_t)((i + 1) % t->count) * t->size, before + (size_t)i * t->size, t->size);
    bool other = memcmp(before, value, (size_t)t->count * t->size) != 0;
    free(before);
    return other;
}

static bool change_is_seen(prop_case *c, const tensor *t, change_fn change) {
    rsh_digest before, after;
    any_text(&c->rng, t, true, c->from);
    any_text(&c->rng, t, true, c->to);
    if (!digest_of(c, c->from, t->value, false, &before)) return false;
    if (!change(&c->rng, t, t->value)) return true;
    if (!digest_of(c, c->to, t->value, false, &after)) return false;
    PROP(c, !same(before, after), "the digest did not change");
    return true;
}

static bool changes(prop_case *c) {
    static const struct {
        const char *name;
        change_fn change;
    } list[] = {{"two elements swapped", swap_two}, {"one bit flipped", flip_bit}, {"a shift by one", shift_by_one}};
    int64_t i = gen_below(&c->rng, 3);
    tensor t = any_tensor(&c->rng);
    snprintf(c->note, sizeof c->note, "%s", list[i].name);
    bool ok = t.count == 0 || change_is_seen(c, &t, list[i].change);
    free(t.value);
    return ok;
}

/* Finds a part of equal size with different content; -1: none. */
static int64_t other_part(const side *s, int64_t i) {
    for (int64_t j = i + 1; j < s->o->nparts; j++) {
        size_t bytes = (size_t)s->o->part[j].count * ora_size(s->o->dtype);
        if (s->o->part[j].count == s->o->part[i].count && memcmp(s->dense[i], s->dense[j], bytes) != 0) return j;
    }
    return -1;
}

static bool exchange_is_seen(prop_case *c, side *s) {
    rsh_digest before, after;
    PROP_OK(c, rsh_digest_local(s->l, s->memory, &before));
    for (int64_t i = 0; i < s->o->nparts; i++) {
        int64_t j = other_part(s, i);
        if (j < 0) continue;
        held_put(&s->held[i], s->dense[j]);
        held_put(&s->held[j], s->dense[i]);
        PROP_OK(c, rsh_digest_local(s->l, s->memory, &after));
        PROP(c, !same(before, after), "parts %lld and %lld exchanged, the same digest", (long long)i, (long long)j);
        return true;
    }
    return true;
}

static bool exchanges(prop_case *c) {
    tensor t = any_tensor(&c->rng);
    side s;
    any_text(&c->rng, &t, false, c->from);
    bool ok = side_new(&s, c, c->from, false);
    if (ok) {
        side_set(&s, t.value);
        ok = exchange_is_seen(c, &s);
    }
    side_free(&s);
    free(t.value);
    return ok;
}

/* Replicas count once, and later replicas must not even be read. */
static bool replicas(prop_case *c) {
    tensor t = any_tensor(&c->rng);
    rsh_digest one, many;
    char whole[GEN_TEXT];
    whole_text(&t, whole);
    snprintf(c->from, sizeof c->from, "%s", whole);
    snprintf(c->to, sizeof c->to, "%.4000s on r=%d", whole, engine_ranks((int)gen_between(&c->rng, 2, 5)));
    bool ok = digest_of(c, c->from, t.value, false, &one) && digest_of(c, c->to, t.value, true, &many);
    free(t.value);
    PROP(c, !ok || same(one, many), "replicas change the digest");
    return ok;
}

static bool partials(prop_case *c) {
    ora_dtype dtype = gen_any_dtype(&c->rng);
    gen_wish w = {gen_any_shape(&c->rng), dtype, gen_any_op(&c->rng, dtype), 8, true, false};
    side s;
    rsh_digest none;
    gen_side(&c->rng, &w, c->from);
    bool ok = side_new(&s, c, c->from, false);
    everybody all = {.s = &s};
    rsh_status local = RSH_OK, together = RSH_OK;
    if (ok) {
        local = rsh_digest_local(s.l, s.memory, &none);
        together = engine_run((int)side_last_rank(&s) + 1, digest_on_rank, &all);
    }
    side_free(&s);
    PROP(c, !ok || local == RSH_EUNSUP, "rsh_digest_local says %s", rsh_status_name(local));
    PROP(c, !ok || together == RSH_EUNSUP, "rsh_sharded_digest says %s", rsh_status_name(together));
    return ok;
}

static void every_layout_of_the_same_values_has_the_same_digest(void **state) {
    (void)state;
    prop_run("every_layout", 200, every_layout);
}
static void a_change_of_values_or_places_is_seen(void **state) { (void)state; prop_run("changes", 250, changes); }
static void exchanged_parts_are_seen(void **state) { (void)state; prop_run("exchanges", 120, exchanges); }
static void replicas_count_once(void **state) { (void)state; prop_run("replicas", 15, replicas); }
static void partial_layouts_have_no_digest(void **state) { (void)state; prop_run("partials", 15, partials); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_of_the_same_values_has_the_same_digest),
        cmocka_unit_test(a_change_of_values_or_places_is_seen),
        cmocka_unit_test(exchanged_parts_are_seen),
        cmocka_unit_test(replicas_count_once),
        cmocka_unit_test(partial_layouts_have_no_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

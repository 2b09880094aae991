/* Module files, random: trees of plain, sharded and DTensor values are saved on n ranks and loaded on m ranks, cut
 * differently, with names that are missing, unexpected or misshapen, and through a map that joins tensors.
 *
 * Element i of a value follows from the number of the value, so every rank knows all of them. */
#include "file_models.h"

#include <stdlib.h>

#include "seed.h"

enum { MOST_VALUES = 7, MOST_DIMS = 3, CASES = 100 };

typedef enum change { NOTHING, MISSING, UNEXPECTED, MISSHAPEN, JOINED, CHANGES } change;

typedef struct one_value {
    char path[40];
    rsh_dtype dtype, later; /* in the saved model and in the loaded one */
    int ndim;
    int64_t shape[MOST_DIMS];
    bool buffer;
} one_value;

typedef struct trial {
    uint64_t seed;
    bool loads;
    char path[128];
    change change;
    int n, odd; /* odd: the value that is changed */
    one_value at[MOST_VALUES];
} trial;

/* A number from 0 to n - 1, the same on every rank: splitmix64. */
static uint64_t below(uint64_t *state, uint64_t n) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

/* ---- what a trial has ---- */

static void draw(trial *t) {
    uint64_t r = t->seed;
    static const char *const parents[] = {"", "a.", "a.b.", "c."};
    static const rsh_dtype dtypes[] = {RSH_F64, RSH_F32, RSH_F64};
    t->n = 1 + (int)below(&r, MOST_VALUES);
    t->change = (change)below(&r, CHANGES);
    t->odd = (int)below(&r, (uint64_t)t->n);
    for (int i = 0; i < t->n; i++) {
        one_value *v = &t->at[i];
        snprintf(v->path, sizeof v->path, "%sv%d", parents[below(&r, 4)], i);
        v->dtype = dtypes[below(&r, 3)];
        v->later = dtypes[below(&r, 3)];
        v->ndim = (int)below(&r, MOST_DIMS + 1);
        v->buffer = below(&r, 4) == 0;
        for (int d = 0; d < v->ndim; d++) v->shape[d] = below(&r, 12) ? 1 + (int64_t)below(&r, 9) : 0;
    }
    /* what is joined has a dim to be joined along; what is misshapen has one to be changed */
    if (t->change >= MISSHAPEN && !t->at[t->odd].ndim) t->at[t->odd].ndim = 1, t->at[t->odd].shape[0] = 3;
}

/* A form for a sharded value on n ranks. */
static void draw_form(uint64_t *r, int ndim, int n, char *text, size_t room) {
    static const char *const cuts[] = {"_/x~", "_/x", "_/x:2"};
    int cut = ndim ? (int)below(r, (uint64_t)ndim) : -1, used = snprintf(text, room, "[");
    const char *word = cuts[below(r, 3)];
    bool flat = !below(r, 4);
    for (int d = 0; d < ndim; d++)
        used += snprintf(text + used, room - (size_t)used, "%s%s", d ? ", " : "", d == cut && !flat ? word : "_");
    snprintf(text + used, room - (size_t)used, "]%s on x=%d", flat ? "/x" : "", n);
}

static rsh_status sharded_value(uint64_t *r, const rsh_value *plain, rsh_value **out) {
    char text[100];
    rsh_form *form = NULL;
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    rsh_memory memory = {rsh_tensor_data(rsh_value_tensor(plain)), NULL};
    draw_form(r, rsh_value_ndim(plain), rsh_group_size(NULL), text, sizeof text);
    TRY(rsh_form_parse(text, NULL, NULL, &form));
    TRY(rsh_form_fill(form, rsh_value_dtype(plain), rsh_value_ndim(plain), rsh_value_shape(plain), NULL, &l));
    TRY(rsh_sharded_scatter(rsh_group_comm(NULL), l, (int)below(r, (uint64_t)rsh_group_size(NULL)), &memory, &s));
    rsh_form_free(form);
    rsh_layout_free(l);
    return rsh_value_adopt_sharded(s, true, out);
}

static rsh_status dtensor_value(uint64_t *r, const rsh_value *plain, rsh_mesh *mesh, rsh_value **out) {
    rsh_place place[2];
    int n = rsh_mesh_ndim(mesh), ndim = rsh_value_ndim(plain);
    for (int i = 0; i < n; i++) {
        bool cut = ndim && below(r, 3);
        place[i] = cut ? rsh_place_shard((int)below(r, (uint64_t)ndim)) : rsh_place_replicate();
    }
    return rsh_dtensor_distribute(rsh_value_tensor(plain), true, mesh, n, place, 0, out);
}

/* Replaces a plain value by the same one, distributed in a random way. */
static rsh_status place(uint64_t *r, rsh_mesh *mesh, rsh_value **v) {
    rsh_value *placed = NULL;
    uint64_t kind = below(r, 3);
    if (!kind) return RSH_OK;
    TRY(kind == 1 ? sharded_value(r, *v, &placed) : dtensor_value(r, *v, mesh, &placed));
    rsh_value_free(*v);
    *v = placed;
    return RSH_OK;
}

/* ---- trees ---- */

static const rsh_module_kind holder = {.name = "Holder"};

static rsh_status set(rsh_module *m, const char *path, const one_value *v, rsh_value *x) {
    rsh_module *owner = NULL;
    const char *name = NULL;
    TRY(rsh_module_owner(m, path, &owner, &name));
    return v->buffer ? rsh_module_set_buffer(owner, name, x, true) : rsh_module_set_parameter(owner, name, x);
}

static rsh_status make_holders(rsh_module **out) {
    rsh_module *a = NULL, *b = NULL, *c = NULL;
    TRY(rsh_module_new(&holder, NULL, out));
    TRY(rsh_module_new(&holder, NULL, &a));
    TRY(rsh_module_new(&holder, NULL, &b));
    TRY(rsh_module_new(&holder, NULL, &c));
    TRY(give(a, "b", b));
    TRY(give(*out, "a", a));
    return give(*out, "c", c);
}

/* The loaded tree as it should be: in the dtypes of the loaded model; a joined value has the saved one twice. */
static rsh_status expected(const trial *t, int i, int salt, rsh_value **out) {
    const one_value *v = &t->at[i];
    bool odd = t->loads && i == t->odd, joined = odd && t->change == JOINED;
    one_value x = *v;
    if (odd && t->change == MISSHAPEN) x.shape[0]++;
    rsh_value *plain = some_value(t->loads ? x.later : x.dtype, salt + i, true, x.ndim, x.shape);
    if (!joined) return *out = plain, RSH_OK;
    rsh_value *both[] = {plain, plain}, *made = NULL;
    TRY(rsh_nn_cat(2, both, 0, &made));
    rsh_status st = rsh_value_detach(made, out);
    rsh_value_free(made), rsh_value_free(plain);
    return st;
}

static rsh_status make_tree(const trial *t, rsh_mesh *mesh, int salt, rsh_module **out) {
    uint64_t r = t->seed + (t->loads ? 1000003 : 2000003);
    TRY(make_holders(out));
    for (int i = 0; i < t->n; i++) {
        rsh_value *v = NULL;
        if (!t->loads && t->change == MISSING && i == t->odd) continue;
        if (t->loads && t->change == UNEXPECTED && i == t->odd) continue;
        TRY(expected(t, i, salt, &v));
        TRY(place(&r, mesh, &v));
        TRY(set(*out, t->at[i].path, &t->at[i], v));
        rsh_value_free(v);
    }
    return RSH_OK;
}

static rsh_status compare(const trial *t, rsh_module *m, int salt) {
    for (int i = 0; i < t->n; i++) {
        const one_value *v = &t->at[i];
        rsh_module *owner = NULL;
        rsh_value *want = NULL, *got = NULL;
        const char *name = NULL;
        if (t->change == UNEXPECTED && i == t->odd) continue;
        TRY(rsh_module_owner(m, v->path, &owner, &name));
        TRY(v->buffer ? rsh_module_buffer(owner, name, &got) : rsh_module_parameter(owner, name, &got));
        TRY(expected(t, i, salt, &want));
        CHECK(rsh_value_dtype(got) == v->later);
        TRY(close_values(got, want, v->path, v->dtype == v->later || salt ? 0 : 1e-6));
        rsh_value_free(want);
    }
    return RSH_OK;
}

/* ---- a trial ---- */

static rsh_status load_changed(trial *t, rsh_module *m) {
    char text[300];
    rsh_ckpt_rules *map = NULL;
    const char *odd = t->at[t->odd].path;
    if (t->change == NOTHING) {
        TRY(load(m, NULL, t->path));
        return compare(t, m, 0);
    }
    if (t->change == JOINED) {
        rsh_module_load_opts opts = RSH_MODULE_LOAD_OPTS_INIT;
        snprintf(text, sizeof text, "%s = cat(0, %s, %s)\n*\n", odd, odd, odd);
        TRY(rsh_ckpt_rules_parse(text, "map", &map));
        opts.map = map;
        TRY(rsh_module_load(m, rsh_group_comm(NULL), t->path, &opts));
        rsh_ckpt_rules_free(map);
        return compare(t, m, 0);
    }
    CHECK_STATUS(RSH_EVALUE, load(m, NULL, t->path));
    snprintf(text, sizeof text, "\"%s\"", odd);
    CHECK(strstr(rsh_error_detail(), text));
    return compare(t, m, 50); /* nothing has changed */
}

static rsh_status one_side(void *ctx) {
    trial t = *(const trial *)ctx;
    rsh_module *m = NULL;
    rsh_mesh *mesh = NULL;
    int n = rsh_group_size(NULL);
    uint64_t r = t.seed + 7;
    int64_t shape[2] = {n, 1};
    if (n % 2 == 0 && below(&r, 2)) shape[0] = n / 2, shape[1] = 2;
    TRY(rsh_mesh_new(rsh_group_comm(NULL), shape[1] > 1 || below(&r, 2) ? 2 : 1, shape, NULL, NULL, &mesh));
    TRY(make_tree(&t, mesh, t.loads ? 50 : 0, &m));
    TRY(t.loads ? load_changed(&t, m) : save(m, NULL, t.path));
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static void any_tree_is_loaded_or_left_alone(void **state) {
    (void)state;
    const char *cases = getenv("RESHARD_CASES");
    uint64_t seed = seed_of_tests(), n = cases ? strtoull(cases, NULL, 10) : CASES;
    for (uint64_t i = 0; i < n; i++) {
        trial t = {.seed = seed + 31 * i};
        body b = {one_side, &t};
        uint64_t r = t.seed + 99;
        draw(&t);
        file(t.path, "random");
        for (int loads = 0; loads < 2; loads++) {
            t.loads = loads;
            int ranks = 1 + (int)below(&r, 4);
            rsh_status st = rsh_run(ranks, with_default_group, &b);
            if (st)
                fail_msg("RESHARD_SEED=%llu RESHARD_CASES=1: %s on %d ranks, change %d: %s: %s",
                         (unsigned long long)t.seed, loads ? "load" : "save", ranks, (int)t.change, rsh_status_name(st),
                         rsh_error_detail());
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_tree_is_loaded_or_left_alone)};
    return cmocka_run_group_tests_name("module files random", tests, make_folder, remove_folder);
}

/* Modules: names, paths, walks, hooks, state dicts. */
#include "models.h"

/* ---- a user-defined module: y = x * scale + 1 ---- */

static rsh_status scale_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    rsh_value *scale = NULL, *product = NULL;
    TRY(rsh_module_parameter(m, "scale", &scale));
    if (!in[0]) return rsh_fail(RSH_EVALUE, "Scale: no input");
    TRY(rsh_nn_mul(in[0], scale, &product));
    rsh_status st = rsh_nn_add_number(product, in[1] ? 2 : 1, out);
    rsh_value_free(product);
    return st;
}
static int dropped;
static void scale_drop(void *state) { dropped += *(int *)state; }
static const char *const scale_inputs[] = {"x", "more"};
static const rsh_module_kind scale_kind = {"Scale", 2, 1, scale_inputs, scale_forward, sizeof(int), scale_drop};

static rsh_value *number(double x, bool grad) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    assert_int_equal(rsh_tensor_zeros(RSH_F64, 0, NULL, &t), RSH_OK);
    *(double *)rsh_tensor_data(t) = x;
    assert_int_equal(rsh_value_adopt_tensor(t, grad, &v), RSH_OK);
    return v;
}
static double item(const rsh_value *v) { return *(const double *)rsh_tensor_data(rsh_value_tensor(v)); }

static rsh_module *scale(double by) {
    rsh_module *m = NULL;
    rsh_value *v = number(by, true);
    assert_int_equal(rsh_module_new(&scale_kind, &(int){7}, &m), RSH_OK);
    assert_int_equal(rsh_module_set_parameter(m, "scale", v), RSH_OK);
    rsh_value_free(v);
    return m;
}

/* Makes the tree root(0: a, 1: b(inner: c)), a Sequential. */
static rsh_module *tree(void) {
    rsh_module *a = scale(2), *b = scale(3), *c = scale(4), *root = NULL;
    assert_int_equal(rsh_module_set_child(b, "inner", c), RSH_OK);
    assert_int_equal(rsh_sequential_new(2, (rsh_module *[]){a, b}, &root), RSH_OK);
    rsh_module_free(a), rsh_module_free(b), rsh_module_free(c);
    return root;
}

static void a_module_of_ones_own_runs_forward_and_backward(void **state) {
    (void)state;
    rsh_module *root = tree();
    rsh_value *x = number(5, false), *y = NULL, *a = NULL;
    assert_int_equal(rsh_module_forward(root, x, &y), RSH_OK);
    assert_true(item(y) == (5 * 2 + 1) * 3 + 1);
    assert_int_equal(rsh_backward(y, NULL, 0), RSH_OK);
    rsh_module *first = NULL;
    assert_int_equal(rsh_module_submodule(root, "0", &first), RSH_OK);
    assert_int_equal(rsh_module_parameter(first, "scale", &a), RSH_OK);
    assert_true(item(rsh_value_grad(a)) == 15);
    assert_int_equal(rsh_module_zero_grad(root), RSH_OK);
    assert_null(rsh_value_grad(a));
    rsh_value_free(x), rsh_value_free(y);
    dropped = 0;
    rsh_module_free(root);
    assert_int_equal(dropped, 21);
}

static void inputs_are_given_by_place_or_by_name(void **state) {
    (void)state;
    rsh_module *m = scale(2);
    rsh_value *x = number(5, false), *y = NULL;
    rsh_named_input named[] = {{"more", x}, {"x", x}, {"x", x}};
    assert_int_equal(rsh_module_call_named(m, 0, NULL, 2, named, &y), RSH_OK);
    assert_true(item(y) == 12);
    rsh_value_free(y);
    y = NULL;
    assert_int_equal(rsh_module_call_named(m, 0, NULL, 3, named, &y), RSH_EVALUE);
    assert_int_equal(rsh_module_call_named(m, 1, &x, 1, &(rsh_named_input){"y", x}, &y), RSH_EKEY);
    assert_int_equal(rsh_module_call(m, 3, (rsh_value *[]){x, x, x}, &y), RSH_EVALUE);
    assert_int_equal(rsh_module_call(m, 0, NULL, &y), RSH_EVALUE);
    assert_null(y);
    rsh_value_free(x);
    rsh_module_free(m);
}

/* ---- names and paths ---- */

static void names_obey_the_rules(void **state) {
    (void)state;
    rsh_module *m = scale(1), *root = tree(), *found = NULL;
    rsh_value *v = number(1, true), *w = NULL;
    const char *name = NULL;
    assert_int_equal(rsh_module_set_parameter(m, "", v), RSH_EKEY);
    assert_int_equal(rsh_module_set_parameter(m, "a.b", v), RSH_EKEY);
    assert_int_equal(rsh_module_set_buffer(m, "scale", v, true), RSH_EKEY);
    assert_int_equal(rsh_module_set_child(m, "scale", root), RSH_EKEY);
    assert_int_equal(rsh_module_set_child(m, "self", m), RSH_EVALUE);
    assert_int_equal(rsh_module_set_parameter(m, "none", NULL), RSH_OK);
    assert_int_equal(rsh_module_parameter(m, "none", &w), RSH_OK);
    assert_null(w);
    assert_int_equal(rsh_module_parameter(m, "nothing", &w), RSH_EATTR);
    assert_int_equal(rsh_nn_neg(v, &w), RSH_OK);
    assert_int_equal(rsh_module_set_parameter(m, "result", w), RSH_EVALUE);
    assert_int_equal(rsh_module_submodule(root, "", &found), RSH_OK);
    assert_ptr_equal(found, root);
    assert_int_equal(rsh_module_submodule(root, "1.inner", &found), RSH_OK);
    rsh_module *inner = found;
    assert_int_equal(rsh_module_set_child(inner, "up", root), RSH_EVALUE); /* a cycle */
    assert_int_equal(rsh_module_submodule(root, "1.outer", &found), RSH_EATTR);
    assert_non_null(strstr(rsh_error_detail(), "outer"));
    assert_int_equal(rsh_module_submodule(root, "1.inner.scale", &found), RSH_EATTR);
    assert_int_equal(rsh_module_submodule(root, "1..inner", &found), RSH_EATTR);
    assert_int_equal(rsh_module_submodule(root, "1.", &found), RSH_EATTR);
    assert_int_equal(rsh_module_owner(root, "1.inner.scale", &found, &name), RSH_OK);
    assert_ptr_equal(found, inner);
    assert_string_equal(name, "scale");
    rsh_value_free(v), rsh_value_free(w);
    rsh_module_free(m), rsh_module_free(root);
}

static rsh_status note_value(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)owner, (void)name, (void)v;
    strcat(strcat(ctx, path), " ");
    return RSH_OK;
}
static rsh_status note_module(void *ctx, const char *path, rsh_module *m) {
    (void)m;
    strcat(strcat(ctx, *path ? path : "root"), " ");
    return RSH_OK;
}

static void walks_visit_shared_things_once(void **state) {
    (void)state;
    rsh_module *root = tree(), *first = NULL, *inner = NULL;
    rsh_value *tied = NULL;
    char text[200] = "";
    assert_int_equal(rsh_module_submodule(root, "0", &first), RSH_OK);
    assert_int_equal(rsh_module_submodule(root, "1.inner", &inner), RSH_OK);
    assert_int_equal(rsh_module_parameter(first, "scale", &tied), RSH_OK);
    assert_int_equal(rsh_module_set_parameter(inner, "scale", tied), RSH_OK);
    assert_int_equal(rsh_module_each_parameter(root, false, note_value, text), RSH_OK);
    assert_string_equal(text, "0.scale 1.scale ");
    *text = 0;
    assert_int_equal(rsh_module_each_parameter(root, true, note_value, text), RSH_OK);
    assert_string_equal(text, "0.scale 1.scale 1.inner.scale ");
    *text = 0;
    assert_int_equal(rsh_module_set_child(root, "again", first), RSH_OK);
    assert_int_equal(rsh_module_each_module(root, note_module, text), RSH_OK);
    assert_string_equal(text, "root 0 1 1.inner ");
    *text = 0;
    assert_int_equal(rsh_module_apply(root, note_module, text), RSH_OK);
    assert_string_equal(text, "0 1.inner 1 root ");
    rsh_module_train(root, false);
    assert_false(rsh_module_training(inner));
    assert_int_equal(rsh_module_require_grad(root, false), RSH_OK);
    assert_false(rsh_value_requires_grad(tied));
    rsh_module_free(root);
}

/* ---- hooks ---- */

static rsh_status add_ten(void *ctx, rsh_module *m, rsh_value **in) {
    (void)m;
    rsh_value *more = NULL;
    ++*(int *)ctx;
    TRY(rsh_nn_add_number(in[0], 10, &more));
    rsh_value_free(in[0]);
    in[0] = more;
    return RSH_OK;
}
static rsh_status negate(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)m, (void)in;
    rsh_value *less = NULL;
    ++*(int *)ctx;
    if (!out[0]) return RSH_OK;
    TRY(rsh_nn_neg(out[0], &less));
    rsh_value_free(out[0]);
    out[0] = less;
    return RSH_OK;
}
static rsh_status refuse(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)ctx, (void)m, (void)in, (void)out;
    return rsh_fail(RSH_EKEY, "the hook refuses");
}
static void count_drop(void *ctx) { *(int *)ctx += 100; }

static void hooks_run_in_order_and_can_be_removed(void **state) {
    (void)state;
    rsh_module *m = scale(2);
    rsh_value *x = number(5, false), *y = NULL;
    int before = 0, after = 0, always = 0;
    int64_t pre = -1, post = -1, bad = -1;
    assert_int_equal(rsh_module_add_pre_hook(m, add_ten, &before, count_drop, &pre), RSH_OK);
    assert_int_equal(rsh_module_add_forward_hook(m, negate, &after, count_drop, RSH_HOOK_ON_SUCCESS, &post), RSH_OK);
    assert_int_equal(rsh_module_add_forward_hook(m, negate, &always, NULL, RSH_HOOK_ALWAYS, NULL), RSH_OK);
    assert_int_equal(rsh_module_forward(m, x, &y), RSH_OK);
    assert_true(item(y) == 31);
    assert_true(item(x) == 5);
    rsh_value_free(y);
    y = NULL;
    assert_int_equal(rsh_module_remove_hook(m, pre), RSH_OK);
    assert_int_equal(before, 101);
    assert_int_equal(rsh_module_remove_hook(m, pre), RSH_EKEY);
    rsh_value *nothing = NULL; /* forward fails: only hooks that always run are called */
    assert_int_equal(rsh_module_call(m, 1, &nothing, &y), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(), "Scale: no input");
    assert_int_equal(after, 1);
    assert_int_equal(always, 2);
    assert_int_equal(rsh_module_add_forward_hook(m, refuse, NULL, NULL, RSH_HOOK_ON_SUCCESS, &bad), RSH_OK);
    assert_int_equal(rsh_module_forward(m, x, &y), RSH_EKEY);
    assert_int_equal(always, 3); /* it ran before the hook that fails */
    assert_null(y);
    rsh_value_free(x);
    rsh_module_free(m);
    assert_int_equal(after, 102);
}

/* ---- state dicts ---- */

static rsh_status rename_entry(void *ctx, rsh_module *m, rsh_state_dict *d, const char *prefix) {
    (void)ctx, (void)m;
    char from[64], to[64];
    snprintf(from, sizeof from, "%sold", prefix);
    snprintf(to, sizeof to, "%sscale", prefix);
    rsh_value *v = rsh_state_dict_find(d, from);
    if (!v) return RSH_OK;
    TRY(rsh_state_dict_set(d, to, v));
    return rsh_state_dict_remove(d, from);
}

static void state_goes_out_and_comes_in(void **state) {
    (void)state;
    rsh_module *from = tree(), *to = tree(), *inner = NULL;
    rsh_state_dict *d = NULL;
    rsh_value *v = number(9, false), *buffer = number(1, false);
    assert_int_equal(rsh_module_submodule(from, "1.inner", &inner), RSH_OK);
    assert_int_equal(rsh_module_set_parameter(inner, "scale", v), RSH_OK);
    assert_int_equal(rsh_module_set_buffer(inner, "kept", buffer, true), RSH_OK);
    assert_int_equal(rsh_module_set_buffer(inner, "passing", buffer, false), RSH_OK);
    assert_int_equal(rsh_module_state_dict(from, &d), RSH_OK);
    assert_int_equal(rsh_state_dict_count(d), 4);
    assert_string_equal(rsh_state_dict_name(d, 2), "1.inner.scale");
    assert_int_equal(rsh_module_load_state_dict(to, d, 0), RSH_ERUNTIME);
    assert_non_null(strstr(rsh_error_detail(), "unexpected \"1.inner.kept\""));
    assert_int_equal(rsh_state_dict_remove(d, "1.inner.kept"), RSH_OK);
    assert_int_equal(rsh_module_load_state_dict(to, d, 0), RSH_OK);
    rsh_value *got = NULL;
    assert_int_equal(rsh_module_submodule(to, "1.inner", &inner), RSH_OK);
    assert_int_equal(rsh_module_parameter(inner, "scale", &got), RSH_OK);
    assert_true(item(got) == 9);
    assert_ptr_not_equal(got, v);
    assert_int_equal(rsh_module_add_load_hook(inner, rename_entry, NULL, NULL, NULL), RSH_OK);
    assert_int_equal(rsh_state_dict_remove(d, "1.inner.scale"), RSH_OK);
    assert_int_equal(rsh_module_load_state_dict(to, d, 0), RSH_ERUNTIME);
    assert_int_equal(rsh_module_load_state_dict(to, d, RSH_LOAD_NONSTRICT), RSH_OK);
    rsh_value *other = number(11, false);
    assert_int_equal(rsh_state_dict_set(d, "1.inner.old", other), RSH_OK);
    assert_int_equal(rsh_module_load_state_dict(to, d, 0), RSH_OK);
    assert_true(item(got) == 11);
    rsh_value_free(v), rsh_value_free(buffer), rsh_value_free(other);
    rsh_state_dict_free(d);
    rsh_module_free(from), rsh_module_free(to);
}

static void a_state_dict_finds_its_entries_among_many(void **state) {
    (void)state;
    rsh_state_dict *d = NULL;
    assert_int_equal(rsh_state_dict_new(&d), RSH_OK);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        rsh_value *v = number(i, false);
        snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_int_equal(rsh_state_dict_set(d, name, v), RSH_OK);
        rsh_value_free(v);
    }
    for (int i = 0; i < 1000; i += 3) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_int_equal(rsh_state_dict_remove(d, name), RSH_OK);
        assert_int_equal(rsh_state_dict_remove(d, name), RSH_EKEY);
    }
    assert_int_equal(rsh_state_dict_count(d), 666);
    assert_null(rsh_state_dict_find(d, "layer.3.weight"));
    assert_true(item(rsh_state_dict_find(d, "layer.998.weight")) == 998);
    rsh_state_dict_free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_of_ones_own_runs_forward_and_backward),
        cmocka_unit_test(inputs_are_given_by_place_or_by_name),
        cmocka_unit_test(names_obey_the_rules),
        cmocka_unit_test(walks_visit_shared_things_once),
        cmocka_unit_test(hooks_run_in_order_and_can_be_removed),
        cmocka_unit_test(state_goes_out_and_comes_in),
        cmocka_unit_test(a_state_dict_finds_its_entries_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

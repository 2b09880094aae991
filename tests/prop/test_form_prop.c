/* Forms: a layout's text in which random values are replaced by holes, filled with the layout's shape, gives the layout
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "prop.h"

/* In canonical text the size of a dim or segment follows one of these characters; numbers of rules and sizes in braces
 * do not. */
static bool starts_a_size(const char *at) { return *at >= '0' && *at <= '9' && strchr("[ (|", at[-1]); }

/* Copies the dims, from "[" on, without some sizes: at most one is removed in each dim. */
static const char *punch_dims(prop_case *c, const char *from, char **to) {
    bool done = false;
    while (*from != ']') {
        if (*from == ' ') done = false;
        if (!done && starts_a_size(from) && gen_chance(&c->rng, 50)) {
            while (*from >= '0' && *from <= '9') from++;
            *(*to)++ = '_';
            done = true;
        } else {
            *(*to)++ = *from++;
        }
    }
    return from;
}

static bool is_plain(const rsh_layout_desc *desc) {
    for (int d = 0; d < desc->ndim; d++)
        if (desc->dim[d].nsegments || desc->dim[d].cut.naxes) return false;
    return !desc->is_boxes && !desc->has_order;
}

/* Writes the text of `l` as a form: without a dtype, with holes or as [...], and without a mesh if `no_mesh`. */
static void punch(prop_case *c, const rsh_layout *l, bool no_mesh, char *to) {
    const char *from = rsh_layout_text(l);
    if (gen_chance(&c->rng, 50)) {
        from = strchr(from, '[');
    } else {
        while (*from != '[') *to++ = *from++;
    }
    if (is_plain(rsh_layout_describe(l)) && gen_chance(&c->rng, 50)) {
        memcpy(to, "[...", 4);
        to += 4;
        from = strchr(from, ']');
    } else {
        from = punch_dims(c, from, &to);
    }
    const char *mesh = no_mesh ? strstr(from, " on ") : NULL;
    if (mesh) {
        memcpy(to, from, (size_t)(mesh - from));
        to += mesh - from;
        from = mesh + strlen(" on ");
        from += strcspn(from, " ");
    }
    strcpy(to, from);
}

static bool fills_to(prop_case *c, const rsh_form *f, const rsh_layout *l) {
    rsh_layout *filled = NULL;
    PROP_OK(c, rsh_form_fill(f, rsh_layout_dtype(l), rsh_layout_ndim(l), rsh_layout_shape(l), NULL, &filled));
    bool same = rsh_layout_equal(filled, l);
    if (!same) prop_say(c, "\"%.800s\" becomes \"%.800s\"", rsh_form_text(f), rsh_layout_text(filled));
    rsh_layout_free(filled);
    return same;
}

/* If one dim is larger by one, filling works if that dim is a hole of any size; otherwise the error has a position. */
static bool answers_another_shape(prop_case *c, const rsh_form *f, const rsh_layout *l) {
    int64_t shape[RSH_MAX_NDIM];
    int ndim = rsh_layout_ndim(l), d = (int)gen_below(&c->rng, ndim);
    rsh_text_error error = {0};
    rsh_layout *filled = NULL;
    for (int i = 0; i < ndim; i++) shape[i] = rsh_layout_shape(l)[i] + (i == d);
    rsh_status st = rsh_form_fill(f, rsh_layout_dtype(l), ndim, shape, &error, &filled);
    bool refused = st == RSH_EVALUE && error.line == 1 && error.column >= 1 && ndim;
    bool ok = st ? refused : !ndim || rsh_layout_shape(filled)[d] == shape[d];
    rsh_layout_free(filled);
    PROP(c, ok, "another shape: %s, column %d: %s", rsh_status_name(st), error.column, rsh_error_detail());
    return true;
}

static bool holes(prop_case *c) {
    char other[GEN_TEXT];
    gen_pair_wish w = {30, 30, true, true, 12, false};
    rsh_layout *l = NULL;
    rsh_form *f = NULL;
    gen_pair(&c->rng, &w, c->from, other);
    PROP_OK(c, rsh_layout_parse(c->from, &l));
    bool no_mesh = gen_chance(&c->rng, 30);
    punch(c, l, no_mesh, c->to);
    rsh_status st = rsh_form_parse(c->to, no_mesh ? rsh_layout_describe(l) : NULL, NULL, &f);
    bool ok = st ? prop_say(c, "%s", rsh_error_detail()) : fills_to(c, f, l) && answers_another_shape(c, f, l);
    rsh_form_free(f);
    rsh_layout_free(l);
    return ok;
}

static void a_form_filled_with_the_shape_of_a_layout_is_that_layout(void **state) {
    (void)state;
    prop_run("holes", 1000, holes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_form_filled_with_the_shape_of_a_layout_is_that_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

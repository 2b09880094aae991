/* Fuzz form: any bytes either are a form or cause an error.  A form can be filled with any shape or returns an error,
 * and the result must match the form.
 *
 * The first byte chooses the tensor: its number of dims, their sizes, and whether a mesh is given. */
#include <stdlib.h>
#include <string.h>

#include <reshard/alloc.h>
#include <reshard/layout.h>

/* Used instead of assert, because it must also work in builds with NDEBUG. */
static void must(bool condition) {
    if (!condition) abort();
}

static void check_error(const rsh_text_error *error, const char *text) {
    must(error->line >= 0 && error->column <= (int)strlen(text) + 1 && !error->line == !error->column);
    must(error->sentence >= rsh_error_detail() && strlen(error->sentence) <= strlen(rsh_error_detail()));
}

/* Checks that the layout has the tensor's shape and the sizes that the form states. */
static void check_filled(const rsh_form *f, const rsh_layout *l, int ndim, const int64_t *shape) {
    const rsh_layout_desc *desc = rsh_form_describe(f);
    rsh_layout *again;
    must(rsh_layout_ndim(l) == ndim && (desc->ndim == RSH_HOLE || desc->ndim == ndim));
    for (int d = 0; d < ndim; d++) must(rsh_layout_shape(l)[d] == shape[d]);
    must(!rsh_form_has_dtype(f) || desc->dtype == rsh_layout_dtype(l));
    must(!rsh_layout_parse(rsh_layout_text(l), &again) && rsh_layout_equal(l, again));
    rsh_layout_free(again);
}

static void check_form(const rsh_form *f, unsigned choice) {
    const rsh_layout_desc *desc = rsh_form_describe(f);
    int ndim = choice & 8 || desc->ndim == RSH_HOLE ? (int)(choice & 3) : desc->ndim;
    int64_t shape[RSH_MAX_NDIM];
    rsh_text_error error;
    rsh_layout *l;
    for (int d = 0; d < ndim; d++) {
        int64_t size = desc->ndim == RSH_HOLE || d >= desc->ndim ? RSH_HOLE : desc->dim[d].size;
        shape[d] = size == RSH_HOLE || choice & 16 ? (int64_t)(choice >> 3) * (d + 1) : size;
    }
    if (rsh_form_fill(f, RSH_F32, ndim, shape, &error, &l)) {
        check_error(&error, rsh_form_text(f));
    } else {
        check_filled(f, l, ndim, shape);
        rsh_layout_free(l);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const rsh_layout_desc mesh = {.naxes = 2, .axis = {{"dp", 2}, {"tp", 4}}, .first_rank = 3};
    uint64_t live = rsh_alloc_get_stats().live;
    unsigned choice = size ? data[0] : 0;
    char *text = malloc(size + 1);
    rsh_text_error error;
    rsh_form *f;
    if (!text) return 0;
    if (size > 1) memcpy(text, data + 1, size - 1);
    text[size ? size - 1 : 0] = 0;
    if (!rsh_form_parse(text, choice & 4 ? &mesh : NULL, &error, &f)) {
        must(!strcmp(rsh_form_text(f), text));
        check_form(f, choice);
        rsh_form_free(f);
    } else {
        check_error(&error, text);
    }
    free(text);
    must(rsh_alloc_get_stats().live == live);
    return 0;
}

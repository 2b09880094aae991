/* Tensor print: writes elements as text, row by row.  Long dims are abbreviated to their two ends. */
#include "math/impl.h"

#include <stdio.h>
#include <string.h>

#define MOST 1000 /* larger tensors are abbreviated */
#define ENDS 3    /* elements shown at each end of a dim of such tensors */

typedef struct printing {
    const rsh_tensor *t;
    const rsh_sink *sink;
    bool all;
} printing;

static void print_float(double x, char *text, size_t room) { rshi_text_format(text, room, "%.5g", x); }

static rsh_status print_element(const printing *p, const char *data) {
    rsh_dtype dtype = rsh_tensor_dtype(p->t);
    char text[80];
    double x[2];
    int64_t i;
    if (rshi_is_complex(dtype)) {
        rshi_convert(dtype, data, RSH_C128, x, 1);
        print_float(x[0], text, 40);
        size_t n = strlen(text);
        if (!(x[1] < 0)) text[n++] = '+';
        print_float(x[1], text + n, 30);
        strcat(text, "i");
    } else if (dtype == RSH_BOOL) {
        strcpy(text, *data ? "true" : "false");
    } else if (dtype == RSH_U64) {
        memcpy(&i, data, sizeof i);
        snprintf(text, sizeof text, "%llu", (unsigned long long)i);
    } else if (rshi_is_integer(dtype)) {
        rshi_convert(dtype, data, RSH_I64, &i, 1);
        snprintf(text, sizeof text, "%lld", (long long)i);
    } else {
        rshi_convert(dtype, data, RSH_F64, x, 1);
        print_float(x[0], text, sizeof text);
    }
    return rshi_sink_text(p->sink, text);
}

/* Writes the separator between two entries of dim d: a comma, and between rows a line break with indentation. */
static rsh_status print_separator(const printing *p, int d) {
    if (d == rsh_tensor_ndim(p->t) - 1) return rshi_sink_text(p->sink, ", ");
    return rshi_sink_format(p->sink, ",\n%*s", (int)sizeof "tensor(" + d, "");
}

static rsh_status print_dims(const printing *p, int d, const char *data) {
    if (d == rsh_tensor_ndim(p->t)) return print_element(p, data);
    int64_t n = rsh_tensor_shape(p->t)[d], step = rsh_tensor_strides(p->t)[d] * (int64_t)rshi_item(p->t);
    bool ends = !p->all && n > 2 * ENDS;
    RSH_TRY(rshi_sink_text(p->sink, "["));
    for (int64_t i = 0; i < n; i++) {
        if (i) RSH_TRY(print_separator(p, d));
        if (ends && i == ENDS) {
            RSH_TRY(rshi_sink_text(p->sink, "..."));
            RSH_TRY(print_separator(p, d));
            i = n - ENDS;
        }
        RSH_TRY(print_dims(p, d + 1, data + i * step));
    }
    return rshi_sink_text(p->sink, "]");
}

rsh_status rsh_tensor_print(const rsh_tensor *t, const rsh_sink *sink) {
    RSH_REQUIRE(t && sink && sink->write, RSH_EVALUE, t ? "print: sink is NULL" : "print: tensor is NULL");
    printing p = {t, sink, rsh_tensor_count(t) <= MOST};
    RSH_TRY(rshi_sink_text(sink, "tensor("));
    if (rsh_tensor_count(t)) RSH_TRY(print_dims(&p, 0, rsh_tensor_data(t)));
    else RSH_TRY(rshi_sink_text(sink, "[]"));
    RSH_TRY(rshi_sink_format(sink, ", size=["));
    for (int d = 0; d < rsh_tensor_ndim(t); d++)
        RSH_TRY(rshi_sink_format(sink, "%s%lld", d ? ", " : "", (long long)rsh_tensor_shape(t)[d]));
    return rshi_sink_format(sink, "], dtype=%s)", rsh_dtype_name(rsh_tensor_dtype(t)));
}

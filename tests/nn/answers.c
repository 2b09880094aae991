/* Answers: reads golden_ops.txt, and creates the inputs of its cases. */
#include "nn/answers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void refuse(int line, const char *what) {
    fprintf(stderr, "golden_ops.txt:%d: %s\n", line, what);
    abort();
}

static int read_sizes(const char *text, int64_t *out) {
    int n = 0;
    if (!strcmp(text, "-")) return 0;
    for (char *end; *text; text = *end ? end + 1 : end) out[n++] = strtoll(text, &end, 10);
    return n;
}

static void read_numbers(char *text, answer *a, int line) {
    a->n = 0;
    for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) {
        if (a->n == MOST_NUMBERS) refuse(line, "too many numbers");
        a->number[a->n++] = strtod(word, NULL);
    }
}

static void read_head(char *text, answered_case *c, int line) {
    char *op = strtok(text, " \n"), *dtype = strtok(NULL, " \n");
    memset(c, 0, offsetof(answered_case, out));
    memset(c->has_grad, 0, sizeof c->has_grad);
    snprintf(c->op, sizeof c->op, "%s", op);
    c->dtype = !strcmp(dtype, "f32") ? RSH_F32 : RSH_F64;
    c->line = line;
    for (char *word; (word = strtok(NULL, " \n")); c->nattributes++) {
        char *value = strchr(word, '=');
        if (!value || c->nattributes == MOST_ATTRIBUTES) refuse(line, "attributes are name=value");
        snprintf(c->name[c->nattributes], sizeof c->name[0], "%.*s", (int)(value - word), word);
        snprintf(c->text[c->nattributes], sizeof c->text[0], "%s", value + 1);
    }
}

static void read_input(char *text, answered_case *c) {
    char *kind = strtok(text, " \n"), *sizes = strtok(NULL, " \n");
    snprintf(c->kind[c->nin], sizeof c->kind[0], "%s", kind);
    c->ndim[c->nin] = read_sizes(sizes, c->shape[c->nin]);
    c->nin++;
}

static void read_output(char *text, answered_case *c, int line) {
    answer *a = &c->out[c->nout++];
    char *rest = strchr(text, ' ');
    *rest = 0;
    a->ndim = read_sizes(text, a->shape);
    read_numbers(rest + 1, a, line);
}

static void read_grad(char *text, answered_case *c, int line) {
    int k = atoi(text);
    c->has_grad[k] = true;
    read_numbers(strchr(text, ' ') + 1, &c->grad[k], line);
}

bool next_case(FILE *file, int *line, answered_case *c) {
    static char text[1 << 17];
    bool begun = false;
    long at = ftell(file);
    while (fgets(text, sizeof text, file)) {
        if (!strncmp(text, "case ", 5) && begun) {
            fseek(file, at, SEEK_SET); /* the line belongs to the next case */
            return true;
        }
        at = ftell(file);
        ++*line;
        if (!strncmp(text, "case ", 5))
            read_head(text + 5, c, *line), begun = true;
        else if (!strncmp(text, "in ", 3))
            read_input(text + 3, c);
        else if (!strncmp(text, "out ", 4))
            read_output(text + 4, c, *line);
        else if (!strncmp(text, "grad ", 5))
            read_grad(text + 5, c, *line);
        else if (*text != '#')
            refuse(*line, "what is this?");
    }
    return begun;
}

const char *attribute(const answered_case *c, const char *name) {
    for (int i = 0; i < c->nattributes; i++)
        if (!strcmp(c->name[i], name)) return c->text[i];
    refuse(c->line, name);
    return NULL;
}

double number_of(const answered_case *c, const char *name) { return strtod(attribute(c, name), NULL); }

int integers_of(const answered_case *c, const char *name, int *out) {
    int64_t list[RSH_MAX_NDIM];
    int n = read_sizes(attribute(c, name), list);
    for (int i = 0; i < n; i++) out[i] = (int)list[i];
    return n;
}

static double formula(int64_t i, int k) { return (double)((7919 * i + 104729 * (k + 1)) % 2003) / 1000 - 1; }

static void put(const rsh_tensor *t, int64_t i, double x) {
    if (rsh_tensor_dtype(t) == RSH_F32)
        ((float *)rsh_tensor_data(t))[i] = (float)x;
    else
        ((double *)rsh_tensor_data(t))[i] = x;
}

rsh_value *make_input(const char *kind, int k, rsh_dtype dtype, int ndim, const int64_t *shape, bool requires_grad) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    bool is_index = *kind == 'i', is_mask = *kind == 'b';
    int64_t below = is_index ? atoll(kind + 1) : 1;
    if (rsh_tensor_empty(is_index ? RSH_I64 : is_mask ? RSH_BOOL : dtype, ndim, shape, &t)) return NULL;
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) {
        if (is_index)
            ((int64_t *)rsh_tensor_data(t))[i] = (7 * i + 3 * k + 1) % below;
        else if (is_mask)
            ((bool *)rsh_tensor_data(t))[i] = (5 * i + k) % 3 == 0;
        else
            put(t, i, *kind == 'p' ? fabs(formula(i, k)) + 0.1 : formula(i, k));
    }
    if (rsh_value_adopt_tensor(t, requires_grad && !is_index && !is_mask, &v)) rsh_tensor_free(t);
    return v;
}

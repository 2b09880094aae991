/* Parse: the layout notation, one function per production of its grammar. */
#include "oracle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *text, *at;
} reader;

static void nonsense(const reader *r, const char *expected) {
    fprintf(stderr, "oracle: expected %s at column %d of: %s\n", expected, (int)(r->at - r->text) + 1, r->text);
    abort();
}

static char peek(reader *r) {
    while (isspace((unsigned char)*r->at)) r->at++;
    return *r->at;
}

static bool take(reader *r, char c) {
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static void want(reader *r, char c) {
    if (!take(r, c)) nonsense(r, (char[]){c, 0});
}

static int64_t number(reader *r) {
    if (!isdigit((unsigned char)peek(r))) nonsense(r, "a number");
    int64_t n = 0;
    while (isdigit((unsigned char)*r->at)) n = n * 10 + (*r->at++ - '0');
    return n;
}

static size_t word_length(reader *r) {
    if (!isalpha((unsigned char)peek(r))) return 0;
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
    return n;
}

static void word(reader *r, char out[32]) {
    size_t n = word_length(r);
    if (n == 0 || n > 31) nonsense(r, "a name");
    memcpy(out, r->at, n);
    out[n] = 0;
    r->at += n;
}

static bool take_word(reader *r, const char *w) {
    size_t n = word_length(r);
    if (n != strlen(w) || memcmp(r->at, w, n) != 0) return false;
    r->at += n;
    return true;
}

/* axes = axis | "(" axis { "," axis } ")" */
static void axes(reader *r, ora_cut *cut) {
    if (!take(r, '(')) {
        word(r, cut->name[cut->naxes++]);
        return;
    }
    do {
        if (cut->naxes == ORA_MAX) nonsense(r, "fewer axes");
        word(r, cut->name[cut->naxes++]);
    } while (take(r, ','));
    want(r, ')');
}

/* rule = "~" | ":" number | "%" number | "{" number { "," number } "}" */
static void rule(reader *r, ora_cut *cut) {
    char c = peek(r);
    if (c == 0 || !strchr("~:%{", c)) return;
    cut->rule = *r->at++;
    if (c == ':' || c == '%') cut->number = number(r);
    if (c != '{') return;
    do {
        if (cut->nsizes == ORA_MAX_SIZES) nonsense(r, "fewer sizes");
        cut->sizes[cut->nsizes++] = number(r);
    } while (take(r, ','));
    want(r, '}');
}

/* cut = "/" axes [ rule ] */
static bool maybe_cut(reader *r, ora_cut *cut) {
    if (!take(r, '/')) return false;
    axes(r, cut);
    rule(r, cut);
    return true;
}

static void segment(reader *r, ora_dim *dim) {
    if (dim->nsegments == ORA_MAX_SEGMENTS) nonsense(r, "fewer segments");
    ora_segment *s = &dim->segment[dim->nsegments++];
    s->size = number(r);
    maybe_cut(r, &s->cut);
}

/* dim = size [ cut ] | "(" segment { "|" segment } ")" [ cut ] */
static void dim(reader *r, ora_dim *out) {
    if (!take(r, '(')) {
        segment(r, out);
        return;
    }
    do
        segment(r, out);
    while (take(r, '|'));
    want(r, ')');
    ora_cut all = {0};
    if (maybe_cut(r, &all))
        for (int s = 0; s < out->nsegments; s++) out->segment[s].cut = all;
}

static void shape(reader *r, ora_layout *l) {
    want(r, '[');
    if (!take(r, ']')) {
        do {
            if (l->ndim == ORA_MAX) nonsense(r, "fewer dims");
            dim(r, &l->dim[l->ndim++]);
        } while (take(r, ','));
        want(r, ']');
    }
    l->count = 1;
    for (int d = 0; d < l->ndim; d++) {
        for (int s = 0; s < l->dim[d].nsegments; s++) l->shape[d] += l->dim[d].segment[s].size;
        l->count *= l->shape[d];
    }
}

/* ranks = "[" number { "," number } "]" | number "-" number */
static void ranks(reader *r, ora_layout *l) {
    if (take(r, '[')) {
        int64_t n = 0;
        do
            l->rank_of[n++] = number(r);
        while (n < l->npositions && take(r, ','));
        if (n != l->npositions) nonsense(r, "as many ranks as positions");
        want(r, ']');
        return;
    }
    int64_t a = number(r);
    want(r, '-');
    if (number(r) - a + 1 != l->npositions) nonsense(r, "as many ranks as positions");
    for (int64_t i = 0; i < l->npositions; i++) l->rank_of[i] = a + i;
}

/* mesh = axis "=" number { "," axis "=" number } [ "@" ranks ] */
static void mesh(reader *r, ora_layout *l) {
    do {
        if (l->naxes == ORA_MAX) nonsense(r, "fewer axes");
        word(r, l->axis[l->naxes]);
        want(r, '=');
        l->axis_size[l->naxes] = number(r);
        l->npositions *= l->axis_size[l->naxes++];
    } while (take(r, ','));
    if (l->npositions < 1 || l->npositions > ORA_MAX_POSITIONS) nonsense(r, "a smaller mesh");
    for (int64_t i = 0; i < l->npositions; i++) l->rank_of[i] = i;
    if (take(r, '@')) ranks(r, l);
}

static int axis_number(const reader *r, const ora_layout *l, const char *name) {
    for (int a = 0; a < l->naxes; a++)
        if (!strcmp(l->axis[a], name)) return a;
    nonsense(r, "an axis of the mesh");
    return -1;
}

/* partial = op "(" axis { "," axis } ")" */
static void maybe_partial(reader *r, ora_layout *l) {
    l->npartial = 1;
    size_t length = word_length(r); /* moves r->at to the word, so it cannot be in the same call */
    ora_op op = ora_op_of(r->at, length);
    if (op == ORA_OPS) return;
    char name[32];
    word(r, name);
    l->op = op;
    want(r, '(');
    do {
        word(r, name);
        int a = axis_number(r, l, name);
        l->is_partial[a] = true;
        l->npartial *= l->axis_size[a];
    } while (take(r, ','));
    want(r, ')');
}

/* order = "order" "(" number { "," number } ")" */
static void maybe_order(reader *r, ora_layout *l) {
    for (int d = 0; d < l->ndim; d++) l->order[d] = d;
    if (!take_word(r, "order")) return;
    want(r, '(');
    for (int d = 0; d < l->ndim; d++) {
        if (d) want(r, ',');
        l->order[d] = (int)number(r);
    }
    want(r, ')');
}

static void box_ranges(reader *r, ora_layout *l, ora_box *box) {
    want(r, ':');
    want(r, '[');
    for (int d = 0; d < l->ndim; d++) {
        if (d) want(r, ',');
        box->lo[d] = number(r);
        want(r, ':');
        box->hi[d] = number(r);
    }
    want(r, ']');
}

static void add_box(ora_layout *l, const ora_box *box, int64_t rank) {
    l->box = realloc(l->box, sizeof *l->box * (size_t)(l->nboxes + 1));
    if (!l->box) abort();
    l->box[l->nboxes] = *box;
    l->box[l->nboxes++].rank = rank;
}

/* box = number { "," number } ":" "[" [ range { "," range } ] "]" */
static void box(reader *r, ora_layout *l) {
    int64_t rank[ORA_MAX_POSITIONS], n = 0;
    do {
        if (n == ORA_MAX_POSITIONS) nonsense(r, "fewer ranks");
        rank[n++] = number(r);
    } while (take(r, ','));
    ora_box b = {0};
    box_ranges(r, l, &b);
    for (int64_t i = 0; i < n; i++) add_box(l, &b, rank[i]);
}

static void resolve(const reader *r, const ora_layout *l, ora_cut *cut) {
    for (int i = 0; i < cut->naxes; i++) cut->axis[i] = axis_number(r, l, cut->name[i]);
}

static void resolve_all(const reader *r, ora_layout *l) {
    for (int d = 0; d < l->ndim; d++)
        for (int s = 0; s < l->dim[d].nsegments; s++) resolve(r, l, &l->dim[d].segment[s].cut);
    resolve(r, l, &l->flat);
}

static void mesh_form(reader *r, ora_layout *l) {
    maybe_cut(r, &l->flat);
    if (take_word(r, "on")) mesh(r, l);
    resolve_all(r, l);
    maybe_partial(r, l);
    maybe_order(r, l);
}

static void boxes_form(reader *r, ora_layout *l) {
    l->is_boxes = true;
    l->npartial = 1;
    while (isdigit((unsigned char)peek(r))) box(r, l);
    for (int d = 0; d < l->ndim; d++) l->order[d] = d;
}

ora_layout *ora_parse(const char *text) {
    reader r = {text, text};
    ora_layout *l = calloc(1, sizeof *l);
    if (!l) abort();
    char name[32];
    word(&r, name);
    l->dtype = ora_dtype_of(name, strlen(name));
    if (l->dtype == ORA_DTYPES) nonsense(&r, "a dtype");
    l->npositions = 1;
    shape(&r, l);
    if (take_word(&r, "boxes"))
        boxes_form(&r, l);
    else
        mesh_form(&r, l);
    if (peek(&r)) nonsense(&r, "the end");
    ora_fill_parts(l);
    return l;
}

void ora_free(ora_layout *l) {
    if (!l) return;
    for (int64_t i = 0; i < l->nparts; i++) free(l->part[i].element);
    free(l->part);
    free(l->box);
    free(l);
}

/* Parse: text to a description, one function per production of the grammar in docs/notation.md.
 *
 * The parser knows spelling and nothing else: what it has read goes to rshi_layout_build, which checks the meaning. */
#include "layout/impl.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Most ranks that `@a-b` may stand for: they are handed to the builder as a list. */
#define RANGE_MAX ((int64_t)1 << 24)

typedef struct parser {
    const char *text, *at;
    /* Until the mesh has been read, an axis in `desc` is the offset of its name in the text. */
    rsh_layout_desc desc;
    rshi_where where;
    /* Owned; `desc` borrows them.  Lists in `where` and lists of numbers in `desc` are owned as well. */
    rsh_segment *segment[RSH_MAX_NDIM];
    rsh_ranked_box *box;
} parser;

/* ---- scanner ---- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* The next token's first byte. */
static const char *peek(parser *p) {
    while (is_blank(*p->at)) p->at++;
    return p->at;
}

static bool at_end(parser *p) { return !*peek(p); }
/* For the builder: counted through line ends, from the start of the text. */
static int column(parser *p) { return (int)(peek(p) - p->text) + 1; }

static size_t word_length(const char *at) {
    size_t n = 0;
    if (is_letter(at[0]))
        while (is_letter(at[n]) || is_digit(at[n]) || at[n] == '_') n++;
    return n;
}

static size_t digits_length(const char *at) {
    size_t n = 0;
    while (is_digit(at[n])) n++;
    return n;
}

static void line_and_column(const char *text, size_t offset, int *line, int *col) {
    *line = *col = 1;
    for (size_t i = 0; i < offset; i++) {
        *col = text[i] == '\n' ? 1 : *col + 1;
        *line += text[i] == '\n';
    }
}

static rsh_status fail_at(const parser *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static rsh_status fail_at(const parser *p, const char *at, const char *format, ...) {
    char sentence[RSHI_DETAIL_BYTES / 2];
    int line, col;
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    line_and_column(p->text, (size_t)(at - p->text), &line, &col);
    return rshi_fail(RSH_EVALUE, "%s:%d:%d: %s", p->where.name, line, col, sentence);
}

static rsh_status expected(parser *p, const char *what) {
    const char *at = peek(p);
    size_t n = word_length(at) + digits_length(at);
    if (!*at) return fail_at(p, at, "expected %s, found the end", what);
    if (*at < ' ' || *at > '~') return fail_at(p, at, "expected %s, found byte 0x%02x", what, (unsigned char)*at);
    return fail_at(p, at, "expected %s, found \"%.*s\"", what, (int)(n < 1 ? 1 : n < 40 ? n : 40), at);
}

static bool accept(parser *p, char c) {
    if (*peek(p) != c) return false;
    p->at++;
    return true;
}

static rsh_status expect(parser *p, char c, const char *what) { return accept(p, c) ? RSH_OK : expected(p, what); }

static bool next_is(parser *p, const char *word) {
    size_t n = word_length(peek(p));
    return n == strlen(word) && !memcmp(p->at, word, n);
}

static bool accept_word(parser *p, const char *word) {
    if (!next_is(p, word)) return false;
    p->at += strlen(word);
    return true;
}

static rsh_status parse_number(parser *p, const char *what, int64_t *out) {
    const char *start = peek(p);
    size_t n = digits_length(start);
    if (!n) return expected(p, what);
    int64_t value = 0;
    for (; is_digit(*p->at); p->at++)
        if (!rshi_mul(value, 10, &value) || !rshi_add(value, *p->at - '0', &value))
            return fail_at(p, start, "%.*s does not fit in 64 bits", (int)(n < 40 ? n : 40), start);
    *out = value;
    return RSH_OK;
}

/* The list with room for one more: room doubles whenever n reaches a power of two.  NULL: no memory, the list stays. */
static void *grown(const void *list, int64_t n, size_t size) {
    if (n & (n - 1)) return (void *)list;
    return rshi_realloc((void *)list, n ? 2 * (size_t)n : 1, size);
}

/* number { "," number } */
static rsh_status parse_numbers(parser *p, const char *what, const int64_t **list, int64_t *n) {
    do {
        int64_t value;
        RSH_TRY(parse_number(p, what, &value));
        int64_t *more = grown(*list, *n, sizeof value);
        if (!more) return rshi_nomem();
        more[(*n)++] = value;
        *list = more;
    } while (accept(p, ','));
    return RSH_OK;
}

/* ---- dims and cuts ---- */

static rsh_status parse_axis(parser *p, int *n, int *axes) {
    size_t length = word_length(peek(p));
    if (!length) return expected(p, "an axis");
    if (*n == RSH_MAX_AXES) return fail_at(p, p->at, "more than %d axes", RSH_MAX_AXES);
    axes[(*n)++] = (int)(p->at - p->text);
    p->at += length;
    return RSH_OK;
}

/* axis { "," axis } ")" */
static rsh_status parse_axis_list(parser *p, int *n, int *axes) {
    do {
        RSH_TRY(parse_axis(p, n, axes));
    } while (accept(p, ','));
    return expect(p, ')', "\",\" or \")\"");
}

static rsh_status parse_rule(parser *p, rsh_cut *cut) {
    if (accept(p, '~')) {
        cut->rule = RSH_RULE_BALANCED;
    } else if (accept(p, ':')) {
        cut->rule = RSH_RULE_CYCLIC;
        return parse_number(p, "a block size", &cut->number);
    } else if (accept(p, '%')) {
        cut->rule = RSH_RULE_UNIT;
        return parse_number(p, "a unit", &cut->number);
    } else if (accept(p, '{')) {
        cut->rule = RSH_RULE_SIZES;
        RSH_TRY(parse_numbers(p, "a size", &cut->sizes, &cut->nsizes));
        return expect(p, '}', "\",\" or \"}\"");
    }
    return RSH_OK;
}

/* [ cut ] */
static rsh_status parse_cut(parser *p, rsh_cut *cut, int *where) {
    if (!accept(p, '/')) return RSH_OK;
    *where = column(p);
    if (accept(p, '('))
        RSH_TRY(parse_axis_list(p, &cut->naxes, cut->axes));
    else
        RSH_TRY(parse_axis(p, &cut->naxes, cut->axes));
    return parse_rule(p, cut);
}

/* Room for one more segment in dim d and in the lists of columns beside it. */
static rsh_status add_segment(parser *p, int d) {
    rsh_dim *dim = &p->desc.dim[d];
    rsh_segment *segment = grown(p->segment[d], dim->nsegments, sizeof *segment);
    if (!segment) return rshi_nomem();
    dim->segment = p->segment[d] = segment;
    int *start = grown(p->where.segment[d], dim->nsegments, sizeof *start);
    if (!start) return rshi_nomem();
    p->where.segment[d] = start;
    int *cut = grown(p->where.segment_cut[d], dim->nsegments, sizeof *cut);
    if (!cut) return rshi_nomem();
    p->where.segment_cut[d] = cut;

    segment[dim->nsegments] = (rsh_segment){0};
    start[dim->nsegments] = column(p);
    cut[dim->nsegments++] = 0;
    return RSH_OK;
}

static rsh_status parse_segment(parser *p, int d) {
    RSH_TRY(add_segment(p, d));
    int s = p->desc.dim[d].nsegments - 1;
    RSH_TRY(parse_number(p, "the size of a segment", &p->segment[d][s].size));
    return parse_cut(p, &p->segment[d][s].cut, &p->where.segment_cut[d][s]);
}

static rsh_status parse_dim(parser *p, int d) {
    p->where.dim[d] = column(p);
    if (accept(p, '(')) {
        do {
            RSH_TRY(parse_segment(p, d));
        } while (accept(p, '|'));
        RSH_TRY(expect(p, ')', "\"|\" or \")\""));
    } else {
        RSH_TRY(parse_number(p, "a size", &p->desc.dim[d].size));
    }
    return parse_cut(p, &p->desc.dim[d].cut, &p->where.cut[d]);
}

static rsh_status parse_dims(parser *p) {
    RSH_TRY(expect(p, '[', "\"[\""));
    if (accept(p, ']')) return RSH_OK;
    do {
        if (p->desc.ndim == RSH_MAX_NDIM) return fail_at(p, peek(p), "more than %d dims", RSH_MAX_NDIM);
        RSH_TRY(parse_dim(p, p->desc.ndim++));
    } while (accept(p, ','));
    return expect(p, ']', "\",\" or \"]\"");
}

/* ---- mesh ---- */

/* axis "=" number */
static rsh_status parse_mesh_axis(parser *p) {
    int *n = &p->desc.naxes, offset[RSH_MAX_AXES];
    p->where.axis[*n < RSH_MAX_AXES ? *n : 0] = column(p);
    RSH_TRY(parse_axis(p, n, offset));
    rsh_axis *axis = &p->desc.axis[*n - 1];
    const char *name = p->text + offset[*n - 1];
    size_t length = word_length(name);
    if (length >= sizeof axis->name)
        return fail_at(p, name, "axis \"%.40s...\" is longer than %zu characters", name, sizeof axis->name - 1);
    memcpy(axis->name, name, length);
    RSH_TRY(expect(p, '=', "\"=\""));
    return parse_number(p, "the size of an axis", &axis->size);
}

/* Positions of the mesh, or 0 if it is one that the builder will refuse. */
static int64_t count_positions(const parser *p) {
    int64_t n = 1;
    for (int i = 0; i < p->desc.naxes; i++)
        if (!rshi_mul(n, p->desc.axis[i].size, &n)) return 0;
    return n;
}

/* The ranks from..to as a list. */
static rsh_status list_range(parser *p, const char *at, int64_t from, int64_t to, int64_t positions) {
    if (from > to) return fail_at(p, at, "ranks %lld-%lld run backwards", (long long)from, (long long)to);
    if (to - from != positions - 1)
        return fail_at(p, at, "%lld-%lld is %llu ranks, the mesh has %lld positions", (long long)from, (long long)to,
                       (unsigned long long)(to - from) + 1, (long long)positions);
    if (positions > RANGE_MAX) return fail_at(p, at, "a range of more than %lld ranks", (long long)RANGE_MAX);
    int64_t *ranks = rshi_alloc((size_t)positions, sizeof *ranks);
    if (!ranks) return rshi_nomem();
    for (int64_t i = 0; i < positions; i++) ranks[i] = from + i;
    p->desc.ranks = ranks;
    return RSH_OK;
}

static rsh_status parse_ranks(parser *p) {
    const char *at = peek(p);
    int64_t positions = count_positions(p), n = 0, from, to;
    p->where.ranks = column(p);
    if (accept(p, '[')) {
        RSH_TRY(parse_numbers(p, "a rank", &p->desc.ranks, &n));
        RSH_TRY(expect(p, ']', "\",\" or \"]\""));
        if (!positions || n == positions) return RSH_OK;
        return fail_at(p, at, "%lld ranks for a mesh of %lld positions", (long long)n, (long long)positions);
    }
    RSH_TRY(parse_number(p, "\"[\" or a rank", &from));
    RSH_TRY(expect(p, '-', "\"-\""));
    RSH_TRY(parse_number(p, "a rank", &to));
    return positions ? list_range(p, at, from, to, positions) : RSH_OK;
}

static rsh_status parse_mesh(parser *p) {
    p->where.mesh = column(p);
    do {
        RSH_TRY(parse_mesh_axis(p));
    } while (accept(p, ','));
    return accept(p, '@') ? parse_ranks(p) : RSH_OK;
}

/* ---- after the mesh ---- */

static rsh_status parse_partial(parser *p) {
    p->where.partial = column(p);
    size_t length = word_length(p->at);
    if (!length || rsh_op_parse(p->at, length, &p->desc.op))
        return expected(p, p->desc.naxes ? "a reduction, \"order\" or the end"
                                         : "\"on\", \"boxes\", a reduction, \"order\" or the end");
    p->at += length;
    RSH_TRY(expect(p, '(', "\"(\""));
    return parse_axis_list(p, &p->desc.npartial, p->desc.partial);
}

static rsh_status parse_order(parser *p) {
    const char *at = peek(p);
    int n = 0;
    p->where.order = column(p);
    if (!accept_word(p, "order")) return expected(p, "\"order\" or the end");
    p->desc.has_order = true;
    RSH_TRY(expect(p, '(', "\"(\""));
    do {
        int64_t dim;
        RSH_TRY(parse_number(p, "a dim", &dim));
        if (n < p->desc.ndim) p->desc.order[n] = (int)rshi_min(dim, RSH_MAX_NDIM);
        n++;
    } while (accept(p, ','));
    RSH_TRY(expect(p, ')', "\",\" or \")\""));
    return n == p->desc.ndim ? RSH_OK : fail_at(p, at, "order names %d dims of %d", n, p->desc.ndim);
}

/* [ cut ] [ "on" mesh ] [ partial ] [ order ] */
static rsh_status parse_placement(parser *p) {
    RSH_TRY(parse_cut(p, &p->desc.flat, &p->where.flat));
    if (accept_word(p, "on")) RSH_TRY(parse_mesh(p));
    if (!at_end(p) && !next_is(p, "order")) RSH_TRY(parse_partial(p));
    if (!at_end(p)) RSH_TRY(parse_order(p));
    return at_end(p) ? RSH_OK : expected(p, "the end");
}

/* ---- boxes ---- */

static rsh_status parse_range(parser *p, int64_t *lo, int64_t *hi) {
    RSH_TRY(parse_number(p, "a range", lo));
    RSH_TRY(expect(p, ':', "\":\""));
    return parse_number(p, "the end of a range", hi);
}

/* "[" [ range { "," range } ] "]" */
static rsh_status parse_ranges(parser *p, rsh_box *box) {
    const char *at = peek(p);
    int n = 0, ndim = p->desc.ndim;
    RSH_TRY(expect(p, '[', "\"[\""));
    if (!accept(p, ']')) {
        do {
            int64_t lo, hi;
            RSH_TRY(parse_range(p, &lo, &hi));
            if (n < ndim) box->lo[n] = lo, box->hi[n] = hi;
            n++;
        } while (accept(p, ','));
        RSH_TRY(expect(p, ']', "\",\" or \"]\""));
    }
    return n == ndim ? RSH_OK : fail_at(p, at, "the box has %d ranges, the tensor %d dims", n, ndim);
}

static rsh_status add_box(parser *p) {
    int64_t n = p->desc.nboxes;
    rsh_ranked_box *box = grown(p->box, n, sizeof *box);
    if (!box) return rshi_nomem();
    p->desc.boxes = p->box = box;
    int *where = grown(p->where.box, n, sizeof *where);
    if (!where) return rshi_nomem();
    p->where.box = where;

    box[n] = (rsh_ranked_box){0};
    where[n] = column(p);
    p->desc.nboxes++;
    return RSH_OK;
}

static rsh_status parse_box(parser *p) {
    RSH_TRY(add_box(p));
    rsh_ranked_box *box = &p->box[p->desc.nboxes - 1];
    RSH_TRY(parse_numbers(p, "a rank", &box->ranks, &box->nranks));
    RSH_TRY(expect(p, ':', "\",\" or \":\""));
    return parse_ranges(p, &box->box);
}

static rsh_status parse_boxes(parser *p) {
    p->where.boxes = column(p);
    accept_word(p, "boxes");
    p->desc.is_boxes = true;
    for (int d = 0; d < p->desc.ndim; d++)
        if (p->desc.dim[d].nsegments || p->desc.dim[d].cut.naxes)
            return fail_at(p, p->text + p->where.dim[d] - 1, "boxes go with plain sizes only");
    while (!at_end(p)) RSH_TRY(parse_box(p));
    return RSH_OK;
}

/* ---- the whole ---- */

static rsh_status parse_layout(parser *p) {
    size_t length = word_length(peek(p));
    if (!length) return expected(p, "a dtype");
    if (rsh_dtype_parse(p->at, length, &p->desc.dtype)) return fail_at(p, p->at, "%s", rsh_error_detail());
    p->at += length;
    RSH_TRY(parse_dims(p));
    return next_is(p, "boxes") ? parse_boxes(p) : parse_placement(p);
}

static rsh_status unknown_axis(const parser *p, const char *name) {
    char mesh[RSH_MAX_AXES * (sizeof p->desc.axis[0].name + 24)] = "";
    int length = (int)word_length(name), used = 0;
    if (length > 40) length = 40;
    if (!p->desc.naxes) return fail_at(p, name, "axis \"%.*s\" has no mesh to be in", length, name);
    for (int i = 0; i < p->desc.naxes; i++)
        used += snprintf(mesh + used, sizeof mesh - (size_t)used, "%s%s=%lld", i ? "," : "", p->desc.axis[i].name,
                         (long long)p->desc.axis[i].size);
    return fail_at(p, name, "axis \"%.*s\" is not in the mesh \"%s\"", length, name, mesh);
}

/* From offsets in the text to indices into the mesh. */
static rsh_status find_axes(const parser *p, int n, int *axes) {
    for (int i = 0; i < n; i++) {
        const char *name = p->text + axes[i];
        size_t length = word_length(name);
        int a = 0;
        while (a < p->desc.naxes &&
               (strlen(p->desc.axis[a].name) != length || memcmp(p->desc.axis[a].name, name, length)))
            a++;
        if (a == p->desc.naxes) return unknown_axis(p, name);
        axes[i] = a;
    }
    return RSH_OK;
}

static rsh_status find_all_axes(parser *p) {
    rsh_layout_desc *desc = &p->desc;
    for (int d = 0; d < desc->ndim; d++) {
        for (int s = 0; s < desc->dim[d].nsegments; s++)
            RSH_TRY(find_axes(p, p->segment[d][s].cut.naxes, p->segment[d][s].cut.axes));
        RSH_TRY(find_axes(p, desc->dim[d].cut.naxes, desc->dim[d].cut.axes));
    }
    RSH_TRY(find_axes(p, desc->flat.naxes, desc->flat.axes));
    return find_axes(p, desc->npartial, desc->partial);
}

/* The builder takes the text for one line.  If it has several, give its sentence the true line and column. */
static rsh_status build(const parser *p, rsh_layout **out) {
    rsh_status st = rshi_layout_build(&p->desc, &p->where, out);
    int offset, length = 0, line, col;
    if (st && strchr(p->text, '\n') && sscanf(rsh_error_detail(), "layout:1:%d:%n", &offset, &length) == 1 && length) {
        line_and_column(p->text, (size_t)offset - 1, &line, &col);
        rshi_fail(st, "layout:%d:%d:%s", line, col, rsh_error_detail() + length);
    }
    return st;
}

static void release(parser *p) {
    for (int d = 0; d < RSH_MAX_NDIM; d++) {
        for (int s = 0; s < p->desc.dim[d].nsegments; s++) rshi_free((void *)p->segment[d][s].cut.sizes);
        rshi_free(p->segment[d]);
        rshi_free((void *)p->desc.dim[d].cut.sizes);
        rshi_free(p->where.segment[d]);
        rshi_free(p->where.segment_cut[d]);
    }
    for (int64_t i = 0; i < p->desc.nboxes; i++) rshi_free((void *)p->box[i].ranks);
    rshi_free(p->box);
    rshi_free(p->where.box);
    rshi_free((void *)p->desc.flat.sizes);
    rshi_free((void *)p->desc.ranks);
}

rsh_status rsh_layout_parse(const char *text, rsh_layout **out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "layout: text and out must not be NULL");
    RSH_REQUIRE(strlen(text) < INT_MAX, RSH_EVALUE, "layout: the text is longer than 2 GiB");
    parser p = {.text = text, .at = text, .where = {.name = "layout", .line = 1}};
    rsh_status st = parse_layout(&p);
    if (!st) st = find_all_axes(&p);
    if (!st) st = build(&p, out);
    release(&p);
    return st;
}

/* Parse: converts text to a draft, with one function per production of the grammar in docs/notation.md.
 *
 * The parser checks syntax only; rshi_layout_build checks the meaning of a draft. */
#include "layout/draft.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct parser {
    const char *text, *at;
    bool holes; /* may sizes, the shape and the dtype be omitted? */
    rshi_draft *draft;
    rsh_layout_desc *desc; /* the description in the draft */
    rshi_text_origin *origin;   /* the positions in the draft */
} parser;

/* ---- scanner ---- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Skips blanks and returns the first byte of the next token. */
static const char *peek_token(parser *p) {
    while (is_blank(*p->at)) p->at++;
    return p->at;
}

static bool at_end(parser *p) { return !*peek_token(p); }
/* Returns the position of the next token, for error messages. */
static int token_position(parser *p) { return (int)(peek_token(p) - p->text) + 1; }

size_t rshi_word_length(const char *at) {
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

#define FAIL_AT(p, token, ...)                                                                                         \
    rshi_origin_fail((p)->origin, (rshi_text_place){.at = (int)((token) - (p)->text) + 1}, RSH_EVALUE, __VA_ARGS__)

static rsh_status expected(parser *p, const char *what) {
    const char *at = peek_token(p);
    size_t n = rshi_word_length(at) + digits_length(at);
    if (!*at) return FAIL_AT(p, at, "expected %s, found the end of the text", what);
    if (*at < ' ' || *at > '~') return FAIL_AT(p, at, "expected %s, found byte 0x%02x", what, (unsigned char)*at);
    return FAIL_AT(p, at, "expected %s, found \"%.*s\"", what, (int)(n < 1 ? 1 : n < 40 ? n : 40), at);
}

static bool accept(parser *p, char c) {
    if (*peek_token(p) != c) return false;
    p->at++;
    return true;
}

static rsh_status expect(parser *p, char c, const char *what) { return accept(p, c) ? RSH_OK : expected(p, what); }

static bool next_is(parser *p, const char *word) {
    size_t n = rshi_word_length(peek_token(p));
    return n == strlen(word) && !memcmp(p->at, word, n);
}

static bool accept_word(parser *p, const char *word) {
    if (!next_is(p, word)) return false;
    p->at += strlen(word);
    return true;
}

static rsh_status parse_number(parser *p, const char *what, int64_t *out) {
    const char *start = peek_token(p);
    size_t n = digits_length(start);
    if (!n) return expected(p, what);
    int64_t value = 0;
    for (; is_digit(*p->at); p->at++)
        if (!rshi_mul(value, 10, &value) || !rshi_add(value, *p->at - '0', &value))
            return FAIL_AT(p, start, "%.*s does not fit in 64 bits", (int)(n < 40 ? n : 40), start);
    *out = value;
    return RSH_OK;
}

/* number | "_" */
static rsh_status parse_size(parser *p, const char *what, int64_t *out) {
    if (!p->holes || !accept(p, '_')) return parse_number(p, what, out);
    *out = RSH_HOLE;
    return RSH_OK;
}

/* number { "," number } */
static rsh_status parse_numbers(parser *p, const char *what, const int64_t **list, int64_t *n) {
    do {
        int64_t value;
        RSH_TRY(parse_number(p, what, &value));
        RSH_TRY(rshi_draft_add_number(list, n, value));
    } while (accept(p, ','));
    return RSH_OK;
}

/* ---- dims and cuts ---- */

static rsh_status parse_axis(parser *p, int *n, int *axes) {
    size_t length = rshi_word_length(peek_token(p)), digits = digits_length(p->at);
    int shown = (int)rshi_min((int64_t)digits, 20);
    if (digits)
        return FAIL_AT(p, p->at,
                       "expected an axis, found \"%.*s\"; name the axis in the mesh, \"on x=%.*s\", and write x", shown,
                       p->at, shown, p->at);
    if (!length) return expected(p, "an axis");
    if (*n == RSH_MAX_AXES) return FAIL_AT(p, p->at, "more than %d axes are not supported", RSH_MAX_AXES);
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
        cut->rule = RSH_CUT_BALANCED;
    } else if (accept(p, ':')) {
        cut->rule = RSH_CUT_CYCLIC;
        return parse_number(p, "a block size", &cut->number);
    } else if (accept(p, '%')) {
        cut->rule = RSH_CUT_UNIT;
        return parse_number(p, "a unit", &cut->number);
    } else if (accept(p, '{')) {
        cut->rule = RSH_CUT_SIZES;
        RSH_TRY(parse_numbers(p, "a size", &cut->sizes, &cut->nsizes));
        return expect(p, '}', "\",\" or \"}\"");
    }
    return RSH_OK;
}

/* [ cut ] */
static rsh_status parse_cut(parser *p, rsh_cut *cut, int *where) {
    if (!accept(p, '/')) return RSH_OK;
    *where = token_position(p);
    if (accept(p, '('))
        RSH_TRY(parse_axis_list(p, &cut->naxes, cut->axes));
    else
        RSH_TRY(parse_axis(p, &cut->naxes, cut->axes));
    return parse_rule(p, cut);
}

static rsh_status parse_segment(parser *p, int d) {
    RSH_TRY(rshi_draft_add_segment(p->draft, d, token_position(p)));
    int s = p->desc->dim[d].nsegments - 1;
    rsh_segment *segment = &p->draft->segment[d][s];
    RSH_TRY(parse_size(p, "the size of a segment", &segment->size));
    return parse_cut(p, &segment->cut, &p->origin->segment_cut[d][s]);
}

static rsh_status parse_dim(parser *p, int d) {
    p->origin->dim[d] = token_position(p);
    if (accept(p, '(')) {
        do {
            RSH_TRY(parse_segment(p, d));
        } while (accept(p, '|'));
        RSH_TRY(expect(p, ')', "\"|\" or \")\""));
    } else {
        RSH_TRY(parse_size(p, "a size", &p->desc->dim[d].size));
    }
    return parse_cut(p, &p->desc->dim[d].cut, &p->origin->cut[d]);
}

/* "..." */
static bool accept_dots(parser *p) {
    if (!p->holes || strncmp(peek_token(p), "...", 3)) return false;
    p->origin->dim[0] = token_position(p);
    p->desc->ndim = RSH_HOLE;
    p->at += 3;
    return true;
}

/* "[" [ dim { "," dim } ] "]" | "[" "..." "]" */
static rsh_status parse_dims(parser *p) {
    RSH_TRY(expect(p, '[', "\"[\""));
    if (accept(p, ']')) return RSH_OK;
    if (accept_dots(p)) return expect(p, ']', "\"]\"");
    do {
        if (p->desc->ndim == RSH_MAX_NDIM)
            return FAIL_AT(p, peek_token(p), "more than %d dims are not supported", RSH_MAX_NDIM);
        RSH_TRY(parse_dim(p, p->desc->ndim++));
    } while (accept(p, ','));
    return expect(p, ']', "\",\" or \"]\"");
}

/* Checks that the number of dims is known, which "order" and "boxes" require. */
static rsh_status require_dims(parser *p, const char *at, const char *who) {
    if (p->desc->ndim != RSH_HOLE) return RSH_OK;
    return FAIL_AT(p, at, "\"%s\" cannot be used with [...]; write _ for each dim", who);
}

/* ---- mesh ---- */

/* axis "=" number */
static rsh_status parse_mesh_axis(parser *p) {
    int *n = &p->desc->naxes, offset[RSH_MAX_AXES];
    p->origin->axis[*n < RSH_MAX_AXES ? *n : 0] = token_position(p);
    RSH_TRY(parse_axis(p, n, offset));
    rsh_axis *axis = &p->desc->axis[*n - 1];
    const char *name = p->text + offset[*n - 1];
    size_t length = rshi_word_length(name);
    if (length >= sizeof axis->name)
        return FAIL_AT(p, name, "axis \"%.40s...\" is longer than %zu characters", name, sizeof axis->name - 1);
    memcpy(axis->name, name, length);
    RSH_TRY(expect(p, '=', "\"=\""));
    return parse_number(p, "the size of an axis", &axis->size);
}

/* Returns the number of positions of the mesh, or 0 on overflow, which the builder reports. */
static int64_t count_positions(const parser *p) {
    int64_t n = 1;
    for (int i = 0; i < p->desc->naxes; i++)
        if (!rshi_mul(n, p->desc->axis[i].size, &n)) return 0;
    return n;
}

static rsh_status check_range(parser *p, const char *at, int64_t from, int64_t to, int64_t positions) {
    if (from > to) return FAIL_AT(p, at, "ranks %lld-%lld are in descending order; write the smaller one first",
                                  (long long)from, (long long)to);
    if (to - from == positions - 1) return RSH_OK;
    return FAIL_AT(p, at, "%lld-%lld names %llu ranks, but the mesh has %lld positions",
                          (long long)from, (long long)to,
                   (unsigned long long)(to - from) + 1, (long long)positions);
}

static rsh_status parse_ranks(parser *p) {
    const char *at = peek_token(p);
    int64_t positions = count_positions(p), n = 0, from, to;
    p->origin->ranks = token_position(p);
    if (accept(p, '[')) {
        RSH_TRY(parse_numbers(p, "a rank", &p->desc->ranks, &n));
        RSH_TRY(expect(p, ']', "\",\" or \"]\""));
        if (!positions || n == positions) return RSH_OK;
        return FAIL_AT(p, at, "expected %lld ranks (one per mesh position), got %lld", (long long)positions,
                       (long long)n);
    }
    RSH_TRY(parse_number(p, "\"[\" or a rank", &from));
    RSH_TRY(expect(p, '-', "\"-\""));
    RSH_TRY(parse_number(p, "a rank", &to));
    p->desc->first_rank = from;
    return positions ? check_range(p, at, from, to, positions) : RSH_OK;
}

static rsh_status parse_mesh(parser *p) {
    p->origin->mesh = token_position(p);
    do {
        RSH_TRY(parse_mesh_axis(p));
    } while (accept(p, ','));
    return accept(p, '@') ? parse_ranks(p) : RSH_OK;
}

/* ---- after the mesh ---- */

static rsh_status parse_partial(parser *p) {
    p->origin->partial = token_position(p);
    size_t length = rshi_word_length(p->at);
    bool called = length && p->at[length] == '('; /* only reductions are followed by "(" */
    rsh_status st = length ? rsh_op_parse(p->at, length, &p->desc->op) : RSH_EVALUE;
    if (st && called) return FAIL_AT(p, p->at, "%s", rsh_error_detail());
    if (st)
        return expected(p, p->desc->naxes ? "a reduction, \"order\" or the end"
                                         : "\"on\", \"boxes\", a reduction, \"order\" or the end");
    p->at += length;
    RSH_TRY(expect(p, '(', "\"(\""));
    return parse_axis_list(p, &p->desc->npartial, p->desc->partial);
}

static rsh_status parse_order(parser *p) {
    const char *at = peek_token(p);
    int n = 0;
    p->origin->order = token_position(p);
    if (!accept_word(p, "order")) return expected(p, "\"order\" or the end");
    RSH_TRY(require_dims(p, at, "order"));
    p->desc->has_order = true;
    RSH_TRY(expect(p, '(', "\"(\""));
    do {
        int64_t dim;
        RSH_TRY(parse_number(p, "a dim", &dim));
        if (n < p->desc->ndim) p->desc->order[n] = (int)rshi_min(dim, RSH_MAX_NDIM);
        n++;
    } while (accept(p, ','));
    RSH_TRY(expect(p, ')', "\",\" or \")\""));
    return n == p->desc->ndim ? RSH_OK : FAIL_AT(p, at, "order must name every dim once, got %d of %d", n,
                                                 p->desc->ndim);
}

/* [ cut ] [ "on" mesh ] [ partial ] [ order ] */
static rsh_status parse_placement(parser *p) {
    RSH_TRY(parse_cut(p, &p->desc->flat, &p->origin->flat));
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
    const char *at = peek_token(p);
    int n = 0, ndim = p->desc->ndim;
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
    return n == ndim ? RSH_OK : FAIL_AT(p, at, "box has %d ranges, expected %d (one per dim)", n, ndim);
}

static rsh_status parse_box(parser *p) {
    RSH_TRY(rshi_draft_add_box(p->draft, token_position(p)));
    rsh_ranked_box *box = &p->draft->box[p->desc->nboxes - 1];
    RSH_TRY(parse_numbers(p, "a rank", &box->ranks, &box->nranks));
    RSH_TRY(expect(p, ':', "\",\" or \":\""));
    return parse_ranges(p, &box->box);
}

static rsh_status parse_boxes(parser *p) {
    p->origin->boxes = token_position(p);
    RSH_TRY(require_dims(p, p->at, "boxes"));
    accept_word(p, "boxes");
    p->desc->is_boxes = true;
    for (int d = 0; d < p->desc->ndim; d++)
        if (p->desc->dim[d].nsegments || p->desc->dim[d].cut.naxes)
            return FAIL_AT(p, p->text + p->origin->dim[d] - 1,
                           "a layout with boxes cannot cut its dims; write plain sizes");
    while (!at_end(p)) RSH_TRY(parse_box(p));
    return RSH_OK;
}

/* ---- the whole ---- */

/* dtype, which is optional in a form */
static rsh_status parse_dtype(parser *p) {
    size_t length = rshi_word_length(peek_token(p));
    if (p->holes && *p->at == '[') return RSH_OK;
    if (!length) return expected(p, p->holes ? "a dtype or \"[\"" : "a dtype");
    size_t behind = p->at[length] == '.' ? rshi_word_length(p->at + length + 1) : 0; /* for example "torch.float32" */
    if (behind) length += 1 + behind;
    if (rsh_dtype_parse(p->at, length, &p->desc->dtype)) return FAIL_AT(p, p->at, "%s", rsh_error_detail());
    p->draft->has_dtype = true;
    p->at += length;
    return RSH_OK;
}

static rsh_status parse_layout(parser *p, const rsh_layout_desc *mesh) {
    RSH_TRY(parse_dtype(p));
    RSH_TRY(parse_dims(p));
    if (next_is(p, "boxes")) return parse_boxes(p);
    RSH_TRY(parse_placement(p));
    if (mesh && !p->desc->naxes) RSH_TRY(rshi_draft_take_mesh(p->draft, mesh));
    return rshi_draft_find_axes(p->draft);
}

rsh_status rshi_draft_parse(rshi_draft *draft, const char *text, bool holes, const rsh_layout_desc *mesh) {
    RSH_REQUIRE(strlen(text) < INT_MAX, RSH_EVALUE, "layout: text is too long (2 GiB or more)");
    parser p = {text, text, holes, draft, &draft->desc, &draft->origin};
    draft->origin.text = text;
    return parse_layout(&p, mesh);
}

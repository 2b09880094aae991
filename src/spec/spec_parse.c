/* Spec parse: parses the text of chunk and boxes specs.  Blanks between tokens are ignored.  Examples:
 *
 *     chunk(0; rank:0/cpu, rank:1/cpu)
 *     boxes([0,0]+[5,5] rank:0/cpu; [5,0]+[5,5])
 */
#include "spec/impl.h"

#include <string.h>

typedef struct parser {
    const char *text, *at;
} parser;

static const char *peek(parser *p) {
    p->at += strspn(p->at, " \t\r\n");
    return p->at;
}

static rsh_status expected(parser *p, const char *what) {
    int length = (int)strcspn(peek(p), " \t\r\n");
    long long column = p->at - p->text + 1;
    if (!length) return rshi_fail(RSH_EVALUE, "spec:%lld: expected %s, found the end", column, what);
    return rshi_fail(RSH_EVALUE, "spec:%lld: expected %s, found \"%.*s\"", column, what, length < 40 ? length : 40,
                     p->at);
}

static bool accept(parser *p, char c) {
    bool here = *peek(p) == c;
    p->at += here;
    return here;
}

static rsh_status expect(parser *p, char c, const char *what) { return accept(p, c) ? RSH_OK : expected(p, what); }

/* Parses a decimal number; a sign is allowed if `sign` is set. */
static rsh_status parse_number(parser *p, bool sign, const char *what, int64_t *out) {
    const char *start = peek(p), *c = start;
    int64_t value = 0;
    bool negative = sign && *c == '-', fits = true;
    c += negative;
    if (*c < '0' || *c > '9') return expected(p, what);
    for (; *c >= '0' && *c <= '9'; c++) fits = fits && rshi_mul(value, 10, &value) && rshi_add(value, *c - '0', &value);
    RSH_REQUIRE(fits, RSH_EVALUE, "spec:%lld: number is larger than 2^63", (long long)(start - p->text + 1));
    p->at = c;
    *out = negative ? -value : value;
    return RSH_OK;
}

/* Parses a placement: all characters up to the next one that cannot be part of it. */
static rsh_status parse_placement(parser *p, rsh_remote_device *out) {
    char text[RSH_REMOTE_DEVICE_TEXT];
    size_t length = strcspn(peek(p), " \t\r\n,;()[]+");
    if (!length) return expected(p, "a placement");
    RSH_REQUIRE(length < sizeof text, RSH_EVALUE, "spec:%lld: placement is too long (%zu characters)",
                (long long)(p->at - p->text + 1), length);
    memcpy(text, p->at, length);
    text[length] = 0;
    rsh_status st = rsh_remote_device_parse(text, out);
    if (st) return rshi_fail(st, "spec:%lld: %s", (long long)(p->at - p->text + 1), rsh_error_detail());
    p->at += length;
    return RSH_OK;
}

/* ---- growing lists ---- */

typedef struct list {
    void *data;
    int64_t n, room;
} list;

/* Returns the address of a new item. */
static void *add_item(list *l, size_t size) {
    if (rshi_grow(&l->data, l->n + 1, &l->room, size)) return NULL;
    return (char *)l->data + (size_t)l->n++ * size;
}

/* ---- the two kinds ---- */

static rsh_status parse_placements(parser *p, list *l) {
    do {
        rsh_remote_device *item = add_item(l, sizeof *item);
        if (!item) return rshi_nomem();
        RSH_TRY(parse_placement(p, item));
    } while (accept(p, ','));
    return expect(p, ')', "\",\" or \")\"");
}

static rsh_status parse_numbers(parser *p, int64_t *numbers, int *n) {
    RSH_TRY(expect(p, '[', "\"[\""));
    if (accept(p, ']')) return RSH_OK;
    do {
        if (*n == RSH_MAX_NDIM) return expected(p, "at most 8 dims");
        RSH_TRY(parse_number(p, false, "a number", &numbers[(*n)++]));
    } while (accept(p, ','));
    return expect(p, ']', "\",\" or \"]\"");
}

static rsh_status parse_box(parser *p, rsh_shard_meta *m) {
    int nsizes = 0;
    *m = (rsh_shard_meta){0};
    peek(p);
    long long column = p->at - p->text + 1;
    RSH_TRY(parse_numbers(p, m->offsets, &m->ndim));
    RSH_TRY(expect(p, '+', "\"+\""));
    RSH_TRY(parse_numbers(p, m->sizes, &nsizes));
    RSH_REQUIRE(m->ndim == nsizes, RSH_EVALUE, "spec:%lld: shard must have as many offsets as sizes, got %d and %d",
                column, m->ndim,
                nsizes);
    m->has_placement = *peek(p) != ';' && *p->at != ')';
    return m->has_placement ? parse_placement(p, &m->placement) : RSH_OK;
}

static rsh_status parse_shards(parser *p, list *l) {
    do {
        rsh_shard_meta *item = add_item(l, sizeof *item);
        if (!item) return rshi_nomem();
        RSH_TRY(parse_box(p, item));
    } while (accept(p, ';'));
    return expect(p, ')', "\";\" or \")\"");
}

static bool accept_word(parser *p, const char *word) {
    size_t length = strlen(word);
    bool here = !strncmp(peek(p), word, length) && p->at[length] && strchr("( \t\r\n", p->at[length]);
    p->at += here ? length : 0;
    return here;
}

static rsh_status expect_end(parser *p) { return *peek(p) ? expected(p, "the end") : RSH_OK; }

static rsh_status parse_chunk(parser *p, list *l, rsh_spec **out) {
    int64_t dim;
    RSH_TRY(parse_number(p, true, "a dim", &dim));
    RSH_REQUIRE(dim >= INT32_MIN && dim <= INT32_MAX, RSH_EVALUE, "spec:%lld: dim %lld is out of range",
                (long long)(p->at - p->text),
                (long long)dim);
    RSH_TRY(expect(p, ';', "\";\""));
    RSH_TRY(parse_placements(p, l));
    RSH_TRY(expect_end(p));
    return rsh_spec_chunk((int)dim, l->n, l->data, out);
}

static rsh_status parse_boxes(parser *p, list *l, rsh_spec **out) {
    RSH_TRY(parse_shards(p, l));
    RSH_TRY(expect_end(p));
    return rsh_spec_boxes(l->n, l->data, out);
}

rsh_status rsh_spec_parse(const char *text, rsh_spec **out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "spec: %s is NULL", text ? "out" : "text");
    parser p = {text, text};
    list l = {0};
    bool chunk = accept_word(&p, "chunk");
    if (!chunk && !accept_word(&p, "boxes")) return expected(&p, "\"chunk(\" or \"boxes(\"");
    RSH_TRY(expect(&p, '(', "\"(\""));
    rsh_status st = chunk ? parse_chunk(&p, &l, out) : parse_boxes(&p, &l, out);
    rshi_free(l.data);
    return st;
}

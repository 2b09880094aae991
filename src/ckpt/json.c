/* JSON: a pull parser that returns the tokens of a file or text in one pass.
 *
 * Input is read RSHI_JSON_WINDOW bytes at a time, and only the current token is kept.  The grammar is checked during
 * reading: `state` says which tokens may follow, `in_object` which objects and lists are open. */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VALUE, VALUE_OR_END, KEY_OR_END, KEY, COMMA_OR_END, FINISHED };

rsh_status rshi_json_fail(const rshi_json *j, const char *format, ...) {
    char sentence[RSHI_DETAIL_BYTES - 200];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": %s", j->file, j->at, sentence);
}

/* ---- input ---- */

static rsh_status refill(rshi_json *j) {
    size_t n = j->left < RSHI_JSON_WINDOW ? (size_t)j->left : RSHI_JSON_WINDOW, have = 0;
    while (have < n) {
        ssize_t got = pread(j->fd, j->buffer + have, n - have, (off_t)(j->offset + have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return rshi_fail(RSH_EIO, "%s: byte %" PRIu64 ": %s", j->file, j->offset + have, strerror(errno));
        if (!got)
            return rshi_fail(RSH_EIO, "%s: unexpected end of file at byte %" PRIu64 ", inside the JSON", j->file,
                             j->offset + have);
        have += (size_t)got;
    }
    j->base = j->offset;
    j->offset += n;
    j->left -= n;
    j->from = j->buffer;
    j->to = j->buffer + n;
    j->hash = rshi_hash(j->buffer, n, j->hash);
    return RSH_OK;
}

/* Returns the offset of the current byte in the file. */
static uint64_t here(const rshi_json *j) { return j->base + (uint64_t)(j->from - (j->buffer ? j->buffer : j->whole)); }

/* Returns the current byte, or -1 at the end. */
static rsh_status peek(rshi_json *j, int *c) {
    if (j->from == j->to && j->left) RSH_TRY(refill(j));
    *c = j->from == j->to ? -1 : *j->from;
    return RSH_OK;
}

static bool is_blank(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static rsh_status skip_blanks(rshi_json *j, int *c) {
    RSH_TRY(peek(j, c));
    while (is_blank(*c)) {
        j->from++;
        RSH_TRY(peek(j, c));
    }
    j->at = here(j);
    return RSH_OK;
}

static rsh_status unexpected(const rshi_json *j, int c, const char *wanted) {
    if (c < 0) return rshi_json_fail(j, "expected %s, got the end of the JSON", wanted);
    if (c < 32 || c > 126) return rshi_json_fail(j, "expected %s, got byte 0x%02x", wanted, c);
    return rshi_json_fail(j, "expected %s, got '%c'", wanted, c);
}

/* ---- text of a token ---- */

static rsh_status more_text(rshi_json *j, size_t more) {
    if (j->length + more < j->text_room) return RSH_OK;
    size_t room = 2 * (j->length + more) + 64;
    char *text = rshi_realloc(j->text, room, 1);
    if (!text) return rshi_nomem();
    j->text = text;
    j->text_room = room;
    return RSH_OK;
}

static rsh_status append_to_text(rshi_json *j, const void *bytes, size_t n) {
    RSH_TRY(more_text(j, n + 1));
    memcpy(j->text + j->length, bytes, n);
    j->length += n;
    return RSH_OK;
}

static rsh_status add_code(rshi_json *j, uint32_t code) {
    unsigned char u[4];
    size_t n = 0;
    if (code < 0x80) {
        u[n++] = (unsigned char)code;
    } else if (code < 0x800) {
        u[n++] = (unsigned char)(0xc0 | code >> 6);
        u[n++] = (unsigned char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        u[n++] = (unsigned char)(0xe0 | code >> 12);
        u[n++] = (unsigned char)(0x80 | (code >> 6 & 63));
        u[n++] = (unsigned char)(0x80 | (code & 63));
    } else {
        u[n++] = (unsigned char)(0xf0 | code >> 18);
        u[n++] = (unsigned char)(0x80 | (code >> 12 & 63));
        u[n++] = (unsigned char)(0x80 | (code >> 6 & 63));
        u[n++] = (unsigned char)(0x80 | (code & 63));
    }
    return append_to_text(j, u, n);
}

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static rsh_status four_digits(rshi_json *j, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int c;
        RSH_TRY(peek(j, &c));
        if (hex_digit(c) < 0) return unexpected(j, c, "four hexadecimal digits after \\u");
        *code = *code << 4 | (uint32_t)hex_digit(c);
        j->from++;
    }
    return RSH_OK;
}

static rsh_status want_byte(rshi_json *j, int want, const char *what) {
    int c;
    RSH_TRY(peek(j, &c));
    if (c != want) return unexpected(j, c, what);
    j->from++;
    return RSH_OK;
}

/* Reads \uXXXX, or a surrogate pair of two of them. */
static rsh_status read_code(rshi_json *j) {
    uint32_t code, low;
    RSH_TRY(four_digits(j, &code));
    if (code >= 0xd800 && code < 0xdc00) {
        RSH_TRY(want_byte(j, '\\', "\\u and the second half of a surrogate pair"));
        RSH_TRY(want_byte(j, 'u', "\\u and the second half of a surrogate pair"));
        RSH_TRY(four_digits(j, &low));
        if (low < 0xdc00 || low >= 0xe000)
            return rshi_json_fail(j, "invalid surrogate pair: the second \\u must be from \\udc00 to \\udfff");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return rshi_json_fail(j, "invalid surrogate pair: \\udc00 to \\udfff must follow \\ud800 to \\udbff");
    }
    if (!code) return rshi_json_fail(j, "string has a NUL character (\\u0000)");
    return add_code(j, code);
}

static rsh_status read_escape(rshi_json *j) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c;
    RSH_TRY(peek(j, &c));
    if (c == 'u') {
        j->from++;
        return read_code(j);
    }
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (!found) return unexpected(j, c, "an escape");
    j->from++;
    return append_to_text(j, &to[found - from], 1);
}

/* Returns the length of the UTF-8 sequence that starts with this byte; 0: the byte is not a valid start. */
static int utf8_length(unsigned char c) {
    if (c < 0x80) return 1;
    if (c >= 0xc2 && c < 0xe0) return 2;
    if (c >= 0xe0 && c < 0xf0) return 3;
    return c >= 0xf0 && c < 0xf5 ? 4 : 0;
}

bool rshi_is_utf8(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        int k = utf8_length(s[i]);
        if (!k || i + (size_t)k > n) return false;
        for (int b = 1; b < k; b++)
            if ((s[i + (size_t)b] & 0xc0) != 0x80) return false;
        if ((s[i] == 0xe0 && s[i + 1] < 0xa0) || (s[i] == 0xed && s[i + 1] > 0x9f)) return false;
        if ((s[i] == 0xf0 && s[i + 1] < 0x90) || (s[i] == 0xf4 && s[i + 1] > 0x8f)) return false;
        i += (size_t)k;
    }
    return true;
}

/* Reads a string after its opening quote. */
static rsh_status read_string(rshi_json *j) {
    j->length = 0;
    RSH_TRY(more_text(j, 1));
    for (bool wide = false;;) {
        int c;
        RSH_TRY(peek(j, &c));
        const unsigned char *p = j->from;
        while (p < j->to && *p != '"' && *p != '\\' && *p >= 32) wide |= *p++ >= 0x80;
        RSH_TRY(append_to_text(j, j->from, (size_t)(p - j->from)));
        j->from = p;
        if (p == j->to && j->left) continue;
        if (p == j->to) return unexpected(j, -1, "the end of a string");
        if (*p < 32) return unexpected(j, *p, "the rest of a string");
        j->from++;
        if (*p == '\\') {
            RSH_TRY(read_escape(j));
            continue;
        }
        j->text[j->length] = 0;
        if (wide && !rshi_is_utf8(j->text, j->length))
            return rshi_json_fail(j, "string is not valid UTF-8");
        return RSH_OK;
    }
}

/* ---- numbers and words ---- */

static bool skip_digits(const char **p) {
    const char *start = *p;
    while (**p >= '0' && **p <= '9') ++*p;
    return *p > start;
}

/* Returns whether the text is a number in JSON's grammar. *is_int: it is a 64-bit integer. */
static bool is_number(const char *p, bool *is_int, int64_t *value) {
    bool minus = *p == '-', fits = true;
    const char *start = p += minus;
    if (!skip_digits(&p) || (*start == '0' && p > start + 1)) return false;
    *value = 0;
    for (const char *q = start; q < p; q++)
        fits = fits && rshi_mul(*value, 10, value) && rshi_add(*value, minus ? '0' - *q : *q - '0', value);
    *is_int = fits && !*p;
    if (*p == '.') {
        p++;
        if (!skip_digits(&p)) return false;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        if (!skip_digits(&p)) return false;
    }
    return !*p;
}

static bool in_word(int c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
           c == '.';
}

static rsh_status read_word(rshi_json *j, rshi_json_token *out) {
    int c;
    j->length = 0;
    RSH_TRY(peek(j, &c));
    while (in_word(c)) {
        char byte = (char)c;
        if (j->length > 400) return rshi_json_fail(j, "number is longer than 400 characters");
        RSH_TRY(append_to_text(j, &byte, 1));
        j->from++;
        RSH_TRY(peek(j, &c));
    }
    if (!j->length) return unexpected(j, c, "a value");
    j->text[j->length] = 0;
    *out = RSHI_JSON_NUMBER;
    if (!strcmp(j->text, "true")) *out = RSHI_JSON_TRUE;
    if (!strcmp(j->text, "false")) *out = RSHI_JSON_FALSE;
    if (!strcmp(j->text, "null")) *out = RSHI_JSON_NULL;
    if (*out == RSHI_JSON_NUMBER && !is_number(j->text, &j->is_int, &j->number))
        return rshi_json_fail(j, "expected a value, got \"%.40s\"", j->text);
    return RSH_OK;
}

/* ---- the grammar ---- */

static void value_done(rshi_json *j) { j->state = j->depth ? COMMA_OR_END : FINISHED; }

static rsh_status open_nest(rshi_json *j, bool object, rshi_json_token *out) {
    if (j->depth == RSHI_JSON_DEEP)
        return rshi_json_fail(j, "objects and lists are nested more than %d deep", RSHI_JSON_DEEP);
    j->in_object[j->depth++] = object;
    j->state = object ? KEY_OR_END : VALUE_OR_END;
    j->from++;
    *out = object ? RSHI_JSON_OBJECT : RSHI_JSON_LIST;
    return RSH_OK;
}

static rsh_status close_nest(rshi_json *j, rshi_json_token *out) {
    *out = j->in_object[--j->depth] ? RSHI_JSON_OBJECT_END : RSHI_JSON_LIST_END;
    j->from++;
    value_done(j);
    return RSH_OK;
}

static rsh_status read_key(rshi_json *j, int c, rshi_json_token *out) {
    if (c != '"') return unexpected(j, c, j->state == KEY ? "a key" : "a key or '}'");
    j->from++;
    RSH_TRY(read_string(j));
    uint64_t at = j->at;
    RSH_TRY(skip_blanks(j, &c));
    if (c != ':') return unexpected(j, c, "':'");
    j->from++;
    j->at = at;
    j->state = VALUE;
    *out = RSHI_JSON_KEY;
    return RSH_OK;
}

static rsh_status read_value(rshi_json *j, int c, rshi_json_token *out) {
    if (c == '{' || c == '[') return open_nest(j, c == '{', out);
    if (c == '"') {
        j->from++;
        RSH_TRY(read_string(j));
        *out = RSHI_JSON_STRING;
    } else {
        RSH_TRY(read_word(j, out));
    }
    value_done(j);
    return RSH_OK;
}

rsh_status rshi_json_next(rshi_json *j, rshi_json_token *out) {
    int c;
    RSH_TRY(skip_blanks(j, &c));
    if (j->state == FINISHED) {
        if (c >= 0) return unexpected(j, c, "the end of the JSON");
        *out = RSHI_JSON_END;
        return RSH_OK;
    }
    bool object = j->depth && j->in_object[j->depth - 1];
    bool may_end = j->state == VALUE_OR_END || j->state == KEY_OR_END || j->state == COMMA_OR_END;
    if (may_end && c == (object ? '}' : ']')) return close_nest(j, out);
    if (j->state == COMMA_OR_END) {
        if (c != ',') return unexpected(j, c, object ? "',' or '}'" : "',' or ']'");
        j->from++;
        j->state = object ? KEY : VALUE;
        RSH_TRY(skip_blanks(j, &c));
    }
    if (j->state == KEY || j->state == KEY_OR_END) return read_key(j, c, out);
    return read_value(j, c, out);
}

rsh_status rshi_json_want(rshi_json *j, rshi_json_token want) {
    static const char *const words[] = {"the end of the JSON", "an object", "'}'",  "a list", "']'", "a key",
                                        "a string", "a number",  "true", "false",  "null"};
    rshi_json_token t;
    RSH_TRY(rshi_json_next(j, &t));
    if (t != want) return rshi_json_fail(j, "expected %s, got %s", words[want], words[t]);
    return RSH_OK;
}

rsh_status rshi_json_key(rshi_json *j, bool *more) {
    rshi_json_token t;
    RSH_TRY(rshi_json_next(j, &t));
    *more = t == RSHI_JSON_KEY;
    return RSH_OK;
}

rsh_status rshi_json_item(rshi_json *j, rshi_json_token *out, bool *more) {
    RSH_TRY(rshi_json_next(j, out));
    *more = *out != RSHI_JSON_LIST_END;
    return RSH_OK;
}

rsh_status rshi_json_skip(rshi_json *j, rshi_json_token started) {
    int open = started == RSHI_JSON_OBJECT || started == RSHI_JSON_LIST;
    if (started != RSHI_JSON_END && !open) return RSH_OK;
    do {
        rshi_json_token t;
        RSH_TRY(rshi_json_next(j, &t));
        open += (t == RSHI_JSON_OBJECT || t == RSHI_JSON_LIST) - (t == RSHI_JSON_OBJECT_END || t == RSHI_JSON_LIST_END);
    } while (open > 0);
    return RSH_OK;
}

/* ---- open and close ---- */

rsh_status rshi_json_open(rshi_json *j, int fd, uint64_t at, uint64_t bytes, const char *file) {
    *j = (rshi_json){.fd = fd, .offset = at, .left = bytes, .base = at, .file = file, .at = at};
    j->buffer = rshi_alloc(RSHI_JSON_WINDOW, 1);
    j->from = j->to = j->buffer;
    return j->buffer ? RSH_OK : rshi_nomem();
}

rsh_status rshi_json_open_text(rshi_json *j, const char *text, size_t bytes, const char *file) {
    *j = (rshi_json){.fd = -1, .file = file};
    j->from = j->whole = (const unsigned char *)text;
    j->to = j->from + bytes;
    return RSH_OK;
}

void rshi_json_close(rshi_json *j) {
    rshi_free(j->buffer);
    rshi_free(j->text);
    j->buffer = NULL;
    j->text = NULL;
}

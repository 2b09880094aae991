/* Pickle: a stack machine for the opcodes that Python writes.  It builds values and never runs code.
 *
 * All values are freed together, so cycles do no harm.  Every opcode makes at most one value, and texts stay in the
 * input, so the memory is bounded by the length of the pickle. */
#include "ckpt/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef rshi_pickle_value value;

enum {
    FIELDS_MOST = 64,     /* most fields of an object of a known class; PyTorch's classes have up to 20 */
    STACK_MOST = 4 << 20, /* most values; Python adds up to 1,000 items to a list at once */
};

typedef struct machine {
    rshi_pickle *p;
    size_t next, op; /* offsets in p->bytes: next byte, and current opcode */
    value **stack;
    int64_t depth, stack_room;
    value **memo;
    int64_t nmemo, memo_room;
    uint64_t pairs; /* number of pairs copied from lists to dicts so far */
} machine;

/* Constant values, shared by all pickles. */
static const value none = {.kind = RSHI_PICKLE_NONE}, yes = {.kind = RSHI_PICKLE_BOOL, .number = 1},
                   no = {.kind = RSHI_PICKLE_BOOL}, mark = {.kind = RSHI_PICKLE_MARK},
                   empty = {.kind = RSHI_PICKLE_TUPLE};

/* ---- values ---- */

/* Sets an error at the current opcode. */
static rsh_status refuse(const machine *m, const char *sentence) {
    rshi_pickle_fail(m->p, &(value){.at = (uint32_t)m->op}, "%s", sentence);
    return RSH_EVALUE;
}

static rsh_status push(machine *m, value *v) {
    RSH_TRY(RSHI_GROW(m->stack, m->depth + 1, &m->stack_room));
    m->stack[m->depth++] = v;
    return RSH_OK;
}

static rsh_status make_value(machine *m, rshi_pickle_kind kind, value **out) {
    value *v = rshi_pickle_memory(m->p, sizeof *v);
    if (!v) return rshi_nomem();
    *v = (value){.kind = (uint8_t)kind, .at = (uint32_t)m->op};
    *out = v;
    return RSH_OK;
}

static rsh_status push_new(machine *m, rshi_pickle_kind kind, value **out) {
    RSH_TRY(make_value(m, kind, out));
    return push(m, *out);
}

static rsh_status push_number(machine *m, int64_t number) {
    value *v = NULL;
    RSH_TRY(push_new(m, RSHI_PICKLE_INT, &v));
    v->number = number;
    return RSH_OK;
}

/* Returns the topmost value, which must not be a mark. */
static rsh_status top(machine *m, value **out) {
    if (!m->depth || m->stack[m->depth - 1]->kind == RSHI_PICKLE_MARK)
        return refuse(m, "damaged pickle: an opcode needs a value, but the stack is empty");
    *out = m->stack[m->depth - 1];
    return RSH_OK;
}

static rsh_status pop(machine *m, value **out) {
    RSH_TRY(top(m, out));
    m->depth--;
    return RSH_OK;
}

/* Removes the topmost mark.  The values above it are stack[*from] to stack[*end - 1]; the next push overwrites them. */
static rsh_status pop_mark(machine *m, int64_t *from, int64_t *end) {
    *end = m->depth;
    while (m->depth && m->stack[m->depth - 1]->kind != RSHI_PICKLE_MARK) m->depth--;
    if (!m->depth) return refuse(m, "damaged pickle: an opcode needs a mark, but there is none");
    *from = m->depth--;
    return RSH_OK;
}

static rsh_status set_items(machine *m, value *v, value *const *items, int64_t n) {
    v->item = rshi_pickle_memory(m->p, (size_t)n * sizeof *items);
    if (!v->item) return rshi_nomem();
    if (n) memcpy(v->item, items, (size_t)n * sizeof *items);
    v->n = v->room = (uint32_t)n;
    return RSH_OK;
}

static rsh_status add_items(machine *m, value *v, value *const *items, int64_t n) {
    if ((uint64_t)v->n + (uint64_t)n > v->room) {
        size_t room = 2 * ((size_t)v->n + (size_t)n);
        value **item = rshi_pickle_memory(m->p, room * sizeof *item);
        if (!item) return rshi_nomem();
        if (v->n) memcpy(item, v->item, v->n * sizeof *item);
        v->item = item;
        v->room = (uint32_t)room;
    }
    if (n) memcpy(v->item + v->n, items, (size_t)n * sizeof *items);
    v->n += (uint32_t)n;
    return RSH_OK;
}

/* ---- input ---- */

static rsh_status take_bytes(machine *m, uint64_t n, const unsigned char **out) {
    if (n > m->p->length - m->next) return refuse(m, "unexpected end of the pickle; the file is truncated or damaged");
    *out = m->p->bytes + m->next;
    m->next += n;
    return RSH_OK;
}

/* Reads a little-endian number of n bytes, n <= 8. */
static rsh_status take_number(machine *m, int n, uint64_t *out) {
    const unsigned char *b;
    RSH_TRY(take_bytes(m, (uint64_t)n, &b));
    *out = 0;
    for (int i = 0; i < n; i++) *out |= (uint64_t)b[i] << 8 * i;
    return RSH_OK;
}

static rsh_status push_span(machine *m, rshi_pickle_kind kind, uint64_t n) {
    const unsigned char *text;
    value *v = NULL;
    RSH_TRY(take_bytes(m, n, &text));
    RSH_TRY(push_new(m, kind, &v));
    v->text = (const char *)text;
    v->n = (uint32_t)n;
    return RSH_OK;
}

/* Reads a length, then text or bytes of that length. */
static rsh_status take_text(machine *m, rshi_pickle_kind kind, int length_bytes) {
    uint64_t n;
    RSH_TRY(take_number(m, length_bytes, &n));
    return push_span(m, kind, n);
}

static rsh_status take_long(machine *m, int length_bytes) {
    uint64_t n, number;
    RSH_TRY(take_number(m, length_bytes, &n));
    if (n > 8) return push_span(m, RSHI_PICKLE_LONG, n);
    RSH_TRY(take_number(m, (int)n, &number));
    if (n && n < 8 && number >> (8 * n - 1)) number |= ~(uint64_t)0 << 8 * n;
    return push_number(m, (int64_t)number);
}

static rsh_status take_line(machine *m, const char **line, size_t *n) {
    const unsigned char *from = m->p->bytes + m->next, *end = memchr(from, '\n', m->p->length - m->next);
    if (!end) return refuse(m, "unexpected end of the pickle; the file is truncated or damaged");
    *line = (const char *)from;
    *n = (size_t)(end - from);
    m->next += *n + 1;
    return RSH_OK;
}

/* ---- opcodes that build ---- */

static rsh_status short_tuple(machine *m, int64_t n) {
    value *v = NULL;
    bool there = m->depth >= n;
    for (int64_t i = m->depth - n; there && i < m->depth; i++) there = m->stack[i]->kind != RSHI_PICKLE_MARK;
    if (!there) return refuse(m, "damaged pickle: an opcode needs a value, but the stack is empty");
    RSH_TRY(make_value(m, RSHI_PICKLE_TUPLE, &v));
    RSH_TRY(set_items(m, v, m->stack + m->depth - n, n));
    m->depth -= n;
    return push(m, v);
}

/* Makes a tuple, list, set or dict of the values above the mark. */
static rsh_status make_marked(machine *m, rshi_pickle_kind kind) {
    int64_t from, end;
    value *v = NULL;
    RSH_TRY(pop_mark(m, &from, &end));
    if (kind == RSHI_PICKLE_DICT && (end - from) % 2)
        return refuse(m, "damaged pickle: a dict has a key without a value");
    RSH_TRY(make_value(m, kind, &v));
    RSH_TRY(set_items(m, v, m->stack + from, end - from));
    return push(m, v);
}

/* Returns whether items are ignored: objects of unknown classes may be lists or dicts. */
static bool takes_no_items(const value *v) { return v->kind == RSHI_PICKLE_OBJECT && v->class == RSHI_CLASS_OPAQUE; }

/* Adds the values above the mark to the list, set or dict below it. */
static rsh_status add_marked(machine *m, rshi_pickle_kind kind) {
    int64_t from, end;
    value *to;
    RSH_TRY(pop_mark(m, &from, &end));
    RSH_TRY(top(m, &to));
    if (takes_no_items(to)) return RSH_OK;
    if (to->kind != kind || (kind == RSHI_PICKLE_DICT && (end - from) % 2))
        return refuse(m, "damaged pickle: items are added to a value that is not a list, set or dict");
    return add_items(m, to, m->stack + from, end - from);
}

static rsh_status add_one(machine *m, rshi_pickle_kind kind) {
    value *items[2] = {NULL, NULL}, *to;
    int64_t n = kind == RSHI_PICKLE_DICT ? 2 : 1;
    for (int64_t i = n; i--;) RSH_TRY(pop(m, &items[i]));
    RSH_TRY(top(m, &to));
    if (takes_no_items(to)) return RSH_OK;
    if (to->kind != kind)
        return refuse(m, "damaged pickle: items are added to a value that is not a list, set or dict");
    return add_items(m, to, items, n);
}

/* ---- classes and objects ---- */

static rsh_status push_class(machine *m, const char *module, size_t mlength, const char *name, size_t nlength) {
    value *v = NULL;
    RSH_TRY(push_new(m, RSHI_PICKLE_CLASS, &v));
    rsh_status st = rshi_pickle_find(module, mlength, name, nlength, v);
    if (!st) return RSH_OK;
    return rshi_fail(st, "%.150s: byte %" PRIu64 ": %s", m->p->file, m->p->base + m->op, rsh_error_detail());
}

static rsh_status global_lines(machine *m) {
    const char *module, *name;
    size_t mlength, nlength;
    RSH_TRY(take_line(m, &module, &mlength));
    RSH_TRY(take_line(m, &name, &nlength));
    return push_class(m, module, mlength, name, nlength);
}

static rsh_status global_stack(machine *m) {
    value *module, *name;
    RSH_TRY(pop(m, &name));
    RSH_TRY(pop(m, &module));
    if (module->kind != RSHI_PICKLE_TEXT || name->kind != RSHI_PICKLE_TEXT)
        return refuse(m, "damaged pickle: the name of a class is not a text");
    return push_class(m, module->text, module->n, name->text, name->n);
}

/* Returns whether objects of a class are made empty and then get a state. */
static bool is_record(int class) { return class <= RSHI_CLASS_STORAGE_INFO; }

/* Makes an object.  It shares the items of the tuple that it is made from, because tuples do not change. */
static rsh_status push_object(machine *m, int class, const value *arguments) {
    value *v = NULL;
    RSH_TRY(push_new(m, RSHI_PICKLE_OBJECT, &v));
    v->class = (uint8_t)class;
    v->item = arguments->item;
    v->n = arguments->n;
    return RSH_OK;
}

/* Makes an object of an unknown class, of which only the class is kept. */
static rsh_status push_opaque(machine *m, value *class) {
    value *v = NULL;
    RSH_TRY(push_new(m, RSHI_PICKLE_OBJECT, &v));
    v->class = RSHI_CLASS_OPAQUE;
    return set_items(m, v, &class, 1);
}

static rsh_status make_object(machine *m, value *class, const value *arguments) {
    value *v = NULL;
    if (class->kind != RSHI_PICKLE_CLASS || !is_record(class->class) || arguments->kind != RSHI_PICKLE_TUPLE ||
        arguments->n)
        return push_opaque(m, class);
    RSH_TRY(push_new(m, RSHI_PICKLE_OBJECT, &v));
    v->class = class->class;
    return RSH_OK;
}

/* Makes an object; if `named`, keyword arguments are on the stack above the positional ones. */
static rsh_status new_object(machine *m, bool named) {
    value *arguments, *class;
    if (named) RSH_TRY(pop(m, &arguments));
    RSH_TRY(pop(m, &arguments));
    RSH_TRY(pop(m, &class));
    return make_object(m, class, named ? &none : arguments);
}

/* Sets the state of an object.  Attributes of dicts and lists (a state dict has `_metadata`) and of objects of unknown
 * classes are ignored. */
static rsh_status set_state(machine *m) {
    value *state, *v;
    RSH_TRY(pop(m, &state));
    RSH_TRY(top(m, &v));
    if (v->kind != RSHI_PICKLE_OBJECT || !is_record(v->class)) return RSH_OK;
    if (state->kind == RSHI_PICKLE_DICT && state->n > 2 * FIELDS_MOST)
        return refuse(m, "object has more than 64 fields, which PyTorch's checkpoints do not have");
    return set_items(m, v, &state, 1);
}

/* Makes a dict from a list of pairs, in the form in which Python 2 saves an OrderedDict. */
static rsh_status push_pairs(machine *m, value *class, const value *pairs) {
    value *v = NULL;
    for (uint32_t i = 0; i < pairs->n; i++) {
        const value *pair = pairs->item[i];
        if ((pair->kind != RSHI_PICKLE_LIST && pair->kind != RSHI_PICKLE_TUPLE) || pair->n != 2)
            return push_opaque(m, class);
    }
    m->pairs += pairs->n; /* counted, because a malicious pickle could make many dicts from one list */
    if (m->pairs > m->p->length) return refuse(m, "damaged pickle: it has more pairs than bytes");
    RSH_TRY(push_new(m, RSHI_PICKLE_DICT, &v));
    for (uint32_t i = 0; i < pairs->n; i++) RSH_TRY(add_items(m, v, pairs->item[i]->item, 2));
    return RSH_OK;
}

/* Handles calls of the known functions.  Each of them only makes a value from its arguments. */
static rsh_status call_function(machine *m, value *class, value *arguments) {
    value *v, *first = arguments->n ? arguments->item[0] : NULL;
    bool list = arguments->n == 1 && (first->kind == RSHI_PICKLE_TUPLE || first->kind == RSHI_PICKLE_LIST);
    switch (class->class) {
        case RSHI_CLASS_SIZE: /* a Size is represented by its tuple, a set by its list */
        case RSHI_CLASS_SET: return list ? push(m, first) : push_opaque(m, class);
        case RSHI_CLASS_ORDERED_DICT:
            if (list) return push_pairs(m, class, first);
            return arguments->n ? push_opaque(m, class) : push_new(m, RSHI_PICKLE_DICT, &v);
        case RSHI_CLASS_DEFAULT_DICT: return push_new(m, RSHI_PICKLE_DICT, &v);
        case RSHI_CLASS_GETATTR: /* only a name of a memory format is accepted */
            if (arguments->n == 2 && rshi_pickle_is_class(first, RSHI_CLASS_MEMORY_FORMAT))
                return push_object(m, RSHI_CLASS_MEMORY_FORMAT, arguments);
            return push_opaque(m, class);
        case RSHI_CLASS_MEMORY_FORMAT:
        case RSHI_CLASS_GET_LAYOUT:
        case RSHI_CLASS_PATH:
        case RSHI_CLASS_TENSOR_V2:
        case RSHI_CLASS_TENSOR_V3:
        case RSHI_CLASS_PARAMETER:
        case RSHI_CLASS_FROM_TYPE: return push_object(m, class->class, arguments);
        default: return make_object(m, class, arguments);
    }
}

static rsh_status reduce(machine *m) {
    value *arguments, *class;
    RSH_TRY(pop(m, &arguments));
    RSH_TRY(pop(m, &class));
    if (class->kind != RSHI_PICKLE_CLASS || arguments->kind != RSHI_PICKLE_TUPLE) return push_opaque(m, class);
    return call_function(m, class, arguments);
}

static rsh_status persistent(machine *m) {
    value *id;
    RSH_TRY(pop(m, &id));
    if (id->kind != RSHI_PICKLE_TUPLE) return refuse(m, "persistent id must be a tuple, as in PyTorch's checkpoints");
    RSH_TRY(push_object(m, RSHI_CLASS_PERSISTENT, id));
    RSH_TRY(RSHI_GROW(m->p->id, m->p->nids + 1, &m->p->ids_room));
    m->p->id[m->p->nids++] = m->stack[m->depth - 1];
    return RSH_OK;
}

/* ---- memo ---- */

static rsh_status memo_put(machine *m, uint64_t number) {
    value *v = NULL;
    RSH_TRY(top(m, &v));
    if (number > (uint64_t)m->nmemo + 1) return refuse(m, "damaged pickle: memo numbers are not consecutive");
    RSH_TRY(RSHI_GROW(m->memo, m->nmemo + 2, &m->memo_room));
    if (number > (uint64_t)m->nmemo) m->memo[m->nmemo++] = NULL; /* Python 2 numbers the memo from 1 */
    m->memo[number] = v;
    if (number == (uint64_t)m->nmemo) m->nmemo++;
    return RSH_OK;
}

static rsh_status memo_get(machine *m, uint64_t number) {
    if (number >= (uint64_t)m->nmemo || !m->memo[number])
        return refuse(m, "damaged pickle: it refers to a memo number that is not set");
    return push(m, m->memo[number]);
}

/* ---- running opcodes ---- */

static rsh_status unknown_opcode(const machine *m, int opcode) {
    return rshi_pickle_fail(m->p, &(value){.at = (uint32_t)m->op},
                            "opcode 0x%02x is not in pickle protocols 2 to 5; not a pickle, or damaged", opcode);
}

/* Runs opcodes that are followed by a number of n bytes. */
static rsh_status step_number(machine *m, int opcode, int n) {
    uint64_t number;
    RSH_TRY(take_number(m, n, &number));
    switch (opcode) {
    case 0x80: return number >= 2 && number <= 5 ? RSH_OK : refuse(m, "pickle protocol must be from 2 to 5");
    case 0x95: return RSH_OK; /* the length of a frame is not needed */
    case 'K':
    case 'M': return push_number(m, (int64_t)number);
    case 'J': return push_number(m, (int32_t)(uint32_t)number);
    case 'q':
    case 'r': return memo_put(m, number);
    default: return memo_get(m, number);
    }
}

static rsh_status step_stack(machine *m, int opcode) {
    int64_t from, end;
    value *v = NULL;
    switch (opcode) {
        case '0': return pop(m, &v);
        case '1': return pop_mark(m, &from, &end);
        case '2':
            RSH_TRY(top(m, &v));
            return push(m, v);
        default: return unknown_opcode(m, opcode);
    }
}

static rsh_status step_build(machine *m, int opcode) {
    value *v = NULL;
    switch (opcode) {
        case '(': return push(m, (value *)&mark);
        case 'N': return push(m, (value *)&none);
        case 0x88: return push(m, (value *)&yes);
        case 0x89: return push(m, (value *)&no);
        case ')': return push(m, (value *)&empty);
        case ']': return push_new(m, RSHI_PICKLE_LIST, &v);
        case '}': return push_new(m, RSHI_PICKLE_DICT, &v);
        case 0x8f: return push_new(m, RSHI_PICKLE_SET, &v);
        case 't': return make_marked(m, RSHI_PICKLE_TUPLE);
        case 'l': return make_marked(m, RSHI_PICKLE_LIST);
        case 'd': return make_marked(m, RSHI_PICKLE_DICT);
        case 0x91: return make_marked(m, RSHI_PICKLE_SET);
        case 0x85:
        case 0x86:
        case 0x87: return short_tuple(m, opcode - 0x84);
        case 'a': return add_one(m, RSHI_PICKLE_LIST);
        case 'e': return add_marked(m, RSHI_PICKLE_LIST);
        case 's': return add_one(m, RSHI_PICKLE_DICT);
        case 'u': return add_marked(m, RSHI_PICKLE_DICT);
        case 0x90: return add_marked(m, RSHI_PICKLE_SET);
        case 'c': return global_lines(m);
        case 0x93: return global_stack(m);
        case 'R': return reduce(m);
        case 0x81:
        case 0x92: return new_object(m, opcode == 0x92);
        case 'b': return set_state(m);
        case 'Q': return persistent(m);
        case 0x94: return memo_put(m, (uint64_t)m->nmemo);
        default: return step_stack(m, opcode);
    }
}

static rsh_status run_opcode(machine *m, int opcode) {
    switch (opcode) {
        case 0x80:
        case 'K':
        case 'q':
        case 'h': return step_number(m, opcode, 1);
        case 'M': return step_number(m, opcode, 2);
        case 'J':
        case 'r':
        case 'j': return step_number(m, opcode, 4);
        case 0x95: return step_number(m, opcode, 8);
        case 'G': return push_span(m, RSHI_PICKLE_FLOAT, 8);
        case 0x8a: return take_long(m, 1);
        case 0x8b: return take_long(m, 4);
        case 'U':
        case 0x8c: return take_text(m, RSHI_PICKLE_TEXT, 1);
        case 'T':
        case 'X': return take_text(m, RSHI_PICKLE_TEXT, 4);
        case 0x8d: return take_text(m, RSHI_PICKLE_TEXT, 8);
        case 'C': return take_text(m, RSHI_PICKLE_BYTES, 1);
        case 'B': return take_text(m, RSHI_PICKLE_BYTES, 4);
        case 0x8e:
        case 0x96: return take_text(m, RSHI_PICKLE_BYTES, 8);
        default: return step_build(m, opcode);
    }
}

/* Runs the pickle.  The values of usual checkpoints take about four times its length in memory; the limit is eight
 * times. */
static rsh_status run_pickle(machine *m) {
    size_t most = 8 * m->p->length + (1 << 20);
    for (;;) {
        const unsigned char *opcode;
        m->op = m->next;
        RSH_TRY(take_bytes(m, 1, &opcode));
        if (*opcode == '.') break;
        RSH_TRY(run_opcode(m, *opcode));
        if (m->p->total > most || m->depth > STACK_MOST)
            return refuse(m, "the pickle makes too many values for its length; it is damaged or malicious");
    }
    value *root;
    RSH_TRY(pop(m, &root));
    if (m->depth) return refuse(m, "damaged pickle: more than one value is left on the stack");
    m->p->root = root;
    m->p->end = m->next;
    return RSH_OK;
}

rsh_status rshi_pickle_read(const void *bytes, size_t n, const char *file, uint64_t base, rshi_pickle *out) {
    *out = (rshi_pickle){.file = file, .base = base, .bytes = bytes, .length = n};
    if (n > RSHI_PICKLE_MOST)
        return rshi_fail(RSH_EVALUE, "%.150s: the pickle is too large: at most %zu bytes are supported, got %zu", file,
                         RSHI_PICKLE_MOST, n);
    machine m = {.p = out};
    rsh_status st = run_pickle(&m);
    rshi_free(m.stack);
    rshi_free(m.memo);
    return st;
}

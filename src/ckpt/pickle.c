/* Pickle: a stack machine for the few opcodes that PyTorch's checkpoints use; it builds values and runs nothing.
 *
 * Values lie in blocks that are freed together, so it does not matter who refers to whom.  Every opcode makes at most
 * one value, and texts stay in the input: memory grows with the length of the pickle, whatever it says. */
#include "ckpt/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef rshi_pickle_value value;

struct rshi_pickle_block {
    struct rshi_pickle_block *next;
    size_t size; /* bytes after this head */
};
enum { BLOCK = 65536 - 64, FIELDS_MOST = 64 /* of an object; PyTorch's have up to ten */ };

typedef struct machine {
    rshi_pickle *p;
    size_t next, op; /* of p->bytes: the byte to read; where the opcode at hand is */
    value **stack;
    int64_t depth, stack_room;
    value **memo;
    int64_t nmemo, memo_room;
} machine;

/* Values without content, shared by all pickles; nothing writes to them. */
static const value none = {.kind = RSHI_PICKLE_NONE}, yes = {.kind = RSHI_PICKLE_BOOL, .number = 1},
                   no = {.kind = RSHI_PICKLE_BOOL}, mark = {.kind = RSHI_PICKLE_MARK},
                   empty = {.kind = RSHI_PICKLE_TUPLE};

/* ---- values ---- */

static void *get_memory(rshi_pickle *p, size_t bytes) {
    bytes = (bytes + 7) & ~(size_t)7;
    if (!p->block || p->block->size - p->used < bytes) {
        size_t size = bytes > BLOCK ? bytes : BLOCK;
        struct rshi_pickle_block *b = rshi_alloc(sizeof *b + size, 1);
        if (!b) return NULL;
        *b = (struct rshi_pickle_block){p->block, size};
        p->block = b;
        p->used = 0;
    }
    void *at = (char *)(p->block + 1) + p->used;
    p->used += bytes;
    return at;
}

void rshi_pickle_free(rshi_pickle *p) {
    while (p->block) {
        struct rshi_pickle_block *next = p->block->next;
        rshi_free(p->block);
        p->block = next;
    }
}

rsh_status rshi_pickle_fail(const rshi_pickle *p, const value *v, const char *format, ...) {
    char sentence[RSHI_DETAIL_BYTES - 200];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": %s", p->file, p->base + (v ? v->at : 0), sentence);
}

/* Refuses what is at the opcode at hand. */
static rsh_status refuse(const machine *m, const char *sentence) {
    rshi_pickle_fail(m->p, &(value){.at = (uint32_t)m->op}, "%s", sentence);
    return RSH_EVALUE;
}

static rsh_status push(machine *m, value *v) {
    RSH_TRY(RSHI_GROW(m->stack, m->depth + 1, &m->stack_room));
    m->stack[m->depth++] = v;
    return RSH_OK;
}

static rsh_status make(machine *m, rshi_pickle_kind kind, value **out) {
    value *v = get_memory(m->p, sizeof *v);
    if (!v) return rshi_nomem();
    *v = (value){.kind = (uint8_t)kind, .at = (uint32_t)m->op};
    *out = v;
    return RSH_OK;
}

static rsh_status push_new(machine *m, rshi_pickle_kind kind, value **out) {
    RSH_TRY(make(m, kind, out));
    return push(m, *out);
}

static rsh_status push_number(machine *m, int64_t number) {
    value *v;
    RSH_TRY(push_new(m, RSHI_PICKLE_INT, &v));
    v->number = number;
    return RSH_OK;
}

/* The topmost value, which is no mark. */
static rsh_status top(machine *m, value **out) {
    if (!m->depth || m->stack[m->depth - 1]->kind == RSHI_PICKLE_MARK)
        return refuse(m, "the pickle uses a value that is not there");
    *out = m->stack[m->depth - 1];
    return RSH_OK;
}

static rsh_status pop(machine *m, value **out) {
    RSH_TRY(top(m, out));
    m->depth--;
    return RSH_OK;
}

/* Takes the mark away; its values are stack[*from] to stack[*end - 1], which stay where they are until the next push.
 */
static rsh_status pop_mark(machine *m, int64_t *from, int64_t *end) {
    *end = m->depth;
    while (m->depth && m->stack[m->depth - 1]->kind != RSHI_PICKLE_MARK) m->depth--;
    if (!m->depth) return refuse(m, "the pickle has no mark where it needs one");
    *from = m->depth--;
    return RSH_OK;
}

static rsh_status set_items(machine *m, value *v, value *const *items, int64_t n) {
    v->item = get_memory(m->p, (size_t)n * sizeof *items);
    if (!v->item) return rshi_nomem();
    if (n) memcpy(v->item, items, (size_t)n * sizeof *items);
    v->n = v->room = (uint32_t)n;
    return RSH_OK;
}

static rsh_status add_items(machine *m, value *v, value *const *items, int64_t n) {
    if ((uint64_t)v->n + (uint64_t)n > v->room) {
        size_t room = 2 * ((size_t)v->n + (size_t)n);
        value **item = get_memory(m->p, room * sizeof *item);
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

static rsh_status take(machine *m, uint64_t n, const unsigned char **out) {
    if (n > m->p->length - m->next) return refuse(m, "the pickle ends in the middle");
    *out = m->p->bytes + m->next;
    m->next += n;
    return RSH_OK;
}

/* A little-endian number of n bytes, n <= 8. */
static rsh_status take_number(machine *m, int n, uint64_t *out) {
    const unsigned char *b;
    RSH_TRY(take(m, (uint64_t)n, &b));
    *out = 0;
    for (int i = 0; i < n; i++) *out |= (uint64_t)b[i] << 8 * i;
    return RSH_OK;
}

static rsh_status take_text(machine *m, int length_bytes) {
    uint64_t n;
    const unsigned char *text;
    value *v;
    RSH_TRY(take_number(m, length_bytes, &n));
    RSH_TRY(take(m, n, &text));
    RSH_TRY(push_new(m, RSHI_PICKLE_TEXT, &v));
    v->text = (const char *)text;
    v->n = (uint32_t)n;
    return RSH_OK;
}

static rsh_status take_long(machine *m) {
    uint64_t n, number;
    RSH_TRY(take_number(m, 1, &n));
    if (n > 8) return refuse(m, "an integer of more than 64 bits");
    RSH_TRY(take_number(m, (int)n, &number));
    if (n && n < 8 && number >> (8 * n - 1)) number |= ~(uint64_t)0 << 8 * n;
    return push_number(m, (int64_t)number);
}

static rsh_status take_line(machine *m, const char **line, size_t *n) {
    const unsigned char *from = m->p->bytes + m->next, *end = memchr(from, '\n', m->p->length - m->next);
    if (!end) return refuse(m, "the pickle ends in the middle");
    *line = (const char *)from;
    *n = (size_t)(end - from);
    m->next += *n + 1;
    return RSH_OK;
}

/* ---- opcodes that build ---- */

static rsh_status make_tuple(machine *m, int64_t from, int64_t end) {
    value *v;
    RSH_TRY(make(m, RSHI_PICKLE_TUPLE, &v));
    RSH_TRY(set_items(m, v, m->stack + from, end - from));
    m->depth = from;
    return push(m, v);
}

static rsh_status short_tuple(machine *m, int64_t n) {
    if (m->depth < n) return refuse(m, "the pickle uses a value that is not there");
    for (int64_t i = m->depth - n; i < m->depth; i++)
        if (m->stack[i]->kind == RSHI_PICKLE_MARK) return refuse(m, "the pickle uses a value that is not there");
    return make_tuple(m, m->depth - n, m->depth);
}

static rsh_status marked_tuple(machine *m) {
    int64_t from, end;
    RSH_TRY(pop_mark(m, &from, &end));
    value *v;
    RSH_TRY(make(m, RSHI_PICKLE_TUPLE, &v));
    RSH_TRY(set_items(m, v, m->stack + from, end - from));
    return push(m, v);
}

/* To the list or dict below them. */
static rsh_status add_marked(machine *m, rshi_pickle_kind kind) {
    int64_t from, end;
    value *to;
    RSH_TRY(pop_mark(m, &from, &end));
    RSH_TRY(top(m, &to));
    if (to->kind != kind || (kind == RSHI_PICKLE_DICT && (end - from) % 2))
        return refuse(m, "items for something that is no list or dict");
    return add_items(m, to, m->stack + from, end - from);
}

static rsh_status add_one(machine *m, rshi_pickle_kind kind) {
    value *items[2] = {NULL, NULL}, *to;
    int64_t n = kind == RSHI_PICKLE_DICT ? 2 : 1;
    for (int64_t i = n; i--;) RSH_TRY(pop(m, &items[i]));
    RSH_TRY(top(m, &to));
    if (to->kind != kind) return refuse(m, "items for something that is no list or dict");
    return add_items(m, to, items, n);
}

/* ---- classes and objects ---- */

static rsh_status push_class(machine *m, const char *module, size_t mlength, const char *name, size_t nlength) {
    value *v;
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
    if (module->kind != RSHI_PICKLE_TEXT || name->kind != RSHI_PICKLE_TEXT) return refuse(m, "a class without a name");
    return push_class(m, module->text, module->n, name->text, name->n);
}

/* Those that are made empty and then get a state. */
static bool is_record(int class) { return class <= RSHI_CLASS_STORAGE_INFO; }

static rsh_status new_object(machine *m) {
    value *arguments, *class, *v;
    RSH_TRY(pop(m, &arguments));
    RSH_TRY(pop(m, &class));
    if (class->kind != RSHI_PICKLE_CLASS || !is_record(class->class) || arguments->kind != RSHI_PICKLE_TUPLE ||
        arguments->n)
        return refuse(m, "an object that PyTorch's checkpoints do not contain");
    RSH_TRY(push_new(m, RSHI_PICKLE_OBJECT, &v));
    v->class = class->class;
    return RSH_OK;
}

static rsh_status set_state(machine *m) {
    value *state, *v;
    RSH_TRY(pop(m, &state));
    RSH_TRY(top(m, &v));
    if (v->kind != RSHI_PICKLE_OBJECT || !is_record(v->class)) return refuse(m, "a state for something that has none");
    if (state->kind == RSHI_PICKLE_DICT && state->n > 2 * FIELDS_MOST)
        return refuse(m, "an object with more fields than PyTorch's checkpoints have");
    return set_items(m, v, &state, 1);
}

static bool is_class(const value *v, rshi_pickle_class class) {
    return v->kind == RSHI_PICKLE_CLASS && v->class == class;
}

/* It shares the items of the tuple that it is made from: tuples do not change, and many objects may be made from one.
 */
static rsh_status push_object(machine *m, int class, const value *arguments) {
    value *v;
    RSH_TRY(push_new(m, RSHI_PICKLE_OBJECT, &v));
    v->class = (uint8_t)class;
    v->item = arguments->item;
    v->n = arguments->n;
    return RSH_OK;
}

/* The few calls that are known; each only makes a value of what it is given. */
static rsh_status call(machine *m, const value *class, value *arguments) {
    value *v;
    uint32_t n = arguments->n;
    switch (class->class) {
        case RSHI_CLASS_SIZE: /* torch.Size of a tuple is that tuple */
            if (n == 1 &&
                (arguments->item[0]->kind == RSHI_PICKLE_TUPLE || arguments->item[0]->kind == RSHI_PICKLE_LIST))
                return push(m, arguments->item[0]);
            break;
        case RSHI_CLASS_ORDERED_DICT:
            if (!n) return push_new(m, RSHI_PICKLE_DICT, &v);
            break;
        case RSHI_CLASS_GETATTR: /* of the enumeration of memory formats, and nothing else */
            if (n == 2 && is_class(arguments->item[0], RSHI_CLASS_MEMORY_FORMAT))
                return push_object(m, RSHI_CLASS_MEMORY_FORMAT, arguments);
            break;
        case RSHI_CLASS_MEMORY_FORMAT:
        case RSHI_CLASS_GET_LAYOUT:
        case RSHI_CLASS_PATH:
        case RSHI_CLASS_TENSOR_V2:
        case RSHI_CLASS_TENSOR_V3: return push_object(m, class->class, arguments);
        default: break;
    }
    return refuse(m, "a call that PyTorch's checkpoints do not contain");
}

static rsh_status reduce(machine *m) {
    value *arguments, *class;
    RSH_TRY(pop(m, &arguments));
    RSH_TRY(pop(m, &class));
    if (class->kind != RSHI_PICKLE_CLASS || arguments->kind != RSHI_PICKLE_TUPLE)
        return refuse(m, "a call that PyTorch's checkpoints do not contain");
    return call(m, class, arguments);
}

static rsh_status persistent(machine *m) {
    value *id;
    RSH_TRY(pop(m, &id));
    if (id->kind != RSHI_PICKLE_TUPLE) return refuse(m, "a persistent id that PyTorch's checkpoints do not contain");
    return push_object(m, RSHI_CLASS_PERSISTENT, id);
}

/* ---- memo ---- */

static rsh_status put(machine *m, uint64_t number) {
    value *v;
    RSH_TRY(top(m, &v));
    if (number > (uint64_t)m->nmemo) return refuse(m, "the pickle numbers its values out of order");
    RSH_TRY(RSHI_GROW(m->memo, m->nmemo + 1, &m->memo_room));
    m->memo[number] = v;
    if (number == (uint64_t)m->nmemo) m->nmemo++;
    return RSH_OK;
}

static rsh_status get(machine *m, uint64_t number) {
    if (number >= (uint64_t)m->nmemo) return refuse(m, "the pickle refers to a value that is not there");
    return push(m, m->memo[number]);
}

/* ---- the machine ---- */

static rsh_status unknown(const machine *m, int opcode) {
    return rshi_pickle_fail(m->p, &(value){.at = (uint32_t)m->op},
                            "opcode 0x%02x, which PyTorch's checkpoints do not contain", opcode);
}

/* Opcodes that are followed by a number of n bytes. */
static rsh_status step_number(machine *m, int opcode, int n) {
    uint64_t number;
    RSH_TRY(take_number(m, n, &number));
    switch (opcode) {
        case 0x80: return number >= 2 && number <= 5 ? RSH_OK : refuse(m, "a pickle of another protocol than 2 to 5");
        case 0x95: return RSH_OK; /* the length of a frame: a hint for reading */
        case 'K':
        case 'M': return push_number(m, (int64_t)number);
        case 'J': return push_number(m, (int32_t)(uint32_t)number);
        case 'q':
        case 'r': return put(m, number);
        default: return get(m, number);
    }
}

static rsh_status step_build(machine *m, int opcode) {
    value *v;
    switch (opcode) {
        case '(': return push(m, (value *)&mark);
        case 'N': return push(m, (value *)&none);
        case 0x88: return push(m, (value *)&yes);
        case 0x89: return push(m, (value *)&no);
        case ')': return push(m, (value *)&empty);
        case ']': return push_new(m, RSHI_PICKLE_LIST, &v);
        case '}': return push_new(m, RSHI_PICKLE_DICT, &v);
        case 't': return marked_tuple(m);
        case 0x85:
        case 0x86:
        case 0x87: return short_tuple(m, opcode - 0x84);
        case 'a': return add_one(m, RSHI_PICKLE_LIST);
        case 'e': return add_marked(m, RSHI_PICKLE_LIST);
        case 's': return add_one(m, RSHI_PICKLE_DICT);
        case 'u': return add_marked(m, RSHI_PICKLE_DICT);
        case 'c': return global_lines(m);
        case 0x93: return global_stack(m);
        case 'R': return reduce(m);
        case 0x81: return new_object(m);
        case 'b': return set_state(m);
        case 'Q': return persistent(m);
        case 0x94: return put(m, (uint64_t)m->nmemo);
        default: return unknown(m, opcode);
    }
}

static rsh_status step(machine *m, int opcode) {
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
        case 0x8a: return take_long(m);
        case 0x8c: return take_text(m, 1);
        case 'X': return take_text(m, 4);
        case 0x8d: return take_text(m, 8);
        default: return step_build(m, opcode);
    }
}

static rsh_status run(machine *m) {
    for (;;) {
        const unsigned char *opcode;
        m->op = m->next;
        RSH_TRY(take(m, 1, &opcode));
        if (*opcode == '.') break;
        RSH_TRY(step(m, *opcode));
    }
    value *root;
    RSH_TRY(pop(m, &root));
    if (m->depth) return refuse(m, "the pickle leaves more than one value");
    m->p->root = root;
    return RSH_OK;
}

rsh_status rshi_pickle_read(const void *bytes, size_t n, const char *file, uint64_t base, rshi_pickle *out) {
    *out = (rshi_pickle){.file = file, .base = base, .bytes = bytes, .length = n};
    if (n > RSHI_PICKLE_MOST)
        return rshi_fail(RSH_EVALUE, "%.150s: a pickle of %zu bytes; at most %zu are read", file, n, RSHI_PICKLE_MOST);
    machine m = {.p = out};
    rsh_status st = run(&m);
    rshi_free(m.stack);
    rshi_free(m.memo);
    return st;
}

/* ---- questions ---- */

bool rshi_pickle_is(const value *v, rshi_pickle_class class) {
    return v && v->kind == RSHI_PICKLE_OBJECT && v->class == class;
}

/* Many objects may share one state, so a long one would be searched once for each of them: it counts as empty. */
const value *rshi_pickle_field(const value *object, const char *name) {
    if (object->kind != RSHI_PICKLE_OBJECT || object->n != 1 || object->item[0]->kind != RSHI_PICKLE_DICT) return NULL;
    const value *state = object->item[0];
    if (state->n > 2 * FIELDS_MOST) return NULL;
    size_t n = strlen(name);
    for (uint32_t i = 0; i + 1 < state->n; i += 2) {
        const value *key = state->item[i];
        if (key->kind == RSHI_PICKLE_TEXT && key->n == n && !memcmp(key->text, name, n)) return state->item[i + 1];
    }
    return NULL;
}

rsh_status rshi_pickle_sizes(const rshi_pickle *p, const value *v, const char *what, int *n, int64_t *sizes) {
    if (!v || (v->kind != RSHI_PICKLE_TUPLE && v->kind != RSHI_PICKLE_LIST))
        return rshi_pickle_fail(p, v, "%s is no list of sizes", what);
    if (v->n > RSH_MAX_NDIM)
        return rshi_fail(RSH_EUNSUP, "%.150s: byte %" PRIu64 ": %s has %u dims; at most %d are supported", p->file,
                         p->base + v->at, what, v->n, RSH_MAX_NDIM);
    *n = (int)v->n;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->item[i]->kind != RSHI_PICKLE_INT || v->item[i]->number < 0)
            return rshi_pickle_fail(p, v, "%s is no list of sizes", what);
        sizes[i] = v->item[i]->number;
    }
    return RSH_OK;
}

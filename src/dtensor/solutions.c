/* Solutions: the layouts that follow from rules and placements, cached by the mesh.
 *
 * Creating layouts formats texts, which takes longer than a small op.  Solutions are looked up by op, dims and the
 * inputs' layouts, so that a training loop computes each once. */
#include "dtensor/solution.h"

#include <string.h>

#include "mesh/mesh.h"

enum { BUCKETS = 512, LIMIT = 4096 };

typedef struct table {
    rshi_solution *bucket[BUCKETS];
    int n;
} table;

/* ---- looking up ---- */

/* The key of a lookup: a question, its mesh, and the layouts of the inputs. */
typedef struct asked {
    const rshi_rule_question *q;
    rsh_mesh *mesh;
    const rsh_layout *const *layouts;
} asked;

static uint64_t key_of(const asked *m) {
    const rsh_rule_dims *r = &m->q->dims;
    uint64_t key = (uint64_t)(uintptr_t)m->q->op;
    for (int i = 0; i < r->nin; i++) {
        const rsh_layout *l = m->layouts[i];
        key = (key ^ (l ? rsh_layout_hash(l) : 1)) * 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    return rshi_hash(r->out, (size_t)r->nout * sizeof *r->out, key);
}

static bool same_layout(const rsh_layout *a, const rsh_layout *b) {
    return a == b || (a && b && rsh_layout_equal(a, b));
}

static bool fits(const rshi_solution *s, const asked *m) {
    const rsh_rule_dims *r = &m->q->dims;
    if (s->op != m->q->op || s->nin != r->nin || s->nout != r->nout) return false;
    if (s->own != r->own || s->counted != r->counted || s->moves_only != r->moves_only) return false;
    for (int i = 0; i < r->nin; i++)
        if (!same_layout(s->given[i], m->layouts[i])) return false;
    return !memcmp(s->tensors, r->in, (size_t)r->nin * sizeof *r->in) &&
           !memcmp(s->tensors + r->nin, r->out, (size_t)r->nout * sizeof *r->out);
}

/* ---- creating ---- */

static void free_layouts(rshi_solution *s) {
    for (int i = 0; i < 3 * s->nin + 2 * s->nout; i++) rsh_layout_free(s->given[i]);
    rshi_free(s);
}

/* Creates a solution without layouts; its lists of layouts are contiguous. */
static rshi_solution *new_solution(const asked *m) {
    const rsh_rule_dims *r = &m->q->dims;
    rshi_solution *s;
    size_t tensors = (size_t)(r->nin + r->nout), layouts = (size_t)(3 * r->nin + 2 * r->nout);
    size_t lists = tensors * sizeof *r->in + layouts * sizeof *s->given + (size_t)r->nin * sizeof *s->at_home;
    s = rshi_calloc(1, sizeof *s + lists);
    if (!s) return NULL;
    s->op = m->q->op;
    s->nin = r->nin;
    s->nout = r->nout;
    s->own = r->own;
    s->counted = r->counted;
    s->moves_only = r->moves_only;
    s->tensors = (rsh_rule_tensor *)(s + 1);
    memcpy(s->tensors, r->in, (size_t)r->nin * sizeof *r->in);
    memcpy(s->tensors + r->nin, r->out, (size_t)r->nout * sizeof *r->out);
    s->given = (rsh_layout **)(s->tensors + tensors);
    s->wanted = s->given + r->nin;
    s->grad = s->wanted + r->nin;
    s->out = s->grad + r->nin;
    s->made = s->out + r->nout;
    s->at_home = (bool *)(s->made + r->nout);
    for (int i = 0; i < r->nin; i++) s->given[i] = rsh_layout_hold(m->layouts[i]);
    return s;
}

/* Creates the layout in which the op works on input i; *range tells whether placements cannot express it. */
static rsh_status lay_out_worked(const asked *m, const rsh_place *places, int i, rsh_layout **out,
                                 bool *range) {
    rsh_layout *worked = NULL;
    RSH_TRY(rshi_rule_layouts(m->mesh, places, &m->q->dims.in[i], out, &worked));
    *range = worked != NULL;
    if (!worked) return RSH_OK;
    rsh_layout_free(*out);
    *out = worked;
    return RSH_OK;
}

static rsh_status lay_out_input(const asked *m, rshi_solution *s, const rshi_outcome *o, int i) {
    rsh_layout *l = NULL;
    rsh_dtype dtype = m->q->dims.in[i].dtype;
    bool range;
    if (!m->layouts[i]) return RSH_OK;
    if (dtype == RSH_F32 || dtype == RSH_F64) RSH_TRY(lay_out_worked(m, o->grad[i], i, &s->grad[i], &range));
    RSH_TRY(lay_out_worked(m, o->in[i], i, &l, &range));
    if (rsh_layout_equal(l, m->layouts[i])) rsh_layout_free(l);
    else s->wanted[i] = l;
    s->at_home[i] = !range && rshi_own_part_fits(rsh_mesh_ndim(m->mesh), o->was[i], o->in[i]);
    return RSH_OK;
}

static rsh_status read_places(const asked *m, rshi_outcome *o) {
    for (int i = 0; i < m->q->dims.nin; i++)
        if (m->layouts[i]) RSH_TRY(rsh_mesh_places(m->mesh, RSH_MESH_POSITIONS, m->layouts[i], o->in[i]));
    memcpy(o->was, o->in, sizeof o->was);
    return RSH_OK;
}

/* Checks that the chunks of views end at the same elements. */
static rsh_status check_chunks(const asked *m, const rshi_solution *s, char why[RSHI_WHY]) {
    const rsh_layout *in[RSHI_RULE_MOST];
    for (int i = 0; i < s->nin; i++) in[i] = s->wanted[i] ? s->wanted[i] : s->given[i];
    return rshi_rule_check_chunks(m->q, in, (const rsh_layout *const *)s->out, why);
}

static rsh_status fill_solution(const asked *m, rshi_solution *s, char why[RSHI_WHY]) {
    rshi_outcome *o = RSHI_NEW(rshi_outcome);
    rsh_status st = o ? read_places(m, o) : rshi_nomem();
    if (!st) st = rshi_rule_solve(m->q, o, why);
    s->calls = !st && rshi_rule_calls(m->q, o);
    for (int i = 0; !st && i < s->nin; i++) st = lay_out_input(m, s, o, i);
    for (int i = 0; !st && i < s->nout; i++)
        st = rshi_rule_layouts(m->mesh, o->out[i], &m->q->dims.out[i], &s->out[i], &s->made[i]);
    rshi_free(o);
    return st ? st : check_chunks(m, s, why);
}

/* ---- the table ---- */

static void clear_table(table *t) {
    for (int i = 0; i < BUCKETS; i++)
        for (rshi_solution *s = t->bucket[i], *next; s; s = next) {
            next = s->next;
            free_layouts(s);
        }
    *t = (table){.n = 0};
}

static void drop_table(void *t) {
    clear_table(t);
    rshi_free(t);
}

static table *table_of(rsh_mesh *mesh) {
    rshi_mesh_notes *notes = rshi_mesh_notes_of(mesh);
    if (!notes->what) *notes = (rshi_mesh_notes){RSHI_NEW(table), drop_table};
    if (!notes->what) notes->drop = NULL;
    return notes->what;
}

/* Adds a solution.  Empties a full table first; a running loop then fills it again with what it needs. */
static void add_solution(table *t, rshi_solution *s) {
    if (t->n == LIMIT) clear_table(t);
    rshi_solution **bucket = &t->bucket[s->key % BUCKETS];
    s->next = *bucket;
    *bucket = s;
    t->n++;
}

static rsh_status make_solution(const asked *m, uint64_t key, table *t, const rshi_solution **out, char why[RSHI_WHY]) {
    rshi_solution *s = new_solution(m);
    if (!s) return rshi_nomem();
    s->key = key;
    rsh_status st = fill_solution(m, s, why);
    if (st) {
        free_layouts(s);
        return st;
    }
    add_solution(t, s);
    *out = s;
    return RSH_OK;
}

rsh_status rshi_solution_find(rsh_mesh *mesh, const rshi_rule_question *q, const rsh_layout *const *given,
                              const rshi_solution **out, char why[RSHI_WHY]) {
    asked m = {q, mesh, given};
    table *t = table_of(mesh);
    if (!t) return rshi_nomem();
    uint64_t key = key_of(&m);
    rshi_solution *s = t->bucket[key % BUCKETS];
    while (s && (s->key != key || !fits(s, &m))) s = s->next;
    *out = s;
    return s ? RSH_OK : make_solution(&m, key, t, out, why);
}

/* ---- without memory ---- */

static void read_all_places(const rsh_mesh *mesh, const rshi_rule_question *q, const rsh_layout *const *given,
                            rshi_outcome *o) {
    memset(o, 0, sizeof *o);
    for (int i = 0; i < q->dims.nin; i++) {
        for (int a = 0; a < rsh_mesh_ndim(mesh) && q->placed[i]; a++) o->in[i][a] = rsh_place_replicate();
        if (given[i]) rshi_mesh_read_places(given[i], o->in[i]);
    }
    memcpy(o->was, o->in, sizeof o->was);
}

/* Returns whether ranks communicate, as `wanted`, `at_home`, `calls` and `made` of a solution would tell, but allocates
 * no memory. */
bool rshi_solution_meets(const rsh_mesh *mesh, const rshi_rule_question *q, const rsh_layout *const *given) {
    rshi_outcome o;
    char why[RSHI_WHY];
    const rsh_rule_dims *r = &q->dims;
    read_all_places(mesh, q, given, &o);
    if (rshi_rule_solve(q, &o, why)) return false;
    if (rshi_rule_calls(q, &o)) return true;
    for (int i = 0; i < r->nin; i++) {
        if (!q->placed[i]) continue;
        if (rshi_rule_is_range(mesh, o.in[i], &r->in[i])) return true;
        if (!rshi_own_part_fits(rsh_mesh_ndim(mesh), o.was[i], o.in[i])) return true;
    }
    for (int i = 0; i < r->nout; i++)
        if (rshi_rule_is_range(mesh, o.out[i], &r->out[i])) return true;
    return false;
}

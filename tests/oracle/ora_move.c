/* Move: looks up the value of every destination element one by one, and computes the least bytes that must move. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

/* The address of the value of each element for each position along the partial axes, at its first holder. */
typedef struct table {
    const unsigned char **at; /* [partial][element] */
    int64_t *rank;            /* rank of that holder */
    unsigned char *result;    /* [element]: the combined value in the destination's dtype */
    bool *known;              /* [element]: whether the value has been computed */
    int64_t count, per_node;
} table;

static table new_table(const ora_layout *from, unsigned char *const *src, ora_dtype to, int64_t per_node) {
    size_t elements = (size_t)from->count + 1, n = (size_t)(from->count * from->npartial) + 1;
    table t = {calloc(n, sizeof *t.at), calloc(n, sizeof *t.rank), calloc(elements, ora_size(to)),
               calloc(elements, sizeof *t.known), from->count, per_node};
    if (!t.at || !t.rank || !t.result || !t.known) abort();
    size_t size = ora_size(from->dtype);
    for (int64_t i = 0; i < from->nparts; i++) {
        const ora_part *p = &from->part[i];
        for (int64_t j = 0; j < p->count; j++) {
            int64_t k = p->partial * from->count + p->element[j];
            if (t.at[k]) continue;
            t.at[k] = src[i] + (size_t)j * size;
            t.rank[k] = p->rank;
        }
    }
    return t;
}

static void free_table(table *t) {
    free(t->at);
    free(t->rank);
    free(t->result);
    free(t->known);
}

/* Computes the value of an element.  It is the same for every rank that gets the element, so it is computed once. */
static void true_value(const ora_layout *from, const table *t, int64_t element, ora_dtype to, unsigned char *dst) {
    unsigned char *result = t->result + (size_t)element * ora_size(to);
    const unsigned char *contribution[ORA_MAX_POSITIONS];
    int64_t node[ORA_MAX_POSITIONS];
    for (int64_t k = 0; !t->known[element] && k < from->npartial; k++) {
        contribution[k] = t->at[k * t->count + element];
        if (!contribution[k]) abort();
        node[k] = t->per_node ? t->rank[k * t->count + element] / t->per_node : 0;
    }
    if (!t->known[element])
        ora_reduce_to(from->op, from->dtype, from->npartial, contribution, t->per_node ? node : NULL, to, result);
    t->known[element] = true;
    memcpy(dst, result, ora_size(to));
}

static int partial_sizes(const ora_layout *l, int64_t *size) {
    int n = 0;
    for (int a = 0; a < l->naxes; a++)
        if (l->is_partial[a]) size[n++] = l->axis_size[a];
    return n;
}

bool ora_moves_alone(const ora_layout *from, const ora_layout *to) {
    int64_t a[ORA_MAX], b[ORA_MAX];
    int n = partial_sizes(from, a), m = partial_sizes(to, b);
    return from->op != ORA_NONE && from->op == to->op && n == m && !memcmp(a, b, sizeof *a * (size_t)n);
}

static void copy_or_convert(ora_dtype from, ora_dtype to, const unsigned char *src, unsigned char *dst) {
    if (from == to)
        memcpy(dst, src, ora_size(to));
    else
        ora_encode(to, ora_decode(from, src), dst);
}

static void put(const ora_layout *from, const table *t, const ora_layout *to, const ora_part *part, int64_t element,
                unsigned char *dst) {
    bool alone = ora_moves_alone(from, to);
    if (alone || from->op == ORA_NONE) {
        int64_t k = alone ? part->partial : 0;
        copy_or_convert(from->dtype, to->dtype, t->at[k * t->count + element], dst);
    } else {
        true_value(from, t, element, to->dtype, dst);
    }
    if (!alone && to->op != ORA_NONE && to->op != ORA_AVG && part->partial != 0) ora_identity(to->op, to->dtype, dst);
}

bool ora_has_replicas(const ora_layout *l) {
    int64_t held = 0;
    for (int64_t i = 0; i < l->nparts; i++) held += l->part[i].count;
    return held > l->count * l->npartial;
}

bool ora_move(const ora_layout *from, unsigned char *const *src, const ora_layout *to, unsigned char **dst,
              int64_t per_node) {
    if (from->op != ORA_NONE && to->op != ORA_NONE && from->op != to->op) return false;
    table t = new_table(from, src, to->dtype, per_node);
    for (int64_t i = 0; i < to->nparts; i++)
        for (int64_t j = 0; j < to->part[i].count; j++)
            put(from, &t, to, &to->part[i], to->part[i].element[j], dst[i] + (size_t)j * ora_size(to->dtype));
    free_table(&t);
    return true;
}

static int64_t element_bytes(const ora_layout *from, const ora_layout *to) {
    size_t a = ora_size(from->dtype), b = ora_size(to->dtype);
    return (int64_t)(a < b ? a : b);
}

static int64_t last_rank(const ora_layout *l) { return l->nparts ? l->part[l->nparts - 1].rank : -1; }

/* [node][element]: whether any rank of the node holds it.  A node has `per_node` consecutive ranks. */
static char *new_holders(const ora_layout *l, int64_t nodes, int64_t per_node) {
    char *holds = calloc((size_t)(nodes * l->count) + 1, 1);
    if (!holds) abort();
    for (int64_t i = 0; i < l->nparts; i++) {
        int64_t node = l->part[i].rank / per_node;
        for (int64_t j = 0; node < nodes && j < l->part[i].count; j++)
            holds[node * l->count + l->part[i].element[j]] = 1;
    }
    return holds;
}

int64_t ora_least_between_nodes(const ora_layout *from, const ora_layout *to, int64_t per_node) {
    int64_t nodes = last_rank(to) / per_node + 1, missing = 0;
    char *has = new_holders(from, nodes, per_node), *needs = new_holders(to, nodes, per_node);
    for (int64_t i = 0; i < nodes * to->count; i++) missing += needs[i] && !has[i];
    free(has);
    free(needs);
    return missing * element_bytes(from, to);
}

int64_t ora_least_bytes(const ora_layout *from, const ora_layout *to) { return ora_least_between_nodes(from, to, 1); }

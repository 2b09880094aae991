/* Placed values: creates DTensors from whole tensors, and compares DTensors with them. */
#include "nn/placed_values.h"

#include "nn/numbers.h"

#include <ctype.h>

typedef struct placed {
    rsh_mesh *mesh;
    int n;              /* number of dims of the mesh */
    int nin;
    int64_t size[26];   /* size of the dim of each letter */
    rsh_value *whole[MOST_INPUTS];  /* whole tensors, which are leaves */
    rsh_place places[MOST_INPUTS][RSH_MAX_AXES];
    rsh_value *leaf[MOST_INPUTS];   /* the leaves from which the DTensors are made */
    rsh_value *in[MOST_INPUTS];
    rsh_place expected[RSH_MAX_AXES];
} placed;

static uint64_t roll(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Finds word i of a text; returns its length. */
static int word(const char *text, int i, const char **at) {
    for (; i; i--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    *at = text;
    return (int)strcspn(text, " ");
}

static int words(const char *text) {
    int n = *text != 0;
    for (; *text; text++) n += *text == ' ';
    return n;
}

/* ---- whole tensors ---- */

static rsh_value *make_whole(placed *p, int i, const char *at, int length) {
    char kind = length > 1 && at[1] == ':' ? at[0] : ' ';
    int64_t shape[RSH_MAX_NDIM];
    int ndim = 0;
    for (int k = kind == ' ' ? 0 : 2; k < length; k++)
        shape[ndim++] = isdigit(at[k]) ? at[k] - '0' : p->size[at[k] - 'a'];
    if (kind == 'i') return some_indices(p->size['z' - 'a'], ndim, shape);
    if (kind == 'm') return some_mask(ndim, shape);
    rsh_value *v = some_value(RSH_F64, i + 3, true, ndim, shape);
    double *x = rsh_tensor_data(rsh_value_tensor(v));
    for (int64_t k = 0; kind == 'p' && k < count_of(v); k++) x[k] += 2.1;
    return v;
}

static void make_wholes(placed *p, const placed_op *op, uint64_t seed) {
    for (int i = 0; i < 26; i++) p->size[i] = 1 + (int64_t)(roll(&seed) % 9);
    p->size['e' - 'a'] = 24 * (1 + (int64_t)(roll(&seed) % 2));
    p->nin = words(op->shapes);
    for (int i = 0; i < p->nin; i++) {
        const char *at;
        int length = word(op->shapes, i, &at);
        p->whole[i] = make_whole(p, i, at, length);
    }
}

/* ---- DTensors ---- */

static rsh_place place_of(const char *at) {
    switch (*at) {
    case 'S': return rsh_place_shard(at[1] - '0');
    case 'P': return rsh_place_partial(RSH_OP_SUM);
    case 'A': return rsh_place_partial(RSH_OP_AVG);
    case 'M': return rsh_place_partial(RSH_OP_MAX);
    default: return rsh_place_replicate();
    }
}

/* Creates this rank's contribution to a partial tensor: contributions differ, and their reduction is the whole. */
static rsh_status contribute(const placed *p, int i, rsh_value **out) {
    double times = 1, less = 0;
    for (int a = 0; a < p->n; a++) {
        double n = (double)rsh_mesh_dim_size(p->mesh, a), k = (double)rsh_mesh_coordinate(p->mesh)[a];
        rsh_place place = p->places[i][a];
        if (place.kind != RSH_PLACE_PARTIAL) continue;
        if (place.op == RSH_OP_MAX) less += k;
        else times *= (k == 0 ? 1 - 0.5 * (n - 1) : 0.5) * (place.op == RSH_OP_AVG ? n : 1);
    }
    rsh_tensor *t = NULL;
    TRY(rsh_math_convert(rsh_value_tensor(p->whole[i]), RSH_F64, &t));
    double *x = rsh_tensor_data(t);
    for (int64_t k = 0; k < rsh_tensor_count(t); k++) x[k] = x[k] * times - less;
    return rsh_value_adopt_tensor(t, true, out);
}

static rsh_status place_partial(placed *p, int i) {
    rsh_place start[RSH_MAX_AXES];
    rsh_value *first = NULL;
    for (int a = 0; a < p->n; a++)
        start[a] = p->places[i][a].kind == RSH_PLACE_PARTIAL ? p->places[i][a] : rsh_place_replicate();
    TRY(contribute(p, i, &p->leaf[i]));
    TRY(rsh_dtensor_from_local(p->leaf[i], p->mesh, p->n, start, NULL, &first));
    rsh_status st = rsh_dtensor_redistribute(first, p->n, p->places[i], RSH_DTYPE_NONE, &p->in[i]);
    rsh_value_free(first);
    return st;
}

static rsh_status place_input(placed *p, int i) {
    for (int a = 0; a < p->n; a++)
        if (p->places[i][a].kind == RSH_PLACE_PARTIAL) return place_partial(p, i);
    TRY(rsh_dtensor_distribute(rsh_value_tensor(p->whole[i]), rsh_value_requires_grad(p->whole[i]), p->mesh, p->n,
                               p->places[i], RSH_SOURCE_OWN, &p->in[i]));
    p->leaf[i] = rsh_value_hold(p->in[i]);
    return RSH_OK;
}

static rsh_status place_all(placed *p, const placed_row *const *row, bool *refused) {
    *refused = false;
    for (int a = 0; a < p->n; a++) {
        *refused |= !strcmp(row[a]->out, "no");
        p->expected[a] = place_of(row[a]->out);
        for (int i = 0; i < p->nin; i++) {
            const char *at;
            word(row[a]->in, i, &at);
            p->places[i][a] = place_of(at);
        }
    }
    for (int i = 0; i < p->nin; i++) TRY(place_input(p, i));
    return RSH_OK;
}

/* ---- comparing ---- */

static rsh_status alike(const rsh_value *got, const rsh_value *want, double times) {
    CHECK(rsh_value_ndim(got) == rsh_value_ndim(want));
    for (int d = 0; d < rsh_value_ndim(got); d++) CHECK(rsh_value_shape(got)[d] == rsh_value_shape(want)[d]);
    for (int64_t i = 0; i < count_of(want); i++) {
        double a = element_of(got, i), b = element_of(want, i) * times;
        CHECK((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-10 * (1 + fabs(b)));
    }
    return RSH_OK;
}

/* Returns the factor of a contribution in an average. */
static double share_of(const placed *p, int i) {
    double times = 1;
    for (int a = 0; a < p->n; a++)
        if (p->places[i][a].kind == RSH_PLACE_PARTIAL && p->places[i][a].op == RSH_OP_AVG)
            times /= (double)rsh_mesh_dim_size(p->mesh, a);
    return times;
}

static rsh_status same_gradient(const placed *p, int i) {
    rsh_value *got = rsh_value_grad(p->leaf[i]), *full = NULL;
    CHECK((got != NULL) == (rsh_value_grad(p->whole[i]) != NULL));
    if (!got) return RSH_OK;
    if (rsh_dtensor_mesh(got)) TRY(rsh_dtensor_full_tensor(got, NULL, &full));
    else full = rsh_value_hold(got);
    rsh_status st = alike(full, rsh_value_grad(p->whole[i]), share_of(p, i));
    rsh_value_free(full);
    return st;
}

static bool differentiable(const placed *p) {
    for (int i = 0; i < p->nin; i++)
        for (int a = 0; a < p->n; a++)
            if (p->places[i][a].kind == RSH_PLACE_PARTIAL && p->places[i][a].op == RSH_OP_MAX) return false;
    return true;
}

static rsh_status compare(placed *p, rsh_value *y, rsh_value *whole) {
    rsh_value *full = NULL, *seed = NULL;
    rsh_place now[RSH_MAX_AXES];
    TRY(rsh_dtensor_places(y, now));
    CHECK(rsh_places_equal(rsh_value_ndim(y), p->n, now, p->expected));
    TRY(rsh_dtensor_full_tensor(y, NULL, &full));
    TRY(alike(full, whole, 1));
    if (differentiable(p) && rsh_value_requires_grad(whole)) {
        seed = some_value(RSH_F64, 17, false, rsh_value_ndim(whole), rsh_value_shape(whole));
        TRY(rsh_backward(whole, seed, 0));
        TRY(rsh_backward(full, seed, 0));
        for (int i = 0; i < p->nin; i++) TRY(same_gradient(p, i));
    }
    rsh_value_free(full);
    rsh_value_free(seed);
    return RSH_OK;
}

static rsh_status refuses(placed *p, const placed_op *op) {
    rsh_value *y = NULL;
    CHECK_STATUS(RSH_EUNSUP, op->run(p->in, &y));
    CHECK(strstr(rsh_error_detail(), "of DTensors with placements ("));
    return RSH_OK;
}

static rsh_status check(placed *p, const placed_op *op) {
    rsh_value *y = NULL, *whole = NULL;
    TRY(op->run(p->whole, &whole));
    TRY(op->run(p->in, &y));
    rsh_status st = compare(p, y, whole);
    rsh_value_free(y);
    rsh_value_free(whole);
    return st;
}

rsh_status placed_check(rsh_mesh *mesh, const placed_op *op, const placed_row *const *row, uint64_t seed) {
    placed p = {.mesh = mesh, .n = rsh_mesh_ndim(mesh)};
    bool refused;
    make_wholes(&p, op, seed);
    rsh_status st = place_all(&p, row, &refused);
    if (!st) st = refused ? refuses(&p, op) : check(&p, op);
    for (int i = 0; i < p.nin; i++) {
        rsh_value_free(p.whole[i]);
        rsh_value_free(p.leaf[i]);
        rsh_value_free(p.in[i]);
    }
    if (!st) return RSH_OK;
    char sentence[1200];
    snprintf(sentence, sizeof sentence, "%s of %s, %s%s%s, seed %llu: %.700s", op->name, op->shapes, row[0]->in,
             p.n > 1 ? " by " : "", p.n > 1 ? row[1]->in : "", (unsigned long long)seed, rsh_error_detail());
    return rsh_fail(st, sentence);
}

/* Random tensors, saved in one random layout and loaded in another by other ranks: every element is in the right
 * place. */
#include "ckpt/files.h"

#include <unistd.h>

#include <reshard.h>

#include "comm/mailboxes.h"
#include "seed.h"

enum { TENSORS = 5, MOST = 6, CASES = 40 };

static uint64_t seed;

static int64_t below(int64_t n) { /* Returns a random number from 0 to n - 1. */
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

typedef struct job {
    int64_t shape[TENSORS][3];
    int ndim[TENSORS];
    const char *dtype[TENSORS];
    char layout[2][TENSORS][300]; /* layouts to save, and to load */
    int ranks[2];
    char path[100];
} job;

static const char *const names[TENSORS] = {"a", "b", "c", "d", "e"};

/* ---- random layouts ---- */

typedef struct drawing {
    char *text;
    size_t n;
} drawing;

static void add(drawing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(drawing *w, const char *format, ...) {
    va_list list;
    va_start(list, format);
    w->n += (size_t)vsnprintf(w->text + w->n, 300 - w->n, format, list);
    va_end(list);
    assert_true(w->n < 300);
}

static void add_rule(drawing *w) {
    static const char *const rules[] = {"", "", "~", "%2", "%3", ":1", ":2"};
    add(w, "%s", rules[below(7)]);
}

/* Adds a dim, cut along the axis or whole, sometimes in segments. */
static void add_dim(drawing *w, int64_t size, const char *axis) {
    int64_t first = size ? below(size) : 0;
    if (axis && size > 2 && !below(3)) {
        add(w, "(%lld|%lld)/%s%s", (long long)first, (long long)(size - first), axis, below(2) ? "~" : "");
    } else if (axis && size > 2 && !below(4)) {
        /* the second segment is replicated */
        add(w, "(%lld/%s|%lld)", (long long)first, axis, (long long)(size - first));
    } else {
        add(w, "%lld", (long long)size);
        if (axis) add(w, "/%s", axis), add_rule(w);
    }
}

/* Draws boxes of rows that are assigned to ranks in turn, so that some ranks have several. */
static void draw_boxes(drawing *w, int ndim, const int64_t *shape, int ranks) {
    int64_t step = 1 + below(4);
    for (int d = 0; d < ndim; d++) add(w, "%s%lld", d ? ", " : "", (long long)shape[d]);
    add(w, "] boxes");
    for (int64_t lo = 0; lo < shape[0]; lo += step) {
        add(w, " %d:[%lld:%lld", (int)below(ranks), (long long)lo,
            (long long)(lo + step < shape[0] ? lo + step : shape[0]));
        for (int d = 1; d < ndim; d++) add(w, ",0:%lld", (long long)shape[d]);
        add(w, "]");
    }
}

static void draw(char *text, const char *dtype, int ndim, const int64_t *shape, int ranks) {
    drawing w = {text, 0};
    int x = ranks % 2 == 0 ? 2 : ranks % 3 == 0 ? 3 : 1, y = ranks / x;
    add(&w, "%s[", dtype);
    if (ndim && !below(6)) {
        draw_boxes(&w, ndim, shape, ranks);
        return;
    }
    int dim_x = ndim ? (int)below(ndim + 1) : 0, dim_y = ndim ? (int)below(ndim + 1) : 0;
    bool flat = ndim && !below(5);
    for (int d = 0; d < ndim; d++) {
        const char *axis = d == dim_x && !flat ? "x" : d == dim_y && dim_y != dim_x ? "y" : NULL;
        add(&w, "%s", d ? ", " : "");
        if (flat)
            add(&w, "%lld%s", (long long)shape[d], axis ? "/y" : "");
        else
            add_dim(&w, shape[d], axis);
    }
    add(&w, "]%s on x=%d,y=%d", flat ? "/x" : "", x, y);
    if (ndim == 2 && !flat && !below(3)) add(&w, " order(1,0)");
}

static void draw_job(job *j) {
    static const char *const dtypes[] = {"u8", "i16", "f32", "f64", "c64"};
    for (int k = 0; k < 2; k++) j->ranks[k] = 1 + (int)below(MOST);
    for (int t = 0; t < TENSORS; t++) {
        j->ndim[t] = (int)below(4);
        j->dtype[t] = dtypes[below(5)];
        for (int d = 0; d < j->ndim[t]; d++) j->shape[t][d] = below(12) ? 1 + below(11) : 0;
        for (int k = 0; k < 2; k++) draw(j->layout[k][t], j->dtype[t], j->ndim[t], j->shape[t], j->ranks[k]);
    }
    snprintf(j->path, sizeof j->path, "%s/%lld", folder, (long long)below(1000000000));
}

/* ---- save and load ---- */

static rsh_status make(rsh_comm *comm, const job *j, int k, rsh_sharded **s) {
    for (int t = 0; t < TENSORS; t++) {
        rsh_layout *l;
        RSH_TRY(rsh_layout_parse(j->layout[k][t], &l));
        rsh_status st = rsh_sharded_zeros(comm, l, &s[t]);
        rsh_layout_free(l);
        RSH_TRY(st);
    }
    return RSH_OK;
}

/* Sets or checks all elements; every byte depends on the element's global index.  Returns the number of wrong ones. */
static int64_t walk(const rsh_sharded *s, bool set) {
    const rsh_layout *l = rsh_sharded_layout(s);
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), wrong = 0;
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        unsigned char *data = rsh_tensor_data(rsh_sharded_part(s, p));
        for (int64_t i = 0; i < rsh_tensor_count(rsh_sharded_part(s, p)); i++) {
            int64_t index[RSH_MAX_NDIM], at = 0;
            must(rsh_layout_global_index(l, rsh_comm_rank(rsh_sharded_comm(s)), p, i, index));
            for (int d = 0; d < rsh_layout_ndim(l); d++) at = at * rsh_layout_shape(l)[d] + index[d];
            for (int64_t b = at * size; b < (at + 1) * size; b++, data++) {
                if (set) *data = (unsigned char)(1 + 7 * b);
                wrong += *data != (unsigned char)(1 + 7 * b);
            }
        }
    }
    return wrong;
}

static rsh_status save(void *ctx, rsh_comm *comm) {
    const job *j = ctx;
    rsh_sharded *s[TENSORS] = {NULL};
    rsh_status st = make(comm, j, 0, s);
    for (int t = 0; t < TENSORS && !st; t++) walk(s[t], true);
    if (!st) st = rsh_ckpt_save(comm, j->path, TENSORS, names, (const rsh_sharded *const *)s, NULL);
    for (int t = 0; t < TENSORS; t++) rsh_sharded_free(s[t]);
    return st;
}

static rsh_status load(void *ctx, rsh_comm *comm) {
    const job *j = ctx;
    rsh_sharded *s[TENSORS] = {NULL};
    rsh_ckpt *c = NULL;
    rsh_status st = make(comm, j, 1, s);
    if (!st) st = rsh_ckpt_open(j->path, NULL, &c);
    if (!st) st = rsh_ckpt_load(c, comm, TENSORS, names, s, NULL);
    for (int t = 0; t < TENSORS && !st; t++)
        if (walk(s[t], false)) st = rshi_fail(RSH_ERUNTIME, "%s: wrong values", names[t]);
    for (int t = 0; t < TENSORS; t++) rsh_sharded_free(s[t]);
    rsh_ckpt_free(c);
    return st;
}

/* Also reads whole tensors without ranks. */
static rsh_status read_whole_tensors(const job *j) {
    rsh_ckpt *c = NULL;
    RSH_TRY(rsh_ckpt_open(j->path, NULL, &c));
    rsh_status st = RSH_OK;
    for (int t = 0; t < TENSORS && !st; t++) {
        int64_t number = rsh_ckpt_find(c, names[t]), n = tensor_bytes(c, number);
        unsigned char *got = read_whole(c, number, NULL);
        for (int64_t b = 0; b < n && !st; b++)
            if (got[b] != (unsigned char)(1 + 7 * b))
                st = rshi_fail(RSH_ERUNTIME, "%s: byte %lld", names[t], (long long)b);
        free(got);
    }
    rsh_ckpt_free(c);
    return st;
}

static void random_layouts_become_random_layouts(void **state) {
    (void)state;
    static const int node[MOST] = {0, 1, 0, 1, 1, 2};
    const char *cases = getenv("RESHARD_CASES");
    uint64_t start = seed_of_tests();
    int64_t n = cases ? rshi_min(atoll(cases), 2000) : CASES;
    for (int64_t i = 0; i < n; i++) {
        static job j;
        uint64_t this = seed = start + (uint64_t)i;
        memset(&j, 0, sizeof j);
        draw_job(&j);
        alarm(100);
        rsh_status st = rsh_run(j.ranks[0], save, &j);
        if (!st) st = i % 2 ? rsh_run(j.ranks[1], load, &j) : run_on_nodes(j.ranks[1], node, load, &j);
        if (!st) st = read_whole_tensors(&j);
        alarm(0);
        if (!st) continue;
        for (int t = 0; t < TENSORS; t++) print_message("%s: %s -> %s\n", names[t], j.layout[0][t], j.layout[1][t]);
        fail_msg("RESHARD_SEED=%llu: %s", (unsigned long long)this, rsh_error_detail());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {IN_FOLDER(random_layouts_become_random_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

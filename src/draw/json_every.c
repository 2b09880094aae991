/* Every rank: writes what each rank holds, sends, receives and keeps as compressed columns.  Pages that list only some
 * ranks in detail need them.
 *
 * The first column has the difference from each rank to the next, starting from 0.  A column is the greatest common
 * divisor of its values (the unit) and a text of words.  A word in base 36 is a value in units; "distance*length"
 * repeats `length` values from `distance` values before.  Regular meshes give short columns.  If all columns together
 * are too long for a page, they are omitted. */
#include "draw/impl.h"

#include "plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 1200000 /* limit of all columns together */
#define SLOTS 65536        /* of the hash table of neighbouring values; a power of 2 */
#define SHORTEST 3         /* smallest number of values that is written as a repetition */

enum { STEPS, BEFORE, AFTER, SENT, RECEIVED, KEPT, COLUMNS };

typedef struct table {
    int64_t *rank; /* owned: ascending */
    int64_t n;
    int64_t *column[COLUMNS]; /* owned; NULL: omitted */
    int64_t filled;           /* number of values in the last three columns */
    rshi_text text;           /* owned: columns as JSON */
} table;

/* ---- filling the columns ---- */

static rsh_status list_ranks(const rshi_scene *s, table *t) {
    const rsh_layout *l = s->side[0].layout;
    const int64_t *known = s->plan ? rshi_plan_ranks(s->plan, &t->n) : NULL;
    if (!known) t->n = rsh_layout_nranks(l);
    t->rank = rshi_alloc((size_t)t->n + 1, sizeof *t->rank);
    if (!t->rank) return rshi_nomem();
    for (int64_t i = 0; i < t->n; i++) t->rank[i] = known ? known[i] : rsh_layout_rank(l, i);
    if (!known) qsort(t->rank, (size_t)t->n, sizeof *t->rank, rshi_compare_int64);
    return RSH_OK;
}

static rsh_status new_column(table *t, int which) {
    t->column[which] = rshi_calloc((size_t)t->n + 1, sizeof *t->column[which]);
    return t->column[which] ? RSH_OK : rshi_nomem();
}

static rsh_status fill_steps(table *t) {
    RSH_TRY(new_column(t, STEPS));
    for (int64_t i = 0; i < t->n; i++) t->column[STEPS][i] = t->rank[i] - (i ? t->rank[i - 1] : 0);
    return RSH_OK;
}

static rsh_status fill_held(table *t, int which, const rsh_layout *l) {
    RSH_TRY(new_column(t, which));
    for (int64_t i = 0; i < t->n; i++) RSH_TRY(rshi_held_bytes(l, t->rank[i], &t->column[which][i]));
    return RSH_OK;
}

static int add_moved(void *ctx, int64_t rank, int64_t sent, int64_t received, int64_t kept) {
    table *t = ctx;
    (void)rank;
    t->column[SENT][t->filled] = sent;
    t->column[RECEIVED][t->filled] = received;
    t->column[KEPT][t->filled++] = kept;
    return 0;
}

static rsh_status fill_table(const rshi_scene *s, table *t) {
    RSH_TRY(list_ranks(s, t));
    RSH_TRY(fill_steps(t));
    for (int i = 0; i < s->nsides; i++) RSH_TRY(fill_held(t, BEFORE + i, s->side[i].layout));
    if (!s->plan) return RSH_OK;
    for (int i = SENT; i <= KEPT; i++) RSH_TRY(new_column(t, i));
    return rsh_plan_each_rank(s->plan, add_moved, t);
}

static void table_free(table *t) {
    rshi_free(t->rank);
    for (int i = 0; i < COLUMNS; i++) rshi_free(t->column[i]);
    rshi_text_free(&t->text);
}

/* ---- words ---- */

static const char *base_36(int64_t v, char room[16]) {
    char *p = room + 15;
    *p = '\0';
    do *--p = "0123456789abcdefghijklmnopqrstuvwxyz"[v % 36];
    while (v /= 36);
    return p;
}

static void put_word(rshi_text *t, int64_t distance, int64_t value) {
    char a[16], b[16];
    if (distance)
        rshi_text_add(t, " %s*%s", base_36(distance, a), base_36(value, b));
    else
        rshi_text_add(t, " %s", base_36(value, a));
}

/* Returns the last position where values i and i + 1 may have occurred (-1: none), and stores i there. */
static int64_t seen_before(int64_t *slot, const int64_t *v, int64_t i) {
    uint64_t mixed = ((uint64_t)v[i] * 0x9e3779b97f4a7c15u) ^ ((uint64_t)v[i + 1] * 0xc2b2ae3d27d4eb4fu);
    int64_t *at = &slot[(mixed >> 32) % SLOTS], before = *at;
    *at = i + 1;
    return before - 1;
}

static int64_t repeated(const int64_t *v, int64_t n, int64_t from, int64_t i) {
    int64_t k = 0;
    while (from >= 0 && i + k < n && v[from + k] == v[i + k]) k++;
    return k;
}

static void put_words(rshi_text *t, const int64_t *v, int64_t n, int64_t unit, int64_t *slot) {
    memset(slot, 0, SLOTS * sizeof *slot);
    for (int64_t i = 0, k; i < n; i += k) {
        int64_t from = i + 1 < n ? seen_before(slot, v, i) : -1;
        k = repeated(v, n, from, i);
        bool worth = k >= SHORTEST;
        put_word(t, worth ? i - from : 0, worth ? k : v[i] / unit);
        if (!worth) k = 1;
        for (int64_t j = i + 1; j < i + k && j + 1 < n; j++) seen_before(slot, v, j);
    }
}

static rsh_status put_column(table *t, int which, int64_t *slot) {
    static const char *const name[] = {"steps", "before", "after", "sent", "received", "kept"};
    const int64_t *v = t->column[which];
    int64_t unit = 0;
    if (!v) return RSH_OK;
    for (int64_t i = 0; i < t->n; i++) unit = rshi_gcd(unit, v[i]);
    unit = rshi_max(unit, 1);
    rshi_text_add(&t->text, "%s\n\"%s\":[%" PRId64 ",\"", which ? "," : "", name[which], unit);
    put_words(&t->text, v, t->n, unit, slot);
    rshi_text_add(&t->text, "\"]");
    return t->text.failed ? rshi_nomem() : RSH_OK;
}

static rsh_status write_table(table *t, const rsh_sink *sink) {
    int64_t *slot = rshi_alloc(SLOTS, sizeof *slot);
    rsh_status st = slot ? RSH_OK : rshi_nomem();
    for (int i = 0; i < COLUMNS && !st; i++) st = put_column(t, i, slot);
    rshi_free(slot);
    if (st || t->text.length > MOST_BYTES) return st;
    RSH_TRY(rshi_sink_text(sink, "\"every\":{"));
    RSH_TRY(rshi_sink_text(sink, t->text.data));
    return rshi_sink_text(sink, "},\n");
}

rsh_status rshi_json_every(const rshi_scene *s, const rsh_sink *sink) {
    table t = {0};
    rsh_status st = fill_table(s, &t);
    if (!st) st = write_table(&t, sink);
    table_free(&t);
    return st;
}

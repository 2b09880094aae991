/* Print: canonical text, and parse(print(x)) == x for random layouts of every form, with any spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/layout.h>

#include "base/base.h"
#include "seed.h"

static rsh_layout *parsed(const char *text) {
    rsh_layout *l;
    if (rsh_layout_parse(text, &l)) fail_msg("\"%s\": %s", text, rsh_error_detail());
    return l;
}

static void spelling_becomes_canonical(void **state) {
    static const char *const table[][2] = {
        {" f32 [ ] ", "f32[]"},
        {"f32[4096,11008]", "f32[4096, 11008]"},
        {"f32[007]", "f32[7]"},
        {"f8e4m3[4 / ( tp ) , 8]on dp = 2 , tp = 4", "f8e4m3[4/tp, 8] on dp=2,tp=4"},
        {"f32[4096/(dp, tp) % 128] on dp=2,tp=4", "f32[4096/(dp,tp)%128] on dp=2,tp=4"},
        {"f32[4096/( tp,dp )] on dp=2,tp=4", "f32[4096/(tp,dp)] on dp=2,tp=4"},
        {"f32[10 /tp ~,10/dp : 3] on dp=2,tp=4", "f32[10/tp~, 10/dp:3] on dp=2,tp=4"},
        {"f32[10/tp { 4, 3, 0, 3 }] on tp=4", "f32[10/tp{4,3,0,3}] on tp=4"},
        {"f32[(4096 | 1024 | 1024) / tp] on tp=4", "f32[(4096|1024|1024)/tp] on tp=4"},
        {"f32[(8/(tp)|0/tp)] on tp=4", "f32[(8/tp|0/tp)] on tp=4"},
        {"f32[( 4096/(kv,rep)|1024/kv|1024/kv )] on kv=2,rep=2", "f32[(4096/(kv,rep)|1024/kv|1024/kv)] on kv=2,rep=2"},
        {"f32[(8/x~|4/x:2|2)] on x=2", "f32[(8/x~|4/x:2|2)] on x=2"},
        {"f32[(4096)/tp] on tp=4", "f32[4096/tp] on tp=4"},
        {"f32[(4096/tp:2)] on tp=4", "f32[4096/tp:2] on tp=4"},
        {"f32[1000,37] / dp on dp=4", "f32[1000, 37]/dp on dp=4"},
        {"f32[1000/tp,37]/(dp , pp)~ on dp=4,tp=2,pp=2", "f32[1000/tp, 37]/(dp,pp)~ on dp=4,tp=2,pp=2"},
        {"f32[]/x on x=2", "f32[]/x on x=2"},
        {"f32[8]/x{3,5} on x=2", "f32[8]/x{3,5} on x=2"},
        {"f32[4] on x=4@[0,1,2,3]", "f32[4] on x=4"},
        {"f32[4] on x=4@0-3", "f32[4] on x=4"},
        {"f32[4] on x=4 @ [8, 9, 10, 11]", "f32[4] on x=4@8-11"},
        {"f32[4] on x=4 @ 8 - 11", "f32[4] on x=4@8-11"},
        {"f32[4] on x=4@[3,2,1,0]", "f32[4] on x=4@[3,2,1,0]"},
        {"f32[4] on x=1@[5]", "f32[4] on x=1@5-5"},
        {"f32[4] on a=2,b=2 sum ( b, a )", "f32[4] on a=2,b=2 sum(a,b)"},
        {"f32[4]on a=2sum(a)order(0)", "f32[4] on a=2 sum(a)"},
        {"f32[4,4] order(0,1)", "f32[4, 4]"},
        {"f32[4,4,4] order( 2,0,1 )", "f32[4, 4, 4] order(2,0,1)"},
        {"f32[8,8]boxes 1, 5 : [ 4:8 , 0:8 ] 0:[0:4,0:8]", "f32[8, 8] boxes 0:[0:4,0:8] 1,5:[4:8,0:8]"},
        {"f32[4] boxes 7,2:[0:1] 3:[1:2] 2:[2:4]", "f32[4] boxes 2,7:[0:1] 2:[2:4] 3:[1:2]"},
        {"f32[4] boxes 5:[0:1] 0,5:[1:2] 1:[2:4]", "f32[4] boxes 1:[2:4] 5:[0:1] 0,5:[1:2]"},
        {"f32[0,4]boxes", "f32[0, 4] boxes"},
        {"f32[]boxes 3:[]", "f32[] boxes 3:[]"},
        {"\tf32[4\n/x]\v\f\ron\nx=2\n", "f32[4/x] on x=2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rsh_layout *l = parsed(table[i][0]), *again = parsed(table[i][1]);
        assert_string_equal(rsh_layout_text(l), table[i][1]);
        assert_string_equal(rsh_layout_text(again), table[i][1]);
        assert_true(rsh_layout_equal(l, again));
        assert_true(rsh_layout_hash(l) == rsh_layout_hash(again));
        rsh_layout_free(l);
        rsh_layout_free(again);
    }
}

static void layouts_that_differ_in_more_than_spelling_are_not_equal(void **state) {
    static const char *const pairs[][2] = {
        {"f32[6/x] on x=3", "f32[6/x~] on x=3"},
        {"f32[8/(a,b)] on a=2,b=2", "f32[8/(b,a)] on a=2,b=2"},
        {"f32[(4|4)/x] on x=2", "f32[(4/x|4/x)] on x=2"},
        {"f32[4]", "f32[4] on x=1"},
        {"f32[4] boxes 0:[0:2] 0:[2:4]", "f32[4] boxes 0:[2:4] 0:[0:2]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        rsh_layout *a = parsed(pairs[i][0]), *b = parsed(pairs[i][1]);
        assert_false(rsh_layout_equal(a, b));
        assert_true(rsh_layout_hash(a) != rsh_layout_hash(b));
        rsh_layout_free(a);
        rsh_layout_free(b);
    }
}

static void a_hold_is_the_same_layout_and_keeps_it(void **state) {
    rsh_layout *l = parsed("f32[(8/x|4), 10/y{4,6}] on x=2,y=2@[3,1,2,0] order(1,0)");
    (void)state;
    rsh_layout *held = rsh_layout_hold(l);
    assert_ptr_equal(held, l);
    assert_true(rsh_layout_equal(l, held));
    rsh_layout_free(l);
    assert_string_equal(rsh_layout_text(held), "f32[(8/x|4), 10/y{4,6}] on x=2,y=2@[3,1,2,0] order(1,0)");
    rsh_layout_free(held);
    assert_null(rsh_layout_hold(NULL));
}

/* Blocks marked "layout" in the manual have one canonical text per line; tables have `text` | `error`. */
static void the_manual_is_right(void **state) {
    FILE *f = fopen("docs/notation.md", "r");
    char line[512];
    int layouts = 0, errors = 0;
    bool inside = false;
    (void)state;
    if (!f) fail_msg("docs/notation.md is not here: run this test from the root of the repository, as ctest does");
    while (fgets(line, sizeof line, f)) {
        char text[256], error[256];
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "```", 3)) {
            inside = !strcmp(line, "```layout");
        } else if (inside) {
            rsh_layout *l = parsed(line);
            assert_string_equal(rsh_layout_text(l), line);
            rsh_layout_free(l);
            layouts++;
        } else if (sscanf(line, "| `%255[^`]` | `layout:%255[^`]`", text, error) == 2) {
            rsh_layout *l;
            assert_true(rsh_layout_parse(text, &l) != RSH_OK);
            assert_string_equal(rsh_error_detail() + strlen("layout:"), error);
            errors++;
        }
    }
    fclose(f);
    assert_true(layouts > 20 && errors > 4);
}

/* ---- random layouts ---- */

static uint64_t random_state;

static int64_t below(int64_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

/* Tokens are written with "`" where blanks are allowed and " " where at least one is required. */
typedef struct maker {
    char text[16384];
    size_t length;
    int ndim, naxes;
    int64_t axis[4], shape[3];
    int role[4]; /* role of each axis: a dim, FLAT, PARTIAL or REPLICATE */
} maker;

enum { FLAT = 10, PARTIAL, REPLICATE };

static void put(maker *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(maker *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    m->length += (size_t)vsnprintf(m->text + m->length, sizeof m->text - m->length, format, args);
    va_end(args);
    assert_true(m->length < sizeof m->text);
}

/* Lists the axes with `role` in any order; returns their number. */
static int axes_of(const maker *m, int role, int *axes) {
    int n = 0;
    for (int a = 0; a < m->naxes; a++)
        if (m->role[a] == role) axes[n++] = a;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)below(i + 1), t = axes[i];
        axes[i] = axes[j], axes[j] = t;
    }
    return n;
}

static void put_axes(maker *m, int n, const int *axes) {
    bool parentheses = n > 1 || !below(4);
    if (parentheses) put(m, "(`");
    for (int i = 0; i < n; i++) put(m, "%sax_%d`", i ? ",`" : "", axes[i]);
    if (parentheses) put(m, ")`");
}

static void put_sizes(maker *m, int n, const int *axes, int64_t size) {
    int64_t parts = 1;
    for (int i = 0; i < n; i++) parts *= m->axis[axes[i]];
    put(m, "{`");
    for (int64_t k = 0; k < parts; k++) {
        int64_t part = k < parts - 1 ? below(size + 1) : size;
        put(m, "%s%lld`", k ? ",`" : "", (long long)part);
        size -= part;
    }
    put(m, "}`");
}

/* Writes a cut of `size` with one of `rules`; "-" stands for no rule. */
static void put_cut(maker *m, int n, const int *axes, int64_t size, const char *rules) {
    if (!n) return;
    put(m, "/`");
    put_axes(m, n, axes);
    switch (rules[below((int64_t)strlen(rules))]) {
    case '~': put(m, "~`"); break;
    case '%': put(m, "%%`%lld`", (long long)(1 + below(5))); break;
    case ':': put(m, ":`%lld`", (long long)(1 + below(5))); break;
    case '{': put_sizes(m, n, axes, size); break;
    default: break;
    }
}

static void put_dim(maker *m, int d) {
    int axes[4], n = axes_of(m, d, axes);
    m->shape[d] = below(40);
    if (!n || below(2)) {
        put(m, "%lld`", (long long)m->shape[d]);
        put_cut(m, n, axes, m->shape[d], "-~%:{");
        return;
    }
    bool group = below(2);
    m->shape[d] = 0;
    put(m, "(`");
    for (int64_t s = 0, count = 1 + below(4); s < count; s++) {
        int64_t size = below(20);
        put(m, "%s%lld`", s ? "|`" : "", (long long)size);
        if (!group) put_cut(m, s ? (int)below(n + 1) : n, axes, size, "-~%:");
        m->shape[d] += size;
    }
    put(m, ")`");
    if (group) put_cut(m, n, axes, 0, "-~%:");
}

static void put_ranks(maker *m) {
    int64_t n = 1, rank[256];
    for (int a = 0; a < m->naxes; a++) n *= m->axis[a];
    if (!below(3)) {
        put(m, "@`%d`-`%d`", 7, 6 + (int)n);
    } else if (below(2)) {
        for (int64_t i = 0; i < n; i++) {
            int64_t j = below(i + 1);
            rank[i] = rank[j], rank[j] = 3 * i;
        }
        put(m, "@`[`");
        for (int64_t i = 0; i < n; i++) put(m, "%s%lld`", i ? ",`" : "", (long long)rank[i]);
        put(m, "]`");
    }
}

static void put_order(maker *m) {
    int order[3] = {0, 1, 2};
    for (int i = m->ndim - 1; i > 0; i--) {
        int j = (int)below(i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    put(m, "order`(`");
    for (int d = 0; d < m->ndim; d++) put(m, "%s%d`", d ? ",`" : "", order[d]);
    put(m, ")`");
}

static void make_placement(maker *m) {
    int axes[4], nflat, npartial;
    int64_t count = 1;
    bool whole_dims = true;
    m->naxes = (int)below(5);
    for (int a = 0; a < m->naxes; a++) {
        m->axis[a] = 1 + below(4);
        m->role[a] = below(2) && m->ndim ? (int)below(m->ndim) : FLAT + (int)below(3);
        whole_dims = whole_dims && m->role[a] >= FLAT;
    }
    for (int d = 0; d < m->ndim; d++) {
        if (d) put(m, ",`");
        put_dim(m, d);
        count *= m->shape[d];
    }
    put(m, "]`");
    nflat = axes_of(m, FLAT, axes);
    put_cut(m, nflat, axes, count, whole_dims ? "-~%{" : "-~%");
    if (m->naxes) put(m, nflat ? " on " : "on "); /* without the blank, "/xon" would be an axis */
    for (int a = 0; a < m->naxes; a++) put(m, "%sax_%d`=`%lld`", a ? ",`" : "", a, (long long)m->axis[a]);
    if (m->naxes) put_ranks(m);
    npartial = axes_of(m, PARTIAL, axes);
    if (npartial) put(m, "%s`(`", below(2) ? "sum" : "max");
    for (int i = 0; i < npartial; i++) put(m, "%sax_%d`", i ? ",`" : "", axes[i]);
    if (npartial) put(m, ")`");
    if (!nflat && m->ndim && below(2)) put_order(m);
}

/* Makes slabs along dim 0, with other dims whole, on random ranks. */
static void make_boxes(maker *m) {
    for (int d = 0; d < m->ndim; d++) put(m, "%s%lld`", d ? ",`" : "", (long long)(m->shape[d] = below(9)));
    put(m, "]`boxes ");
    int64_t end = m->ndim ? m->shape[0] : 1;
    for (int64_t lo = 0, hi; lo < end; lo = hi) {
        hi = m->ndim ? lo + 1 + below(end - lo) : end;
        int first = (int)below(5);
        put(m, "%d`", first + 1);
        if (below(2)) put(m, ",`%d`", first);
        put(m, ":`[`");
        for (int d = 0; d < m->ndim; d++)
            put(m, "%s%lld`:`%lld`", d ? ",`" : "", (long long)(d ? 0 : lo), (long long)(d ? m->shape[d] : hi));
        put(m, "]`");
    }
}

/* Writes the text with random blanks; `out` must be 8 times as large. */
static void spell(const maker *m, char *out) {
    static const char blanks[] = " \t\n\r";
    for (const char *c = m->text; *c; c++) {
        if (*c != '`' && *c != ' ') *out++ = *c;
        if (*c == ' ') *out++ = blanks[below(4)];
        if (*c == '`' || *c == ' ')
            while (!below(4)) *out++ = blanks[below(4)];
    }
    *out = 0;
}

static void check_round_trip(const maker *m, uint64_t seed) {
    static char one[8 * sizeof m->text], two[8 * sizeof m->text];
    rsh_layout *a, *b = NULL, *c = NULL;
    spell(m, one);
    spell(m, two);
    rsh_status st = rsh_layout_parse(one, &a);
    if (st) fail_msg("RESHARD_SEED=%llu: \"%s\": %s", (unsigned long long)seed, one, rsh_error_detail());
    bool same = !rsh_layout_parse(two, &b) && !rsh_layout_parse(rsh_layout_text(a), &c) && rsh_layout_equal(a, b) &&
                rsh_layout_equal(a, c) && rsh_layout_hash(a) == rsh_layout_hash(c);
    if (!same) fail_msg("RESHARD_SEED=%llu: \"%s\" became \"%s\"", (unsigned long long)seed, one, rsh_layout_text(a));
    rsh_layout_free(a);
    rsh_layout_free(b);
    rsh_layout_free(c);
}

static void printing_and_parsing_again_changes_nothing(void **state) {
    uint64_t seed = seed_or(1);
    (void)state;
    random_state = seed;
    for (int round = 0; round < 5000; round++) {
        static maker m;
        m = (maker){.ndim = (int)below(4)};
        put(&m, "`%s`[`", rsh_dtype_name(below(2) ? RSH_F32 : RSH_U8));
        if (below(4))
            make_placement(&m);
        else
            make_boxes(&m);
        check_round_trip(&m, seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spelling_becomes_canonical),
        cmocka_unit_test(layouts_that_differ_in_more_than_spelling_are_not_equal),
        cmocka_unit_test(a_hold_is_the_same_layout_and_keeps_it),
        cmocka_unit_test(the_manual_is_right),
        cmocka_unit_test(printing_and_parsing_again_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Gen: counts how often random pairs of layouts have features that once hid a bug, so that a change of the generators
 * cannot make them rare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "gen.h"
#include "seed.h"

enum { PAIRS = 4000 };

typedef struct features {
    bool empty_segment, single_axis, flat, flat_over_replicas, boxes, partial;
} features;

/* Returns the end of the group that begins with the parenthesis at `at`. */
static const char *group_end(const char *at) {
    int depth = 0;
    do depth += (*at == '(') - (*at == ')');
    while (*at++ && depth);
    return at;
}

/* Sizes of segments, as in (8|0|4/x), follow the parenthesis and each bar. */
static void look_at_segments(const char *at, const char *end, features *f) {
    for (; at < end; at++)
        if ((*at == '(' || *at == '|') && at[1] == '0' && !strchr("0123456789", at[2])) f->empty_segment = true;
}

static bool has(const char *from, const char *end, char what) { return memchr(from, what, (size_t)(end - from)); }

/* Do segments have their own cuts, so that some of them are replicated along axes that cut others? */
static bool look_at_dims(const char *text, const char *end, features *f) {
    bool own = false;
    for (const char *at = strchr(text, '['); at < end; at++) {
        if (*at != '(' || (at[-1] != '[' && at[-1] != ' ')) continue;
        const char *stop = group_end(at);
        look_at_segments(at, stop, f);
        own = own || (has(at, stop, '|') && has(at, stop, '/'));
    }
    return own;
}

static features look(const char *text) {
    features f = {0};
    const char *end = strchr(text, ']'), *mesh = strstr(text, " on ");
    bool own = look_at_dims(text, end, &f);
    f.flat = end[1] == '/';
    f.flat_over_replicas = f.flat && own;
    f.boxes = strstr(text, " boxes") != NULL;
    for (const char *at = mesh; at && (at = strstr(at, "=1")); at += 2)
        if (!strchr("0123456789", at[2]) || !at[2]) f.single_axis = true;
    for (int op = ORA_NONE + 1; mesh && op < ORA_OPS; op++) {
        char name[16];
        snprintf(name, sizeof name, " %s(", ora_op_name((ora_op)op));
        f.partial = f.partial || strstr(mesh, name);
    }
    return f;
}

typedef struct tally {
    int empty_segment, single_axis, flat_over_replicas, partial_flat_over_replicas, boxes, partial_to_boxes;
} tally;

static tally count(const gen_pair_wish *w) {
    gen_rng g = {seed_of_tests()};
    tally n = {0};
    for (int i = 0; i < PAIRS; i++) {
        char from[GEN_TEXT], to[GEN_TEXT];
        gen_pair(&g, w, from, to);
        features a = look(from), b = look(to);
        n.empty_segment += a.empty_segment || b.empty_segment;
        n.single_axis += a.single_axis || b.single_axis;
        n.flat_over_replicas += a.flat_over_replicas || b.flat_over_replicas;
        n.partial_flat_over_replicas += a.flat_over_replicas && a.partial;
        n.boxes += a.boxes || b.boxes;
        n.partial_to_boxes += a.partial && b.boxes;
    }
    return n;
}

#define AT_LEAST(percent, n) \
    do { \
        print_message("%5.1f %% %s\n", 100.0 * (n) / PAIRS, #n); \
        assert_true(100 * (n) >= (percent) * PAIRS); \
    } while (0)

static void pairs_have_what_is_rare_in_practice(void **state) {
    (void)state;
    const gen_pair_wish any = {40, 35, false, true, 12, false};
    tally n = count(&any);
    AT_LEAST(20, n.empty_segment);
    AT_LEAST(50, n.single_axis);
    AT_LEAST(15, n.flat_over_replicas);
    AT_LEAST(2, n.partial_flat_over_replicas);
    AT_LEAST(20, n.boxes);
    AT_LEAST(6, n.partial_to_boxes);
}

static void pairs_with_partial_sources_have_it_too(void **state) {
    (void)state;
    const gen_pair_wish sums = {100, 20, false, true, 12, false};
    tally n = count(&sums);
    AT_LEAST(20, n.empty_segment);
    AT_LEAST(5, n.partial_flat_over_replicas);
    AT_LEAST(15, n.partial_to_boxes);
}

static void some_ranks_share_a_node_and_some_do_not(void **state) {
    (void)state;
    gen_rng g = {seed_of_tests()};
    int shared = 0, scattered = 0;
    for (int i = 0; i < PAIRS; i++) {
        int64_t node_of[GEN_MAX_ROLES];
        int together = 0, apart = 0;
        gen_nodes(&g, node_of);
        for (int r = 1; r < GEN_MAX_ROLES; r++) {
            together += node_of[r] == node_of[r - 1];
            for (int q = 0; q + 1 < r; q++) apart += node_of[q] == node_of[r] && node_of[r - 1] != node_of[r];
        }
        shared += together > 0;
        scattered += apart > 0;
    }
    AT_LEAST(50, shared);
    AT_LEAST(30, scattered);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_have_what_is_rare_in_practice),
        cmocka_unit_test(pairs_with_partial_sources_have_it_too),
        cmocka_unit_test(some_ranks_share_a_node_and_some_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

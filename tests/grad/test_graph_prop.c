/* Gradients of random graphs compared with finite differences. */
#include "grad/small_ops.h"
#include "seed.h"

#include <math.h>

enum { CASES = 300, LEAVES = 3, MOST = 24, WIDTH = 4 };

static uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int below(uint64_t *seed, int n) { return (int)(draw(seed) % (uint64_t)n); }
static double number(uint64_t *seed) { return (double)(draw(seed) >> 11) / (double)(1ull << 53) * 1.2 - 0.6; }

/* A graph is a list of ops on existing values; half of its values are freed while it grows. */
typedef struct step {
    int op, a, b;
} step;
typedef struct graph {
    int n;
    step step[MOST];
    double x[LEAVES][WIDTH];
    bool wanted[LEAVES];
} graph;

static graph random_graph(uint64_t *seed) {
    graph g = {.n = 2 + below(seed, MOST - 2)};
    for (int i = 0; i < g.n; i++)
        g.step[i] = (step){below(seed, 6), below(seed, LEAVES + i), below(seed, LEAVES + i)};
    for (int i = 0; i < LEAVES; i++) {
        g.wanted[i] = i == 0 || below(seed, 3);
        for (int k = 0; k < WIDTH; k++) g.x[i][k] = number(seed);
    }
    return g;
}

/* Applies a step.  Values stay small, because they are scaled down twice per level. */
static rsh_status apply(const step *s, rsh_value *const *v, rsh_value **out) {
    rsh_value *t = NULL, *low = NULL, *high = NULL;
    rsh_status st = RSH_OK;
    switch (s->op) {
    case 0: st = small_add(v[s->a], v[s->b], &t); break;
    case 1: return small_mul(v[s->a], v[s->b], out);
    case 2: return small_sin(v[s->a], out);
    case 3: st = small_sin(v[s->a], &low); if (!st) st = small_exp(low, &t); break;
    case 4: return small_scale(v[s->a], -0.5, out);
    default: /* two overlapping halves: a narrow view is an output twice */
        st = small_halves(v[s->a], &low, &high);
        if (!st) st = small_mul(low, high, &t);
        rsh_value_free(low);
        low = NULL;
        if (!st) st = small_sum(t, &low);
        rsh_value_free(t);
        t = NULL;
        if (!st) st = small_sin(v[s->a], &t);
        break;
    }
    rsh_value_free(high);
    if (!st) st = small_scale(t, 0.4, out);
    rsh_value_free(t);
    rsh_value_free(low);
    return st;
}

/* Returns the sum of the last value and, if requested, the gradients of the leaves. */
static double run(const graph *g, double grad[LEAVES][WIDTH], unsigned flags) {
    rsh_value *v[LEAVES + MOST + 1] = {NULL};
    for (int i = 0; i < LEAVES; i++) v[i] = small_leaf(WIDTH, g->x[i], g->wanted[i] && grad);
    for (int i = 0; i < g->n; i++) OK(apply(&g->step[i], v, &v[LEAVES + i]));
    rsh_value **loss = &v[LEAVES + g->n];
    OK(small_sum(v[LEAVES + g->n - 1], loss));
    double sum = small_data(*loss)[0];
    if (grad && rsh_value_requires_grad(*loss)) OK(rsh_backward(*loss, NULL, flags));
    for (int i = 0; grad && i < LEAVES; i++)
        for (int k = 0; k < WIDTH; k++) grad[i][k] = rsh_value_grad(v[i]) ? small_grad(v[i], k) : 0;
    for (int i = 0; i <= LEAVES + g->n; i++) rsh_value_free(v[i]);
    return sum;
}

static double difference(const graph *g, int leaf, int k) {
    const double h = 1e-6;
    graph up = *g, down = *g;
    up.x[leaf][k] += h;
    down.x[leaf][k] -= h;
    return (run(&up, NULL, 0) - run(&down, NULL, 0)) / (2 * h);
}

static void gradients_are_those_of_finite_differences(void **state) {
    (void)state;
    uint64_t seed = seed_or(11);
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    for (int c = 0; c < CASES; c++) {
        graph g = random_graph(&seed);
        double grad[LEAVES][WIDTH], kept[LEAVES][WIDTH];
        run(&g, grad, 0);
        run(&g, kept, RSH_RETAIN_GRAPH);
        assert_memory_equal(grad, kept, sizeof grad);
        for (int i = 0; i < LEAVES; i++)
            for (int k = 0; k < WIDTH && g.wanted[i]; k++) {
                double d = difference(&g, i, k);
                if (fabs(d - grad[i][k]) > 1e-7 * (1 + fabs(d)))
                    fail_msg("case %d, leaf %d, element %d: %.12g, differences say %.12g", c, i, k, grad[i][k], d);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_those_of_finite_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rng: random numbers, shapes, dtypes and ops. */
#include "gen.h"

uint64_t gen_next(gen_rng *g) {
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t gen_below(gen_rng *g, int64_t n) { return n < 1 ? 0 : (int64_t)(gen_next(g) % (uint64_t)n); }
int64_t gen_between(gen_rng *g, int64_t a, int64_t b) { return a + gen_below(g, b - a + 1); }
bool gen_chance(gen_rng *g, int percent) { return gen_below(g, 100) < percent; }

void gen_shuffle(gen_rng *g, int64_t n, int64_t *list) {
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = gen_below(g, i + 1), swap = list[i];
        list[i] = list[j];
        list[j] = swap;
    }
}

void gen_split(gen_rng *g, int64_t total, int64_t n, int64_t *part) {
    for (int64_t i = 0; i < n; i++) part[i] = 0;
    while (total > 0) {
        int64_t step = gen_between(g, 1, total);
        part[gen_below(g, n)] += step;
        total -= step;
    }
}

static int any_ndim(gen_rng *g) {
    int64_t roll = gen_below(g, 100);
    if (roll < 3) return 0;
    if (roll < 28) return 1;
    if (roll < 62) return 2;
    if (roll < 82) return 3;
    if (roll < 93) return 4;
    return (int)gen_between(g, 5, 8);
}

static int64_t any_size(gen_rng *g, int64_t room, int ndim) {
    static const int64_t most[] = {1, 150, 40, 16, 9, 6, 5, 4, 4};
    int64_t top = most[ndim] < room ? most[ndim] : room;
    if (gen_chance(g, 2)) return 0;
    return gen_between(g, 1, top);
}

/* Draws a shape with few elements: the oracle's time is proportional to their number, and few are enough to find most
 * errors of a plan. */
gen_shape gen_any_shape(gen_rng *g) {
    gen_shape s = {any_ndim(g), {0}};
    int64_t room = gen_chance(g, 15) ? 2000 : gen_between(g, 20, 120);
    for (int d = 0; d < s.ndim; d++) {
        s.size[d] = any_size(g, room, s.ndim);
        if (s.size[d] > 0) room /= s.size[d];
        if (room < 1) room = 1;
    }
    return s;
}

gen_shape gen_large_shape(gen_rng *g) {
    gen_shape s = {(int)gen_between(g, 1, 3), {0}};
    int64_t room = gen_between(g, 10000, 80000);
    for (int d = 0; d < s.ndim; d++) {
        s.size[d] = d == s.ndim - 1 ? room : gen_between(g, 2, 150);
        room = room / s.size[d] + 1;
    }
    return s;
}

ora_dtype gen_any_dtype(gen_rng *g) { return (ora_dtype)gen_below(g, ORA_DTYPES); }

ora_dtype gen_dtype_from(gen_rng *g, ora_dtype from) {
    ora_dtype to = gen_any_dtype(g);
    while (!ora_converts(from, to)) to = gen_any_dtype(g);
    return to;
}

ora_op gen_any_op(gen_rng *g, ora_dtype t) {
    ora_op op = ORA_SUM;
    do
        op = (ora_op)gen_between(g, ORA_SUM, ORA_BXOR);
    while (!ora_op_exists(op, t));
    return op;
}

/* Values: random elements, with the awkward ones not left out. */
#include "stage.h"

#include <math.h>
#include <string.h>

static long double any_real(gen_rng *g, bool tame) {
    static const long double special[] = {0.0L,      -0.0L,    1.0L,     0.5L,     448.0L,
                                          464.0L,    65504.0L, 65520.0L, 0x1p-24L, 0x1.fffffep127L,
                                          0x1p-149L, 1e300L,   0x1p63L,  -129.0L};
    if (tame) return (long double)gen_between(g, -3, 3);
    if (gen_chance(g, 4)) return (long double)NAN;
    if (gen_chance(g, 4)) return gen_chance(g, 50) ? (long double)INFINITY : -(long double)INFINITY;
    if (gen_chance(g, 10)) return special[gen_below(g, (int64_t)(sizeof special / sizeof *special))];
    if (gen_chance(g, 60)) return (long double)gen_between(g, -1000, 1000) / 8;
    return ldexpl((long double)(int64_t)gen_next(g), (int)gen_between(g, -90, 30));
}

void value_any(gen_rng *g, ora_dtype t, bool tame, unsigned char *element) {
    ora_number n = {.is_integer = true, .bits = gen_next(g)};
    if (t == ORA_BOOL)
        n.bits &= 1;
    else if (ora_is_float(t) || ora_is_complex(t))
        n = (ora_number){.re = any_real(g, tame), .im = any_real(g, tame)};
    else if (tame || gen_chance(g, 30))
        n.bits = gen_next(g) % 5;
    ora_encode(t, n, element);
    bool any_bits = ora_is_float(t) && !tame && gen_chance(g, 15);
    uint64_t bits = gen_next(g);
    if (any_bits) memcpy(element, &bits, ora_size(t));
}

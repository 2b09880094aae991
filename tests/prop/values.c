/* Values: random elements, including special values. */
#include "stage.h"

#include <math.h>
#include <string.h>

static long double any_real(gen_rng *g) {
    static const long double special[] = {0.0L,      -0.0L,    1.0L,     0.5L,     448.0L,
                                          464.0L,    65504.0L, 65520.0L, 0x1p-24L, 0x1.fffffep127L,
                                          0x1p-149L, 1e300L,   0x1p63L,  -129.0L};
    if (gen_chance(g, 4)) return (long double)NAN;
    if (gen_chance(g, 4)) return gen_chance(g, 50) ? (long double)INFINITY : -(long double)INFINITY;
    if (gen_chance(g, 10)) return special[gen_below(g, (int64_t)(sizeof special / sizeof *special))];
    if (gen_chance(g, 60)) return (long double)gen_between(g, -1000, 1000) / 8;
    return ldexpl((long double)(int64_t)gen_next(g), (int)gen_between(g, -90, 30));
}

/* Returns the bits of the exponent, which are those of infinity (for f8e4m3, which has none, those of its NaN). */
static uint64_t exponent_of(ora_dtype t, size_t component) {
    unsigned char element[16];
    uint64_t bits = 0;
    ora_encode(t, (ora_number){.re = (long double)INFINITY}, element);
    memcpy(&bits, element, component);
    return bits;
}

void value_bits(gen_rng *g, ora_dtype t, unsigned char *element) {
    bool is_complex = ora_is_complex(t), real = ora_is_float(t) || is_complex;
    size_t component = is_complex ? ora_size(t) / 2 : ora_size(t);
    uint64_t exponent = real ? exponent_of(t, component) : 0, sign = (uint64_t)1 << (8 * component - 1);
    for (size_t at = 0; at < ora_size(t); at += component) {
        uint64_t bits = gen_next(g);
        if (gen_chance(g, 40)) bits &= gen_next(g) & gen_next(g) & gen_next(g); /* few bits are set */
        if (gen_chance(g, 35)) bits |= exponent;                                /* in most cases a NaN */
        if (gen_chance(g, 10)) bits &= ~exponent;                               /* exponent 0: a value near 0 */
        /* mantissa 0: infinity, 0, or a power of two */
        if (gen_chance(g, 10)) bits &= exponent | sign;
        memcpy(element + at, &bits, component);
    }
    if (t == ORA_BOOL) element[0] &= 1;
}

void value_any(gen_rng *g, ora_dtype t, unsigned char *element) {
    ora_number n = {.is_integer = true, .bits = gen_next(g)};
    if (t == ORA_BOOL)
        n.bits &= 1;
    else if (ora_is_float(t) || ora_is_complex(t))
        n = (ora_number){.re = any_real(g), .im = any_real(g)};
    else if (gen_chance(g, 30))
        n.bits = gen_next(g) % 5;
    ora_encode(t, n, element);
    if (gen_chance(g, 15)) value_bits(g, t, element);
}

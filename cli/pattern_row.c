/* Pattern rows: generates values, with one inner loop per kind of element. */
#include "pattern_row.h"

#include <string.h>

static uint64_t mixed(int64_t index) { return (uint64_t)index * 0x9e3779b97f4a7c15u; }
static uint64_t value_of(int64_t index, int bits) { return mixed(index) >> (64 - bits); }
/* Returns which of n contributions has the value at an index; the others are neutral. */
static int64_t holder_of(int64_t index, int64_t n) {
    return (int64_t)(((mixed(index) & 0xffffffff) * (uint64_t)n) >> 32);
}

typedef struct pair32 {
    float real, imaginary;
} pair32;
typedef struct pair64 {
    double real, imaginary;
} pair64;

#define ROW(name, type, encoded)                                                                   \
    static void row_##name(const pattern *p, int64_t start, int64_t step, int64_t n, void *out) {  \
        type *element = out;                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            uint64_t v = value_of(start + i * step, p->bits);                                      \
            element[i] = encoded;                                                                  \
        }                                                                                          \
    }

ROW(byte, uint8_t, (uint8_t)p->table[v])
ROW(half, uint16_t, p->table[v])
ROW(word, uint32_t, (uint32_t)v)
ROW(long, uint64_t, v)
ROW(float, float, (float)v)
ROW(double, double, (double)v)
ROW(pair32, pair32, ((pair32){(float)v, 0}))
ROW(pair64, pair64, ((pair64){(double)v, 0}))

static void row_values(const pattern *p, int64_t start, int64_t step, int64_t n, void *out) {
    switch (rsh_layout_dtype(p->layout)) {
    case RSH_F32: row_float(p, start, step, n, out); break;
    case RSH_F64: row_double(p, start, step, n, out); break;
    case RSH_C64: row_pair32(p, start, step, n, out); break;
    case RSH_C128: row_pair64(p, start, step, n, out); break;
    default:
        if (p->size == 1) row_byte(p, start, step, n, out);
        else if (p->size == 2) row_half(p, start, step, n, out);
        else if (p->size == 4) row_word(p, start, step, n, out);
        else row_long(p, start, step, n, out);
    }
}

void pattern_row(const pattern *p, int64_t contribution, int64_t start, int64_t step, int64_t n, void *out) {
    row_values(p, start, step, n, out);
    if (p->contributions == 1) return;
    for (int64_t i = 0; i < n; i++) {
        int64_t holder = p->first_only ? 0 : holder_of(start + i * step, p->contributions);
        if (holder != contribution) memcpy((char *)out + (size_t)i * p->size, p->other, p->size);
    }
}

void pattern_encode(const pattern *p, uint64_t value, unsigned char out[16]) {
    pair64 wide = {(double)value, 0};
    pair32 narrow = {(float)value, 0};
    memset(out, 0, 16);
    switch (rsh_layout_dtype(p->layout)) {
    case RSH_F32:
    case RSH_C64: memcpy(out, &narrow, p->size); break;
    case RSH_F64:
    case RSH_C128: memcpy(out, &wide, p->size); break;
    default:
        if (p->table) memcpy(out, &p->table[value], p->size);
        else memcpy(out, &value, p->size);
    }
}

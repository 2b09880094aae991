/* pattern_row: generates the values of equally spaced indices. */
#ifndef RESHARD_CLI_PATTERN_ROW_H
#define RESHARD_CLI_PATTERN_ROW_H

#include "pattern.h"

/* Writes the values that a contribution has at indices start, start + step, .. */
void pattern_row(const pattern *p, int64_t contribution, int64_t start, int64_t step, int64_t n,
                 void *out);
void pattern_encode(const pattern *p, uint64_t value, unsigned char out[16]);

#endif

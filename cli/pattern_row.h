/* pattern_row: values of indices at equal distances, encoded side by side. */
#ifndef RESHARD_CLI_PATTERN_ROW_H
#define RESHARD_CLI_PATTERN_ROW_H

#include "pattern.h"

/* Values of indices start, start + step, .. as one contribution has them. */
void pattern_row(const pattern *p, int64_t contribution, int64_t start, int64_t step, int64_t n,
                 void *out);
void pattern_encode(const pattern *p, uint64_t value, unsigned char out[16]);

#endif

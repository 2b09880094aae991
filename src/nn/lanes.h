/* Lanes: reductions over a row in LANES partial results, which the compiler keeps in vector
 * registers.
 *
 * The partial result of an element depends on its index only, so a row gives the same bits at any
 * memory address. */
#ifndef RESHARD_NN_LANES_H
#define RESHARD_NN_LANES_H

#include "nn/real.h"

#define RUN 2048 /* elements that are summed as `real` before they are added to a double */

/* Computes the sum over i < n of `term`, an expression of i. */
#define LANE_SUM(total, n, term)                                                                   \
    do {                                                                                           \
        for (int64_t first_ = 0; first_ < (n); first_ += RUN) {                                    \
            int64_t end_ = (n)-first_ < RUN ? (n) : first_ + RUN, i = first_;                      \
            real lane_[LANES] = {0}, part_ = 0;                                                    \
            for (; i + LANES <= end_; i += LANES)                                                  \
                for (int64_t at_ = i, l_ = 0; l_ < LANES; l_++) {                                  \
                    int64_t i = at_ + l_;                                                          \
                    lane_[l_] += (term);                                                           \
                }                                                                                  \
            for (; i < end_; i++) part_ += (term);                                                 \
            for (int l_ = 0; l_ < LANES; l_++) part_ += lane_[l_];                                 \
            (total) += (double)part_;                                                              \
        }                                                                                          \
    } while (0)

/* Returns the largest of n elements; NaN if there is one. */
static inline real lane_max(const real *x, int64_t n) {
    real lane[LANES], most = (real)-INFINITY;
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = most;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] <= lane[l] ? lane[l] : x[i + l];
    for (int l = 0; l < LANES; l++) most = lane[l] <= most ? most : lane[l];
    for (; i < n; i++) most = x[i] <= most ? most : x[i];
    return most;
}

#endif

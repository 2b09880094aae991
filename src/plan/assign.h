/* Assign: which label goes to which place so that the gains add up to the most. */
#ifndef RESHARD_PLAN_ASSIGN_H
#define RESHARD_PLAN_ASSIGN_H

#include "base/base.h"

/* Label j gains w (> 0, bytes) when given to place i; every pair that is not listed gains nothing.
 */
typedef struct rshi_gain {
    int64_t i, j; /* both in 0..n-1 */
    int64_t w;
} rshi_gain;

/* place_of[j] for every label j in 0..n-1: a permutation with the largest sum of gains and, among
 * those, with the most labels at place_of[j] == j.  Gains in any order, pairs distinct; the answer
 * does not depend on their order.  Memory is 16 bytes a gain and about 120 a label.  Block overlaps
 * and random gains take little more time than their sort; the worst case grows with n^3, and
 * products of distinct sizes, every pair present, come near it: seconds for n = 1,024, minutes for
 * 4,096. RSH_ENOMEM.  Pure. */
rsh_status rshi_assign(int64_t n, int64_t ngains, const rshi_gain *gains, int64_t *place_of);

/* The same in nearly linear time, for n too large for the above.  Never worse than the identity,
 * and short of the largest sum by at most 2 bytes and 1/128 of what the labels would gain if each
 * had its best place to itself.  RSH_ENOMEM.  Pure. */
rsh_status rshi_assign_approximate(int64_t n, int64_t ngains, const rshi_gain *gains,
                                   int64_t *place_of);

#endif

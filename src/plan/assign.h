/* Assign: which label goes to which place so that the gains add up to the most. */
#ifndef RESHARD_PLAN_ASSIGN_H
#define RESHARD_PLAN_ASSIGN_H

#include "base/base.h"

/* Label j gains w bytes (w > 0) at place i.  A pair that is not listed gains nothing. */
typedef struct rshi_gain {
    int64_t i, j; /* both in 0..n-1 */
    int64_t w;
} rshi_gain;

/* Sets place_of[j] for every label j in 0..n-1 to a permutation with the largest sum of gains.
 * Among those it has the most labels with place_of[j] == j.  Gains may be in any order, and no
 * pair may be listed twice; the answer does not depend on their order.  Memory is 16 bytes per
 * gain and about 120 per label.  Block overlaps and random gains take little more time than
 * their sort.  The worst case grows with n^3; products of distinct sizes with every pair present
 * come near it: seconds for n = 1,024, minutes for 4,096.  RSH_ENOMEM.  Pure. */
rsh_status rshi_assign(int64_t n, int64_t ngains, const rshi_gain *gains, int64_t *place_of);

/* The same in nearly linear time, for larger n.  The result is never worse than the identity.
 * It falls short of the largest sum by at most 2 bytes and 1/128 of what the labels would gain
 * if each had its best place to itself.  RSH_ENOMEM.  Pure. */
rsh_status rshi_assign_approximate(int64_t n, int64_t ngains, const rshi_gain *gains,
                                   int64_t *place_of);

#endif

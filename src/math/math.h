/* math: arithmetic on tensors for other rooms, without the argument checks of the public calls. */
#ifndef RESHARD_MATH_MATH_H
#define RESHARD_MATH_MATH_H

#include <reshard/math.h>

#include "base/base.h"

/* Copies `from` to `to`, of the same shape, convertible and not overlapping: cannot fail. */
void rshi_math_copy(const rsh_tensor *from, const rsh_tensor *to);
/* Fills with the numbers of rsh_math_uniform or rsh_math_normal, each times `scale` plus `shift`,
 * rounded to the dtype once. */
rsh_status rshi_math_draw(const rsh_tensor *t, bool normal, const rsh_random *from, double scale,
                          double shift);

#endif

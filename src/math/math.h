/* math: arithmetic on tensors for other rooms, which have checked what public calls check. */
#ifndef RESHARD_MATH_MATH_H
#define RESHARD_MATH_MATH_H

#include <reshard/math.h>

#include "base/base.h"

/* `to` = `from`, of the same shape, convertible, sharing no memory: this cannot fail. */
void rshi_math_copy(const rsh_tensor *from, const rsh_tensor *to);
/* The numbers of rsh_math_uniform or rsh_math_normal, each times `scale` plus `shift`, rounded to
 * the dtype once. */
rsh_status rshi_math_draw(const rsh_tensor *t, bool normal, const rsh_random *from, double scale,
                          double shift);

#endif

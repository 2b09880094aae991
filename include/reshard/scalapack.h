/* libreshard-scalapack: replacements for ScaLAPACK's redistribution routines.
 *
 * The library defines p?gemr2d_, p?trmr2d_ (? is s, d, c, z or i), pstran_, pdtran_, pctranu_,
 * pctranc_, pztranu_, pztranc_ and the C names Cp?gemr2d and Cp?trmr2d.  A program needs no change:
 * link -lreshard-scalapack before ScaLAPACK, or set LD_PRELOAD to the library.  Arguments,
 * contexts, descriptors and submatrices mean what ScaLAPACK's manual says.  docs/scalapack.md has
 * examples.
 *
 * Calls that the library does not support are forwarded to the next definition of the same name,
 * which is ScaLAPACK's own.  If there is none, or if ScaLAPACK was built with 64-bit integers, the
 * library prints a message that names the call and aborts the BLACS.
 *
 * RESHARD_SCALAPACK=off in the environment forwards every call to ScaLAPACK;
 * RESHARD_SCALAPACK=verbose prints for every call whether it was forwarded, and why. */
#ifndef RESHARD_SCALAPACK_H
#define RESHARD_SCALAPACK_H

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calls of this process so far, except those with nothing to do (m or n is 0). */
typedef struct rsh_scalapack_stats {
    uint64_t moved;     /* by reshard */
    uint64_t forwarded; /* to ScaLAPACK */
} rsh_scalapack_stats;
/* Writes these counts.  RSH_EVALUE if `out` is NULL.  Local. */
RSH_API rsh_status rsh_scalapack_get_stats(rsh_scalapack_stats *out);

#ifdef __cplusplus
}
#endif
#endif

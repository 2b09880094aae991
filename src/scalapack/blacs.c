/* BLACS: calls the program's own BLACS, and looks up ScaLAPACK's own routines.
 *
 * References to the BLACS are weak, so that the library links without a ScaLAPACK and works with any.  It uses the
 * Fortran names, because only blacs_get_ returns a communicator as a handle that does not depend on the MPI. */
#include "scalapack/impl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

extern void blacs_gridinfo_(const int *context, int *P, int *Q, int *row, int *column) __attribute__((weak));
extern void blacs_get_(const int *context, const int *what, int *value) __attribute__((weak));
extern void blacs_pinfo_(int *rank, int *size) __attribute__((weak));
extern void igsum2d_(const int *context, const char *scope, const char *topology, const int *m, const int *n, int *a,
                     const int *lda, const int *row, const int *column, size_t, size_t) __attribute__((weak));
extern void blacs_abort_(const int *context, const int *code) __attribute__((weak));

enum { GET_COMMUNICATOR = 10 };

void rshs_abort(int context, const char *name, const char *sentence) {
    const int code = 1;
    fprintf(stderr, "libreshard-scalapack: %s: %s\n", name, sentence);
    fflush(stderr);
    if (blacs_abort_) blacs_abort_(&context, &code);
    abort();
}

/* Fails if the integers are wrong: a BLACS with 64-bit integers overwrites the upper halves. */
void rshs_require_32_bits(const char *name) {
    static bool known;
    union {
        int64_t whole;
        int half[2];
    } rank = {-1}, size = {-1};
    if (known) return;
    if (!blacs_pinfo_ || !blacs_gridinfo_ || !blacs_get_ || !igsum2d_)
        rshs_abort(0, name, "no BLACS found: link or load ScaLAPACK's BLACS as a shared library");
    blacs_pinfo_(rank.half, size.half);
    if (size.half[1] != -1 || rank.half[1] != -1) {
        fprintf(stderr, "libreshard-scalapack: %s: expected a ScaLAPACK with 32-bit integers, found one with 64-bit "
                        "integers; run the program without libreshard-scalapack\n", name);
        fflush(stderr);
        abort();
    }
    known = true;
}

void rshs_grid_info(int context, int *P, int *Q, int *row, int *column) {
    *P = *Q = *row = *column = -1;
    if (context < 0) return;
    blacs_gridinfo_(&context, P, Q, row, column);
    if (*row < 0 || *row >= *P || *column < 0 || *column >= *Q) *P = *Q = *row = *column = -1;
}

void rshs_sum(int context, int n, int *numbers) {
    const int one = 1, everywhere = -1;
    igsum2d_(&context, "All", " ", &n, &one, numbers, &n, &everywhere, &everywhere, 3, 1);
}

int rshs_communicator(int context) {
    const int what = GET_COMMUNICATOR;
    int handle = 0;
    blacs_get_(&context, &what, &handle);
    return handle;
}

void *rshs_next(const char *name, int context) {
    void *next = dlsym(RTLD_NEXT, name);
    if (!next)
        rshs_abort(context, name,
                   "reshard does not support this call, and no ScaLAPACK is loaded behind libreshard-scalapack; link "
                   "ScaLAPACK after it");
    return next;
}

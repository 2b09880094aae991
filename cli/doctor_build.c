/* Doctor, the build: checks versions, engines, libraries loaded on demand, and settings. */
#include "doctor.h"
#include "launched.h"
#include "library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
static const char headers[] = VERSION_TEXT(RSH_VERSION_MAJOR, RSH_VERSION_MINOR, RSH_VERSION_PATCH);

void find_version(finding *f) {
    snprintf(f->value, FINDING, "%s", rsh_version());
    if (strcmp(rsh_version(), headers))
        advise(f, "mixed", "the command was built for version %s of the library; install matching versions", headers);
}

void find_compiler(finding *f) { snprintf(f->value, FINDING, "%s", COMPILER); }

void find_engines(finding *f) {
    bool mpi = launched_possible();
    snprintf(f->value, FINDING, mpi ? "threads, shm, mpi" : "threads, shm");
    if (!mpi) advise(f, "ok", "no engine mpi: libreshard-mpi or its MPI library was not found");
}

/* Finds the MPI.  Extracts "Open MPI v4.1.4" from the longer version text. */
void find_mpi(finding *f) {
    char text[8192] = ""; /* as large as MPI's own limit */
    int length = 0, (*version)(char *, int *) = NULL;
    *(void **)&version = launched_possible() ? dlsym(RTLD_DEFAULT, "MPI_Get_library_version") : NULL;
    snprintf(f->value, FINDING, "none");
    if (!version || version(text, &length)) return;
    text[strcspn(text, ",\n")] = '\0';
    snprintf(f->value, FINDING, "%.100s", text);
}

/* Finds the BLAS that libreshard-nn uses.  Some distributions name the slow reference implementation just "blas". */
void find_blas(finding *f) {
    void *nn = library_load("libreshard-nn.so"), *product = nn ? dlsym(nn, "cblas_sgemm") : NULL;
    char path[PATH_MAX] = "";
    Dl_info info;
    snprintf(f->value, FINDING, "%s", nn ? "unknown" : "none (no libreshard-nn)");
    if (!product || !dladdr(product, &info) || !realpath(info.dli_fname, path)) return;
    snprintf(f->value, FINDING, "%.150s", strrchr(path, '/') + 1);
    if (strstr(path, "/blas/lib") || strstr(path, "libcblas.so"))
        advise(f, "slow", "this is the slow reference BLAS; install OpenBLAS (Debian: libopenblas0)");
}

void find_simd(finding *f) {
    snprintf(f->value, FINDING, "%s", rsh_copy_isa());
    if (!strcmp(rsh_copy_isa(), "generic"))
        advise(f, "slow", "%s",
               getenv("RESHARD_SIMD") ? "RESHARD_SIMD is set to generic; unset it"
                                      : "there are no vector kernels for this processor");
}

/* Creates a comm, because that makes the library check all settings. */
void find_settings(finding *f) {
    static const char *const names[] = {"RESHARD_SIMD", "RESHARD_CACHE_BYTES", "RESHARD_TIMEOUT", "RESHARD_NODE"};
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && n < FINDING - 1)
            n += snprintf(f->value + n, (size_t)(FINDING - n), "%s%s", n ? ", " : "", names[i]);
    if (!n) snprintf(f->value, FINDING, "defaults");
    rsh_comm *comm = NULL;
    rsh_status st = rsh_comm_threads(1, &comm);
    if (!st) st = rsh_comm_free(comm);
    if (st) advise(f, "wrong", "%s", rsh_error_detail());
}

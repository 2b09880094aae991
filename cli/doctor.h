/* doctor: the checks of the build and of the machine, and their findings. */
#ifndef RESHARD_CLI_DOCTOR_H
#define RESHARD_CLI_DOCTOR_H

#include "cli.h"

#define FINDING 160

typedef struct finding {
    const char *name;
    char value[FINDING];
    const char *verdict; /* "ok", or one word that names the problem */
    char advice[2 * FINDING]; /* what to do; "": nothing */
} finding;

/* Each fills in a finding, which is initially "ok" without advice. */
void find_version(finding *f);
void find_compiler(finding *f);
void find_engines(finding *f);
void find_mpi(finding *f);
void find_blas(finding *f);
void find_simd(finding *f);
void find_settings(finding *f);

void find_cores(finding *f);
void find_memory(finding *f);
void find_huge_pages(finding *f);
void find_shared_huge_pages(finding *f);
void find_shared_memory(finding *f);
void find_ptrace(finding *f);
void find_caches(finding *f);

void advise(finding *f, const char *verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

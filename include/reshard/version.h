/* Version of the library: macros for the compiler, a function for the linked library. */
#ifndef RESHARD_VERSION_H
#define RESHARD_VERSION_H

#define RSH_VERSION_MAJOR 0
#define RSH_VERSION_MINOR 1
#define RSH_VERSION_PATCH 0

#if defined(_WIN32)
#define RSH_API
#else
#define RSH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the linked library: "0.1.0".  A static string.  Pure. */
RSH_API const char *rsh_version(void);
/* Returns the instruction set of the copy kernels on this machine: "avx512", "avx2" or "generic".
 * The environment variable RESHARD_SIMD, set to one of these words, selects a lower one.  Any other
 * word is ignored here, and makes every call that creates a tensor or a comm fail with RSH_EVALUE.
 * A static string.  Local. */
RSH_API const char *rsh_copy_isa(void);

#ifdef __cplusplus
}
#endif
#endif

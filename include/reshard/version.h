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

/* The version of the library that is linked: "0.1.0".  A static string.  Pure. */
RSH_API const char *rsh_version(void);
/* The copy kernels that this machine will use: "avx512", "avx2" or "generic"; the environment
 * variable RESHARD_SIMD, one of these words, lowers it.  A word that is none of them is ignored
 * here, and refused by what makes a tensor or a comm.  A static string.  Local. */
RSH_API const char *rsh_copy_isa(void);

#ifdef __cplusplus
}
#endif
#endif

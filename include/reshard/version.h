/* Version of the library: macros for the compiler, a function for the linked library. */
#ifndef RESHARD_VERSION_H
#define RESHARD_VERSION_H

#define RSH_VERSION_MAJOR 0
#define RSH_VERSION_MINOR 1
#define RSH_VERSION_PATCH 0
#define RSH_VERSION_GE(major, minor, patch)                                                        \
    (RSH_VERSION_MAJOR > (major) ||                                                                \
     (RSH_VERSION_MAJOR == (major) &&                                                              \
      (RSH_VERSION_MINOR > (minor) ||                                                              \
       (RSH_VERSION_MINOR == (minor) && RSH_VERSION_PATCH >= (patch)))))

#if defined(_WIN32)
#define RSH_API
#else
#define RSH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0", of the library that is linked.  Pure. */
RSH_API const char *rsh_version(void);
/* "avx512", "avx2" or "generic": the copy kernels that this machine will use; RESHARD_SIMD lowers
 * it.  Local. */
RSH_API const char *rsh_simd(void);

#ifdef __cplusplus
}
#endif
#endif

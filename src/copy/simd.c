/* Simd: which vector instructions this process uses, detected once. */
#include "copy/impl.h"

#include <stdatomic.h>

#if RSHI_X86
#include <cpuid.h>
#endif

#if RSHI_X86
/* Uses CPUID, because not every compiler's __builtin_cpu_supports knows the name. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static rshi_simd detect_level(void) {
#if RSHI_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return RSHI_SIMD_AVX512;
    if (__builtin_cpu_supports("avx2") && has_f16c()) return RSHI_SIMD_AVX2;
#endif
    return RSHI_SIMD_GENERIC;
}

/* The environment may select a lower level, never a higher one. rshi_settings_check has rejected invalid values. */
static rshi_simd choose_level(void) {
    rshi_simd best = detect_level(), wish = best;
    rshi_setting_simd(&wish);
    return wish < best ? wish : best;
}

/* If two threads detect at the same time, both get the same result, so a relaxed store is enough. */
rshi_simd rshi_simd_level(void) {
    static _Atomic int found = -1;
    int level = atomic_load_explicit(&found, memory_order_relaxed);
    if (level < 0) {
        level = (int)choose_level();
        atomic_store_explicit(&found, level, memory_order_relaxed);
    }
    return (rshi_simd)level;
}

const char *rshi_copy_simd(void) { return rshi_simd_names[rshi_simd_level()]; }

/* Streaming stores are not ordered with later plain stores (such as the ready flag) unless fenced. */
void rshi_copy_fence(void) {
#if RSHI_X86
    _mm_sfence();
#else
    atomic_thread_fence(memory_order_release);
#endif
}

const char *rsh_copy_isa(void) { return rshi_copy_simd(); }

/* Simd: which vector instructions this process uses, found once. */
#include "copy/impl.h"

#include <stdatomic.h>

#if RSHI_X86
#include <cpuid.h>
#endif

#if RSHI_X86
/* Asked of the processor itself: not every compiler's __builtin_cpu_supports knows the name. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static rshi_simd offered(void) {
#if RSHI_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return RSHI_SIMD_AVX512;
    if (__builtin_cpu_supports("avx2") && has_f16c()) return RSHI_SIMD_AVX2;
#endif
    return RSHI_SIMD_GENERIC;
}

/* The environment may lower the level, never raise it.  A wrong word was refused by rshi_settings_check. */
static rshi_simd choose(void) {
    rshi_simd best = offered(), wish = best;
    rshi_setting_simd(&wish);
    return wish < best ? wish : best;
}

/* Two threads that come first at once find the same answer, so a relaxed store is enough. */
rshi_simd rshi_simd_level(void) {
    static _Atomic int found = -1;
    int level = atomic_load_explicit(&found, memory_order_relaxed);
    if (level < 0) {
        level = (int)choose();
        atomic_store_explicit(&found, level, memory_order_relaxed);
    }
    return (rshi_simd)level;
}

const char *rshi_copy_simd(void) { return rshi_simd_names[rshi_simd_level()]; }

/* Streaming stores are not ordered with later plain stores (the flag that says "ready") unless fenced. */
void rshi_copy_fence(void) {
#if RSHI_X86
    _mm_sfence();
#else
    atomic_thread_fence(memory_order_release);
#endif
}

const char *rsh_copy_isa(void) { return rshi_copy_simd(); }

/* Settings: environment variables that are checked early, because the code that uses them cannot return errors. */
#include "base/base.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const rshi_simd_names[RSHI_SIMD_COUNT] = {"generic", "avx2", "avx512"};

/* Returns an environment variable; NULL: not set, or empty. */
static const char *nonempty_env(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

rsh_status rshi_setting_cache_bytes(uint64_t *bytes) {
    const char *text = nonempty_env("RESHARD_CACHE_BYTES");
    if (!text) return RSH_OK;
    char *end = NULL;
    errno = 0;
    unsigned long long value = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    RSH_REQUIRE(end && !*end && !errno, RSH_EVALUE,
                "RESHARD_CACHE_BYTES must be a number of bytes such as 1073741824, got \"%.40s\"", text);
    *bytes = value;
    return RSH_OK;
}

rsh_status rshi_setting_simd(rshi_simd *level) {
    const char *text = nonempty_env("RESHARD_SIMD");
    if (!text) return RSH_OK;
    for (int i = 0; i < RSHI_SIMD_COUNT; i++)
        if (!strcmp(text, rshi_simd_names[i])) {
            *level = (rshi_simd)i;
            return RSH_OK;
        }
    return rshi_fail(RSH_EVALUE, "RESHARD_SIMD must be generic, avx2 or avx512, got \"%.40s\"", text);
}

/* Called for every tensor and every comm.  The variables are read only once, so the result of the first call is
 * cached. */
rsh_status rshi_settings_check(void) {
    static _Atomic bool fine;
    if (atomic_load_explicit(&fine, memory_order_relaxed)) return RSH_OK;
    RSH_TRY(rshi_setting_cache_bytes(&(uint64_t){0}));
    RSH_TRY(rshi_setting_simd(&(rshi_simd){0}));
    atomic_store_explicit(&fine, true, memory_order_relaxed);
    return RSH_OK;
}

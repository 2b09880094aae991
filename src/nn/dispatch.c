/* Dispatch: chooses the kernels for each dtype once, by the vector instructions of this machine. */
#include "nn/kernel_list.h"

#include <reshard/dtype.h>

#include <pthread.h>
#include <string.h>

static rshn_kernels tables[2]; /* for f32 and f64 */
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define LIST(bits, level, k)                                                                                           \
    do {                                                                                                               \
        rshn_list_map_f##bits##_##level(k);                                                                            \
        rshn_list_sum_f##bits##_##level(k);                                                                            \
        rshn_list_softmax_f##bits##_##level(k);                                                                        \
        rshn_list_norm_f##bits##_##level(k);                                                                           \
        rshn_list_entropy_f##bits##_##level(k);                                                                        \
    } while (0)

static int has_avx2(void) {
#if defined(RSHN_AVX2)
    return strcmp(rsh_copy_isa(), "generic") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static void choose_kernels(void) {
#if defined(RSHN_AVX2)
    if (has_avx2()) {
        LIST(32, avx2, &tables[0]);
        LIST(64, avx2, &tables[1]);
        return;
    }
#endif
    (void)has_avx2;
    LIST(32, generic, &tables[0]);
    LIST(64, generic, &tables[1]);
}

const rshn_kernels *rshn_kernels_of(int dtype) {
    pthread_once(&once, choose_kernels);
    return dtype == RSH_F32 ? &tables[0] : dtype == RSH_F64 ? &tables[1] : NULL;
}

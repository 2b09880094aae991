/* Kernel list: functions with which each kernel file adds its kernels to a table. */
#ifndef RESHARD_NN_KERNEL_LIST_H
#define RESHARD_NN_KERNEL_LIST_H

#include "nn/kernels.h"

#define RSHN_LISTS_OF(bits, level)                                                                 \
    void rshn_list_map_f##bits##_##level(rshn_kernels *);                                          \
    void rshn_list_sum_f##bits##_##level(rshn_kernels *);                                          \
    void rshn_list_softmax_f##bits##_##level(rshn_kernels *);                                      \
    void rshn_list_norm_f##bits##_##level(rshn_kernels *);                                         \
    void rshn_list_entropy_f##bits##_##level(rshn_kernels *);

RSHN_LISTS_OF(32, generic)
RSHN_LISTS_OF(64, generic)
RSHN_LISTS_OF(32, avx2)
RSHN_LISTS_OF(64, avx2)

#endif

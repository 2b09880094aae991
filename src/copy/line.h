/* copy/line: how each level copies a cache line, with streaming stores or into the caches. */
#ifndef RESHARD_COPY_LINE_H
#define RESHARD_COPY_LINE_H

#include "copy/impl.h"

#include <string.h>

typedef void line_fn(char *dst, const char *src); /* 64 bytes; dst is aligned to them */

#if RSHI_X86
RSHI_INLINE void line_generic(char *dst, const char *src) {
    for (int i = 0; i < RSHI_LINE; i += 16)
        _mm_stream_si128((__m128i *)(void *)(dst + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(src + i)));
}
RSHI_AVX2 RSHI_INLINE void line_avx2(char *dst, const char *src) {
    for (int i = 0; i < RSHI_LINE; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(dst + i),
                            _mm256_loadu_si256((const __m256i *)(const void *)(src + i)));
}
RSHI_AVX512 RSHI_INLINE void line_avx512(char *dst, const char *src) {
    _mm512_stream_si512((__m512i *)(void *)dst, _mm512_loadu_si512(src));
}

RSHI_AVX2 RSHI_INLINE void kept_line_avx2(char *dst, const char *src) {
    for (int i = 0; i < RSHI_LINE; i += 32)
        _mm256_store_si256((__m256i *)(void *)(dst + i),
                           _mm256_loadu_si256((const __m256i *)(const void *)(src + i)));
}
RSHI_AVX512 RSHI_INLINE void kept_line_avx512(char *dst, const char *src) {
    _mm512_store_si512(dst, _mm512_loadu_si512(src));
}
#else
RSHI_INLINE void line_generic(char *dst, const char *src) { memcpy(dst, src, RSHI_LINE); }
#endif
RSHI_INLINE void kept_line_generic(char *dst, const char *src) { memcpy(dst, src, RSHI_LINE); }

#endif

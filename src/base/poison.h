/* poison: marks memory as inaccessible for AddressSanitizer; does nothing without it. */
#ifndef RESHARD_BASE_POISON_H
#define RESHARD_BASE_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define RSHI_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RSHI_POISONS 1
#endif
#endif
#ifndef RSHI_POISONS
#define RSHI_POISONS 0
#endif

#if RSHI_POISONS
#include <sanitizer/asan_interface.h>
#endif

static inline void rshi_poison(void *p, size_t bytes) {
#if RSHI_POISONS
    __asan_poison_memory_region(p, bytes);
#else
    (void)p, (void)bytes;
#endif
}

static inline void rshi_unpoison(void *p, size_t bytes) {
#if RSHI_POISONS
    __asan_unpoison_memory_region(p, bytes);
#else
    (void)p, (void)bytes;
#endif
}

#endif

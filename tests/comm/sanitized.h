/* sanitized: which sanitizer this build has, with any compiler; some leave too little address space
 * for a test. */
#ifndef RESHARD_TESTS_SANITIZED_H
#define RESHARD_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED_ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__)
#define SANITIZED_THREAD 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#endif
#endif
#if defined(SANITIZED_ADDRESS) || defined(SANITIZED_THREAD)
#define SANITIZED 1
#endif

#endif

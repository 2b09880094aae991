/* Process: distinguishes a forked child from the process that made an object, by counting forks.
 *
 * Reading the count needs no system call, unlike getpid(), so every run can check it. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint32_t forks; /* since the first call of rshi_process_new */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

uint32_t rshi_process_new(void) {
    pthread_once(&once, watch_forks);
    return rshi_process();
}

uint32_t rshi_process(void) { return atomic_load_explicit(&forks, memory_order_relaxed); }

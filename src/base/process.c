/* Process: tells a forked child from the process that made a thing, by counting forks.
 *
 * A count, and not the process's number: looking at it costs no system call, so that it can be done on every run. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint32_t forks; /* between the process that first asked and this one */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

uint32_t rshi_process_new(void) {
    pthread_once(&once, watch_forks);
    return rshi_process();
}

uint32_t rshi_process(void) { return atomic_load_explicit(&forks, memory_order_relaxed); }

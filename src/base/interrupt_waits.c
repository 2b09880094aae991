/* Interrupt: the function that the calling thread calls while it waits for other ranks. */
#include "base/base.h"

#include <reshard/progress.h>

#define FIRST_LOOK 0.02 /* seconds; shorter waits do not call the function */

static _Thread_local rsh_interrupt_fn ask;
static _Thread_local void *ask_ctx;

void rsh_interrupt_set(rsh_interrupt_fn fn, void *ctx) {
    ask = fn;
    ask_ctx = ctx;
}

rsh_status rshi_interrupt_check(double waited) {
    if (!ask || waited < FIRST_LOOK || !ask(ask_ctx)) return RSH_OK;
    return rshi_fail(RSH_ETIMEOUT, "interrupted while waiting for other ranks");
}

/* Passes: how far those over all ranks are, told to a caller as one number that rises. */
#include "plan/passes.h"

#define TIMES 1000 /* that a caller is told, at most */

static rsh_status tell(rshi_progress *w, uint64_t done) {
    w->next = done + w->total / TIMES + 1;
    RSH_REQUIRE(!w->fn(w->ctx, done, w->total), RSH_ERUNTIME, "stopped by the caller");
    return RSH_OK;
}

rsh_status rshi_progress_begin(rshi_progress *w, uint64_t units) {
    if (!w || !w->fn) return RSH_OK;
    w->done = w->pass = 0;
    w->total = units * w->ranks + w->rest;
    if (!w->total) w->total = 1;
    return tell(w, 0);
}

void rshi_progress_pass(rshi_progress *w, uint64_t units) {
    if (!w) return;
    w->done += w->pass;
    w->pass = units * w->ranks;
}

rsh_status rshi_progress_tell(rshi_progress *w, int64_t i, int64_t n) {
    uint64_t done = w->done + (uint64_t)((double)w->pass * (double)i / (double)n);
    return done < w->next || done >= w->total ? RSH_OK : tell(w, done);
}

rsh_status rshi_progress_end(rshi_progress *w) { return w && w->fn ? tell(w, w->total) : RSH_OK; }

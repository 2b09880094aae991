/* Pass progress: reports how much of the passes over all ranks is done. */
#include "plan/pass_progress.h"

#define MOST_REPORTS 1000 /* most reports */

static rsh_status report(rshi_progress *w, uint64_t done) {
    w->next = done + w->total / MOST_REPORTS + 1;
    RSH_REQUIRE(!w->fn(w->ctx, done, w->total), RSH_ERUNTIME, "stopped by the caller");
    return RSH_OK;
}

rsh_status rshi_progress_begin(rshi_progress *w, uint64_t units) {
    if (!w || !w->fn) return RSH_OK;
    w->done = w->pass = 0;
    w->total = units * w->ranks + w->rest;
    if (!w->total) w->total = 1;
    return report(w, 0);
}

void rshi_progress_pass(rshi_progress *w, uint64_t units) {
    if (!w) return;
    w->done += w->pass;
    w->pass = units * w->ranks;
}

rsh_status rshi_progress_report(rshi_progress *w, int64_t i, int64_t n) {
    uint64_t done = w->done + (uint64_t)((double)w->pass * (double)i / (double)n);
    return done < w->next || done >= w->total ? RSH_OK : report(w, done);
}

rsh_status rshi_progress_end(rshi_progress *w) { return w && w->fn ? report(w, w->total) : RSH_OK; }

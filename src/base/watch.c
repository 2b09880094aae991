/* Watch: measures waiting time as a sum of limited steps of the monotonic clock. */
#include "base/base.h"

double rshi_watch_look(rshi_watch *w, double most) {
    double now = rshi_seconds(), step = w->last ? now - w->last : 0;
    w->last = now;
    w->waited += step < most ? step : most;
    return w->waited;
}

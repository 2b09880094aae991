/* Progress: bytes, rate and time left, on one line that is written over. */
#include "progress.h"

#include "cli.h"

#include <unistd.h>

progress progress_new(const char *verb) {
    return (progress){.verb = verb, .shown = isatty(STDERR_FILENO) && !is_quiet()};
}

int progress_tell(void *ctx, uint64_t bytes, uint64_t total) {
    progress *p = ctx;
    char done[QUANTITY], all[QUANTITY], rate[QUANTITY], left[QUANTITY];
    if (!p->shown) return 0;
    double now = clock_seconds();
    if (p->start == 0) p->start = now;
    double seconds = now - p->start, speed = seconds > 0 ? (double)bytes / seconds : 0;
    fprintf(stderr, "\r%s: %s of %s (%d %%), %s/s, %s left \033[K", p->verb, human_bytes((double)bytes, done),
            human_bytes((double)total, all), total ? (int)(100 * (double)bytes / (double)total) : 100,
            human_bytes(speed, rate), human_seconds(speed > 0 ? (double)(total - bytes) / speed : 0, left));
    p->open = true;
    return 0;
}

void progress_end(progress *p) {
    if (p->open) fputs("\r\033[K", stderr);
    p->open = false;
}

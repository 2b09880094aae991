/* progress: one line on stderr that says how far long work is, if stderr is a terminal. */
#ifndef RESHARD_CLI_PROGRESS_H
#define RESHARD_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *verb;
    bool shown;   /* is stderr a terminal? */
    double start; /* seconds; 0: not started */
    bool open;    /* is there a line that has no end? */
} progress;

progress progress_new(const char *verb);
int progress_tell(void *ctx, uint64_t bytes, uint64_t total); /* an rsh_progress_fn */
void progress_end(progress *p);

#endif

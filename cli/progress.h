/* progress: a line on stderr that shows the progress of long work, if stderr is a terminal.
 *
 * There is one line at a time.  A thread of the process that called progress_begin prints it; ranks
 * that are forked later can also report progress. */
#ifndef RESHARD_CLI_PROGRESS_H
#define RESHARD_CLI_PROGRESS_H

#include <stdint.h>

/* Begins `what` ("apply: reading", borrowed) of `total` bytes; 0: unknown, so the elapsed time is
 * shown. */
void progress_begin(const char *what, uint64_t total);
/* Does the same for filling memory that was never written to; progress is measured by its pages. */
void progress_fill(const char *what, const void *memory, uint64_t bytes);
/* Does the same for planning: shows the elapsed time, and after progress_tell_plan the remaining
 * time. */
void progress_plan(const char *verb, int64_t ranks);
void progress_add(uint64_t bytes); /* adds bytes that are done */
int progress_tell(void *what, uint64_t bytes, uint64_t total); /* an rsh_progress_fn */
/* An rsh_progress_fn for planning. */
int progress_tell_plan(void *unused, uint64_t done, uint64_t total);
void progress_hide(void);  /* hides the line until the next progress_begin, while the user types */
void progress_clear(void); /* erases the line, so that a message can be printed; work continues */
void progress_end(void);

#endif

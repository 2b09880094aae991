/* progress: one line on stderr that says how far long work is, if stderr is a terminal.
 *
 * There is one line at a time.  A thread of the process that began it paints it; ranks that are
 * forked later may count too. */
#ifndef RESHARD_CLI_PROGRESS_H
#define RESHARD_CLI_PROGRESS_H

#include <stdint.h>

/* From now on `what` is done ("apply: reading", borrowed), of `total` bytes; 0: nobody knows how
 * many, and the seconds are told instead. */
void progress_begin(const char *what, uint64_t total);
/* The same, of filling memory that nobody has written to before: nobody need count. */
void progress_fill(const char *what, const void *memory, uint64_t bytes);
/* The same, of planning: the seconds, and once progress_tell_plan is called how much is left. */
void progress_plan(const char *verb, int64_t ranks);
void progress_add(uint64_t bytes); /* are done */
int progress_tell(void *what, uint64_t bytes, uint64_t total); /* an rsh_progress_fn */
int progress_tell_plan(void *unused, uint64_t done, uint64_t total); /* another, of planning */
void progress_hide(void);  /* until something else begins: somebody types */
void progress_clear(void); /* the line goes, so that another can be written; work goes on */
void progress_end(void);

#endif

/* interrupt: what is left behind if Ctrl-C, or another signal that asks the command to end, comes
 * now.  The command says so and ends by that signal. */
#ifndef RESHARD_CLI_INTERRUPT_H
#define RESHARD_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the answer is `sentence`. */
void interrupt_leaves(const char *sentence);
/* The same, if there is something at `path` by then; `otherwise`, if not. */
void interrupt_leaves_at(const char *path, const char *sentence, const char *otherwise);
/* All are borrowed. */
/* And what is at `path`, which is copied, is removed; NULL: nothing. */
void interrupt_removes(const char *path);

/* Shall a process that is ended say so?  Not where it has told its error, nor where another rank
 * may speak: a launcher ends all ranks when one of them fails. */
void interrupt_speaks(bool yes);

#endif

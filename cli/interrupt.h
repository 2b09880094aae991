/* interrupt: on Ctrl-C, or another terminating signal, the command prints what it leaves behind and
 * dies of that signal. */
#ifndef RESHARD_CLI_INTERRUPT_H
#define RESHARD_CLI_INTERRUPT_H

#include <stdbool.h>

/* Sets the message, which is borrowed. */
void interrupt_leaves(const char *sentence);
/* Sets two messages: `sentence` is printed if `path` exists at that time, `otherwise` if not.  All
 * are borrowed. */
void interrupt_leaves_at(const char *path, const char *sentence, const char *otherwise);
/* Sets a file that is removed on a signal; NULL: none.  The path is copied. */
void interrupt_removes(const char *path);

/* Enables or disables the message.  It is disabled after an error was printed, and on ranks that do
 * not print: a launcher ends all ranks when one of them fails. */
void interrupt_speaks(bool yes);

#endif

/* interrupt: what is left behind if Ctrl-C, or another signal that asks the command to end, comes
 * now.  The command says so and ends by that signal. */
#ifndef RESHARD_CLI_INTERRUPT_H
#define RESHARD_CLI_INTERRUPT_H

/* From now on the answer is `sentence`; with a path only if there is something at that path, else
 * that nothing was written.  Both are borrowed. */
void interrupt_leaves(const char *sentence, const char *path);

#endif

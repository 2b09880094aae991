/* ready_rules: the rule files built into the command, for `--to tp=4`. */
#ifndef RESHARD_CLI_READY_RULES_H
#define RESHARD_CLI_READY_RULES_H

#include <reshard.h>

typedef struct ready_rules {
    const char *name, *text;
} ready_rules;
extern const ready_rules ready_rules_list[]; /* ends with a NULL name */

/* Is the argument of --to a mesh, such as tp=4, and not a file? */
bool is_mesh(const char *to);
/* Chooses rules by the tensor names of the checkpoint at `source`, and prints to stderr which.  The
 * caller frees *out.  RSH_EKEY if none matches; otherwise the errors of rsh_ckpt_open. */
rsh_status choose_ready_rules(const char *source, const char *mesh, rsh_ckpt_rules **out);

#endif

/* Checkpoint: named tensors in files, and the moves between one way of cutting them and another.
 *
 * A checkpoint file is a layout whose parts lie at file offsets.  Opening one reads headers only. */
#ifndef RESHARD_CKPT_H
#define RESHARD_CKPT_H

#include <reshard/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rules: which tensor is cut how ----
 *
 * A rule file has a line for each pattern of names, with a form behind it: "*.q_proj.weight
 * [_/tp%128, _]".  The first pattern that matches counts.  docs/checkpoint.md is the grammar.
 * Rules are immutable once made: share them between threads. */
typedef struct rsh_rules rsh_rules;

/* From text, or from a file.  `name` stands for the file in messages.  The caller frees *out.
 * RSH_EVALUE names line, column and what was expected there; RSH_EIO if the file cannot be read;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_rules_parse(const char *text, const char *name, rsh_rules **out);
RSH_API rsh_status rsh_rules_read(const char *path, rsh_rules **out);
/* No-op for NULL.  Local. */
RSH_API void rsh_rules_free(rsh_rules *r);

/* ---- reading ---- */

/* A checkpoint that was opened for reading.  Immutable: any thread may read from it. */
typedef struct rsh_ckpt rsh_ckpt;

/* Opens a checkpoint: a safetensors file, or a directory of one of the kinds that
 * docs/checkpoint.md lists.  Reads headers only.  `from` (may be NULL; borrowed during the call)
 * says how rank files of other tools are cut.  The caller frees *out.
 * RSH_EIO if a file cannot be read; RSH_EVALUE, naming file, tensor and byte offset, if something is
 * wrong with it; RSH_EUNSUP for what we do not read; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_open(const char *path, const rsh_rules *from, rsh_ckpt **out);
/* No-op for NULL.  Local. */
RSH_API void rsh_ckpt_free(rsh_ckpt *c);

#ifdef __cplusplus
}
#endif
#endif

/* Checkpoint: named tensors in files, and the moves between one way of cutting them and another.
 *
 * A checkpoint file is a layout whose parts lie at file offsets.  Opening one reads headers only. */
#ifndef RESHARD_CKPT_H
#define RESHARD_CKPT_H

#include <reshard/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rules: which tensor is cut how, as a rule file says (docs/checkpoint.md).  Immutable. */
typedef struct rsh_rules rsh_rules;
/* A checkpoint that was opened for reading.  Any thread may read from it. */
typedef struct rsh_ckpt rsh_ckpt;

#ifdef __cplusplus
}
#endif
#endif

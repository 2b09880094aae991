/* spec: functions on specs and metadata for other rooms, in addition to the public ones. */
#ifndef RESHARD_SPEC_SPEC_H
#define RESHARD_SPEC_SPEC_H

#include <reshard/torch/spec.h>

#include "base/base.h"

/* Return the functions of a spec's kind, and the `self` that they take; both borrowed. */
const rsh_spec_kind *rshi_spec_kind(const rsh_spec *s);
const void *rshi_spec_inside(const rsh_spec *s);
bool rshi_spec_is_chunk(const rsh_spec *s);

/* Called after a function of a kind: if it failed without an error message of this library, sets
 * one that names the kind and what was asked, so that an old message is never shown.  `before` is
 * the value of rshi_sentences before the call. */
rsh_status rshi_kind_said(uint64_t before, rsh_status st, const char *name, const char *asked);

/* Returns whether a shard has no elements. */
bool rshi_shard_empty(const rsh_shard_meta *m);
/* Writes "[0,0]+[5,5] rank:0/cpu", as in the text of specs and in messages; truncated if needed. */
#define RSHI_SHARD_TEXT 512
const char *rshi_shard_print(const rsh_shard_meta *m, char text[RSHI_SHARD_TEXT]);

/* Validate structs that the user may have filled in.  RSH_EVALUE; the message names shard `i`,
 * unless that is negative. */
rsh_status rshi_shard_meta_check(const rsh_shard_meta *m, int64_t i);
rsh_status rshi_remote_device_sound(const rsh_remote_device *p);
rsh_status rshi_size_check(
    int ndim, const int64_t *size); /* RSH_EVALUE unless there are 0 to RSH_MAX_NDIM sizes >= 0 */

#endif

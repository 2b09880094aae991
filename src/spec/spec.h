/* spec: what the rooms above may ask of specs and metadata beyond the public calls. */
#ifndef RESHARD_SPEC_SPEC_H
#define RESHARD_SPEC_SPEC_H

#include <reshard/torch/spec.h>

#include "base/base.h"

/* The table of functions of a spec's kind, and what its functions take as `self`; both borrowed. */
const rsh_spec_kind *rshi_spec_kind(const rsh_spec *s);
const void *rshi_spec_inside(const rsh_spec *s);
bool rshi_spec_is_chunk(const rsh_spec *s);

/* Around a call into a kind: its failure comes with the sentence of the call of this library that
 * failed in it, or, where there was none, with one that names the kind and what was asked of it;
 * never with that of an older failure.  `before`: rshi_sentences before the call. */
rsh_status rshi_kind_said(uint64_t before, rsh_status st, const char *name, const char *asked);

/* No elements? */
bool rshi_shard_empty(const rsh_shard_meta *m);
/* "[0,0]+[5,5] rank:0/cpu", as in the text of specs and in sentences; cut short if it must be. */
#define RSHI_SHARD_TEXT 512
const char *rshi_shard_print(const rsh_shard_meta *m, char text[RSHI_SHARD_TEXT]);

/* A struct that somebody may have filled by hand: numbers that mean something.  RSH_EVALUE names
 * shard number `i`, unless it is negative. */
rsh_status rshi_shard_meta_check(const rsh_shard_meta *m, int64_t i);
rsh_status rshi_remote_device_sound(const rsh_remote_device *p);
rsh_status rshi_size_check(
    int ndim, const int64_t *size); /* 0 to RSH_MAX_NDIM sizes that are not negative; RSH_EVALUE */

#endif

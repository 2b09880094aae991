/* Both ends: compares the sends in one rank's share with the receives in another's. */
#ifndef RESHARD_TESTS_BOTH_ENDS_H
#define RESHARD_TESTS_BOTH_ENDS_H

#include "prop.h"

/* Checks that the sends of `from` to `to` are the receives of `to` with a source on `from`, one for
 * one: the same stage, loops, parts and offsets at both ends.  Their order does not matter. */
bool both_ends_agree(prop_case *c, const rsh_share *from, const rsh_share *to);

#endif

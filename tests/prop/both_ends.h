/* Both ends: what one rank's share says it sends, against what another's says it receives. */
#ifndef RESHARD_TESTS_BOTH_ENDS_H
#define RESHARD_TESTS_BOTH_ENDS_H

#include "prop.h"

/* Sends of `from` into `to` are the receives of `to` with a source on `from`, one for one: the same
 * stage, loops, parts and places at both ends.  Their order does not matter. */
bool both_ends_agree(prop_case *c, const rsh_share *from, const rsh_share *to);

#endif

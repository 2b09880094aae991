/* Direct: the way that always applies.  The destination takes the whole region from the source that serves it, or from
 * one holder of each contribution to a reduction. */
#include "plan/relay.h"

rsh_status rshi_direct_edge(const rshi_region *r) { return rshi_region_from_sources(r, r->whole.turn); }

bool rshi_goes_directly(const rsh_plan *p, const rshi_pair *pair, int64_t holders) {
    if (pair->irregular || pair->spread || pair->reduce || pair->slice) return false;
    return holders == 1 || !rshi_pair_relays(p, pair);
}

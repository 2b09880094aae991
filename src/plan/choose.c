/* Choose: the chain of layouts that each tensor passes through.
 *
 * Solvers propose chains, and the cheapest wins. */
#include "plan/impl.h"

rsh_status rshi_plan_choose_chains(rsh_plan *p) {
    for (int64_t t = 0; t < p->n; t++) {
        rshi_pair *pair = &p->pair[t];
        bool wider = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)) > pair->wire_size;
        if (pair->keep || (pair->irregular && !pair->reduce)) continue;
        if (pair->reduce)
            pair->chain = RSHI_CHAIN_ALL;
        else if (p->several_nodes && !wider)
            pair->chain = RSHI_CHAIN_NODE;
    }
    return RSH_OK;
}

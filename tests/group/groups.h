/* groups: what tests of the group room share: rank functions run under a default group, on threads,
 * on processes and on nodes. */
#ifndef RESHARD_TESTS_GROUP_GROUPS_H
#define RESHARD_TESTS_GROUP_GROUPS_H

#include "../comm/ranks.h"

#include <reshard/torch.h>

#include "default_group.h"

/* n ranks as threads, then as processes, then on nodes that exchange messages. */
static inline void run_groups(int n, rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    rsh_status st = rsh_run(n, with_default_group, &b);
    if (st) fail_msg("%d threads: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    st = rsh_run_shm(n, with_default_group, &b);
    if (st) fail_msg("%d processes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    const int nodes[] = {0, 1, 0, 1, 2};
    st = run_on_nodes(n, nodes, with_default_group, &b);
    if (st) fail_msg("%d ranks on nodes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}

static inline void run_group_counts(rsh_status (*fn)(void *ctx), void *ctx) {
    for (int n = 1; n <= 5; n++) run_groups(n, fn, ctx);
}

#endif

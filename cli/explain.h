/* explain: what is known about a move, for its writers. */
#ifndef RESHARD_CLI_EXPLAIN_H
#define RESHARD_CLI_EXPLAIN_H

#include "cli.h"

typedef struct explanation {
    layout_pair pair;
    bool json, matrix, relabel, by_node;
    const char *svg, *html; /* files, or NULL */
    int64_t ranks_per_node; /* 0: not given */

    rsh_plan *plan;
    rsh_plan_totals totals;
    double seconds; /* to plan and to add up */
    bool relabel_exact;
    int64_t moved_before; /* bytes, with the ranks as they were given */
    bool has_other; /* is it known what passes between nodes if reductions combine the other way? */
    int64_t other_between_nodes;
} explanation;

int explain_text(const explanation *e);
int explain_json(const explanation *e);

#endif

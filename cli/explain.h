/* explain: the results that the text and JSON writers print. */
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
    double seconds; /* for planning and totals */
    bool relabel_exact;
    int64_t moved_before; /* bytes moved without relabelling */
    bool has_other; /* other_between_nodes is set */
    int64_t other_between_nodes; /* bytes between nodes with the other order of reduction */
} explanation;

int explain_text(const explanation *e);
int explain_json(const explanation *e);

#endif

/* Sums: groups the ranks of a cell of a partial layout.
 *
 * Ranks with equal coordinates on every non-partial axis form a group; their contributions, combined, are the value of
 * the cell.  Other groups that hold the cell are replicas of the first. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns the rank of the same group at the origin of the partial axes. */
static int64_t leader_of(const rsh_layout *l, int64_t rank) {
    rshi_piece p = {.rank = rank, .position = rshi_layout_position(l, rank)}, first;
    rshi_piece_at_partial(l, &p, 0, &first);
    return first.rank;
}

static void add_to_group(rshi_sum *s, int64_t rank, int64_t leader) {
    for (int i = 0; i < RSHI_DRAW_GROUPS; i++) {
        if (s->group[i].count && s->leader[i] != leader) continue;
        s->leader[i] = leader;
        rshi_ranks_add(&s->group[i], rank);
        return;
    }
}

void rshi_sum_fill(const rsh_layout *l, rshi_holders *h) {
    for (int64_t i = 0; i < h->ranks.count; i++) add_to_group(&h->sum, h->list[i], leader_of(l, h->list[i]));
}

void rshi_sum_label(const rsh_layout *l, const rshi_holders *h, char label[RSHI_SUM_LABEL]) {
    char first[RSHI_DRAW_LABEL], second[RSHI_DRAW_LABEL];
    int64_t groups = h->ranks.count / rshi_layout_partials(l);
    rshi_ranks_label(&h->sum.group[0], first);
    rshi_ranks_label(&h->sum.group[1], second);
    if (groups > 2)
        snprintf(label, RSHI_SUM_LABEL, "%s (%" PRId64 " replicas)", first, groups);
    else
        snprintf(label, RSHI_SUM_LABEL, groups == 2 ? "%s or %s" : "%s", first, second);
}

bool rshi_scene_reduces(const rshi_scene *s) {
    const rsh_layout *from = s->side[0].layout, *to = s->side[1].layout;
    return rsh_layout_op(from) && !(rsh_layout_op(to) && rshi_layout_same_partials(from, to));
}

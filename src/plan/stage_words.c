/* Stage words: what each stage of a plan does, in words and bytes. */
#include "plan/impl.h"

#include <string.h>

static const char *words_of_all(const rsh_plan *p, const rshi_pair *pair, int stage) {
    if (stage == 0) return pair->reduce ? "each rank combines its slice" : "each rank takes its slice from the source";
    if (!p->several_nodes) return "ranks exchange their slices";
    if (stage == 1) return "each node takes the slices of other nodes once";
    return "the ranks of a node exchange what they have";
}

static const char *words_of_forward(int stage) {
    static const char *const words[] = {
        "the ranks beside a source take a slice each", "ranks of other nodes take a slice each from those",
        "each node takes the slices of other nodes once", "the ranks of a node exchange what they have"};
    return words[stage];
}

static const char *words_of(const rsh_plan *p, const rshi_pair *pair, int stage) {
    if (pair->transposed) return "each source takes the sum of what it went into";
    if (pair->by_node && stage == 0) return "the ranks of a node combine their contributions, a slice each";
    stage -= pair->by_node ? 1 : 0;
    if (pair->forward) return words_of_forward(stage);
    if (pair->chain == RSHI_CHAIN_ALL) return words_of_all(p, pair, stage);
    if (pair->chain == RSHI_CHAIN_NODE)
        return stage ? "the ranks of a node exchange their slices" : "the ranks of a node take a slice each";
    return pair->reduce ? "each rank combines what it wants" : "each rank takes what it wants from the source";
}

/* Returns the words for all tensors that have such a stage. */
static const char *stage_words(const rsh_plan *p, int stage) {
    const char *found = NULL;
    for (int64_t t = 0; t < p->n; t++) {
        const rshi_pair *pair = &p->pair[t];
        if (stage >= rshi_pair_stages(p, pair)) continue;
        const char *words = words_of(p, pair, stage);
        if (found && strcmp(found, words)) return "what is done differs from tensor to tensor";
        found = words;
    }
    return found ? found : "nothing";
}

int rsh_plan_nstages(const rsh_plan *p) { return p ? p->stages : 0; }

rsh_status rsh_plan_each_stage(const rsh_plan *p, rsh_stage_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    rshi_kept_totals k;
    RSH_TRY(rshi_plan_all_totals(p, NULL, &k));
    for (int s = 0; s < p->stages; s++)
        if (fn(ctx, s, stage_words(p, s), k.stages.moved[s], k.stages.between[s])) break;
    return RSH_OK;
}

/* Plan: computes the cost of a move on a cluster, without ranks and without the memory of the tensors.
 *
 * A weight moves from training (cut along tp within a node, and flat along dp) to inference on the eight ranks of one
 * node. */
#include <reshard.h>

#include <inttypes.h>
#include <stdio.h>

enum { RANKS_PER_NODE = 8 };

static int to_stream(void *stream, const char *text, size_t length) {
    return fwrite(text, 1, length, stream) != length;
}

/* Bytes that rank 0 receives from ranks of its node and from ranks of other nodes. */
typedef struct incoming {
    int64_t near_bytes, far_bytes, near_ranks, far_ranks;
} incoming;

static int add_source(void *ctx, int64_t peer, int64_t bytes) {
    incoming *in = ctx;
    bool near = peer < RANKS_PER_NODE;
    *(near ? &in->near_bytes : &in->far_bytes) += bytes;
    *(near ? &in->near_ranks : &in->far_ranks) += 1;
    return 0;
}

int main(void) {
    rsh_layout *training = NULL, *serving = NULL;
    rsh_plan *plan = NULL, *back = NULL;
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    rsh_sink out = {to_stream, stdout};
    incoming in = {0};
    opts.ranks_per_node = RANKS_PER_NODE;

    rsh_status st = rsh_layout_parse("bf16[16384/tp, 53248]/dp on dp=8,tp=8", &training);
    if (!st) st = rsh_layout_parse("bf16[16384, 53248/tp] on tp=8", &serving);
    if (!st) st = rsh_plan_new(training, serving, &opts, &plan);
    if (!st) st = rsh_plan_print(plan, -1, RSH_PRINT_TEXT, &out);
    if (!st) st = rsh_plan_each_source(plan, 0, add_source, &in);
    if (!st) st = rsh_plan_get_totals(plan, &totals);
    if (!st) st = rsh_plan_new(serving, training, &opts, &back); /* the inverse move */
    if (!st) {
        printf("rank 0 receives %" PRId64 " bytes from %" PRId64 " ranks of its node (including itself) and %" PRId64
               " from %" PRId64 " others\n",
               in.near_bytes, in.near_ranks, in.far_bytes, in.far_ranks);
    }
    if (st) fprintf(stderr, "02_plan: %s\n", rsh_error_detail());

    bool least = totals.bytes_moved == totals.lower_bound && totals.bytes_moved > 0;
    bool different = !st && rsh_plan_fingerprint(plan) != rsh_plan_fingerprint(back);
    rsh_plan_free(back);
    rsh_plan_free(plan);
    rsh_layout_free(serving);
    rsh_layout_free(training);
    return st || !least || !different;
}

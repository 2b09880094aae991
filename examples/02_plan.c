/* Plan: what a move would cost on a cluster, worked out on this machine without ranks and without memory.
 *
 * A 16384 x 53248 bf16 weight goes from training (each node's part kept flat along dp) to serving on eight GPUs of one node. */
#include <reshard.h>

#include <inttypes.h>
#include <stdio.h>

static int to_stream(void *stream, const char *text, size_t length) {
    return fwrite(text, 1, length, stream) != length;
}

static int print_source(void *ctx, int64_t peer, int64_t bytes) {
    (void)ctx;
    printf("  rank 0 gets %" PRId64 " bytes from rank %" PRId64 "\n", bytes, peer);
    return 0;
}

int main(void) {
    rsh_layout *training = NULL, *serving = NULL;
    rsh_plan *plan = NULL, *back = NULL;
    rsh_plan_totals totals = {0};
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    rsh_sink out = {to_stream, stdout};
    opts.ranks_per_node = 8;

    rsh_status st = rsh_layout_parse("bf16[16384/tp, 53248]/dp on dp=8,tp=8", &training);
    if (!st) st = rsh_layout_parse("bf16[16384, 53248/tp] on tp=8", &serving);
    if (!st) st = rsh_plan_new(training, serving, &opts, &plan);
    if (!st) st = rsh_plan_print(plan, -1, RSH_PRINT_TEXT, &out);
    if (!st) st = rsh_plan_sources(plan, 0, print_source, NULL);
    if (!st) st = rsh_plan_get_totals(plan, &totals);
    if (!st) st = rsh_plan_new(serving, training, &opts, &back); /* every plan has a way back */
    if (st) fprintf(stderr, "02_plan: %s\n", rsh_error_detail());

    bool least = totals.bytes_moved == totals.lower_bound && totals.bytes_moved > 0;
    bool different = !st && rsh_plan_fingerprint(plan) != rsh_plan_fingerprint(back);
    rsh_plan_free(back);
    rsh_plan_free(plan);
    rsh_layout_free(serving);
    rsh_layout_free(training);
    return st || !least || !different;
}

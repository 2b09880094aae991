/* How long planning takes: for 65,536 ranks a plan, its exact totals and one rank's view; and for a model of 1,000
 * tensors on 4,096 ranks one plan of all, and a rank's share of it. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS 65536
#define TENSORS 1000

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(rsh_status st) {
    if (!st) return;
    fprintf(stderr, "bench_plan: %s\n", rsh_error_detail());
    exit(1);
}

/* Columns on permuted ranks: position i is rank 7i + 3 mod RANKS. */
static char *permuted(void) {
    char *text = malloc(RANKS * 7 + 100), *end = text;
    if (!text) exit(1);
    end += sprintf(end, "f32[65536, 65536/x] on x=%d@[", RANKS);
    for (int i = 0; i < RANKS; i++) end += sprintf(end, "%s%d", i ? "," : "", (int)((7LL * i + 3) % RANKS));
    strcpy(end, "]");
    return text;
}

/* The longest of the views of a few ranks, each the best of three. */
static double slowest_view(const rsh_plan *p) {
    double slowest = 0;
    for (int64_t rank = 0; rank < RANKS; rank += RANKS / 16) {
        double best = 1e9;
        for (int i = 0; i < 3; i++) {
            rsh_plan_view v;
            double t = now();
            must(rsh_plan_rank(p, rank, &v));
            t = now() - t;
            if (t < best) best = t;
        }
        if (best > slowest) slowest = best;
    }
    return slowest;
}

static void measure(const char *name, const char *from, const char *to) {
    rsh_layout *a, *b;
    rsh_plan *p;
    rsh_plan_totals t;
    must(rsh_layout_parse(from, &a));
    must(rsh_layout_parse(to, &b));
    double start = now();
    must(rsh_plan_new(a, b, NULL, &p));
    double planned = now();
    must(rsh_plan_get_totals(p, &t));
    double totalled = now();
    printf("%-16s plan %7.2f ms   totals %7.2f ms   slowest view %6.3f ms   moved/bound %.4f\n", name,
           1e3 * (planned - start), 1e3 * (totalled - planned), 1e3 * slowest_view(p),
           t.lower_bound ? (double)t.bytes_moved / (double)t.lower_bound : 1.0);
    rsh_plan_free(p);
    rsh_layout_free(a);
    rsh_layout_free(b);
}

/* ---- many tensors ---- */

/* A transformer's weights, from 8-way to 16-way tensor parallel: cut along rows, along columns, as three fused
 * projections, or whole. */
static void model_layouts(rsh_layout **from, rsh_layout **to) {
    static const char *const forms[4] = {"bf16[%d/tp, 4096] on dp=%d,tp=%d", "bf16[4096, %d/tp] on dp=%d,tp=%d",
                                         "bf16[(%d|1024|1024)/tp, 4096] on dp=%d,tp=%d", "bf16[%d] on dp=%d,tp=%d"};
    for (int i = 0; i < TENSORS; i++) {
        char text[128];
        int size = 4096 + 64 * (i / 4);
        snprintf(text, sizeof text, forms[i % 4], size, 512, 8);
        must(rsh_layout_parse(text, &from[i]));
        snprintf(text, sizeof text, forms[i % 4], size, 256, 16);
        must(rsh_layout_parse(text, &to[i]));
    }
}

static void measure_model(void) {
    rsh_layout *from[TENSORS], *to[TENSORS];
    rsh_plan *p;
    double slowest = 0;
    int64_t transfers = 0;
    model_layouts(from, to);
    double start = now();
    must(rsh_plan_new_many(TENSORS, (const rsh_layout *const *)from, (const rsh_layout *const *)to, NULL, &p));
    double planned = now() - start;
    for (int64_t rank = 0; rank < 4096; rank += 4096 / 8) {
        rsh_share *share;
        start = now();
        must(rsh_plan_share(p, rank, &share));
        double took = now() - start;
        if (took > slowest) slowest = took, transfers = share->ncopies + share->nreceives + share->nsends;
        rsh_share_free(share);
    }
    printf("%d tensors, 4096 ranks: plan %.2f ms   slowest share %.2f ms of %lld transfers   together %.3f s\n",
           TENSORS, 1e3 * planned, 1e3 * slowest, (long long)transfers, planned + slowest);
    rsh_plan_free(p);
    for (int i = 0; i < TENSORS; i++) {
        rsh_layout_free(from[i]);
        rsh_layout_free(to[i]);
    }
}

int main(void) {
    char *columns = permuted();
    printf("planning for %d ranks\n", RANKS);
    measure("rows to columns", "f32[65536/x, 65536] on x=65536", "f32[65536, 65536/x] on x=65536");
    measure("replicas", "f32[65536/x, 65536] on x=4096,r=16", "f32[65536, 65536/x] on x=4096,r=16");
    measure("nested axes", "f32[65537/(x,y), 65539] on x=256,y=256", "f32[65537, 65539/(y,x)] on x=256,y=256");
    measure("cyclic", "f32[1000000/x:3] on x=65536", "f32[1000000/x:5] on x=65536");
    measure("permuted ranks", "f32[65536/x, 65536] on x=65536", columns);
    free(columns);
    measure_model();
    return 0;
}

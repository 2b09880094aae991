/* Grid spec: a user-defined kind of sharding spec.  The user defines boxes and owners; all other functions, from
 * factories to resharding to any other spec, work with it. */
#include <reshard/torch.h>

#include <stdio.h>

/* rows x columns boxes of nearly equal size; box (i, j) belongs to rank i * columns + j. */
typedef struct grid {
    int rows, columns;
} grid;

enum { MOST = 64 };

static rsh_status grid_build(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                             rsh_tensor_meta **out) {
    const grid *g = self;
    rsh_shard_meta shard[MOST];
    if (ndim != 2 || g->rows * g->columns > MOST) return RSH_EVALUE;
    for (int k = 0; k < g->rows * g->columns; k++) {
        char owner[32];
        int i = k / g->columns, j = k % g->columns;
        int64_t lo[2] = {size[0] * i / g->rows, size[1] * j / g->columns};
        int64_t n[2] = {size[0] * (i + 1) / g->rows - lo[0], size[1] * (j + 1) / g->columns - lo[1]};
        snprintf(owner, sizeof owner, "rank:%d/cpu", k);
        rsh_status st = rsh_shard_meta_make(2, lo, 2, n, owner, &shard[k]);
        if (st) return st;
    }
    return rsh_tensor_meta_new(g->rows * g->columns, shard, ndim, size, props, out);
}

/* Prints the text that distinguishes one grid from another. */
static rsh_status grid_print(const void *self, const rsh_sink *sink) {
    const grid *g = self;
    char text[32];
    int n = snprintf(text, sizeof text, "%dx%d", g->rows, g->columns);
    return sink->write(sink->ctx, text, (size_t)n) ? RSH_EIO : RSH_OK;
}

/* Without `free` the spec borrows `self`. */
static const rsh_spec_kind grid_kind = {.name = "grid", .build = grid_build, .print = grid_print};

/* Reshards bands of rows to a grid of 2 by 3 and back, which must give the same tensor. */
static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    (void)ctx;
    const int64_t size[2] = {7, 11};
    grid two_by_three = {2, 3};
    rsh_spec *boxes = NULL, *rows = NULL;
    rsh_torch_tensor *a = NULL, *b = NULL, *c = NULL;
    bool same = false;
    rsh_status st = rsh_group_init(comm);
    if (!st) st = rsh_spec_new(&grid_kind, &two_by_three, &boxes);
    if (!st) st = rsh_spec_chunk_ranks(0, 6, NULL, &rows);
    if (!st) st = rsh_torch_randn(rows, 2, size, NULL, &a);
    if (!st) st = rsh_torch_reshard(a, boxes, &b);
    if (!st) st = rsh_torch_reshard(b, rows, &c);
    if (!st) st = rsh_torch_equal(a, c, &same);
    if (!st && rsh_comm_rank(comm) == 4) {
        const rsh_shard_meta *m = &rsh_torch_shard(b, 0)->meta;
        printf("%s: rank 4 has %lld x %lld elements from (%lld, %lld) on\n", rsh_spec_text(boxes),
               (long long)m->sizes[0], (long long)m->sizes[1], (long long)m->offsets[0], (long long)m->offsets[1]);
        puts(same ? "rows -> grid -> rows: the same tensor" : "rows -> grid -> rows: NOT the same tensor");
    }
    rsh_torch_free(c);
    rsh_torch_free(b);
    rsh_torch_free(a);
    rsh_spec_free(rows);
    rsh_spec_free(boxes);
    if (!st && !same) st = RSH_ERUNTIME;
    return st ? st : rsh_group_destroy();
}

int main(void) {
    rsh_status st = rsh_run(6, rank_main, NULL);
    if (st) fprintf(stderr, "06_grid_spec: %s: %s\n", rsh_status_text(st), rsh_error_detail());
    return st != RSH_OK;
}

/* Reshard: four ranks hold bands of rows, which become bands of columns.  This is the code of README.md. */
#include <reshard.h>

#include <stdio.h>

/* Sets each element to its global index.  Parts are bands of rows, so the indices of a part are consecutive. */
static void fill(const rsh_sharded *s) {
    const rsh_tensor *part = rsh_sharded_part(s, 0);
    int64_t n = rsh_tensor_count(part), first = n * rsh_comm_rank(rsh_sharded_comm(s));
    for (int64_t i = 0; i < n; i++) ((float *)rsh_tensor_data(part))[i] = (float)(first + i);
}

/* Compares digests, which depend on values and their global indices, not on the layout.  Collective. */
static rsh_status check_same(const rsh_sharded *a, const rsh_sharded *b) {
    rsh_digest x, y;
    rsh_status st = rsh_sharded_digest(a, &x);
    if (!st) st = rsh_sharded_digest(b, &y);
    if (st) return st;
    return x.hi == y.hi && x.lo == y.lo ? RSH_OK : RSH_ERUNTIME;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) { /* every rank runs this */
    const rsh_layout *const *layout = ctx;
    rsh_sharded *rows = NULL, *columns = NULL;
    rsh_status st = rsh_sharded_zeros(comm, layout[0], &rows);
    if (!st) fill(rows);
    if (!st) st = rsh_reshard(rows, layout[1], NULL, &columns);
    if (!st) st = check_same(rows, columns);
    rsh_sharded_free(columns);
    rsh_sharded_free(rows);
    return st;
}

int main(void) {
    rsh_layout *layout[2] = {NULL, NULL};
    rsh_status st = rsh_layout_parse("f32[4096/x, 4096] on x=4", &layout[0]);
    if (!st) st = rsh_layout_parse("f32[4096, 4096/x] on x=4", &layout[1]);
    if (!st) st = rsh_run(4, rank_main, layout); /* four ranks, as threads */
    puts(st ? rsh_error_detail() : "rows became columns");
    rsh_layout_free(layout[1]);
    rsh_layout_free(layout[0]);
    return st != RSH_OK;
}

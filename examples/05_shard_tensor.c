/* Shard tensor: PyTorch's sharded tensors in C.  Rank 0 has a matrix.  Four ranks get bands of its rows, with owners
 * that the caller chooses, and reshard them to columns.  Then rank 2 gathers the matrix. */
#include <reshard/torch.h>

#include <stdio.h>

enum { RANKS = 4, ROWS = 5, COLUMNS = 6 };

/* Every rank passes a tensor of the whole shape; only the elements of rank 0 are used. */
static rsh_status make_matrix(int rank, rsh_tensor **out) {
    rsh_status st = rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){ROWS, COLUMNS}, out);
    for (int i = 0; !st && rank == 0 && i < ROWS * COLUMNS; i++)
        ((float *)rsh_tensor_data(*out))[i] = (float)(i / COLUMNS * 10 + i % COLUMNS);
    return st;
}

/* Prints the shards of each rank, in rank order. */
static rsh_status show(const char *what, const rsh_torch_tensor *t, rsh_comm *comm) {
    rsh_status st = rsh_comm_barrier(comm);
    for (int r = 0; r < rsh_comm_size(comm) && !st; r++) {
        const rsh_shard *s = rsh_torch_shard(t, 0);
        if (r == rsh_comm_rank(comm) && s) {
            const float *x = rsh_tensor_data(s->tensor);
            printf("%s, rank %d: %lld x %lld from (%lld, %lld):", what, r, (long long)s->meta.sizes[0],
                   (long long)s->meta.sizes[1], (long long)s->meta.offsets[0], (long long)s->meta.offsets[1]);
            for (int64_t i = 0; i < rsh_tensor_count(s->tensor); i++) printf(" %02.0f", (double)x[i]);
            putchar('\n');
        }
        st = rsh_comm_barrier(comm);
    }
    return st;
}

/* Gathers the matrix on rank 2 and checks it. */
static rsh_status check(const rsh_torch_tensor *t, int rank) {
    rsh_tensor *whole = NULL;
    int wrong = 0;
    rsh_status st = rank == 2 ? rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){ROWS, COLUMNS}, &whole) : RSH_OK;
    if (!st) st = rsh_torch_gather(t, 2, whole); /* whole is NULL on the other ranks */
    for (int i = 0; !st && whole && i < ROWS * COLUMNS; i++)
        wrong += ((float *)rsh_tensor_data(whole))[i] != (float)(i / COLUMNS * 10 + i % COLUMNS);
    if (!st && whole)
        printf("gathered on rank 2: %d of %d elements are right\n", ROWS * COLUMNS - wrong, ROWS * COLUMNS);
    rsh_tensor_free(whole);
    return st ? st : wrong ? RSH_ERUNTIME : RSH_OK;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    (void)ctx;
    const int owners[RANKS] = {2, 3, 1, 0}; /* owners of the bands, from top to bottom */
    rsh_tensor *matrix = NULL;
    rsh_spec *rows = NULL, *columns = NULL;
    rsh_torch_tensor *a = NULL, *b = NULL;
    rsh_status st = rsh_group_init(comm);
    if (!st) st = make_matrix(rsh_comm_rank(comm), &matrix);
    if (!st) st = rsh_spec_chunk_ranks(0, RANKS, owners, &rows);
    if (!st) st = rsh_spec_chunk_ranks(-1, RANKS, NULL, &columns);
    if (!st) st = rsh_shard_tensor(matrix, rows, 0, NULL, NULL, &a); /* 5 rows on 4 ranks: 2, 2, 1, 0 */
    if (!st) st = show("rows", a, comm);
    if (!st) st = rsh_torch_reshard(a, columns, &b); /* 6 columns: 2, 2, 2, 0 */
    if (!st) st = show("columns", b, comm);
    if (!st) st = check(b, rsh_comm_rank(comm));
    rsh_torch_free(b);
    rsh_torch_free(a);
    rsh_spec_free(columns);
    rsh_spec_free(rows);
    rsh_tensor_free(matrix);
    return st ? st : rsh_group_destroy();
}

int main(void) {
    rsh_status st = rsh_run(RANKS, rank_main, NULL);
    if (st) fprintf(stderr, "05_shard_tensor: %s: %s\n", rsh_status_text(st), rsh_error_detail());
    return st != RSH_OK;
}

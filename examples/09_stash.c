/* Stash: a program with its own autograd keeps 1/ranks of the tensors that forward saves.
 *
 * The model is a chain of layers y = x * x, equal on all ranks.  Forward packs each input.  Backward goes from the last
 * layer to the first; while it works on one layer, it prefetches the input of the layer before. */
#include <reshard/train.h>

#include <stdio.h>

enum { RANKS = 4, LAYERS = 5, ROWS = 37, COLUMNS = 64 };

#define TRY(call)                    \
    do {                             \
        rsh_status st_ = (call);     \
        if (st_) return st_;         \
    } while (0)

/* Computes y = x * x, and packs x for backward. */
static rsh_status layer_forward(rsh_stash *stash, rsh_tensor **x, rsh_ticket **saved) {
    rsh_tensor *y = NULL;
    TRY(rsh_stash_pack(stash, *x, 0, saved));
    TRY(rsh_tensor_empty(RSH_F64, 2, rsh_tensor_shape(*x), &y));
    const double *in = rsh_tensor_data(*x);
    double *out = rsh_tensor_data(y);
    for (int64_t i = 0; i < rsh_tensor_count(y); i++) out[i] = in[i] * in[i];
    rsh_tensor_free(*x); /* the stash keeps only this rank's chunk */
    *x = y;
    return RSH_OK;
}

/* Multiplies the gradient by 2 x. */
static rsh_status layer_backward(rsh_ticket *saved, const rsh_tensor *gradient) {
    rsh_tensor *x = NULL;
    TRY(rsh_stash_unpack(saved, &x));
    const double *in = rsh_tensor_data(x);
    double *g = rsh_tensor_data(gradient);
    for (int64_t i = 0; i < rsh_tensor_count(x); i++) g[i] *= 2 * in[i];
    rsh_tensor_free(x);
    return RSH_OK;
}

static rsh_status backward(rsh_ticket **saved, const rsh_tensor *gradient) {
    for (int l = LAYERS - 1; l >= 0; l--) {
        if (l) TRY(rsh_stash_prefetch(saved[l - 1])); /* prefetch one tensor ahead */
        TRY(layer_backward(saved[l], gradient));
    }
    return RSH_OK;
}

/* Checks the gradient: d/dx x^32 at x = 1 is 32. */
static rsh_status check_gradient(const rsh_tensor *gradient) {
    for (int64_t i = 0; i < rsh_tensor_count(gradient); i++)
        if (((double *)rsh_tensor_data(gradient))[i] != 32) return RSH_ERUNTIME;
    return RSH_OK;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    const int64_t shape[2] = {ROWS, COLUMNS};
    rsh_tensor *x = NULL, *gradient = NULL;
    rsh_stash *stash = NULL;
    rsh_ticket *saved[LAYERS] = {NULL};
    uint64_t whole = 0, kept = 0;
    (void)ctx;
    TRY(rsh_stash_new(comm, &stash));
    TRY(rsh_tensor_empty(RSH_F64, 2, shape, &x));
    TRY(rsh_math_fill_number(x, 1));
    for (int l = 0; l < LAYERS; l++) {
        TRY(layer_forward(stash, &x, &saved[l]));
        whole += rsh_ticket_bytes(saved[l]);
        kept += rsh_ticket_bytes_kept(saved[l]);
    }
    TRY(rsh_tensor_empty(RSH_F64, 2, shape, &gradient));
    TRY(rsh_math_fill_number(gradient, 1));
    TRY(backward(saved, gradient));
    TRY(check_gradient(gradient));
    if (rsh_comm_rank(comm) == 0)
        printf("%d ranks: rank 0 kept %llu of %llu bytes\n", RANKS, (unsigned long long)kept,
               (unsigned long long)whole);
    for (int l = 0; l < LAYERS; l++) rsh_ticket_free(saved[l]);
    rsh_stash_free(stash);
    rsh_tensor_free(x);
    rsh_tensor_free(gradient);
    return RSH_OK;
}

int main(void) {
    rsh_status st = rsh_run(RANKS, rank_main, NULL);
    if (st) fprintf(stderr, "%s\n", rsh_error_detail());
    return st != RSH_OK;
}

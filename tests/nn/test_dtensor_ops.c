/* Ops on DTensors: every row of the table in docs/dtensor.md on random sizes, compared with the op on whole tensors. */
#include "nn/numbers.h"
#include "nn/placed_values.h"
#include "seed.h"

#include <reshard/nn.h>

#define ONE(name_, call)                                                                                               \
    static rsh_status name_##_(rsh_value *const *in, rsh_value **out) { return call; }

ONE(add, rsh_nn_add(in[0], in[1], out))
ONE(sub, rsh_nn_sub(in[0], in[1], out))
ONE(mul, rsh_nn_mul(in[0], in[1], out))
ONE(div, rsh_nn_div(in[0], in[1], out))
ONE(pow, rsh_nn_pow(in[0], in[1], out))
ONE(neg, rsh_nn_neg(in[0], out))
ONE(mul_number, rsh_nn_mul_number(in[0], -2.5, out))
ONE(add_number, rsh_nn_add_number(in[0], 0.5, out))
ONE(exp, rsh_nn_exp(in[0], out))
ONE(log, rsh_nn_log(in[0], out))
ONE(sqrt, rsh_nn_sqrt(in[0], out))
ONE(relu, rsh_nn_relu(in[0], out))
ONE(gelu, rsh_nn_gelu(in[0], RSH_GELU_ERF, out))
ONE(gelu_tanh, rsh_nn_gelu(in[0], RSH_GELU_TANH, out))
ONE(tanh, rsh_nn_tanh(in[0], out))
ONE(sigmoid, rsh_nn_sigmoid(in[0], out))
ONE(silu, rsh_nn_silu(in[0], out))
ONE(pow_number, rsh_nn_pow_number(in[0], 3, out))
ONE(clamp, rsh_nn_clamp(in[0], -0.5, 0.5, out))
ONE(nan_to_num, rsh_nn_nan_to_num(in[0], 1, 2, 3, out))
ONE(where, rsh_nn_where(in[0], in[1], in[2], out))
ONE(masked_fill, rsh_nn_masked_fill(in[0], in[1], 7, out))
ONE(dropout, rsh_nn_dropout(in[0], 0.3, 5, 2, out))
ONE(sum0, rsh_nn_sum(in[0], 1, (int[]){0}, false, out))
ONE(sum_all, rsh_nn_sum(in[0], 0, NULL, false, out))
ONE(mean1, rsh_nn_mean(in[0], 1, (int[]){1}, true, out))
ONE(mean_all, rsh_nn_mean(in[0], 0, NULL, false, out))
ONE(max_all, rsh_nn_max(in[0], out))
ONE(max1, rsh_nn_max_dim(in[0], 1, false, out, NULL))
ONE(max0, rsh_nn_max_dim(in[0], 0, true, out, NULL))
ONE(transpose, rsh_nn_transpose(in[0], 0, 2, out))
ONE(permute, rsh_nn_permute(in[0], (int[]){1, 2, 0}, out))
ONE(contiguous, rsh_nn_contiguous(in[0], out))
ONE(join, rsh_nn_reshape(in[0], 2, (int64_t[]){-1, rsh_value_shape(in[0])[2]}, out))
ONE(part_, rsh_nn_reshape(in[0], 3, (int64_t[]){rsh_value_shape(in[0])[0], -1, 2}, out))
ONE(squeeze, rsh_nn_squeeze(in[0], 1, out))
ONE(unsqueeze, rsh_nn_unsqueeze(in[0], 1, out))
ONE(expand, rsh_nn_expand(in[0], 3, (int64_t[]){2, -1, 5}, out))
ONE(narrow, rsh_nn_narrow(in[0], 1, 0, (rsh_value_shape(in[0])[1] + 1) / 2, out))
ONE(narrow_tail, rsh_nn_narrow(in[0], 1, rsh_value_shape(in[0])[1] / 2, (rsh_value_shape(in[0])[1] + 1) / 2, out))
ONE(index_select, rsh_nn_index_select(in[0], 0, in[1], out))
ONE(index_select1, rsh_nn_index_select(in[0], 1, in[1], out))
ONE(cat3, rsh_nn_cat(3, in, 0, out))
ONE(cat, rsh_nn_cat(2, in, 1, out))
ONE(stack, rsh_nn_stack(2, in, 0, out))
ONE(softmax, rsh_nn_softmax(in[0], 1, out))
ONE(log_softmax, rsh_nn_log_softmax(in[0], 1, out))
ONE(layer_norm, rsh_nn_layer_norm(in[0], 1, in[1], in[2], 1e-5, out))
ONE(layer_norm2, rsh_nn_layer_norm(in[0], 2, NULL, NULL, 1e-5, out))
ONE(rms_norm, rsh_nn_rms_norm(in[0], in[1], 1e-5, out))
ONE(embedding, rsh_nn_embedding(in[0], in[1], 0, out))
ONE(linear, rsh_nn_linear(in[0], in[1], in[2], out))
ONE(linear_alone, rsh_nn_linear(in[0], in[1], NULL, out))
ONE(matmul, rsh_nn_matmul(in[0], in[1], out))
ONE(bmm, rsh_nn_bmm(in[0], in[1], out))
ONE(attention, rsh_nn_attention(in[0], in[1], in[2], NULL, false, out))
ONE(causal, rsh_nn_attention(in[0], in[1], in[2], NULL, true, out))
ONE(masked_attention, rsh_nn_attention(in[0], in[1], in[2], in[3], false, out))

static rsh_status entropy(rsh_value *const *in, rsh_loss_reduction reduction, double smoothing, rsh_value **out) {
    rsh_cross_entropy_opts o = {sizeof o, reduction, true, 1, smoothing}; /* ignores class 1, if it exists */
    return rsh_nn_cross_entropy(in[0], in[1], &o, out);
}
ONE(entropy_mean, entropy(in, RSH_LOSS_MEAN, 0, out))
ONE(entropy_sum, entropy(in, RSH_LOSS_SUM, 0.2, out))
ONE(entropy_none, entropy(in, RSH_LOSS_NONE, 0.1, out))
ONE(entropy_plain, rsh_nn_cross_entropy(in[0], in[1], NULL, out))
ONE(mse, rsh_nn_mse(in[0], in[1], RSH_LOSS_MEAN, out))
ONE(mse_none, rsh_nn_mse(in[0], in[1], RSH_LOSS_NONE, out))

/* Returns the last of several outputs. */
static rsh_status split_(rsh_value *const *in, rsh_value **out) {
    rsh_value *piece[9] = {NULL};
    int n = (int)((rsh_value_shape(in[0])[1] + 1) / 2);
    TRY(rsh_nn_split(in[0], 2, 1, n, piece));
    for (int i = 0; i < n - 1; i++) rsh_value_free(piece[i]);
    *out = piece[n - 1];
    return RSH_OK;
}

/* Returns the first of three pieces minus the last. */
static rsh_status split_sizes_(rsh_value *const *in, rsh_value **out) {
    int64_t n = rsh_value_shape(in[0])[1], sizes[3] = {n / 3, n - 2 * (n / 3), n / 3};
    rsh_value *piece[3] = {NULL};
    TRY(rsh_nn_split_sizes(in[0], 1, 3, sizes, piece));
    rsh_status st = rsh_nn_sub(piece[0], piece[2], out);
    for (int i = 0; i < 3; i++) rsh_value_free(piece[i]);
    return st;
}

/* Returns the indices of maxima. */
static rsh_status argmax1_(rsh_value *const *in, rsh_value **out) {
    rsh_value *most = NULL;
    TRY(rsh_nn_max_dim(in[0], 1, false, &most, out));
    rsh_value_free(most);
    return RSH_OK;
}

static rsh_status chunk_(rsh_value *const *in, rsh_value **out) {
    rsh_value *piece[2] = {NULL};
    int n;
    TRY(rsh_nn_chunk(in[0], 2, 1, &n, piece));
    if (n > 1) rsh_value_free(piece[1]);
    *out = piece[0];
    return RSH_OK;
}

/* ---- the table: an op, its inputs, and rows with their placements along one mesh dim ---- */

#define ROWS(...) (const placed_row[]){__VA_ARGS__, {NULL, NULL}}
#define CURVED ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "no"}, {"M", "no"})
#define MOVED(cut0, cut1, cut2)                                                                                        \
    ROWS({"R", "R"}, {"S0", cut0}, {"S1", cut1}, {"S2", cut2}, {"P", "P"}, {"A", "A"}, {"M", "M"})

static const struct entry {
    placed_op op;
    const placed_row *rows;
} table[] = {
    {{"add", "ab ab", add_},
     ROWS({"R R", "R"}, {"S0 S0", "S0"}, {"S1 S1", "S1"}, {"S0 R", "S0"}, {"R S1", "S1"}, {"P P", "P"}, {"P R", "P"},
          {"R P", "P"}, {"A A", "A"}, {"A R", "A"}, {"P S0", "S0"}, {"S1 P", "S1"}, {"S0 S1", "no"}, {"M M", "no"},
          {"P A", "no"})},
    {{"sub", "ab b", sub_},
     ROWS({"R R", "R"}, {"S0 R", "S0"}, {"S1 S0", "S1"}, {"S1 R", "S1"}, {"R S0", "S1"}, {"P R", "P"}, {"P P", "P"},
          {"R P", "P"}, {"S0 S0", "no"}, {"S0 P", "no"})},
    {{"add", "ae a1", add_}, ROWS({"S0 S0", "S0"}, {"S1 R", "S1"}, {"P R", "P"}, {"S1 S1", "no"}, {"R S0", "S0"})},
    {{"mul", "ab ab", mul_},
     ROWS({"S0 S0", "S0"}, {"S1 R", "S1"}, {"R S0", "S0"}, {"P R", "P"}, {"R P", "P"}, {"A R", "A"}, {"P P", "no"},
          {"P S0", "no"})},
    {{"mul", "ab b", mul_}, ROWS({"S0 R", "S0"}, {"R S0", "S1"}, {"P R", "P"}, {"R P", "P"})},
    {{"div", "ab p:ab", div_}, ROWS({"S0 S0", "S0"}, {"S1 R", "S1"}, {"P R", "P"}, {"R P", "no"})},
    {{"pow", "p:ab ab", pow_}, ROWS({"S0 S0", "S0"}, {"R S1", "S1"}, {"P R", "no"})},
    {{"neg", "ab", neg_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "P"}, {"A", "A"}, {"M", "no"})},
    {{"mul_number", "ab", mul_number_}, ROWS({"R", "R"}, {"S0", "S0"}, {"P", "P"}, {"A", "A"}, {"M", "no"})},
    {{"add_number", "ab", add_number_}, CURVED},
    {{"exp", "ab", exp_}, CURVED},
    {{"log", "p:ab", log_}, CURVED},
    {{"sqrt", "p:ab", sqrt_}, CURVED},
    {{"relu", "ab", relu_}, CURVED},
    {{"gelu", "ab", gelu_}, CURVED},
    {{"gelu_tanh", "ab", gelu_tanh_}, CURVED},
    {{"tanh", "ab", tanh_}, CURVED},
    {{"sigmoid", "ab", sigmoid_}, CURVED},
    {{"silu", "ab", silu_}, CURVED},
    {{"pow_number", "ab", pow_number_}, CURVED},
    {{"clamp", "ab", clamp_}, CURVED},
    {{"nan_to_num", "ab", nan_to_num_}, CURVED},
    {{"where", "m:ab ab ab", where_},
     ROWS({"S0 S0 S0", "S0"}, {"S1 R R", "S1"}, {"R S0 R", "S0"}, {"R P P", "P"}, {"R P R", "P"}, {"R S0 P", "S0"},
          {"S0 P R", "S0"}, {"S0 S1 S1", "no"})},
    {{"masked_fill", "ab m:b", masked_fill_}, ROWS({"S0 R", "S0"}, {"S1 S0", "S1"}, {"S1 R", "S1"}, {"P R", "no"})},
    {{"dropout", "ab", dropout_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "P"})},
    {{"sum", "ab", sum0_}, ROWS({"R", "R"}, {"S0", "P"}, {"S1", "S0"}, {"P", "P"}, {"A", "A"}, {"M", "no"})},
    {{"sum", "ab", sum_all_}, ROWS({"R", "R"}, {"S0", "P"}, {"S1", "P"}, {"P", "P"})},
    {{"mean", "ab", mean1_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "P"}, {"P", "P"}, {"A", "A"})},
    {{"mean", "ab", mean_all_}, ROWS({"R", "R"}, {"S0", "P"}, {"S1", "P"}, {"P", "P"}, {"A", "A"})},
    {{"max", "ab", max_all_}, ROWS({"R", "R"}, {"S0", "R"}, {"S1", "R"}, {"P", "no"})},
    {{"max", "ab", max1_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "R"}, {"P", "no"})},
    {{"max", "abc", max0_}, ROWS({"R", "R"}, {"S0", "R"}, {"S1", "S1"}, {"S2", "S2"}, {"P", "no"}, {"M", "no"})},
    {{"max", "abc", argmax1_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "R"}, {"S2", "S1"})},
    {{"transpose", "abc", transpose_}, MOVED("S2", "S1", "S0")},
    {{"permute", "abc", permute_}, MOVED("S2", "S0", "S1")},
    {{"contiguous", "abc", contiguous_}, MOVED("S0", "S1", "S2")},
    {{"reshape", "eec", join_}, MOVED("S0", "no", "S1")},
    {{"reshape", "ae", part__}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "P"}, {"M", "M"})},
    {{"squeeze", "a1b", squeeze_}, MOVED("S0", "no", "S1")},
    {{"unsqueeze", "ab", unsqueeze_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S2"}, {"P", "P"})},
    {{"expand", "a1", expand_}, ROWS({"R", "R"}, {"S0", "S1"}, {"S1", "no"}, {"P", "P"}, {"M", "M"})},
    {{"narrow", "ab", narrow_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "P"}, {"A", "A"}, {"M", "M"})},
    {{"narrow", "abc", narrow_tail_}, MOVED("S0", "S1", "S2")},
    {{"index_select", "zb i:c", index_select_},
     ROWS({"R R", "R"}, {"S1 R", "S1"}, {"R S0", "S0"}, {"P R", "P"}, {"S0 R", "P"}, {"S1 S0", "no"}, {"S0 S0", "no"})},
    {{"index_select", "azb i:c", index_select1_}, ROWS({"S0 R", "S0"}, {"S1 R", "P"}, {"S2 R", "S2"}, {"A R", "A"})},
    {{"cat", "ab ac", cat_},
     ROWS({"R R", "R"}, {"S0 S0", "S0"}, {"S0 R", "S0"}, {"P P", "P"}, {"R P", "P"}, {"S0 P", "S0"}, {"S1 S1", "S1"},
          {"S1 R", "S1"}, {"R S1", "S1"}, {"P S1", "S1"}, {"S0 S1", "no"}, {"M M", "M"})},
    {{"cat", "ab cb db", cat3_},
     ROWS({"S0 S0 S0", "S0"}, {"S0 R S0", "S0"}, {"S1 S1 R", "S1"}, {"R S0 P", "S0"}, {"A A R", "A"},
          {"S0 S1 R", "no"})},
    {{"stack", "ab ab", stack_}, ROWS({"R R", "R"}, {"S0 S0", "S1"}, {"R S1", "S2"}, {"P R", "P"}, {"S0 S1", "no"})},
    {{"split", "ab", split_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "P"}, {"M", "M"})},
    {{"split", "ab", split_sizes_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"P", "P"})},
    {{"chunk", "ab", chunk_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"A", "A"})},
    {{"softmax", "abc", softmax_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"S2", "S2"}, {"P", "no"})},
    {{"log_softmax", "abc", log_softmax_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"S2", "S2"}, {"P", "no"})},
    {{"layer_norm", "ab b b", layer_norm_},
     ROWS({"R R R", "R"}, {"S0 R R", "S0"}, {"S1 S0 S0", "S1"}, {"S1 R R", "S1"}, {"P R R", "no"}, {"S0 S0 R", "no"})},
    {{"layer_norm", "abc", layer_norm2_}, ROWS({"R", "R"}, {"S0", "S0"}, {"S1", "S1"}, {"S2", "S2"}, {"P", "no"})},
    {{"rms_norm", "ab b", rms_norm_}, ROWS({"R R", "R"}, {"S0 R", "S0"}, {"S1 S0", "S1"}, {"P R", "no"})},
    {{"embedding", "i:ab zd", embedding_},
     ROWS({"R R", "R"}, {"S0 R", "S0"}, {"S1 R", "S1"}, {"R S1", "S2"}, {"R S0", "P"}, {"R P", "P"}, {"S0 S0", "no"},
          {"S0 P", "no"})},
    {{"linear", "ab cb c", linear_},
     ROWS({"R R R", "R"}, {"S0 R R", "S0"}, {"R S0 S0", "S1"}, {"R S0 R", "S1"}, {"R R S0", "S1"}, {"S1 S1 R", "P"},
          {"S1 S1 P", "P"}, {"S1 R R", "P"}, {"R S1 R", "P"}, {"P R R", "P"}, {"R P P", "P"}, {"R R P", "P"},
          {"P P R", "no"}, {"S0 S0 R", "no"}, {"S1 P R", "no"})},
    {{"linear", "abc dc", linear_alone_},
     ROWS({"S1 R", "S1"}, {"S2 S1", "P"}, {"R S0", "S2"}, {"A R", "A"}, {"S0 S0", "no"})},
    {{"matmul", "ab bc", matmul_},
     ROWS({"R R", "R"}, {"S0 R", "S0"}, {"R S1", "S1"}, {"S1 S0", "P"}, {"S1 R", "P"}, {"P R", "P"}, {"R P", "P"},
          {"P P", "no"}, {"S0 S1", "no"}, {"S0 S0", "no"})},
    {{"matmul", "abc cd", matmul_}, ROWS({"S0 R", "S0"}, {"S1 R", "S1"}, {"R S1", "S2"}, {"S2 S0", "P"})},
    {{"matmul", "1bc ecd", matmul_}, ROWS({"R S0", "S0"}, {"S1 R", "S1"}, {"S0 S0", "no"})},
    {{"matmul", "b abc", matmul_}, ROWS({"R S0", "S0"}, {"S0 S1", "P"}, {"R S2", "S1"})},
    {{"bmm", "abc acd", bmm_}, ROWS({"S0 S0", "S0"}, {"S0 R", "S0"}, {"S1 R", "S1"}, {"R S2", "S2"}, {"S2 S1", "P"})},
    {{"attention", "abcd abed abef", attention_},
     ROWS({"R R R", "R"}, {"S0 S0 S0", "S0"}, {"S1 S1 S1", "S1"}, {"S2 R R", "S2"}, {"R R S3", "S3"}, {"R R P", "P"},
          {"S3 S3 R", "no"}, {"P R R", "no"})},
    {{"attention", "abcd abcd abcd", causal_},
     ROWS({"S0 S0 S0", "S0"}, {"S1 S1 S1", "S1"}, {"S1 R S1", "S1"}, {"S2 R R", "no"})},
    {{"attention", "abcd abed abef m:bce", masked_attention_},
     ROWS({"R R R R", "R"}, {"S0 S0 S0 R", "S0"}, {"S1 S1 S1 S0", "S1"}, {"S1 S1 S1 R", "S1"}, {"S2 R R S1", "S2"},
          {"R R R S2", "no"})},
    {{"cross_entropy", "az i:a", entropy_mean_},
     ROWS({"R R", "R"}, {"S0 S0", "P"}, {"S0 R", "P"}, {"R S0", "P"}, {"S1 R", "R"}, {"P R", "no"}, {"S1 S0", "no"})},
    {{"cross_entropy", "azb i:ab", entropy_sum_}, ROWS({"R R", "R"}, {"S0 S0", "P"}, {"S2 S1", "P"}, {"S1 R", "R"})},
    {{"cross_entropy", "azb i:ab", entropy_none_},
     ROWS({"R R", "R"}, {"S0 S0", "S0"}, {"S2 R", "S1"}, {"S1 R", "R"}, {"P R", "no"})},
    {{"cross_entropy", "az i:a", entropy_plain_}, ROWS({"R R", "R"}, {"S0 S0", "P"}, {"S1 R", "R"})},
    {{"mse", "ab ab", mse_}, ROWS({"R R", "R"}, {"S0 S0", "P"}, {"S1 R", "P"}, {"P R", "no"}, {"S0 S1", "no"})},
    {{"mse", "ab ab", mse_none_}, ROWS({"S0 S0", "S0"}, {"R S1", "S1"}, {"P P", "no"})},
};
enum { ENTRIES = sizeof table / sizeof *table };

typedef struct drawing {
    uint64_t seed;
    int rounds;
    int one_in; /* one of so many rows is tested */
} drawing;

static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static rsh_status on_a_line(void *ctx, rsh_comm *c) {
    const drawing *d = ctx;
    uint64_t seed = d->seed;
    int64_t size = rsh_comm_size(c);
    rsh_mesh *mesh = NULL;
    TRY(rsh_mesh_new(c, 1, &size, NULL, NULL, &mesh));
    for (int i = 0; i < d->rounds * ENTRIES; i++) {
        const struct entry *e = &table[i % ENTRIES];
        for (const placed_row *row = e->rows; row->in; row++)
            if (next(&seed) % (uint64_t)d->one_in == 0) TRY(placed_check(mesh, &e->op, &row, next(&seed)));
    }
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static bool has(const placed_row *row, char c) { return strchr(row->in, c) != NULL; }

/* Can the two rows be combined?  All partial dims of a tensor must have the same op. */
static bool go_together(const placed_row *a, const placed_row *b) {
    const char *ops = "PAM";
    for (int i = 0; i < 9; i++)
        if (i / 3 != i % 3 && (has(a, ops[i / 3]) || strchr(a->out, ops[i / 3])) &&
            (has(b, ops[i % 3]) || strchr(b->out, ops[i % 3])))
            return false;
    return true;
}

/* Tests two rows of an op, one along each mesh dim. */
static rsh_status on_a_square(void *ctx, rsh_comm *c) {
    const drawing *d = ctx;
    uint64_t seed = d->seed;
    rsh_mesh *mesh = NULL;
    TRY(rsh_mesh_new(c, 2, (int64_t[]){2, 2}, NULL, NULL, &mesh));
    for (int i = 0; i < d->rounds * ENTRIES; i++) {
        const struct entry *e = &table[i % ENTRIES];
        int n = 0;
        while (e->rows[n].in) n++;
        const placed_row *pair[2] = {&e->rows[next(&seed) % (uint64_t)n], &e->rows[next(&seed) % (uint64_t)n]};
        if (go_together(pair[0], pair[1])) TRY(placed_check(mesh, &e->op, pair, next(&seed)));
    }
    rsh_mesh_free(mesh);
    return RSH_OK;
}

/* Rows of equal numbers, of numbers with NaNs, and of minus infinity only. */
static rsh_status same_picks(rsh_mesh *mesh, int64_t n) {
    rsh_value *whole = some_value(RSH_F64, 1, false, 2, (int64_t[]){3, n}), *x = NULL;
    rsh_value *want[2] = {NULL}, *got[2] = {NULL};
    rsh_place columns = rsh_place_shard(1);
    double *at = rsh_tensor_data(rsh_value_tensor(whole));
    for (int64_t i = 0; i < n; i++) {
        at[i] = 5;
        if (i % 3 == 1) at[n + i] = NAN;
        at[2 * n + i] = -INFINITY;
    }
    TRY(rsh_dtensor_distribute(rsh_value_tensor(whole), false, mesh, 1, &columns, RSH_SOURCE_OWN, &x));
    TRY(rsh_nn_max_dim(whole, 1, false, &want[0], &want[1]));
    TRY(rsh_nn_max_dim(x, 1, false, &got[0], &got[1]));
    for (int i = 0; i < 6; i++) {
        double a = element_of(got[i / 3], i % 3), b = element_of(want[i / 3], i % 3);
        CHECK(a == b || (isnan(a) && isnan(b)));
    }
    rsh_value *all[] = {whole, x, want[0], want[1], got[0], got[1]};
    for (int i = 0; i < 6; i++) rsh_value_free(all[i]);
    return RSH_OK;
}

static rsh_status picks_on_a_line(void *ctx, rsh_comm *c) {
    int64_t size = rsh_comm_size(c);
    rsh_mesh *mesh = NULL;
    (void)ctx;
    TRY(rsh_mesh_new(c, 1, &size, NULL, NULL, &mesh));
    for (int64_t n = 1; n <= 9; n++) TRY(same_picks(mesh, n));
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static uint64_t test_seed(void) {
    uint64_t seed = seed_of_tests();
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static int times(int usual) {
    const char *text = getenv("RESHARD_CASES");
    return text ? atoi(text) : usual;
}

static void run(int ranks, rsh_rank_fn fn, int rounds, int one_in) {
    drawing d = {test_seed(), times(rounds), one_in};
    rsh_status st = rsh_run(ranks, fn, &d);
    if (st) fail_msg("%d ranks: %s: %s", ranks, rsh_status_name(st), rsh_error_detail());
}

static void each_row_equals_the_plain_op_on_meshes_of_one_dim(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run(n, on_a_line, 1, n == 3 ? 1 : 3);
}

static void pairs_of_rows_equal_the_plain_op_on_a_mesh_of_two_dims(void **state) {
    (void)state;
    run(4, on_a_square, 6, 1);
}

static void of_equal_maxima_the_first_has_the_index_wherever_it_is(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) {
        rsh_status st = rsh_run(n, picks_on_a_line, NULL);
        if (st) fail_msg("%d ranks: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_equals_the_plain_op_on_meshes_of_one_dim),
        cmocka_unit_test(of_equal_maxima_the_first_has_the_index_wherever_it_is),
        cmocka_unit_test(pairs_of_rows_equal_the_plain_op_on_a_mesh_of_two_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

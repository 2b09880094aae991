/* Embedding and EmbeddingBag: look up rows of a table by indices. */
#include <math.h>
#include <string.h>

#include "nn/bag.h"
#include "nn/deferred_init.h"
#include "nn/impl.h"
#include "nn/layer.h"
#include "nn/sharded_bags.h"

typedef struct embedding {
    int64_t rows, padding; /* padding: row without a gradient; -1: none */
    double max_norm, norm_type;
    rsh_bag_mode mode;
    bool include_last_offset;
} embedding;

static rshn_lookup lookup_of(const rsh_module *m, rsh_value *weight, rsh_bag_mode mode) {
    const embedding *e = m->state;
    return (rshn_lookup){m->kind->name, weight, mode, e->padding, -1, e->max_norm, e->norm_type};
}

static bool is_sharded(const rsh_value *weight) {
    return rsh_value_sharded(weight) && !rsh_value_get_kind(weight, NULL);
}

bool rshn_embedding_shortens(const rsh_module *m) { return ((const embedding *)m->state)->max_norm > 0; }

/* ---- Embedding ---- */

/* Reshapes [n, columns] to the shape of the indices followed by columns. */
static rsh_status reshape_rows(const rsh_value *index, rsh_value *rows, rsh_value **out) {
    int64_t sizes[RSH_MAX_NDIM];
    int n = rsh_value_ndim(index);
    for (int d = 0; d < n; d++) sizes[d] = rsh_value_shape(index)[d];
    sizes[n] = rsh_value_shape(rows)[1];
    return rsh_nn_reshape(rows, n + 1, sizes, out);
}

static rsh_status check_index(const rsh_value *index) {
    if (index && rsh_value_ndim(index) < RSH_MAX_NDIM) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "Embedding: %s", index ? "the input has too many dims" : "the input is missing");
}

/* Looks up rows.  The padding row gets no gradient, but is looked up like any other row. */
static rsh_status embed_sharded(rsh_module *m, rsh_value *index, rsh_value *weight, rsh_value **out) {
    const embedding *e = m->state;
    rshn_bags bags = {0};
    rsh_value *rows = NULL;
    rshn_lookup l = lookup_of(m, weight, RSH_BAG_SUM);
    l.frozen = l.padding;
    l.padding = -1;
    rsh_status st = check_index(index);
    if (!st) st = rshn_bags_single("Embedding", index, e->rows, &bags);
    st = rshn_sharded_bags(&l, st, &bags, NULL, &rows);
    if (!st) st = reshape_rows(index, rows, out);
    rsh_value_free(rows);
    return st;
}

static rsh_status embed(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    const embedding *e = m->state;
    rsh_value *weight = rshn_slot_value(m, "weight");
    if (!weight) return rshn_fail(RSH_EVALUE, "Embedding: the weight is missing");
    if (is_sharded(weight)) return embed_sharded(m, in[0], weight, out);
    NN_TRY(check_index(in[0]));
    if (e->max_norm > 0) {
        rshn_bags bags = {0};
        if (rsh_value_sharded(weight))
            return rshn_fail(RSH_EUNSUP, "Embedding: max_norm is not supported with a "
                                         "DTensor as weight");
        NN_TRY(rshn_bags_single("Embedding", in[0], e->rows, &bags));
        rsh_status st = rshn_shorten(&bags, weight, 0, e->max_norm, e->norm_type, NULL);
        rshn_bags_free(&bags);
        if (st) return st;
    }
    return rsh_nn_embedding(in[0], weight, e->padding, out);
}

static const char *const embed_inputs[] = {"input"};
static const rsh_module_kind embed_kind = {"Embedding", 1, 1, embed_inputs, embed, sizeof(embedding), NULL};

/* ---- EmbeddingBag ---- */

static rsh_status check_weights(const embedding *e, const rsh_value *input, const rsh_value *weights,
                                const rsh_value *table) {
    if (!weights) return RSH_OK;
    if (e->mode != RSH_BAG_SUM) return rshn_fail(RSH_EVALUE, "EmbeddingBag: per_sample_weights requires mode sum");
    if (rsh_value_sharded(weights) || rsh_value_dtype(weights) != rsh_value_dtype(table))
        return rshn_fail(RSH_ETYPE, "EmbeddingBag: per_sample_weights must be a plain tensor of %s, got %s",
                         rsh_dtype_name(rsh_value_dtype(table)), rsh_dtype_name(rsh_value_dtype(weights)));
    int n = rsh_value_ndim(input);
    if (n == rsh_value_ndim(weights) &&
        !memcmp(rsh_value_shape(input), rsh_value_shape(weights), (size_t)n * sizeof(int64_t)))
        return RSH_OK;
    return rshn_fail(RSH_EVALUE, "EmbeddingBag: per_sample_weights must have the shape of the input, got %s and %s",
                     rshn_sizes_text(rsh_value_ndim(weights), rsh_value_shape(weights)),
                     rshn_sizes_text(n, rsh_value_shape(input)));
}

static rsh_status read_bags(const rsh_module *m, rsh_value *const *in, const rsh_value *table, rshn_bags *bags,
                            rsh_value **weights) {
    const embedding *e = m->state;
    if (!in[0]) return rshn_fail(RSH_EVALUE, "EmbeddingBag: the input is missing");
    NN_TRY(check_weights(e, in[0], in[2], table));
    NN_TRY(rshn_bags_read("EmbeddingBag", in[0], in[1], e->include_last_offset, e->rows, bags));
    return in[2] ? rsh_nn_reshape(in[2], 1, (const int64_t[]){-1}, weights) : RSH_OK;
}

static rsh_status embed_bags(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    const embedding *e = m->state;
    rsh_value *table = rshn_slot_value(m, "weight"), *weights = NULL;
    rshn_bags bags = {0};
    if (!table) return rshn_fail(RSH_EVALUE, "EmbeddingBag: the weight is missing");
    rsh_status st = read_bags(m, in, table, &bags, &weights);
    if (is_sharded(table)) {
        rshn_lookup l = lookup_of(m, table, e->mode);
        st = rshn_sharded_bags(&l, st, &bags, weights, out);
    } else {
        if (!st && e->max_norm > 0) st = rshn_shorten(&bags, table, 0, e->max_norm, e->norm_type, NULL);
        if (!st) st = rshn_bag(&bags, table, 0, e->padding, -1, e->mode, weights, out);
        rshn_bags_free(&bags);
    }
    rsh_value_free(weights);
    return st;
}

static const char *const bag_inputs[] = {"input", "offsets", "per_sample_weights"};
static const rsh_module_kind bag_kind = {"EmbeddingBag", 3, 1, bag_inputs, embed_bags, sizeof(embedding), NULL};

/* ---- constructors ---- */

static rsh_status read_opts(const char *layer, int64_t rows, int64_t columns, const rsh_embedding_opts *given,
                            embedding *e) {
    rsh_embedding_opts o = RSH_EMBEDDING_OPTS_INIT;
    NN_TRY(rshn_check_size(layer, "rows", rows));
    NN_TRY(rshn_check_size(layer, "columns", columns));
    NN_READ_OPTS(given, RSH_EMBEDDING_OPTS_INIT, &o);
    *e = (embedding){.rows = rows, .padding = -1, .max_norm = o.max_norm, .norm_type = o.norm_type ? o.norm_type : 2};
    if (o.padded) {
        e->padding = o.padding < 0 ? o.padding + rows : o.padding;
        if (e->padding < 0 || e->padding >= rows)
            return rshn_fail(RSH_EVALUE, "%s: padding must be a row of the table, got %lld for a table of %lld rows",
                                         layer,
                             (long long)o.padding, (long long)rows);
    }
    if (!(o.max_norm >= 0) || !(e->norm_type > 0))
        return rshn_fail(RSH_EVALUE, "%s: max_norm must be at least 0 and norm_type positive, got %.17g and %.17g",
                         layer, o.max_norm, o.norm_type);
    return RSH_OK;
}

/* Clears the row now or, if the weight is deferred, when it is materialized. */
static rsh_status clear_padding(const rsh_module *m) {
    rshn_slot *slot = rshn_slot_find(m, "weight");
    int64_t row = ((const embedding *)m->state)->padding;
    if (slot->init) slot->init->zero_row = row;
    return slot->init || row < 0 ? RSH_OK : rshn_clear_row(slot->value, row);
}

static rsh_status new_embedding(const rsh_module_kind *kind, const embedding *e, int64_t columns, rsh_dtype dtype,
                                rsh_module **module) {
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(kind, e, module ? &m : NULL));
    rsh_status st = rshn_new_parameter(m, "weight", dtype, 2, (const int64_t[]){e->rows, columns}, RSHN_NORMAL, 0);
    if (!st) st = clear_padding(m);
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}

rsh_status rsh_embedding_new(int64_t rows, int64_t columns, const rsh_embedding_opts *opts, rsh_dtype dtype,
                             rsh_module **module) {
    embedding e;
    NN_TRY(read_opts("Embedding", rows, columns, opts, &e));
    return new_embedding(&embed_kind, &e, columns, dtype, module);
}

rsh_status rsh_embedding_bag_new(int64_t rows, int64_t columns, const rsh_bag_opts *opts, rsh_dtype dtype,
                                 rsh_module **module) {
    embedding e;
    rsh_bag_opts o = RSH_BAG_OPTS_INIT;
    NN_READ_OPTS(opts, RSH_BAG_OPTS_INIT, &o);
    NN_TRY(read_opts("EmbeddingBag", rows, columns, o.rows, &e));
    if ((int)o.mode < RSH_BAG_MEAN || o.mode > RSH_BAG_MAX)
        return rshn_fail(RSH_EVALUE, "EmbeddingBag: unknown mode %d", (int)o.mode);
    e.mode = o.mode;
    e.include_last_offset = o.include_last_offset;
    return new_embedding(&bag_kind, &e, columns, dtype, module);
}

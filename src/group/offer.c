/* Offer: the arguments of a rank in a collective call, and their comparison between ranks. */
#include <stdio.h>
#include <string.h>

#include "group/impl.h"

#define OFFER_TEXT 256

rshi_offer rshi_offer_of(const rsh_tensor *t, int root) {
    rshi_offer o = {.root = root, .dtype = rsh_tensor_dtype(t), .ndim = rsh_tensor_ndim(t)};
    for (int d = 0; d < o.ndim; d++) o.shape[d] = rsh_tensor_shape(t)[d];
    return o;
}

/* Writes dtype and shape, such as "f32[3, 4]". */
static void write_text(const rshi_offer *o, char text[OFFER_TEXT]) {
    int n = snprintf(text, OFFER_TEXT, "%s[", rsh_dtype_name((rsh_dtype)o->dtype));
    for (int d = 0; d < o->ndim; d++)
        n += snprintf(text + n, OFFER_TEXT - (size_t)n, d ? ", %lld" : "%lld", (long long)o->shape[d]);
    snprintf(text + n, OFFER_TEXT - (size_t)n, "]");
}

static bool same_shape(const rshi_offer *a, const rshi_offer *b) {
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
}

rsh_status rshi_offer_match(const char *name, const rshi_offer *a, const char *whose_a, const rshi_offer *b,
                            const char *whose_b) {
    char first[OFFER_TEXT], second[OFFER_TEXT];
    bool dtypes = a->dtype == b->dtype;
    if (dtypes && same_shape(a, b)) return RSH_OK;
    write_text(a, first);
    write_text(b, second);
    return rshi_fail(dtypes ? RSH_EVALUE : RSH_ERUNTIME, "%s: %s must be equal: %s is %s, %s is %s", name,
                     dtypes ? "shapes" : "dtypes", whose_a, first, whose_b, second);
}

static rsh_status compare_roots(const char *name, const rshi_offer *all, int size) {
    for (int r = 1; r < size; r++)
        RSH_REQUIRE(all[r].root == all[0].root, RSH_EVALUE,
                    "%s: every rank must pass the same root: rank 0 passed %lld, rank %d passed %lld", name,
                    (long long)all[0].root,
                    r, (long long)all[r].root);
    return RSH_OK;
}

/* Compares the dtypes of all ranks, then the shapes. */
static rsh_status compare_tensors(const char *name, const rshi_offer *all, int size) {
    int other = 0;
    for (int r = 1; r < size && !other; r++)
        if (all[r].dtype != all[0].dtype) other = r;
    for (int r = 1; r < size && !other; r++)
        if (!same_shape(&all[r], &all[0])) other = r;
    char whose[48];
    snprintf(whose, sizeof whose, "rank %d's tensor", other);
    return rshi_offer_match(name, &all[0], "rank 0's tensor", &all[other], whose);
}

rsh_status rshi_offers_agree(rsh_comm *c, const char *name, const rshi_offer *mine, rshi_offer *all) {
    RSH_TRY(rshi_comm_verdict(c, c->ops->allgather(c, mine, all, sizeof *mine)));
    RSH_TRY(compare_roots(name, all, c->size));
    return compare_tensors(name, all, c->size);
}

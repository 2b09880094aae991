/* All_to_all: sends a tensor of any shape from every rank to every rank, in one exchange.
 *
 * Each rank first sends the shape and dtype of what it will send, so that a mismatch becomes an error on every rank
 * before any element moves.  Dense tensors are sent and received in place.  Other tensors, and destinations that share
 * memory with anything, use dense temporaries. */
#include <stdio.h>

#include "group/impl.h"
#include "math/math.h"

typedef struct swap {
    const char *name;
    rsh_comm *comm;
    const rsh_tensor *const *in, *const *out; /* one tensor per rank: to it (in), from it (out) */
    rshi_offer *offers;                       /* owned: [2 * n], for the tensors to each rank, then from each rank */
    rsh_message *messages;                    /* owned: [2 * n], to each rank, then from each rank */
    rsh_tensor **standins;                    /* owned: [2 * n], dense temporaries for `in`, then for `out`; NULL:
                                               * not needed */
} swap;

/* ---- checks of this rank alone ---- */

static rsh_status check_tensors(const swap *s) {
    rshi_offer first = {0}, other;
    for (int i = 0; i < 2 * s->comm->size; i++) {
        bool out = i >= s->comm->size;
        int r = out ? i - s->comm->size : i;
        const rsh_tensor *t = (out ? s->out : s->in)[r];
        RSH_REQUIRE(t, RSH_EVALUE, "%s: the tensor %s rank %d is NULL", s->name, out ? "from" : "to", r);
        if (out) RSH_TRY(rshi_elements_check_written(s->name, t));
        other = rshi_offer_of(t, -1);
        if (!i) first = other;
        RSH_REQUIRE(other.dtype == first.dtype, RSH_ERUNTIME,
                    "%s: dtypes must be equal: the tensor to rank 0 is %s, but the tensor %s rank %d is %s", s->name,
                    rsh_dtype_name((rsh_dtype)first.dtype), out ? "from" : "to", r,
                    rsh_dtype_name((rsh_dtype)other.dtype));
    }
    return RSH_OK;
}

static rsh_status new_standin(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_empty(rsh_tensor_dtype(t), rsh_tensor_ndim(t), rsh_tensor_shape(t), out);
}

/* Determines whether a destination shares memory with another destination or with a source. */
static rsh_status find_sharing(const swap *s, bool *out) {
    int n = s->comm->size;
    rshi_touched *list = rshi_alloc(2 * (size_t)n, sizeof *list);
    if (!list) return rshi_nomem();
    for (int r = 0; r < n; r++) {
        list[r] = (rshi_touched){s->in[r], false};
        list[n + r] = (rshi_touched){s->out[r], true};
    }
    rsh_status st = rshi_elements_meet(list, 2 * n, out);
    rshi_free(list);
    return st;
}

static rsh_status prepare_swap(swap *s) {
    size_t n = (size_t)s->comm->size;
    bool sharing = false;
    RSH_TRY(check_tensors(s));
    s->offers = rshi_alloc(2 * n, sizeof *s->offers);
    s->messages = rshi_alloc(2 * n, sizeof *s->messages);
    s->standins = rshi_calloc(2 * n, sizeof *s->standins);
    if (!s->offers || !s->messages || !s->standins) return rshi_nomem();
    RSH_TRY(find_sharing(s, &sharing));
    for (size_t r = 0; r < n; r++) {
        if (!rsh_tensor_dense(s->in[r])) RSH_TRY(new_standin(s->in[r], &s->standins[r]));
        if (sharing || !rsh_tensor_dense(s->out[r])) RSH_TRY(new_standin(s->out[r], &s->standins[n + r]));
    }
    return RSH_OK;
}

/* ---- exchanges ---- */

static rsh_status exchange_messages(const swap *s) {
    int n = s->comm->size;
    return rshi_comm_verdict(s->comm, s->comm->ops->exchange(s->comm, n, s->messages, n, s->messages + n));
}

static rsh_status exchange_offers(swap *s) {
    int n = s->comm->size;
    for (int r = 0; r < n; r++) {
        s->offers[r] = rshi_offer_of(s->in[r], -1);
        s->messages[r] = (rsh_message){r, &s->offers[r], sizeof *s->offers};
        s->messages[n + r] = (rsh_message){r, &s->offers[n + r], sizeof *s->offers};
    }
    return exchange_messages(s);
}

static rsh_status compare_offers(const swap *s) {
    int me = s->comm->rank, n = s->comm->size;
    for (int r = 0; r < n; r++) {
        char sent[64], received[64];
        rshi_offer expected = rshi_offer_of(s->out[r], -1);
        snprintf(sent, sizeof sent, "what rank %d sends to rank %d", r, me);
        snprintf(received, sizeof received, "what rank %d receives from rank %d", me, r);
        RSH_TRY(rshi_offer_match(s->name, &s->offers[n + r], sent, &expected, received));
    }
    return RSH_OK;
}

static rsh_message message_of(int peer, const rsh_tensor *t) {
    return (rsh_message){peer, rsh_tensor_data(t), (size_t)rsh_tensor_count(t) * rsh_dtype_size(rsh_tensor_dtype(t))};
}

static rsh_status exchange_elements(swap *s) {
    int n = s->comm->size;
    for (int r = 0; r < n; r++) {
        const rsh_tensor *in = s->standins[r], *out = s->standins[n + r];
        if (in) rshi_math_copy(s->in[r], in);
        s->messages[r] = message_of(r, in ? in : s->in[r]);
        s->messages[n + r] = message_of(r, out ? out : s->out[r]);
    }
    RSH_TRY(exchange_messages(s));
    for (int r = 0; r < n; r++) {
        if (s->standins[n + r]) rshi_math_copy(s->standins[n + r], s->out[r]);
        rsh_tensor_bump_version(s->out[r]);
    }
    return RSH_OK;
}

/* Performs the whole call; `mine` is this rank's status so far. */
static rsh_status swap_all(swap *s, rsh_status mine) {
    char ready[64];
    snprintf(ready, sizeof ready, "%s: shapes", s->name);
    if (!mine) mine = prepare_swap(s);
    rsh_status st;
    RSH_GOTO(rshi_comm_open(s->comm, s->name, 0, NULL, mine));
    RSH_GOTO(exchange_offers(s));
    RSH_GOTO(rshi_comm_open(s->comm, ready, 0, NULL, compare_offers(s)));
    st = exchange_elements(s);
out:
    for (int i = 0; s->standins && i < 2 * s->comm->size; i++) rsh_tensor_free(s->standins[i]);
    rshi_free(s->standins);
    rshi_free(s->messages);
    rshi_free(s->offers);
    return st;
}

rsh_status rsh_group_all_to_all(rsh_group *g, int nlist, rsh_tensor *const *out, const rsh_tensor *const *in) {
    swap s = {.name = "all_to_all", .in = in, .out = (const rsh_tensor *const *)out};
    RSH_TRY(rshi_group_comm(g, &s.comm));
    if (!s.comm) return RSH_OK; /* this rank is not a member */
    rsh_status mine = RSH_OK;
    if (!in || !out) mine = rshi_fail(RSH_EVALUE, "all_to_all: the list of %s is NULL", in ? "outputs" : "inputs");
    else if (nlist != s.comm->size)
        mine = rshi_fail(RSH_EVALUE, "all_to_all: got %d tensors for a group of %d ranks; one per rank is required",
                         nlist, s.comm->size);
    return swap_all(&s, mine);
}

/* ---- one tensor, cut along dim 0 ---- */

static rsh_status check_splits(const char *which, const rsh_tensor *t, const int64_t *splits, int n) {
    RSH_REQUIRE(t, RSH_EVALUE, "all_to_all_single: the %s is NULL", which);
    RSH_REQUIRE(rsh_tensor_ndim(t), RSH_EVALUE, "all_to_all_single: %s must have at least one dim", which);
    int64_t length = rsh_tensor_shape(t)[0], sum = 0;
    RSH_REQUIRE(splits || length % n == 0, RSH_ERUNTIME,
                "all_to_all_single: dim 0 of the %s has size %lld, which %d ranks do not divide; give split sizes",
                which, (long long)length, n);
    for (int r = 0; splits && r < n; r++)
        RSH_REQUIRE(splits[r] >= 0 && rshi_add(sum, splits[r], &sum), RSH_ERUNTIME,
                    "all_to_all_single: split %d of the %s has an invalid size %lld", r, which, (long long)splits[r]);
    RSH_REQUIRE(!splits || sum == length, RSH_ERUNTIME,
                "all_to_all_single: split sizes of the %s add up to %lld, but dim 0 has size %lld",
                which, (long long)sum,
                (long long)length);
    return RSH_OK;
}

/* Creates views of the pieces.  An empty piece may begin past the end of the memory, so it is put at the start. */
static rsh_status cut_pieces(const rsh_tensor *t, const int64_t *splits, int n, rsh_tensor **pieces) {
    int64_t shape[RSH_MAX_NDIM], at = 0;
    for (int d = 0; d < rsh_tensor_ndim(t); d++) shape[d] = rsh_tensor_shape(t)[d];
    for (int r = 0; r < n; r++) {
        shape[0] = splits ? splits[r] : rsh_tensor_shape(t)[0] / n;
        int64_t offset = shape[0] ? at * rsh_tensor_strides(t)[0] : 0;
        RSH_TRY(rsh_tensor_view(t, offset, rsh_tensor_ndim(t), shape, rsh_tensor_strides(t), &pieces[r]));
        at += shape[0];
    }
    return RSH_OK;
}

/* Creates pieces of both tensors: in, then out. */
static rsh_status cut_both(int n, const rsh_tensor *out, const rsh_tensor *in, const int64_t *out_splits,
                           const int64_t *in_splits, rsh_tensor ***pieces) {
    RSH_TRY(check_splits("input", in, in_splits, n));
    RSH_TRY(check_splits("output", out, out_splits, n));
    *pieces = rshi_calloc(2 * (size_t)n, sizeof **pieces);
    if (!*pieces) return rshi_nomem();
    RSH_TRY(cut_pieces(in, in_splits, n, *pieces));
    return cut_pieces(out, out_splits, n, *pieces + n);
}

rsh_status rsh_group_all_to_all_single(rsh_group *g, rsh_tensor *out, const rsh_tensor *in, const int64_t *out_splits,
                                       const int64_t *in_splits) {
    swap s = {.name = "all_to_all_single"};
    rsh_tensor **pieces = NULL;
    RSH_TRY(rshi_group_comm(g, &s.comm));
    if (!s.comm) return RSH_OK; /* this rank is not a member */
    int n = s.comm->size;
    rsh_status mine = cut_both(n, out, in, out_splits, in_splits, &pieces);
    s.in = (const rsh_tensor *const *)pieces;
    s.out = pieces ? s.in + n : NULL;
    rsh_status st = swap_all(&s, mine);
    for (int i = 0; pieces && i < 2 * n; i++) rsh_tensor_free(pieces[i]);
    rshi_free(pieces);
    return st;
}

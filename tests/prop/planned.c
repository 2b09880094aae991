/* Planned: makes a plan and checks it. */
#include "planned.h"

#include <string.h>

static int add_entry(void *ctx, int64_t source, int64_t destination, int64_t bytes) {
    planned *p = ctx;
    static int64_t last;
    int64_t key = destination * RANKS + source;
    p->in_order = p->in_order && (p->entries == 0 || key > last);
    p->positive = p->positive && bytes > 0;
    last = key;
    p->entries++;
    p->matrix[source][destination] += bytes;
    return 0;
}

bool planned_new(prop_case *c, planned *p, const rsh_plan_opts *opts) {
    memset(p, 0, sizeof *p);
    p->from_o = ora_parse(c->from);
    p->to_o = ora_parse(c->to);
    PROP_OK(c, rsh_layout_parse(c->from, &p->from));
    PROP_OK(c, rsh_layout_parse(c->to, &p->to));
    PROP_OK(c, rsh_plan_new(p->from, p->to, opts, &p->plan));
    p->totals.struct_size = sizeof p->totals;
    PROP_OK(c, rsh_plan_get_totals(p->plan, &p->totals));
    p->in_order = p->positive = true;
    PROP_OK(c, rsh_plan_each_pair(p->plan, add_entry, p));
    return true;
}

void planned_free(planned *p) {
    rsh_plan_free(p->plan);
    rsh_layout_free(p->from);
    rsh_layout_free(p->to);
    ora_free(p->from_o);
    ora_free(p->to_o);
}

static int64_t sent_by(const planned *p, int64_t r, int64_t *peers) {
    int64_t n = 0;
    for (int64_t q = 0; q < RANKS; q++) {
        if (q != r) n += p->matrix[r][q];
        if (q != r && peers) *peers += p->matrix[r][q] > 0;
    }
    return n;
}

static int64_t received_by(const planned *p, int64_t r, int64_t *peers) {
    int64_t n = 0;
    for (int64_t q = 0; q < RANKS; q++) {
        if (q != r) n += p->matrix[q][r];
        if (q != r && peers) *peers += p->matrix[q][r] > 0;
    }
    return n;
}

bool totals_are_those_of_the_matrix(prop_case *c, const planned *p) {
    const rsh_plan_totals *t = &p->totals;
    int64_t moved = 0, local = 0, messages = 0, max_send = 0, max_recv = 0;
    for (int64_t r = 0; r < RANKS; r++) {
        int64_t sent = sent_by(p, r, &messages), received = received_by(p, r, NULL);
        moved += sent;
        local += p->matrix[r][r];
        if (sent > max_send) max_send = sent;
        if (received > max_recv) max_recv = received;
    }
    PROP(c, p->in_order, "the matrix is not in destination-major order, or lists a pair twice");
    PROP(c, p->positive, "the matrix lists a pair that exchanges nothing");
    PROP(c, t->bytes_moved == moved, "bytes_moved %lld, matrix %lld", (long long)t->bytes_moved, (long long)moved);
    PROP(c, t->bytes_local == local, "bytes_local %lld, matrix %lld", (long long)t->bytes_local, (long long)local);
    PROP(c, t->messages == messages, "messages %lld, matrix %lld", (long long)t->messages, (long long)messages);
    PROP(c, t->max_send == max_send, "max_send %lld, matrix %lld", (long long)t->max_send, (long long)max_send);
    PROP(c, t->max_recv == max_recv, "max_recv %lld, matrix %lld", (long long)t->max_recv, (long long)max_recv);
    int64_t bytes = p->to_o->count * (int64_t)ora_size(p->to_o->dtype);
    PROP(c, t->tensor_bytes == bytes, "tensor_bytes %lld, not %lld", (long long)t->tensor_bytes, (long long)bytes);
    return true;
}

typedef struct neighbours {
    int64_t bytes[RANKS], n, last;
    bool in_order;
} neighbours;

static int add_neighbour(void *ctx, int64_t peer, int64_t bytes) {
    neighbours *w = ctx;
    w->in_order = w->in_order && peer > w->last;
    w->last = peer;
    w->bytes[peer] += bytes;
    w->n++;
    return 0;
}

static bool view_is_that_of_the_matrix(prop_case *c, const planned *p, int64_t r) {
    rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
    int64_t nsend = 0, nrecv = 0, sent = sent_by(p, r, &nsend), received = received_by(p, r, &nrecv);
    PROP_OK(c, rsh_plan_get_rank_totals(p->plan, r, &v));
    PROP(c, v.rank == r, "rank %lld calls itself %lld", (long long)r, (long long)v.rank);
    PROP(c, v.bytes_sent == sent && v.bytes_received == received && v.bytes_local == p->matrix[r][r],
         "rank %lld: sent %lld received %lld local %lld, matrix %lld %lld %lld", (long long)r, (long long)v.bytes_sent,
         (long long)v.bytes_received, (long long)v.bytes_local, (long long)sent, (long long)received,
         (long long)p->matrix[r][r]);
    PROP(c, v.nsend == nsend && v.nrecv == nrecv, "rank %lld: nsend %lld nrecv %lld, matrix %lld %lld", (long long)r,
         (long long)v.nsend, (long long)v.nrecv, (long long)nsend, (long long)nrecv);
    PROP(c, v.scratch_bytes <= p->totals.scratch_bytes && v.scratch_messages <= p->totals.scratch_messages,
         "rank %lld needs more scratch than the most", (long long)r);
    return true;
}

static bool neighbours_are_those_of_the_matrix(prop_case *c, const planned *p, int64_t r) {
    neighbours in = {.last = -1, .in_order = true}, out = in;
    PROP_OK(c, rsh_plan_each_source(p->plan, r, add_neighbour, &in));
    PROP_OK(c, rsh_plan_each_destination(p->plan, r, add_neighbour, &out));
    PROP(c, in.in_order && out.in_order, "rank %lld: neighbours are not ascending", (long long)r);
    for (int64_t q = 0; q < RANKS; q++) {
        PROP(c, in.bytes[q] == p->matrix[q][r], "rank %lld gets %lld from %lld, matrix %lld", (long long)r,
             (long long)in.bytes[q], (long long)q, (long long)p->matrix[q][r]);
        PROP(c, out.bytes[q] == p->matrix[r][q], "rank %lld gives %lld to %lld, matrix %lld", (long long)r,
             (long long)out.bytes[q], (long long)q, (long long)p->matrix[r][q]);
    }
    return true;
}

bool ranks_agree_with_the_matrix(prop_case *c, const planned *p) {
    int64_t n = 0, scratch = 0, scratch_messages = 0;
    for (int64_t r = 0; r < RANKS; r++) {
        if (!ora_has_rank(p->from_o, r) && !ora_has_rank(p->to_o, r)) continue;
        rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
        n++;
        if (!view_is_that_of_the_matrix(c, p, r) || !neighbours_are_those_of_the_matrix(c, p, r)) return false;
        PROP_OK(c, rsh_plan_get_rank_totals(p->plan, r, &v));
        if (v.scratch_bytes > scratch) scratch = v.scratch_bytes;
        if (v.scratch_messages > scratch_messages) scratch_messages = v.scratch_messages;
    }
    PROP(c, rsh_plan_nranks(p->plan) == n, "nranks is %lld, not %lld", (long long)rsh_plan_nranks(p->plan),
         (long long)n);
    PROP(c, p->totals.scratch_bytes == scratch && p->totals.scratch_messages == scratch_messages,
         "scratch of all is %lld and %lld, of the neediest rank %lld and %lld", (long long)p->totals.scratch_bytes,
         (long long)p->totals.scratch_messages, (long long)scratch, (long long)scratch_messages);
    return true;
}

bool nothing_more_than_needed(prop_case *c, const planned *p) {
    int64_t least = ora_least_bytes(p->from_o, p->to_o);
    PROP(c, p->totals.lower_bound == least, "lower_bound %lld, oracle %lld", (long long)p->totals.lower_bound,
         (long long)least);
    PROP(c, p->totals.bytes_moved == least, "bytes_moved %lld, oracle %lld", (long long)p->totals.bytes_moved,
         (long long)least);
    return true;
}

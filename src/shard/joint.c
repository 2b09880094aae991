/* Joint: compiles the shares of all ranks into one program, on memory of all ranks. */
#include "shard/joint.h"

#include "shard/binding.h"

/* A joint program under construction. */
typedef struct joining {
    rshi_joint *j;
    const rsh_plan *plan;
    rsh_share **shares; /* owned list, owned entries: the share of each rank */
    bool *meets;        /* owned: whether each rank reads others or is read by others */
    rshi_location *src; /* owned: locations of the sources of the current transfer */
    int64_t room;
} joining;

static void free_joining(joining *w) {
    for (int r = 0; w->shares && r < w->j->comm->size; r++) rsh_share_free(w->shares[r]);
    rshi_free(w->shares);
    rshi_free(w->meets);
    rshi_free(w->src);
}

void rshi_joint_free(rshi_joint *j) {
    if (!j) return;
    rshi_program_free(&j->program);
    rshi_free(j->parts);
    rshi_free(j->first);
    rshi_free(j->base);
    rshi_free(j);
}

/* ---- parts ---- */

static rsh_status reach_table(rshi_joint *j, int rank) {
    const rshi_bind_card *card = rshi_comm_card(j->comm, rank);
    j->parts[rank].table = j->comm->ops->reach(j->comm, rank, card->table);
    RSH_REQUIRE(j->parts[rank].table, RSH_EUNSUP, "rank %d cannot map the memory of rank %d", j->comm->rank, rank);
    return RSH_OK;
}

static rsh_status number_parts(rshi_joint *j, const rsh_plan *plan) {
    int64_t size = j->comm->size, each = 2 * rsh_plan_ntensors(plan) + 2, n = 0;
    j->parts = rshi_calloc((size_t)size, sizeof *j->parts);
    j->first = rshi_alloc((size_t)(size * each), sizeof *j->first);
    if (!j->parts || !j->first) return rshi_nomem();
    for (int r = 0; r < size; r++) {
        rshi_parts_count(&j->parts[r], plan, r, j->first + r * each);
        j->parts[r].number = n;
        n += rshi_parts_all(&j->parts[r]);
        RSH_TRY(reach_table(j, r));
    }
    j->base = rshi_calloc((size_t)n, sizeof *j->base);
    return j->base ? RSH_OK : rshi_nomem();
}

void rshi_joint_look_up(rshi_joint *j) {
    for (int r = 0; r < j->comm->size; r++)
        for (int64_t k = 0; k < rshi_parts_all(&j->parts[r]); k++)
            j->base[j->parts[r].number + k] = j->comm->ops->reach(j->comm, r, j->parts[r].table[k].data);
}

/* ---- moves ---- */

static void mark_exchanging_ranks(joining *w, int rank) {
    const rsh_share *s = w->shares[rank];
    for (int64_t i = 0; i < s->nreceives; i++)
        for (int64_t k = 0; k < s->receives[i].nsrc; k++) {
            int64_t from = s->receives[i].src[k].rank;
            if (from != rank) w->meets[from] = w->meets[rank] = true;
        }
}

static rsh_status take_shares(joining *w) {
    int size = w->j->comm->size;
    w->shares = rshi_calloc((size_t)size, sizeof *w->shares);
    w->meets = rshi_calloc((size_t)size, sizeof *w->meets);
    if (!w->shares || !w->meets) return rshi_nomem();
    for (int r = 0; r < size; r++) {
        RSH_TRY(rshi_plan_share(w->plan, r, RSHI_SENDS_NONE, &w->shares[r]));
        mark_exchanging_ranks(w, r);
    }
    return RSH_OK;
}

static rshi_location locate_end(const rshi_joint *j, int64_t tensor, const rsh_transfer_end *end) {
    return rshi_parts_find(&j->parts[end->rank], tensor, end);
}

static rsh_status add_moves(joining *w, const rsh_transfer *list, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const rsh_transfer *t = &list[i];
        RSH_TRY(RSHI_GROW(w->src, t->nsrc, &w->room));
        for (int64_t k = 0; k < t->nsrc; k++) w->src[k] = locate_end(w->j, t->tensor, &t->src[k]);
        rshi_location dst = locate_end(w->j, t->tensor, &t->dst);
        RSH_TRY(rshi_program_add(&w->j->program, t, &dst, w->src));
    }
    return RSH_OK;
}

/* Compiles the program.  A rank that exchanges nothing with others is not a member and makes its own moves. */
static rsh_status compile_joint(joining *w) {
    RSH_TRY(number_parts(w->j, w->plan));
    RSH_TRY(take_shares(w));
    for (int r = 0; r < w->j->comm->size; r++) {
        if (!w->meets[r]) continue;
        RSH_TRY(add_moves(w, w->shares[r]->copies, w->shares[r]->ncopies));
        RSH_TRY(add_moves(w, w->shares[r]->receives, w->shares[r]->nreceives));
    }
    return rshi_program_finish(&w->j->program, 1);
}

rsh_status rshi_joint_new(const rsh_plan *plan, rsh_comm *comm, rshi_joint **out) {
    rshi_joint *j = RSHI_NEW(rshi_joint);
    if (!j) return rshi_nomem();
    j->comm = comm;
    joining w = {.j = j, .plan = plan};
    rsh_status st = compile_joint(&w);
    free_joining(&w);
    if (st) rshi_joint_free(j);
    else *out = j;
    return st;
}

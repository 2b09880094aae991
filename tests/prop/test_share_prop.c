/* Shares: the transfers of every rank compared with the oracle, element by element, and with the totals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "planned.h"

/* Sums over the shares of all ranks. */
typedef struct counted {
    int64_t received[RANKS][RANKS], sent[RANKS][RANKS]; /* bytes at [source][destination] */
    int64_t **times; /* for each part of `to` and each of its elements: how often it is written */
} counted;

/* Returns the number of a rank's part in the oracle's list. */
static int64_t find_part(const ora_layout *l, int64_t rank, int64_t number) {
    for (int64_t i = 0; i < l->nparts; i++)
        if (l->part[i].rank == rank && l->part[i].number == number) return i;
    return -1;
}

/* One end of a transfer, in the dense part of the oracle. */
typedef struct placed {
    int64_t index; /* index of the part */
    const ora_part *part;
    int64_t offset, rounds[RSH_MAX_LOOPS];
} placed;

static bool place(prop_case *c, const planned *p, const rsh_transfer *t, const rsh_transfer_end *end, placed *out) {
    const ora_layout *o = end->in_dst ? p->to_o : p->from_o;
    rsh_part part;
    PROP_OK(c, rsh_layout_part(end->in_dst ? p->to : p->from, end->rank, end->part, &part));
    out->index = find_part(o, end->rank, end->part);
    PROP(c, out->index >= 0, "rank %lld has no part %lld", (long long)end->rank, (long long)end->part);
    out->part = &o->part[out->index];
    rsh_transfer_offsets(t, end, part.strides, &out->offset, out->rounds);
    return true;
}

/* Checks that every source element is the same element of the tensor as the destination element. */
static bool sources_match(prop_case *c, const rsh_transfer *t, const placed *src, const int64_t *at, int64_t element) {
    for (int64_t i = 0; i < t->nsrc; i++) {
        int64_t k = src[i].offset;
        for (int l = 0; l < t->nloops; l++) k += at[l] * src[i].rounds[l];
        PROP(c, k >= 0 && k < src[i].part->count, "a source of rank %lld lies outside of its part",
             (long long)t->src[i].rank);
        PROP(c, src[i].part->element[k] == element, "rank %lld gets element %lld where %lld belongs",
             (long long)t->dst.rank, (long long)src[i].part->element[k], (long long)element);
    }
    return true;
}

static bool next_round(const rsh_transfer *t, int64_t *at) {
    for (int l = t->nloops - 1; l >= 0; l--) {
        if (++at[l] < t->n[l]) return true;
        at[l] = 0;
    }
    return false;
}

/* Checks that there are all contributions, in the order of their positions. */
static bool contributions_are_in_order(prop_case *c, const planned *p, const rsh_transfer *t, const placed *src) {
    if (t->nsrc < 2) return true;
    PROP(c, t->nsrc == p->from_o->npartial, "%lld contributions of %lld", (long long)t->nsrc,
         (long long)p->from_o->npartial);
    for (int64_t i = 0; i < t->nsrc; i++)
        PROP(c, src[i].part->partial == i, "contribution %lld is that of position %lld", (long long)i,
             (long long)src[i].part->partial);
    return true;
}

static bool walk(prop_case *c, const rsh_transfer *t, const placed *dst, const placed *src, counted *k) {
    int64_t at[RSH_MAX_LOOPS] = {0}, count = 0;
    do {
        int64_t j = dst->offset;
        for (int l = 0; l < t->nloops; l++) j += at[l] * dst->rounds[l];
        PROP(c, j >= 0 && j < dst->part->count, "rank %lld is written outside of its part", (long long)t->dst.rank);
        if (!sources_match(c, t, src, at, dst->part->element[j])) return false;
        k->times[dst->index][j]++;
        count++;
    } while (next_round(t, at));
    PROP(c, count == t->count, "a transfer of %lld elements says it has %lld", (long long)count, (long long)t->count);
    return true;
}

static bool check_transfer(prop_case *c, const planned *p, const rsh_transfer *t, counted *k) {
    placed dst, *src = calloc((size_t)t->nsrc + 1, sizeof *src);
    bool ok = src && place(c, p, t, &t->dst, &dst);
    for (int64_t i = 0; i < t->nsrc && ok; i++) ok = place(c, p, t, &t->src[i], &src[i]);
    ok = ok && contributions_are_in_order(c, p, t, src) && walk(c, t, &dst, src, k);
    free(src);
    return ok;
}

static bool check_list(prop_case *c, const planned *p, const rsh_transfer *list, int64_t n, counted *k) {
    for (int64_t i = 0; i < n; i++) {
        if (!check_transfer(c, p, &list[i], k)) return false;
        for (int64_t s = 0; s < list[i].nsrc; s++)
            k->received[list[i].src[s].rank][list[i].dst.rank] += list[i].count * list[i].element_bytes;
    }
    return true;
}

static void count_sends(const rsh_share *share, counted *k) {
    for (int64_t i = 0; i < share->nsends; i++) {
        const rsh_transfer *t = &share->sends[i];
        for (int64_t s = 0; s < t->nsrc; s++)
            if (t->src[s].rank == share->rank) k->sent[share->rank][t->dst.rank] += t->count * t->element_bytes;
    }
}

static bool reads_others(const rsh_transfer *t, int64_t rank) {
    for (int64_t i = 0; i < t->nsrc; i++)
        if (t->src[i].rank != rank) return true;
    return false;
}

/* Copies need no other rank, receives do, and sends go to other ranks. */
static bool lists_are_apart(prop_case *c, const rsh_share *s) {
    for (int64_t i = 0; i < s->ncopies; i++)
        PROP(c, s->copies[i].dst.rank == s->rank && !reads_others(&s->copies[i], s->rank),
             "a copy of rank %lld needs another rank", (long long)s->rank);
    for (int64_t i = 0; i < s->nreceives; i++)
        PROP(c, s->receives[i].dst.rank == s->rank && reads_others(&s->receives[i], s->rank),
             "a receive of rank %lld reads itself only", (long long)s->rank);
    for (int64_t i = 0; i < s->nsends; i++)
        PROP(c, s->sends[i].dst.rank != s->rank, "rank %lld sends to itself", (long long)s->rank);
    return true;
}

static bool everything_is_written_once(prop_case *c, const planned *p, const counted *k) {
    for (int64_t i = 0; i < p->to_o->nparts; i++)
        for (int64_t j = 0; j < p->to_o->part[i].count; j++)
            PROP(c, k->times[i][j] == 1, "rank %lld gets element %lld %lld times", (long long)p->to_o->part[i].rank,
                 (long long)p->to_o->part[i].element[j], (long long)k->times[i][j]);
    return true;
}

static bool agree(prop_case *c, const planned *p, const counted *k) {
    int64_t moved = 0, local = 0;
    for (int64_t q = 0; q < RANKS; q++)
        for (int64_t r = 0; r < RANKS; r++) {
            PROP(c, k->received[q][r] == p->matrix[q][r],
                 "rank %lld receives %lld bytes from %lld, the matrix has %lld", (long long)r,
                 (long long)k->received[q][r], (long long)q, (long long)p->matrix[q][r]);
            PROP(c, q == r || k->sent[q][r] == k->received[q][r],
                 "rank %lld sends %lld bytes to %lld, which receives %lld", (long long)q, (long long)k->sent[q][r],
                 (long long)r, (long long)k->received[q][r]);
            *(q == r ? &local : &moved) += k->received[q][r];
        }
    PROP(c, moved == p->totals.bytes_moved && local == p->totals.bytes_local, "shares move %lld and keep %lld bytes",
         (long long)moved, (long long)local);
    return true;
}

static bool share_of(prop_case *c, const planned *p, int64_t rank, counted *k) {
    rsh_share *share = NULL;
    PROP_OK(c, rsh_plan_share(p->plan, rank, &share));
    bool ok = lists_are_apart(c, share) && check_list(c, p, share->copies, share->ncopies, k) &&
              check_list(c, p, share->receives, share->nreceives, k);
    if (ok) count_sends(share, k);
    rsh_share_free(share);
    return ok;
}

static bool shares_of(prop_case *c, const planned *p) {
    counted *k = calloc(1, sizeof *k);
    bool ok = k && (k->times = calloc((size_t)p->to_o->nparts + 1, sizeof *k->times));
    for (int64_t i = 0; i < p->to_o->nparts && ok; i++)
        ok = (k->times[i] = calloc((size_t)p->to_o->part[i].count + 1, sizeof(int64_t))) != NULL;
    for (int64_t r = 0; r < RANKS && ok; r++) ok = share_of(c, p, r, k);
    ok = ok && everything_is_written_once(c, p, k) && agree(c, p, k);
    for (int64_t i = 0; k && k->times && i < p->to_o->nparts; i++) free(k->times[i]);
    if (k) free(k->times);
    free(k);
    return ok;
}

static bool with_options(prop_case *c, int partial, const rsh_plan_opts *opts) {
    gen_pair_wish w = {partial, 20, false, true, 12, false};
    planned p;
    gen_pair(&c->rng, &w, c->from, c->to);
    bool ok = planned_new(c, &p, opts) && shares_of(c, &p);
    planned_free(&p);
    return ok;
}

static bool plain(prop_case *c) { return with_options(c, 0, NULL); }
static bool partial(prop_case *c) { return with_options(c, 100, NULL); }
static bool nodes(prop_case *c) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.ranks_per_node = gen_between(&c->rng, 1, 6);
    return with_options(c, 30, &opts);
}

/* Ranks at other positions of a partial axis have identities, which they write themselves. */
static bool identities(prop_case *c) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    planned p;
    opts.ranks_per_node = 5;
    snprintf(c->from, sizeof c->from, "f16[3/(y,kv){0,0,0,0,0,3}, 29] on y=2,kv=3,on_=2 order(1,0)");
    snprintf(c->to, sizeof c->to, "f16[3, 29] on tp=2,rep=2 max(tp)");
    bool ok = planned_new(c, &p, &opts) && shares_of(c, &p);
    planned_free(&p);
    return ok;
}

static void copies_and_receives_cover_a_destination_once_and_match_the_sends(void **state) {
    (void)state;
    prop_run("share_plain", 4000, plain);
}
static void reductions_read_every_contribution_in_its_place(void **state) {
    (void)state;
    prop_run("share_partial", 4000, partial);
}
static void nodes_change_the_way_and_not_what_arrives(void **state) {
    (void)state;
    prop_run("share_nodes", 5000, nodes);
}
static void identities_are_not_passed_on_in_a_node(void **state) {
    (void)state;
    prop_run("share_identities", 1, identities);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identities_are_not_passed_on_in_a_node),
        cmocka_unit_test(copies_and_receives_cover_a_destination_once_and_match_the_sends),
        cmocka_unit_test(reductions_read_every_contribution_in_its_place),
        cmocka_unit_test(nodes_change_the_way_and_not_what_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

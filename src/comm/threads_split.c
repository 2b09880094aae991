/* Split of the engine `threads`: the lowest rank of a colour makes the group, the board carries its address to the
 * others. */
#include "comm/threads.h"

#include <string.h>

typedef struct wish {
    int colour, key;
} wish;

/* This rank's place among the ranks of its colour. */
typedef struct place {
    int rank, size;
    int maker; /* rank, in the old comm, that makes the group */
} place;

typedef struct offer {
    rsh_status status;
    rshi_group *group; /* of the rank's colour, if the rank is its maker */
} offer;

static bool comes_before(const wish *a, int rank_a, const wish *b, int rank_b) {
    return a->key != b->key ? a->key < b->key : rank_a < rank_b;
}

static place find_place(const rshi_thread_comm *c, const wish *mine) {
    place p = {0, 0, -1};
    for (int r = 0; r < c->base.size; r++) {
        wish theirs;
        memcpy(&theirs, rshi_threads_laid(c, r)->from, sizeof theirs);
        if (theirs.colour != mine->colour) continue;
        if (p.maker < 0) p.maker = r;
        p.size++;
        p.rank += comes_before(&theirs, r, mine, c->base.rank);
    }
    return p;
}

static offer read_offer(const rshi_thread_comm *c, int r) {
    offer o;
    memcpy(&o, rshi_threads_laid(c, r)->from, sizeof o);
    return o;
}

/* The lowest rank that could not do its part fails the call for all. */
static rsh_status check_offers(const rshi_thread_comm *c) {
    for (int r = 0; r < c->base.size; r++) {
        rsh_status status = read_offer(c, r).status;
        RSH_REQUIRE(!status, status, "split: rank %d had no memory for the new comm", r);
    }
    return RSH_OK;
}

/* This rank's comm and, where it is the maker, the group. */
static rsh_status prepare(const rshi_thread_comm *c, place p, rshi_thread_comm **made, rshi_group **group) {
    *made = rshi_threads_comm_new(p.rank, p.size);
    if (!*made) return rshi_nomem();
    if (p.maker != c->base.rank) return RSH_OK;
    *group = rshi_threads_group_new(p.size, c->group->patience); /* the cores are as crowded as before */
    return *group ? RSH_OK : rshi_nomem();
}

rsh_status rshi_threads_split(rsh_comm *comm, int colour, int key, rsh_comm **out) {
    rshi_thread_comm *c = rshi_thread_comm_of(comm), *made = NULL;
    rshi_group *group = NULL;
    wish mine = {colour, key};
    rsh_status st;
    RSH_TRY(rshi_threads_meet(c, &mine, sizeof mine));
    place p = find_place(c, &mine);
    rsh_status prepared = colour < 0 ? RSH_OK : prepare(c, p, &made, &group);
    offer my_offer = {prepared, group};
    RSH_GOTO(rshi_threads_meet(c, &my_offer, sizeof my_offer));
    RSH_GOTO(check_offers(c));
    if (made) made->group = read_offer(c, p.maker).group;
    group = NULL; /* belongs to its members now */
    *out = made ? &made->base : NULL;
    return RSH_OK;
out:
    rshi_threads_comm_discard(made);
    rshi_threads_group_free(group);
    return st;
}

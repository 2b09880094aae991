/* Split of the engine `shm`: the lowest rank of a colour makes the group in its arena, the board carries the offset to
 * the others. */
#include "comm/shm.h"

#include <stdlib.h>
#include <string.h>

typedef struct wish {
    int colour, key, rank; /* rank in the old comm */
} wish;

typedef struct offer {
    rsh_status status;
    uint64_t group; /* of the rank's colour, if the rank is its maker: an offset in its arena */
} offer;

/* The ranks of one colour in the order of the new comm. */
typedef struct circle {
    wish *list; /* owned */
    int size;
    int rank;  /* this rank's place */
    int maker; /* place of the rank that makes the group: the lowest of the old comm */
} circle;

static int by_key(const void *a, const void *b) {
    const wish *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static rsh_status find_circle(const rshi_shm_comm *c, const wish *mine, circle *out) {
    out->list = rshi_alloc((size_t)c->base.size, sizeof *out->list);
    if (!out->list) return rshi_nomem();
    for (int r = 0; r < c->base.size; r++) {
        wish theirs;
        memcpy(&theirs, rshi_shm_laid(c, r), sizeof theirs);
        if (theirs.colour == mine->colour) out->list[out->size++] = theirs;
    }
    qsort(out->list, (size_t)out->size, sizeof *out->list, by_key);
    for (int i = 0; i < out->size; i++) {
        if (out->list[i].rank == c->base.rank) out->rank = i;
        if (out->list[i].rank < out->list[out->maker].rank) out->maker = i;
    }
    return RSH_OK;
}

/* This rank's comm and, where it is the maker, the group. */
static rsh_status prepare(rshi_shm_comm *c, const wish *mine, circle *around, rshi_shm_comm **made,
                          rshi_shm_group **group) {
    RSH_TRY(find_circle(c, mine, around));
    int *member = rshi_alloc((size_t)around->size, sizeof *member);
    for (int i = 0; member && i < around->size; i++) member[i] = c->member[around->list[i].rank];
    *made = rshi_shm_comm_new(c->world, around->rank, around->size, member, around->maker);
    if (!*made) return rshi_nomem();
    if (around->rank != around->maker) return RSH_OK;
    *group = rshi_shm_group_new(c->world, around->size);
    return *group ? RSH_OK : rshi_nomem();
}

static offer read_offer(const rshi_shm_comm *c, int r) {
    offer o;
    memcpy(&o, rshi_shm_laid(c, r), sizeof o);
    return o;
}

/* The lowest rank that could not do its part fails the call for all. */
static rsh_status check_offers(const rshi_shm_comm *c) {
    for (int r = 0; r < c->base.size; r++) {
        rsh_status status = read_offer(c, r).status;
        RSH_REQUIRE(!status, status, "split: rank %d had no memory for the new comm", r);
    }
    return RSH_OK;
}

static rsh_status agree(rshi_shm_comm *c, rsh_status prepared, const rshi_shm_group *group) {
    offer mine = {prepared, group ? rshi_arena_offset(c->world->arena, group) : 0};
    RSH_TRY(rshi_shm_meet(c, &mine, sizeof mine));
    return check_offers(c);
}

rsh_status rshi_shm_split(rsh_comm *comm, int colour, int key, rsh_comm **out) {
    rshi_shm_comm *c = rshi_shm_comm_of(comm), *made = NULL;
    rshi_shm_group *group = NULL;
    wish mine = {colour, key, comm->rank};
    circle around = {0};
    RSH_TRY(rshi_shm_meet(c, &mine, sizeof mine));
    rsh_status prepared = colour < 0 ? RSH_OK : prepare(c, &mine, &around, &made, &group);
    rsh_status st = agree(c, prepared, group);
    if (!st && made) {
        int maker = around.list[around.maker].rank;
        made->group = rshi_world_at(c->world, c->member[maker], read_offer(c, maker).group);
    }
    if (!st) {
        *out = made ? &made->base : NULL;
    } else {
        rshi_shm_comm_discard(made);
        if (group) atomic_store(&group->open, 1); /* nobody else has heard of it */
        if (group) rshi_shm_group_close(c->world, group, around.size, true);
    }
    rshi_free(around.list);
    return st;
}

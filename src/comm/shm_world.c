/* World of the engine `shm`: the processes that met, their arenas as this process sees them, and what lives in its own.
 */
#include "comm/shm.h"

#include <poll.h>
#include <unistd.h>

#define CHUNK_FLAGS 32

/* Before any table of that many is made.  Every rank has a descriptor and a mapping for each of the others, and rank 0
 * introduces each to each: more than this would not meet in an hour. */
rsh_status rshi_shm_check_size(int size) {
    RSH_REQUIRE(size <= RSHI_SHM_RANKS, RSH_EVALUE, "%d ranks: the engine shm takes up to %d processes of one machine",
                size, RSHI_SHM_RANKS);
    return RSH_OK;
}

rsh_status rshi_world_new(int rank, int size, rshi_world **out) {
    double timeout;
    RSH_TRY(rshi_shm_check_size(size));
    RSH_TRY(rshi_read_timeout(&timeout));
    rshi_world *w = RSHI_NEW(rshi_world);
    if (!w) return rshi_nomem();
    *w = (rshi_world){.rank = rank, .size = size, .refs = 1, .patience = rshi_patience_for(size, false, timeout)};
    w->window = rshi_calloc((size_t)size, sizeof *w->window);
    w->reserve = rshi_calloc((size_t)size, sizeof *w->reserve);
    w->life = rshi_calloc((size_t)size, sizeof *w->life);
    rsh_status st = w->window && w->reserve && w->life ? RSH_OK : rshi_nomem();
    for (int r = 0; w->life && r < size; r++) w->life[r] = -1;
    if (!st) st = rshi_arena_new(size, &w->arena);
    if (st) {
        rshi_world_drop(w);
        return st;
    }
    w->window[rank] = w->arena->base;
    w->reserve[rank] = w->arena->reserve;
    *out = w;
    return RSH_OK;
}

static void forget_peers(rshi_world *w) {
    for (int r = 0; w->window && w->life && r < w->size; r++) {
        if (r != w->rank && w->window[r]) rshi_window_unmap(w->window[r], w->reserve[r]);
        if (w->life[r] >= 0) close(w->life[r]);
    }
}

/* The arena stays for as long as tensors live in it. */
void rshi_world_drop(rshi_world *w) {
    if (!w || --w->refs) return;
    forget_peers(w);
    for (rshi_retired *r = w->retired, *next; r; r = next) {
        next = r->next;
        rshi_free(r);
    }
    rshi_arena_drop(w->arena);
    rshi_free(w->window);
    rshi_free(w->reserve);
    rshi_free(w->life);
    rshi_free(w->spare);
    rshi_free(w);
}

bool rshi_world_ended(const rshi_world *w, int rank) {
    struct pollfd p = {.fd = w->life[rank], .events = POLLIN};
    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

/* ---- flags: made by the chunk, used again by all comms of the world, gone with the arena ---- */

static rsh_status make_flags(rshi_world *w) {
    rshi_flag **spare = rshi_realloc(w->spare, (size_t)(w->nflags + CHUNK_FLAGS), sizeof *spare);
    if (!spare) return rshi_nomem();
    w->spare = spare;
    rshi_flag *chunk = rshi_arena_alloc(w->arena, CHUNK_FLAGS * sizeof *chunk, true);
    if (!chunk) return rshi_nomem();
    for (int i = 0; i < CHUNK_FLAGS; i++) w->spare[w->nspare++] = &chunk[i];
    w->nflags += CHUNK_FLAGS;
    return RSH_OK;
}

rshi_flag *rshi_world_flag_take(rshi_world *w) {
    if (!w->nspare && make_flags(w)) return NULL;
    return w->spare[--w->nspare];
}

void rshi_world_flag_give(rshi_world *w, rshi_flag *flag) { w->spare[w->nspare++] = flag; }

/* ---- groups ---- */

static size_t group_bytes(int size) { return sizeof(rshi_shm_group) + (size_t)size * sizeof(rshi_shm_seat); }

static void sweep(rshi_world *w) {
    for (rshi_retired **at = &w->retired; *at;) {
        rshi_retired *r = *at;
        if (atomic_load(&r->group->open)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        rshi_arena_free(w->arena, r->group, group_bytes(r->size));
        rshi_free(r);
    }
}

rshi_shm_group *rshi_shm_group_new(rshi_world *w, int size) {
    sweep(w);
    rshi_shm_group *g = rshi_arena_alloc(w->arena, group_bytes(size), true);
    if (g) atomic_init(&g->open, size);
    return g;
}

/* Without memory to remember a group by, it stays until the arena goes. */
void rshi_shm_group_close(rshi_world *w, rshi_shm_group *group, int size, bool mine) {
    rshi_retired *r = mine ? RSHI_NEW(rshi_retired) : NULL;
    if (r) {
        *r = (rshi_retired){w->retired, group, size};
        w->retired = r;
    }
    atomic_fetch_sub(&group->open, 1);
    sweep(w);
}

/* Processes: ranks of one machine that map one another's arenas and check whether the others are alive. */
#include "node/processes.h"

#include <poll.h>
#include <unistd.h>

static rshi_process_world *world_of(const rshi_world *w) { return (rshi_process_world *)w; }
static rshi_arena *arena_of(const rshi_world *w) { return world_of(w)->arena; }

/* ---- memory ---- */

static void *alloc(rshi_world *w, size_t bytes, bool zero) { return rshi_arena_alloc(arena_of(w), bytes, zero); }
static void free_block(rshi_world *w, void *p, size_t bytes) { rshi_arena_free(arena_of(w), p, bytes); }

/* Allocates memory in the arena, which stays valid as long as any process maps it. */
static void *alloc_lasting(rshi_world *w, size_t bytes) { return rshi_arena_alloc(arena_of(w), bytes, true); }

/* A block of data.  It holds a reference to its arena, which may outlive the node. */
typedef struct held_block {
    rshi_arena *arena;
    void *data;
    size_t bytes;
} held_block;

static void release_block(void *owner) {
    held_block *b = owner;
    rshi_account_live(b->arena->owner, -(int64_t)b->bytes);
    rshi_arena_free(b->arena, b->data, b->bytes);
    rshi_arena_drop(b->arena);
    rshi_free(b);
}

static rsh_status alloc_data(rshi_world *w, size_t bytes, bool zero, rshi_data *out) {
    rshi_arena *arena = arena_of(w);
    held_block *b = RSHI_NEW(held_block);
    void *data = b ? rshi_arena_alloc(arena, bytes, zero) : NULL;
    if (!data) {
        rshi_free(b);
        return rshi_nomem();
    }
    rshi_account_live(arena->owner, (int64_t)bytes);
    *b = (held_block){rshi_arena_hold(arena), data, bytes};
    *out = (rshi_data){data, release_block, b};
    return RSH_OK;
}

static bool is_shared(const rshi_world *w, const void *p) { return rshi_arena_has(arena_of(w), p); }

/* ---- addresses ---- */

/* In a handle, `b` says what `a` is: an offset into the rank's arena, or an address in its process. */
enum { IN_ARENA = 1, PRIVATE = 2 };

static rshi_handle publish(const rshi_world *w, const void *p) {
    const rshi_arena *arena = arena_of(w);
    return rshi_arena_has(arena, p) ? (rshi_handle){rshi_arena_offset(arena, p), IN_ARENA}
                                    : (rshi_handle){(uintptr_t)p, PRIVATE};
}

static void *reach(const rshi_world *w, int member, rshi_handle h) {
    if (h.b == IN_ARENA) return rshi_window_at(world_of(w), member, h.a);
    return member == w->rank ? (void *)(uintptr_t)h.a : NULL;
}

/* ---- liveness ---- */

static bool has_ended(const rshi_world *w, int member) {
    struct pollfd p = {.fd = world_of(w)->life[member], .events = POLLIN};
    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static void forget_peers(rshi_process_world *w) {
    for (int r = 0; w->window && w->life && r < w->base.size; r++) {
        if (r != w->base.rank && w->window[r]) rshi_window_unmap(w->window[r], w->reserve[r]);
        if (w->life[r] >= 0) close(w->life[r]);
    }
}

/* Closes the world.  The arena stays while tensors are in it. */
static void close_world(rshi_world *base) {
    rshi_process_world *w = world_of(base);
    forget_peers(w);
    rshi_world_fini(base);
    rshi_arena_drop(w->arena);
    rshi_free(w->window);
    rshi_free(w->reserve);
    rshi_free(w->life);
    rshi_free(w);
}

static const rshi_mapping mapping = {
    .name = "shm",
    .alloc = alloc,
    .free = free_block,
    .alloc_lasting = alloc_lasting,
    .alloc_data = alloc_data,
    .is_shared = is_shared,
    .publish = publish,
    .reach = reach,
    .has_ended = has_ended,
    .close = close_world,
};

/* ---- construction ---- */

/* Rejects too many ranks before tables of this size are allocated.  Every rank has a descriptor and a mapping for each
 * of the others, and rank 0 sends every descriptor to every rank: with more ranks, connecting would take over an
 * hour. */
rsh_status rshi_processes_check(int size) {
    RSH_REQUIRE(size <= RSHI_PROCESSES, RSH_EVALUE, "%d ranks are too many: engine shm supports at most %d processes",
                size, RSHI_PROCESSES);
    return RSH_OK;
}

static rsh_status alloc_world(rshi_process_world *w) {
    int size = w->base.size;
    w->window = rshi_calloc((size_t)size, sizeof *w->window);
    w->reserve = rshi_calloc((size_t)size, sizeof *w->reserve);
    w->life = rshi_calloc((size_t)size, sizeof *w->life);
    if (!w->window || !w->reserve || !w->life) return rshi_nomem();
    for (int r = 0; r < size; r++) w->life[r] = -1;
    RSH_TRY(rshi_arena_new(size, &w->arena));
    w->window[w->base.rank] = w->arena->base;
    w->reserve[w->base.rank] = w->arena->reserve;
    return RSH_OK;
}

rsh_status rshi_processes_prepare(int rank, int size, rshi_node **out) {
    double timeout;
    RSH_TRY(rshi_processes_check(size));
    RSH_TRY(rshi_settings_check());
    RSH_TRY(rshi_read_timeout(&timeout));
    rshi_process_world *w = RSHI_NEW(rshi_process_world);
    if (!w) return rshi_nomem();
    rshi_world_init(&w->base, &mapping, rank, size, rshi_patience_for(size, false, timeout));
    rsh_status st = alloc_world(w);
    if (!st && !(*out = rshi_node_first(&w->base))) st = rshi_nomem();
    rshi_world_drop(&w->base); /* the node holds its own reference */
    return st;
}

rsh_status rshi_processes_join(rshi_node *n, const char *job, double patience) {
    int rank = n->rank, size = n->size;
    bool begun = false;
    rsh_status st = rshi_processes_meet(job, patience, world_of(n->world), &n->board, &begun);
    if (!st) return RSH_OK;
    rshi_node_free(n);
    if (!begun) rshi_processes_excuse(job, rank, size, st);
    return st;
}

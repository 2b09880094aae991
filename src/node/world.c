/* World: a rank's view of the ranks whose memory it can reach: its nodes, its flags, and memory that must still be
 * freed. */
#include "node/impl.h"

#define CHUNK_FLAGS 32

/* ---- reference counting ---- */

void rshi_world_init(rshi_world *w, const rshi_mapping *map, int rank, int size, rshi_patience patience) {
    *w = (rshi_world){.map = map, .rank = rank, .size = size, .patience = patience};
    atomic_init(&w->refs, 1);
    pthread_mutex_init(&w->lock, NULL);
}

static void hold_world(rshi_world *w) { atomic_fetch_add(&w->refs, 1); }

void rshi_world_drop(rshi_world *w) {
    if (w && atomic_fetch_sub(&w->refs, 1) == 1) w->map->close(w);
}

/* Memory that its owner no longer uses but other ranks do; it is freed later. */
typedef struct rshi_retired {
    struct rshi_retired *next;
    void *memory;
    size_t bytes;
    atomic_int *users; /* number of users, stored in the memory itself */
} rshi_retired;

void rshi_world_fini(rshi_world *w) {
    for (rshi_retired *r = w->retired, *next; r; r = next) {
        next = r->next;
        rshi_free(r);
    }
    rshi_free(w->spare);
    pthread_mutex_destroy(&w->lock);
}

/* ---- flags: allocated in chunks, reused by all nodes of the world ---- */

static rsh_status make_flags(rshi_world *w) {
    rshi_flag **spare = rshi_realloc(w->spare, (size_t)(w->nflags + CHUNK_FLAGS), sizeof *spare);
    if (!spare) return rshi_nomem();
    w->spare = spare;
    rshi_flag *chunk = w->map->alloc_lasting(w, CHUNK_FLAGS * sizeof *chunk);
    if (!chunk) return rshi_nomem();
    for (int i = 0; i < CHUNK_FLAGS; i++) w->spare[w->nspare++] = &chunk[i];
    w->nflags += CHUNK_FLAGS;
    return RSH_OK;
}

rshi_flag *rshi_world_flag_take(rshi_world *w) {
    pthread_mutex_lock(&w->lock);
    rshi_flag *flag = !w->nspare && make_flags(w) ? NULL : w->spare[--w->nspare];
    pthread_mutex_unlock(&w->lock);
    return flag;
}

void rshi_world_flag_give(rshi_world *w, rshi_flag *flag) {
    pthread_mutex_lock(&w->lock);
    w->spare[w->nspare++] = flag;
    pthread_mutex_unlock(&w->lock);
}

/* ---- memory of one rank that several ranks use ---- */

/* Frees retired memory that is no longer in use.  Called with the lock held. */
static void free_retired(rshi_world *w) {
    for (rshi_retired **at = &w->retired; *at;) {
        rshi_retired *r = *at;
        if (atomic_load(r->users)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        w->map->free(w, r->memory, r->bytes);
        rshi_free(r);
    }
}

/* Records memory for freeing it later.  If there is no memory for the record, the block stays until the world is
 * freed. */
static void retire_memory(rshi_world *w, void *p, size_t bytes, atomic_int *users, bool mine) {
    rshi_retired *r = mine ? RSHI_NEW(rshi_retired) : NULL;
    pthread_mutex_lock(&w->lock);
    if (r) {
        *r = (rshi_retired){w->retired, p, bytes, users};
        w->retired = r;
    }
    atomic_fetch_sub(users, 1);
    free_retired(w);
    pthread_mutex_unlock(&w->lock);
}

void rshi_world_let_go(rshi_world *w, void *p, size_t bytes, atomic_int *users, bool mine) {
    if (!w->map->one_process)
        retire_memory(w, p, bytes, users, mine);
    else if (atomic_fetch_sub_explicit(users, 1, memory_order_acq_rel) == 1)
        w->map->free(w, p, bytes);
}

/* ---- boards ---- */

static size_t board_bytes(int size) { return sizeof(rshi_board) + (size_t)size * sizeof(rshi_board_slot); }

rshi_board *rshi_board_new(rshi_world *w, int size) {
    pthread_mutex_lock(&w->lock);
    free_retired(w);
    pthread_mutex_unlock(&w->lock);
    rshi_board *b = w->map->alloc(w, board_bytes(size), true);
    if (b) atomic_init(&b->open, size);
    return b;
}

/* ---- nodes ---- */

rshi_node *rshi_node_new(rshi_world *w, int rank, int size, int *member, int maker) {
    rshi_node *n = member ? rshi_alloc_data(sizeof *n, false) : NULL;
    if (!n) {
        rshi_free(member);
        return NULL;
    }
    hold_world(w);
    *n = (rshi_node){.world = w, .rank = rank, .size = size, .member = member, .maker = maker};
    return n;
}

rshi_node *rshi_node_first(rshi_world *w) {
    int *member = rshi_alloc((size_t)w->size, sizeof *member);
    for (int r = 0; member && r < w->size; r++) member[r] = r;
    return rshi_node_new(w, w->rank, w->size, member, 0);
}

void rshi_node_free(rshi_node *n) {
    if (!n) return;
    rshi_staging_free(n);
    if (n->board) rshi_node_leave(n, RSH_OK, "");
    if (n->board)
        rshi_world_let_go(n->world, n->board, board_bytes(n->size), &n->board->open, n->maker == n->rank);
    rshi_world_drop(n->world);
    rshi_free(n->member);
    rshi_free_data(n, sizeof *n);
}

rsh_status rshi_node_publish(rshi_node *n, const void *p, rshi_handle *out) {
    *out = n->world->map->publish(n->world, p);
    return RSH_OK;
}

void *rshi_node_reach(rshi_node *n, int peer, rshi_handle h) {
    return n->world->map->reach(n->world, n->member[peer], h);
}

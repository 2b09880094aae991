/* Threads: ranks of one process.  Addresses are equal on all ranks, so nothing has to be mapped. */
#include "node/impl.h"

#include <string.h>

/* Memory that stays until the last rank is gone. */
typedef struct lasting {
    struct lasting *next;
    size_t bytes;
    _Alignas(64) char data[];
} lasting;

/* Data that the worlds of all ranks share. */
typedef struct family {
    atomic_int worlds;
    _Atomic(lasting *) blocks; /* owned */
} family;

typedef struct thread_world {
    rshi_world base; /* first member, so that a pointer to it is a pointer to this struct */
    family *family;
} thread_world;

static void *alloc(rshi_world *w, size_t bytes, bool zero) {
    (void)w;
    return rshi_alloc_data(bytes, zero);
}

static void free_block(rshi_world *w, void *p, size_t bytes) {
    (void)w;
    rshi_free_data(p, bytes);
}

static void *alloc_lasting(rshi_world *w, size_t bytes) {
    family *f = ((thread_world *)w)->family;
    lasting *block = rshi_alloc_data(sizeof *block + bytes, true);
    if (!block) return NULL;
    block->bytes = sizeof *block + bytes;
    block->next = atomic_load(&f->blocks);
    while (!atomic_compare_exchange_weak(&f->blocks, &block->next, block)) {}
    return block->data;
}

static rshi_handle publish(const rshi_world *w, const void *p) {
    (void)w;
    return (rshi_handle){(uintptr_t)p, 0};
}

static void *reach(const rshi_world *w, int member, rshi_handle h) {
    (void)w, (void)member;
    return (void *)(uintptr_t)h.a;
}

static void free_family(family *f) {
    for (lasting *block = atomic_load(&f->blocks), *next; block; block = next) {
        next = block->next;
        rshi_free_data(block, block->bytes);
    }
    rshi_free(f);
}

static void close_world(rshi_world *w) {
    family *f = ((thread_world *)w)->family;
    rshi_world_fini(w);
    rshi_free(w);
    if (atomic_fetch_sub(&f->worlds, 1) == 1) free_family(f);
}

static const rshi_mapping mapping = {
    .name = "threads",
    .one_process = true,
    .alloc = alloc,
    .free = free_block,
    .alloc_lasting = alloc_lasting,
    .publish = publish,
    .reach = reach,
    .close = close_world,
};

static rshi_node *make_node(family *f, int rank, int size, rshi_patience patience) {
    thread_world *w = RSHI_NEW(thread_world);
    if (!w) return NULL;
    rshi_world_init(&w->base, &mapping, rank, size, patience);
    w->family = f;
    atomic_fetch_add(&f->worlds, 1);
    rshi_node *n = rshi_node_first(&w->base);
    rshi_world_drop(&w->base); /* the node holds its own reference */
    return n;
}

static rsh_status make_nodes(family *f, int n, rshi_patience patience, rshi_node **nodes) {
    for (int r = 0; r < n; r++)
        if (!(nodes[r] = make_node(f, r, n, patience))) return rshi_nomem();
    rshi_board *board = rshi_board_new(nodes[0]->world, n);
    if (!board) return rshi_nomem();
    for (int r = 0; r < n; r++) nodes[r]->board = board;
    return RSH_OK;
}

rsh_status rshi_threads_new(int n, rshi_node **nodes) {
    double timeout;
    RSH_TRY(rshi_settings_check());
    RSH_TRY(rshi_read_timeout(&timeout));
    family *f = RSHI_NEW(family);
    if (!f) return rshi_nomem();
    atomic_init(&f->worlds, 1);
    memset(nodes, 0, (size_t)n * sizeof *nodes);
    rsh_status st = make_nodes(f, n, rshi_patience_for(n, true, timeout), nodes);
    for (int r = 0; st && r < n; r++) {
        rshi_node_free(nodes[r]);
        nodes[r] = NULL;
    }
    if (atomic_fetch_sub(&f->worlds, 1) == 1) free_family(f);
    return st;
}

/* arena: memory of one rank that other processes can map.
 *
 * An arena is a memfd whose whole address range is reserved when it is made, in this process and in
 * every peer.  So allocation is local: pages are allocated with each block, and an offset is valid
 * in every process.  Nothing has a name in a file system, so nothing is left behind. */
#ifndef RESHARD_ARENA_ARENA_H
#define RESHARD_ARENA_ARENA_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

/* A free range of the arena. */
typedef struct rshi_gap {
    size_t at, bytes;
} rshi_gap;

typedef struct rshi_arena {
    rshi_home home;      /* first: the block cache of base returns freed blocks through it */
    rshi_account *owner; /* the account of the rank that owns the arena */
    int fd;
    uint32_t process; /* the process that allocates and frees blocks */
    char *base;
    size_t reserve;       /* bytes of reserved address range */
    int ranks;            /* number of ranks that may allocate at the same time */
    const char *root;     /* "", or the folder in which a test keeps its /proc and cgroup files */
    atomic_int refs;      /* references: one from the world of the comms, and one from every block
                             of data */
    pthread_mutex_t lock; /* guards the members below: any thread may free tensors */
    size_t end;           /* everything after it is free */
    rshi_gap *gaps;       /* owned; by address, not adjacent to each other or to `end` */
    size_t ngaps,
        room; /* always more than the number of blocks, so that freeing needs no memory */
    size_t blocks;
    size_t highest;  /* pages below this offset were allocated at least once */
    uint64_t credit; /* bytes that may be allocated before the limits are checked again */
} rshi_arena;

/* Makes an arena for one of `ranks` ranks; the arenas of all ranks together must fit into one
 * address space. */
rsh_status rshi_arena_new(int ranks, rshi_arena **out);
rshi_arena *rshi_arena_hold(rshi_arena *a);
void rshi_arena_drop(rshi_arena *a);

/* Allocates a 64-byte aligned block.  Blocks of a page or more get pages of their own.  The pages
 * are allocated at once, so that accessing the block never fails.  Returns NULL if memory runs out;
 * the error message names the limit: the machine's, a control group's, or the arena's own.  Freed
 * blocks of RSHI_RECYCLE_FROM bytes and more keep their pages, as private memory does;
 * rsh_alloc_trim releases them, and so does the library before it runs out of memory. */
void *rshi_arena_alloc(rshi_arena *a, size_t bytes, bool zero);
void rshi_arena_free(rshi_arena *a, void *p, size_t bytes);

static inline bool rshi_arena_has(const rshi_arena *a, const void *p) {
    return (uintptr_t)p >= (uintptr_t)a->base && (uintptr_t)p < (uintptr_t)a->base + a->reserve;
}
static inline uint64_t rshi_arena_offset(const rshi_arena *a, const void *p) {
    return (uintptr_t)p - (uintptr_t)a->base;
}

/* Maps a peer's arena; NULL with an error message if that fails. */
char *rshi_window_map(int fd, size_t reserve);
void rshi_window_unmap(char *window, size_t reserve);

#endif

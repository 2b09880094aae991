/* arena: memory of one rank that other processes can map.
 *
 * An arena is a memfd whose whole address range is reserved when it is made, here and at every
 * peer, so that allocation is local: a block is backed when it is taken and its offset means the
 * same to everybody.  Nothing has a name, so nothing stays behind. */
#ifndef RESHARD_ARENA_ARENA_H
#define RESHARD_ARENA_ARENA_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

/* A range of the arena that nobody has. */
typedef struct rshi_gap {
    size_t at, bytes;
} rshi_gap;

typedef struct rshi_arena {
    rshi_home home;      /* first: base's recycler keeps freed blocks and gives them back by it */
    rshi_account *owner; /* of the rank whose arena it is */
    int fd;
    uint32_t process; /* that takes and frees blocks */
    char *base;
    size_t reserve;       /* bytes of address range */
    int ranks;            /* that may take memory at the same time */
    const char *root;     /* "", or where a test keeps the files that say what memory there is */
    atomic_int refs;      /* the comms' world, and every block of data */
    pthread_mutex_t lock; /* guards what follows: tensors may be freed by any thread */
    size_t end;           /* everything behind it is free */
    rshi_gap *gaps;       /* owned; by address, none touching another or `end` */
    size_t ngaps,
        room; /* room is never less than one more than the blocks taken: freeing needs no memory */
    size_t blocks;
    size_t highest;  /* pages below it were taken from the machine once */
    uint64_t credit; /* bytes to be taken before the limits are looked at again */
} rshi_arena;

/* An arena for one of `ranks` ranks: all of them together must fit into an address space. */
rsh_status rshi_arena_new(int ranks, rshi_arena **out);
rshi_arena *rshi_arena_hold(rshi_arena *a);
void rshi_arena_drop(rshi_arena *a);

/* 64-byte aligned, on pages of its own from one page on, backed by memory: touching it never fails.
 * NULL and a sentence if there is none, which says which limit was in the way: the machine's, a
 * control group's, or the arena's own.  Blocks of RSHI_RECYCLE_FROM bytes and more keep their pages
 * when they are freed, as private memory does; they go back to the machine with rsh_alloc_trim and
 * before there is none left. */
void *rshi_arena_alloc(rshi_arena *a, size_t bytes, bool zero);
void rshi_arena_free(rshi_arena *a, void *p, size_t bytes);

static inline bool rshi_arena_has(const rshi_arena *a, const void *p) {
    return (uintptr_t)p >= (uintptr_t)a->base && (uintptr_t)p < (uintptr_t)a->base + a->reserve;
}
static inline uint64_t rshi_arena_offset(const rshi_arena *a, const void *p) {
    return (uintptr_t)p - (uintptr_t)a->base;
}

/* A peer's arena, mapped here; NULL and a sentence if that fails. */
char *rshi_window_map(int fd, size_t reserve);
void rshi_window_unmap(char *window, size_t reserve);

#endif

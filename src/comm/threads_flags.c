/* Flags of the engine `threads`: made by the chunk, used again, freed with the group. */
#include "comm/threads.h"

#define CHUNK_FLAGS ((int)(sizeof(((rshi_flag_chunk *)0)->flags) / sizeof(rshi_flag)))

static void keep_chunk(rshi_group *g, rshi_flag_chunk *chunk) {
    chunk->next = atomic_load(&g->chunks);
    while (!atomic_compare_exchange_weak(&g->chunks, &chunk->next, chunk)) {}
}

static rsh_status make_flags(rshi_thread_comm *c) {
    rshi_flag **spare = rshi_realloc(c->spare, (size_t)(c->nflags + CHUNK_FLAGS), sizeof *spare);
    if (!spare) return rshi_nomem();
    c->spare = spare;
    rshi_flag_chunk *chunk = rshi_alloc_data(sizeof *chunk, true);
    if (!chunk) return rshi_nomem();
    keep_chunk(c->group, chunk);
    for (int i = 0; i < CHUNK_FLAGS; i++) c->spare[c->nspare++] = &chunk->flags[i];
    c->nflags += CHUNK_FLAGS;
    return RSH_OK;
}

rshi_flag *rshi_threads_flag_take(rsh_comm *comm) {
    rshi_thread_comm *c = rshi_thread_comm_of(comm);
    if (!c->nspare && make_flags(c)) return NULL;
    return c->spare[--c->nspare];
}

void rshi_threads_flag_give(rsh_comm *comm, rshi_flag *flag) {
    rshi_thread_comm *c = rshi_thread_comm_of(comm);
    c->spare[c->nspare++] = flag;
}

void rshi_threads_flags_free(rshi_group *g) {
    for (rshi_flag_chunk *chunk = atomic_load(&g->chunks), *next; chunk; chunk = next) {
        next = chunk->next;
        rshi_free_data(chunk, sizeof *chunk);
    }
}

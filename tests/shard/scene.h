/* Scene: four ranks as threads, as processes or on nodes, and moves bound on them. */
#ifndef RESHARD_TESTS_SCENE_H
#define RESHARD_TESTS_SCENE_H

#include "ramp.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "comm/impl.h"
#include "comm/mailboxes.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return rshi_fail(RSH_ERUNTIME, "%s:%d: %s  [%s]", __FILE__, __LINE__, #condition,      \
                             rsh_error_detail());                                                  \
    } while (0)

/* Where the ranks are. */
typedef enum where {
    THREADS,
    THREADS_BY_MESSAGE,
    PROCESSES,
    PROCESSES_BY_MESSAGE,
    NODES_OF_TWO,
    NODES_OF_ONE,
    WHERES
} where;

static const char *const names[WHERES] = {
    "threads",   "threads by message", "processes", "processes by message", "nodes of two ranks",
    "nodes of one rank"};

typedef struct scene {
    where where;
    atomic_int *turn; /* shared with processes too */
} scene;

static inline rsh_status run_scene(const scene *s, rsh_rank_fn fn) {
    const int two[RANKS] = {0, 0, 1, 1}, one[RANKS] = {0, 1, 2, 3};
    switch (s->where) {
    case THREADS:
    case THREADS_BY_MESSAGE: return rsh_run(RANKS, fn, (void *)s);
    case PROCESSES:
    case PROCESSES_BY_MESSAGE: return rsh_run_shm(RANKS, fn, (void *)s);
    case NODES_OF_TWO: return run_on_nodes(RANKS, two, fn, (void *)s);
    default: return run_on_nodes(RANKS, one, fn, (void *)s);
    }
}

static inline void everywhere(rsh_rank_fn fn) {
    scene s = {.turn = mmap(NULL, sizeof *s.turn, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_true((void *)s.turn != MAP_FAILED);
    for (s.where = 0; s.where < WHERES; s.where++) {
        atomic_store(s.turn, 0);
        alarm(PATIENCE);
        rsh_status st = run_scene(&s, fn);
        if (st) fail_msg("%s: %s: %s", names[s.where], rsh_status_name(st), rsh_error_detail());
    }
    alarm(0);
    munmap(s.turn, sizeof *s.turn);
}

/* A bound move on a rank. */
typedef struct bound {
    rsh_layout *from, *to;
    rsh_sharded *src, *dst;
    rsh_plan *plan;
    rsh_exec *exec;
} bound;

static inline rsh_memory memory_of(const rsh_sharded *s) {
    void *data = rsh_sharded_nparts(s) ? rsh_tensor_data(rsh_sharded_part(s, 0)) : NULL;
    return (rsh_memory){data, NULL};
}

static inline rsh_status bind_on(const scene *s, rsh_comm *comm, const char *from, const char *to,
                                 bound *b) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = s->where == THREADS_BY_MESSAGE || s->where == PROCESSES_BY_MESSAGE;
    *b = (bound){0};
    RSH_TRY(rsh_layout_parse(from, &b->from));
    RSH_TRY(rsh_layout_parse(to, &b->to));
    RSH_TRY(rsh_plan_opts_from_comm(comm, &opts));
    RSH_TRY(rsh_plan_new(b->from, b->to, &opts, &b->plan));
    RSH_TRY(make_source(comm, b->from, &b->src));
    RSH_TRY(rsh_sharded_zeros(comm, b->to, &b->dst));
    rsh_memory src = memory_of(b->src), dst = memory_of(b->dst);
    return rsh_exec_bind(b->plan, comm, &src, &dst, &b->exec);
}

static inline void unbind(bound *b) {
    rsh_exec_free(b->exec);
    rsh_plan_free(b->plan);
    rsh_sharded_free(b->src);
    rsh_sharded_free(b->dst);
    rsh_layout_free(b->from);
    rsh_layout_free(b->to);
}

#define ROWS "f32[64/x, 4096] on x=4"
#define COLUMNS "f32[64, 4096/x] on x=4"

#endif

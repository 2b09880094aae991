/* ranks: shared by tests of the comm room.  Ranks are threads, in which cmocka's assertions cannot
 * be used: rank functions report errors with CHECK, and the test finds them in the status of
 * rsh_run. */
#ifndef RESHARD_TESTS_COMM_RANKS_H
#define RESHARD_TESTS_COMM_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "comm/mailboxes.h"
#include "seed.h"
#include "skips.h"

#define CHECK(condition)                                                                           \
    RSH_REQUIRE(condition, RSH_ERUNTIME, "%s:%d: %s  [%s]", __FILE__, __LINE__, #condition,        \
                rsh_error_detail())
/* The call must return this status; its error message can then be checked. */
#define CHECK_STATUS(expected, call)                                                               \
    do {                                                                                           \
        rsh_status got_ = (call);                                                                  \
        RSH_REQUIRE(got_ == (expected), RSH_ERUNTIME, "%s:%d: %s is %s  [%s]", __FILE__, __LINE__, \
                    #call, rsh_status_name(got_), rsh_error_detail());                             \
    } while (0)
#define CHECK_SAYS(text) CHECK(strstr(rsh_error_detail(), (text)))

/* Where the ranks are: threads of one comm, or ranks of a comm on a wire, with rank r on node
 * r / per_node % nodes. */
typedef struct setting {
    const char *name;
    bool wire;
    int per_node, nodes;
} setting;
static const setting settings[] = {
    {"threads", false, 1, 1},
    {"one node", true, 1, 1},
    {"nodes of two ranks", true, 2, 1000},
    {"nodes of one rank", true, 1, 1000},
    {"ranks in turn on two nodes", true, 1, 2},
};
static const setting *here = settings;
enum { MOST_ON_WIRES = 24 };

static inline rsh_status run_here(int n, rsh_rank_fn fn, void *ctx) {
    int node[MOST_ON_WIRES];
    if (!here->wire) return rsh_run(n, fn, ctx);
    for (int r = 0; r < n; r++) node[r] = r / here->per_node % here->nodes;
    return run_on_nodes(n, node, fn, ctx);
}

static inline void run_ranks(int n, rsh_rank_fn fn, void *ctx) {
    if (here->wire && n > MOST_ON_WIRES) return;
    rsh_status st = run_here(n, fn, ctx);
    if (st)
        fail_msg("%d ranks, %s: %s: %s", n, here->name, rsh_status_name(st), rsh_error_detail());
}

/* Are all ranks on one node?  Flags are not visible on other nodes. */
static inline bool on_one_node(void) { return here->nodes == 1; }

/* Runs the tests of a program in every setting. */
#define RUN_EVERYWHERE(tests) run_everywhere(#tests, tests, sizeof(tests) / sizeof *(tests))
static inline int run_everywhere(const char *name, const struct CMUnitTest *tests, size_t n) {
    int failed = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        here = &settings[i];
        print_message("---- %s ----\n", here->name);
        failed += _cmocka_run_group_tests(name, tests, n, NULL, NULL);
    }
    return failed;
}

static const int rank_counts[] = {1, 2, 3, 4, 8, 64};
static inline void run_all_counts(rsh_rank_fn fn, void *ctx) {
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++)
        run_ranks(rank_counts[i], fn, ctx);
}

/* Random numbers that are the same on every rank: splitmix64. */
static inline uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The seed of a random test, which is printed: RESHARD_SEED, or else `otherwise`. */
static inline uint64_t test_seed(uint64_t otherwise) {
    uint64_t seed = seed_or(otherwise);
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

#endif

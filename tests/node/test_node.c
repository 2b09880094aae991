/* Node: its contract, on every mapping. */
#include "comm/ranks.h"

#include <pthread.h>

typedef rsh_status (*run_fn)(int n, rsh_rank_fn fn, void *ctx);
static const struct mapping {
    const char *name;
    run_fn run;
} mappings[] = {{"threads", rsh_run}, {"processes", rsh_run_shm}};

static void run_on_all(int n, rsh_rank_fn fn) {
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
        rsh_status st = mappings[i].run(n, fn, NULL);
        if (st) fail_msg("%s, %d ranks: %s: %s", mappings[i].name, n, rsh_status_name(st), rsh_error_detail());
    }
}

enum { LARGE = 10000 }; /* bytes; takes three rounds */

static unsigned char value_at(int rank, int i) { return (unsigned char)(rank * 37 + i); }

static rsh_status gathers_large_blocks(void *ctx, rsh_comm *c) {
    (void)ctx;
    unsigned char *all = malloc((size_t)c->size * LARGE), *mine = all + (size_t)c->rank * LARGE;
    int wrong = 0;
    for (int i = 0; i < LARGE; i++) mine[i] = value_at(c->rank, i);
    rsh_status st = rshi_node_allgather(c->here, mine, all, LARGE);
    for (int r = 0; r < c->size; r++)
        for (int i = 0; i < LARGE; i++) wrong += all[(size_t)r * LARGE + (size_t)i] != value_at(r, i);
    if (!st) st = rshi_node_bcast(c->here, c->size - 1, mine, LARGE);
    for (int i = 0; i < LARGE; i++) wrong += mine[i] != value_at(c->size - 1, i);
    free(all);
    RSH_TRY(st);
    CHECK(!wrong);
    return RSH_OK;
}
static void blocks_without_room_at_a_seat_go_in_rounds(void **state) {
    (void)state;
    run_on_all(1, gathers_large_blocks);
    run_on_all(3, gathers_large_blocks);
}

static rsh_status gives_different_sizes(void *ctx, rsh_comm *c) {
    (void)ctx;
    char mine[8] = "", all[64];
    CHECK_STATUS(RSH_EMISMATCH, rshi_node_allgather(c->here, mine, all, c->rank == 2 ? 4 : 8));
    CHECK_SAYS("rank 0 gave 8, rank 2 gave 4");
    return RSH_OK;
}
static void blocks_of_different_sizes_are_told_to_everybody(void **state) {
    (void)state;
    run_on_all(3, gives_different_sizes);
}

static rsh_status reaches_memory(void *ctx, rsh_comm *c) {
    (void)ctx;
    rshi_world *w = c->here->world;
    rshi_handle mine, all[4];
    int *number = w->map->alloc(w, sizeof *number, true), from = (c->rank + 1) % c->size;
    CHECK(number && !*number);
    *number = 100 + c->rank;
    RSH_TRY(rshi_node_publish(c->here, number, &mine));
    RSH_TRY(rshi_node_allgather(c->here, &mine, all, sizeof mine));
    const int *theirs = rshi_node_reach(c->here, from, all[from]);
    CHECK(theirs && *theirs == 100 + from);
    CHECK(rshi_node_reach(c->here, c->rank, all[c->rank]) == number);
    RSH_TRY(rshi_node_allgather(c->here, &mine, all, sizeof mine)); /* all have read the number */
    w->map->free(w, number, sizeof *number);
    return RSH_OK;
}
static void a_handle_is_an_address_for_every_peer(void **state) {
    (void)state;
    run_on_all(4, reaches_memory);
}

/* Exchanges messages to the rank itself, empty messages, and two messages to one peer.  If nothing needs staging, that
 * takes one round. */
static rsh_status exchanges_odd_lists(void *ctx, rsh_comm *c) {
    (void)ctx;
    int me = c->rank, to = (me + 1) % c->size, from = (me + c->size - 1) % c->size;
    int out[3] = {me, me + 10, me + 20}, in[3] = {-1, -1, -1};
    const rsh_message send[] = {{to, &out[0], 4}, {me, &out[1], 4}, {to, NULL, 0}, {to, &out[2], 4}};
    const rsh_message recv[] = {{me, &in[1], 4}, {from, &in[0], 4}, {from, NULL, 0}, {from, &in[2], 4}};
    for (int k = 0; k < 20; k++) {
        RSH_TRY(rshi_node_exchange(c->here, 4, send, 4, recv));
        CHECK(in[0] == from && in[1] == me + 10 && in[2] == from + 20);
    }
    return RSH_OK;
}
static void an_exchange_delivers_in_order_whatever_the_lists(void **state) {
    (void)state;
    run_on_all(3, exchanges_odd_lists);
    run_on_all(2, exchanges_odd_lists);
}

static rsh_status splits_without_memory(void *ctx, rsh_comm *c) {
    (void)ctx;
    rshi_node *made = NULL;
    rsh_status mine = c->rank == 1 ? RSH_ENOMEM : RSH_OK;
    CHECK_STATUS(RSH_ENOMEM, rshi_node_split(c->here, 0, 0, mine, &made));
    CHECK_SAYS("split: rank 1 ran out of memory");
    CHECK(!made);
    RSH_TRY(rshi_node_split(c->here, c->rank % 2, -c->rank, RSH_OK, &made));
    CHECK(made->size == 2 && made->rank == (c->rank < 2));
    rshi_node_free(made);
    return RSH_OK;
}
static void a_rank_that_could_not_prepare_fails_the_split_for_all(void **state) {
    (void)state;
    run_on_all(4, splits_without_memory);
}

/* Flags exist as long as the world, so nodes that are made and freed repeatedly must reuse them. */
static rsh_status splits_and_takes_flags(void *ctx, rsh_comm *c) {
    (void)ctx;
    for (int k = 0; k < 100; k++) {
        rshi_node *made = NULL;
        rshi_flag *flags[5];
        RSH_TRY(rshi_node_split(c->here, 0, 0, RSH_OK, &made));
        for (int i = 0; i < 5; i++) CHECK((flags[i] = rshi_world_flag_take(made->world)));
        for (int i = 0; i < 5; i++) rshi_world_flag_give(made->world, flags[i]);
        rshi_node_free(made);
    }
    CHECK(c->here->world->nflags <= 32);
    return RSH_OK;
}
static void flags_are_used_again_by_nodes_that_come_later(void **state) {
    (void)state;
    run_on_all(2, splits_and_takes_flags);
}

/* ---- two nodes of one rank, used by two threads ---- */

static void *take_and_give(void *node) {
    rshi_node *n = node;
    for (int k = 0; k < 20000; k++) {
        rshi_flag *flags[3];
        for (int i = 0; i < 3; i++) {
            flags[i] = rshi_world_flag_take(n->world);
            if (!flags[i]) return NULL;
            if (atomic_fetch_add(&flags[i]->value, 1) % 2) return NULL; /* another node has this flag */
        }
        for (int i = 0; i < 3; i++) {
            atomic_fetch_add(&flags[i]->value, 1);
            rshi_world_flag_give(n->world, flags[i]);
        }
    }
    return n;
}
static rsh_status shares_a_world(void *ctx, rsh_comm *c) {
    (void)ctx;
    rshi_node *made = NULL;
    pthread_t thread;
    void *other = NULL;
    RSH_TRY(rshi_node_split(c->here, 0, 0, RSH_OK, &made));
    CHECK(!pthread_create(&thread, NULL, take_and_give, made));
    void *here_too = take_and_give(c->here);
    pthread_join(thread, &other);
    CHECK(here_too == c->here && other == made);
    rshi_node_free(made);
    return RSH_OK;
}
static void two_nodes_of_a_rank_may_take_flags_at_once(void **state) {
    (void)state;
    run_on_all(1, shares_a_world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_without_room_at_a_seat_go_in_rounds),
        cmocka_unit_test(blocks_of_different_sizes_are_told_to_everybody),
        cmocka_unit_test(a_handle_is_an_address_for_every_peer),
        cmocka_unit_test(an_exchange_delivers_in_order_whatever_the_lists),
        cmocka_unit_test(a_rank_that_could_not_prepare_fails_the_split_for_all),
        cmocka_unit_test(flags_are_used_again_by_nodes_that_come_later),
        cmocka_unit_test(two_nodes_of_a_rank_may_take_flags_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Ranks on MPI: tests a comm on a real MPI.  Every rank that mpirun starts runs this program; rank 0 prints the tests.
 *
 *   ranks_on_mpi together | apart | pairs
 *
 * together: all ranks are on one node.  apart: RESHARD_NODE puts each rank on a node of its own.  pairs: two ranks per
 * node.  This program uses public headers only, as users do. */
#include "mpi_checks.h"

#include <reshard/grad.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../may_skip.h"

static int world_size, per_node;
static bool skipped;

static int node_of(int rank) { return per_node ? rank / per_node : 0; }

static rsh_comm *open_comm(void) {
    rsh_comm *c = NULL;
    CHECK_OK(rsh_comm_mpi(MPI_COMM_WORLD, &c));
    return c;
}

static void a_comm_knows_ranks_engine_and_nodes(rsh_comm *c) {
    CHECK(rsh_comm_rank(c) == world_rank && rsh_comm_size(c) == world_size);
    CHECK(!strcmp(rsh_comm_engine(c), "mpi"));
    for (int r = 0; r < world_size; r++) CHECK(rsh_comm_node(c, r) == node_of(r));
}

static void blocks_come_to_everybody(rsh_comm *c) {
    static const size_t sizes[] = {0, 1, 8, 4096, 4097, 300000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned char *mine = malloc(sizes[s] + 1), *all = malloc(sizes[s] * (size_t)world_size + 1);
        memset(mine, world_rank + 1, sizes[s]);
        CHECK_OK(rsh_comm_allgather(c, mine, all, sizes[s]));
        for (size_t i = 0; i < sizes[s] * (size_t)world_size; i++) CHECK(all[i] == i / sizes[s] + 1);
        free(mine);
        free(all);
    }
    int64_t one = world_rank + 1, sum;
    CHECK_OK(rsh_comm_allreduce(c, &one, &sum, 1, RSH_I64, RSH_OP_SUM));
    CHECK(sum == world_size * (world_size + 1) / 2);
}

/* Returns the size of a message.  Every rank sends four messages to every rank, itself included, whose sizes depend on
 * the pair; one is large enough for any protocol of MPI. */
static size_t size_of(int from, int to, int k) {
    return k == 0 ? 0 : k == 3 ? 3000000 + (size_t)(from * 10 + to) : (size_t)(from * 100 + to * 10 + k);
}
static void messages_of_all_sizes_arrive(rsh_comm *c) {
    enum { K = 4 };
    int n = world_size * K;
    rsh_message *send = calloc((size_t)n, sizeof *send), *recv = calloc((size_t)n, sizeof *recv);
    for (int i = 0; i < n; i++) {
        int peer = (world_rank + i) % world_size, k = i / world_size;
        send[i] = (rsh_message){peer, malloc(size_of(world_rank, peer, k) + 1), size_of(world_rank, peer, k)};
        recv[i] = (rsh_message){peer, malloc(size_of(peer, world_rank, k) + 1), size_of(peer, world_rank, k)};
        memset(send[i].data, world_rank * 16 + peer + k, send[i].bytes);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) memset(recv[i].data, 0, recv[i].bytes);
        CHECK_OK(rsh_comm_exchange(c, n, send, n, recv));
        for (int i = 0; i < n; i++)
            for (size_t b = 0; b < recv[i].bytes; b++)
                CHECK(((unsigned char *)recv[i].data)[b] ==
                      (unsigned char)(recv[i].peer * 16 + world_rank + i / world_size));
    }
    recv[1].bytes++; /* one rank receives a byte more: all ranks are told of the first mismatch */
    CHECK(rsh_comm_exchange(c, n, send, n, recv) == RSH_EMISMATCH);
    CHECK(strstr(rsh_error_detail(), "bytes, expected"));
    CHECK_OK(rsh_comm_barrier(c));
    for (int i = 0; i < n; i++) {
        free(send[i].data);
        free(recv[i].data);
    }
    free(send);
    free(recv);
}

static void refusals_are_everybodys(rsh_comm *c) {
    static char byte, all[64];
    CHECK(rsh_comm_allgather(c, world_rank == world_size - 1 ? NULL : &byte, all, 1) == RSH_EVALUE);
    CHECK(strstr(rsh_error_detail(), "NULL"));
    CHECK_OK(rsh_comm_barrier(c));
}

static void splits_are_comms_of_their_own(rsh_comm *c) {
    rsh_comm *half = NULL, *turned = NULL, *none = c;
    CHECK_OK(rsh_comm_split(c, world_rank % 2, 0, &half));
    CHECK_OK(rsh_comm_split(c, 3, -world_rank, &turned));
    CHECK_OK(rsh_comm_split(c, -1, 0, &none));
    CHECK(!none);
    CHECK(rsh_comm_rank(half) == world_rank / 2 && rsh_comm_rank(turned) == world_size - 1 - world_rank);
    CHECK(!strcmp(rsh_comm_engine(half), "mpi"));
    int64_t one = 1, sum;
    CHECK_OK(rsh_comm_allreduce(half, &one, &sum, 1, RSH_I64, RSH_OP_SUM));
    CHECK(sum == rsh_comm_size(half));
    CHECK(rsh_comm_node(turned, 0) == 0 && rsh_comm_nnodes(turned) == rsh_comm_nnodes(c));
    CHECK_OK(rsh_comm_barrier(turned));
    CHECK_OK(rsh_comm_free(half));
    CHECK_OK(rsh_comm_barrier(turned));
    CHECK_OK(rsh_comm_free(turned));
}

/* Moves rows to columns and to one rank; rank 0 compares every element. */
enum { ROWS = 60, COLUMNS = 1000 };
static rsh_layout *layout(const char *dims) {
    char text[64];
    rsh_layout *l = NULL;
    snprintf(text, sizeof text, "i32[%s] on x=%d", dims, world_size);
    CHECK_OK(rsh_layout_parse(text, &l));
    return l;
}
static void look_at_all(const rsh_sharded *s) {
    int32_t *whole = world_rank ? NULL : calloc(ROWS * COLUMNS, sizeof *whole);
    CHECK_OK(rsh_sharded_gather(s, 0, world_rank ? NULL : &(rsh_memory){whole, NULL}));
    for (int i = 0; whole && i < ROWS * COLUMNS; i++) CHECK(whole[i] == 7 * i);
    free(whole);
}
static void tensors_are_resharded(rsh_comm *c) {
    rsh_layout *rows = layout("60/x, 1000"), *columns = layout("60, 1000/x"), *copies = layout("60, 1000");
    int32_t *whole = world_rank ? NULL : calloc(ROWS * COLUMNS, sizeof *whole);
    for (int i = 0; whole && i < ROWS * COLUMNS; i++) whole[i] = 7 * i;
    rsh_sharded *a = NULL, *b = NULL, *d = NULL;
    CHECK_OK(rsh_sharded_scatter(c, rows, 0, world_rank ? NULL : &(rsh_memory){whole, NULL}, &a));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(rsh_reshard(a, columns, NULL, &b));
        CHECK_OK(rsh_reshard(b, copies, NULL, &d));
        look_at_all(b);
        look_at_all(d);
        rsh_sharded_free(b);
        rsh_sharded_free(d);
    }
    rsh_sharded_free(a);
    free(whole);
    rsh_layout_free(rows);
    rsh_layout_free(columns);
    rsh_layout_free(copies);
}

/* The last rank has no pointer for its comm.  No rank may wait for it, because this program would then be killed after
 * a time limit. */
static void a_rank_without_a_place_for_its_comm_is_named(rsh_comm *c) {
    (void)c;
    bool last = world_rank == world_size - 1;
    rsh_comm *own = NULL;
    CHECK(rsh_comm_mpi(MPI_COMM_WORLD, last ? NULL : &own) == (last ? RSH_EVALUE : RSH_EPEER));
    CHECK(!own && strstr(rsh_error_detail(), "out is NULL"));
}

/* Moves rows to columns and to replicas: these are adjoints, in which the gradients of replicas are summed. */
static void gradients_come_back(rsh_comm *c) {
    char text[3][64];
    rsh_layout *l[3];
    rsh_sharded *s;
    rsh_value *v[3];
    snprintf(text[0], 64, "f64[12/x, 6] on x=%d", world_size);
    snprintf(text[1], 64, "f64[12, 6/x] on x=%d", world_size);
    snprintf(text[2], 64, "f64[12, 6] on x=%d", world_size);
    for (int i = 0; i < 3; i++) CHECK_OK(rsh_layout_parse(text[i], &l[i]));
    for (int i = 1; i < 3; i++) {
        CHECK_OK(rsh_sharded_zeros(c, l[0], &s));
        CHECK_OK(rsh_value_adopt_sharded(s, true, &v[0]));
        CHECK_OK(rsh_value_reshard(v[0], l[i], RSH_DERIVATIVE_ADJOINT, NULL, &v[1]));
        CHECK_OK(rsh_sharded_full(c, l[i], &(double){2}, &s));
        CHECK_OK(rsh_value_adopt_sharded(s, false, &v[2]));
        CHECK_OK(rsh_backward(v[1], v[2], 0));
        const rsh_tensor *g = rsh_value_part(rsh_value_grad(v[0]), 0);
        for (int64_t k = 0; k < rsh_tensor_count(g); k++)
            CHECK(((double *)rsh_tensor_data(g))[k] == 2 * (i == 2 ? world_size : 1));
        for (int k = 0; k < 3; k++) rsh_value_free(v[k]);
    }
    for (int i = 0; i < 3; i++) rsh_layout_free(l[i]);
}

/* The last rank leaves early.  Waiting ranks get an error, and freeing the comm does not hang. */
static void a_rank_that_leaves_is_named(rsh_comm *c) {
    (void)c;
    rsh_comm *own = open_comm();
    CHECK_OK(rsh_comm_barrier(own));
    if (world_rank < world_size - 1) {
        char name[32];
        CHECK(rsh_comm_barrier(own) == RSH_EPEER);
        snprintf(name, sizeof name, "rank %d has left", world_size - 1);
        CHECK(strstr(rsh_error_detail(), name));
        CHECK(rsh_comm_barrier(own) == RSH_EPEER);
    }
    CHECK_OK(rsh_comm_free(own));
}

/* Comms are made and freed repeatedly, and none disturbs a later one. */
static void many_comms_live_one_after_another(rsh_comm *c) {
    for (int i = 0; i < 20; i++) {
        rsh_comm *copy = NULL;
        CHECK_OK(rsh_comm_split(c, 0, 0, &copy));
        CHECK_OK(rsh_comm_barrier(copy));
        CHECK_OK(rsh_comm_free(copy));
    }
}

/* This cannot be undone, so it comes last.  It needs permission to make a namespace, and ranks on one node. */
static void a_rank_in_another_network_namespace_is_another_node(rsh_comm *c) {
    if (per_node) return;
    int moved = world_rank == world_size - 1 && !unshare(CLONE_NEWNET);
    MPI_Bcast(&moved, 1, MPI_INT, world_size - 1, MPI_COMM_WORLD);
    skipped = !moved;
    if (skipped) return;
    rsh_comm *own = open_comm();
    CHECK(rsh_comm_nnodes(own) == 2 && rsh_comm_node(own, world_size - 1) == 1);
    tensors_are_resharded(own);
    CHECK_OK(rsh_comm_free(own));
    tensors_are_resharded(c); /* ranks that already share memory continue to do so */
}

static const struct {
    const char *name;
    void (*run)(rsh_comm *c);
} tests[] = {
#define TEST(name) {#name, name}
    TEST(a_comm_knows_ranks_engine_and_nodes), TEST(blocks_come_to_everybody),      TEST(messages_of_all_sizes_arrive),
    TEST(refusals_are_everybodys),             TEST(splits_are_comms_of_their_own), TEST(tensors_are_resharded),
    TEST(gradients_come_back),
    TEST(a_rank_without_a_place_for_its_comm_is_named),
    TEST(a_rank_that_leaves_is_named),         TEST(many_comms_live_one_after_another),
    TEST(a_rank_in_another_network_namespace_is_another_node),
};

static void be_on_node(const char *where) {
    char name[16];
    per_node = !strcmp(where, "apart") ? 1 : !strcmp(where, "pairs") ? 2 : 0;
    snprintf(name, sizeof name, "%d", node_of(world_rank));
    if (per_node) setenv("RESHARD_NODE", name, 1);
}

/* Reports a skip and returns the exit status. */
static int report_skip(const char *cause, const char *why) {
    if (!world_rank) printf("%sskipped (%s): %s\n", may_skip(cause) ? "" : "FAILED: ", cause, why);
    return may_skip(cause) ? EXIT_SKIPPED : 1;
}

int main(int argc, char **argv) {
    rsh_comm *c = NULL;
    CHECK(rsh_comm_mpi(MPI_COMM_WORLD, &c) == RSH_ERUNTIME && !c); /* MPI is not initialized */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    be_on_node(argc > 1 ? argv[1] : "together");
    CHECK(rsh_comm_mpi(MPI_COMM_NULL, &c) == RSH_EVALUE);
    CHECK(rsh_mpi_open(&c) == RSH_EBUSY);
    c = open_comm();
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!world_rank) printf("%s\n", tests[i].name), fflush(stdout);
        tests[i].run(c);
    }
    rsh_comm *late = open_comm();
    CHECK_OK(rsh_comm_free(c));
    MPI_Finalize();
    /* on one node a barrier does not need MPI */
    CHECK(rsh_comm_nnodes(late) < 2 || rsh_comm_barrier(late) == RSH_EPEER);
    CHECK_OK(rsh_comm_free(late));
    return skipped ? report_skip("namespace", "no right to make a network namespace") : 0;
}

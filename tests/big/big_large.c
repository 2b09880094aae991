/* Large: sends one message of more than 4 GiB, on one engine.
 *
 *   big_large threads | shm | mpi [messages] [BYTES]      BYTES: 4.5 GiB; mpi: under mpirun -n 2
 *
 * Moves a tensor from rank 0 to rank 1 by rsh_reshard and by rsh_comm_exchange, and compares its digest and every byte.
 * Needs 64 MiB in addition to twice the size of the tensor. */
#include <reshard.h>
#ifdef BIG_MPI
#include <reshard/mpi.h>
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct large {
    int64_t bytes;
    bool messages;
} large;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static rsh_status tell(rsh_status st, const char *what) {
    if (st) fprintf(stderr, "big_large: %s: %s: %s\n", what, rsh_status_name(st), rsh_error_detail());
    return st;
}
#define TRY(call)                                                                                  \
    do {                                                                                           \
        rsh_status status_ = tell(call, #call);                                                    \
        if (status_) return status_;                                                               \
    } while (0)

static uint64_t word(int64_t i) { return (uint64_t)i * 0x9e3779b97f4a7c15u ^ (uint64_t)i >> 7; }

static unsigned char *data_of(const rsh_sharded *s) {
    return rsh_sharded_nparts(s) ? rsh_tensor_data(rsh_sharded_part(s, 0)) : NULL;
}

static rsh_layout *on_rank(int64_t bytes, int rank) {
    char text[96];
    rsh_layout *l = NULL;
    snprintf(text, sizeof text, "u64[%" PRId64 "] on x=1@[%d]", bytes / 8, rank);
    tell(rsh_layout_parse(text, &l), text);
    return l;
}

static void fill(unsigned char *p, int64_t bytes) {
    for (int64_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t w = word(i);
        memcpy(p + i, &w, 8);
    }
}

/* Returns the first word that has another value than was set; -1: none. */
static int64_t first_wrong(const unsigned char *p, int64_t bytes) {
    for (int64_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t w = word(i);
        if (memcmp(p + i, &w, 8)) return i;
    }
    return -1;
}

/* Checks that the destination holds what the source held.  Collective. */
static rsh_status compare(rsh_comm *comm, const char *what, rsh_digest want, const rsh_sharded *dst, int64_t bytes,
                          double seconds) {
    rsh_digest got;
    TRY(rsh_sharded_digest(dst, &got));
    int64_t wrong = data_of(dst) ? first_wrong(data_of(dst), bytes) : -1, all;
    TRY(rsh_comm_allreduce(comm, &wrong, &all, 1, RSH_I64, RSH_OP_MAX));
    char text[RSH_DIGEST_TEXT];
    rsh_digest_text(got, text);
    bool good = got.hi == want.hi && got.lo == want.lo && all < 0;
    if (!rsh_comm_rank(comm))
        printf("large: %s, %s: %" PRId64 " bytes in %.2f s, digest %s, %s\n", rsh_comm_engine(comm), what, bytes,
               seconds, text, good ? "right" : "WRONG");
    if (all >= 0 && !rsh_comm_rank(comm)) printf("large: byte %" PRId64 " is the first that is wrong\n", all);
    return good ? RSH_OK : RSH_ERUNTIME;
}

static rsh_status by_reshard(const large *g, const rsh_sharded *src, rsh_sharded *dst, rsh_digest want) {
    rsh_comm *comm = rsh_sharded_comm(src);
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = g->messages;
    double began = now();
    TRY(rsh_reshard_into(src, dst, &opts));
    return compare(comm, g->messages ? "reshard by messages" : "reshard", want, dst, g->bytes, now() - began);
}

static rsh_status by_exchange(const large *g, const rsh_sharded *src, rsh_sharded *dst, rsh_digest want) {
    rsh_comm *comm = rsh_sharded_comm(src);
    int me = rsh_comm_rank(comm);
    if (data_of(dst)) memset(data_of(dst), 0xa5, (size_t)g->bytes);
    rsh_message out = {1, data_of(src), (size_t)g->bytes}, in = {0, data_of(dst), (size_t)g->bytes};
    double began = now();
    TRY(rsh_comm_exchange(comm, me == 0, &out, me == 1, &in));
    return compare(comm, "exchange", want, dst, g->bytes, now() - began);
}

static rsh_status be_rank(void *ctx, rsh_comm *comm) {
    const large *g = ctx;
    rsh_layout *from = on_rank(g->bytes, 0), *to = on_rank(g->bytes, 1);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_digest want;
    TRY(rsh_sharded_empty(comm, from, &src));
    TRY(rsh_sharded_zeros(comm, to, &dst));
    if (data_of(src)) fill(data_of(src), g->bytes);
    TRY(rsh_sharded_digest(src, &want));
    rsh_status st = by_reshard(g, src, dst, want);
    if (!st) st = by_exchange(g, src, dst, want);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return st;
}

#ifdef BIG_MPI
static rsh_status run_mpi(large *g) {
    rsh_comm *comm = NULL;
    MPI_Init(NULL, NULL);
    TRY(rsh_comm_mpi(MPI_COMM_WORLD, &comm));
    if (!rsh_comm_rank(comm)) printf("large: mpi, %d nodes\n", rsh_comm_nnodes(comm));
    rsh_status st = rsh_comm_size(comm) == 2 ? be_rank(g, comm) : RSH_EVALUE;
    if (st) MPI_Abort(MPI_COMM_WORLD, 1);
    TRY(rsh_comm_free(comm));
    MPI_Finalize();
    return st;
}
#endif

int main(int argc, char **argv) {
    const char *engine = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    large g = {.bytes = (int64_t)9 << 29, .messages = argc > 2 && !strcmp(argv[2], "messages")};
    if (argc > 2 + g.messages) g.bytes = atoll(argv[2 + g.messages]) / 8 * 8;
    if (!strcmp(engine, "threads")) return tell(rsh_run(2, be_rank, &g), "threads") != RSH_OK;
    if (!strcmp(engine, "shm")) return tell(rsh_run_shm(2, be_rank, &g), "shm") != RSH_OK;
#ifdef BIG_MPI
    if (!strcmp(engine, "mpi")) return run_mpi(&g) != RSH_OK;
#endif
    fprintf(stderr, "big_large: no engine \"%s\" in this build\n", engine);
    return 2;
}

/* Ceiling: a large tensor is sent over the wire with little additional memory.
 *
 *     mpirun -n 2 big_ceiling [BYTES [SCRATCH]]     defaults: 1 GiB, 1 MiB
 *
 * RESHARD_NODE must differ from rank to rank.  The peak scratch of each rank must not exceed the limit, and the digest
 * must be right. */
#include <reshard.h>
#include <reshard/mpi.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

static void must(rsh_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "big_ceiling: rank %d: %s: %s: %s\n", rank, what, rsh_status_name(st), rsh_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define MUST(call) must(call, #call)

static rsh_sharded *make(rsh_comm *comm, const rsh_layout *from) {
    rsh_sharded *s;
    MUST(rsh_sharded_empty(comm, from, &s));
    const rsh_tensor *t = rsh_sharded_part(s, 0);
    uint32_t *p = rsh_tensor_data(t);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) p[i] = (uint32_t)(i * 2654435761u + (uint32_t)rank);
    return s;
}

static bool check(rsh_comm *comm, const rsh_layout *from, const rsh_layout *to, uint64_t ceiling) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.has_max_scratch = true, opts.max_scratch_bytes = ceiling;
    rsh_sharded *src = make(comm, from), *dst;
    rsh_digest want, got;
    MUST(rsh_sharded_digest(src, &want));
    rsh_alloc_reset_peak();
    double began = MPI_Wtime();
    MUST(rsh_reshard(src, to, &opts, &dst));
    double seconds = MPI_Wtime() - began;
    uint64_t mine = rsh_alloc_get_stats().scratch_peak;
    MUST(rsh_sharded_digest(dst, &got));
    uint64_t peak[64] = {0};
    MUST(rsh_comm_allgather(comm, &mine, peak, sizeof mine));
    bool good = want.hi == got.hi && want.lo == got.lo;
    for (int r = 0; r < rsh_comm_size(comm); r++) {
        if (!rank) printf("ceiling: rank %d held %" PRIu64 " bytes of scratch of %" PRIu64 "\n", r, peak[r], ceiling);
        good &= peak[r] <= ceiling && peak[r] > 0;
    }
    if (!rank)
        printf("ceiling: %s  to  %s on %d nodes in %.2f s: %s\n", rsh_layout_text(from), rsh_layout_text(to),
               rsh_comm_nnodes(comm), seconds, good ? "right" : "WRONG");
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return good;
}

int main(int argc, char **argv) {
    rsh_comm *comm;
    rsh_layout *from, *to;
    char text[128];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MUST(rsh_comm_mpi(MPI_COMM_WORLD, &comm));
    int n = rsh_comm_size(comm);
    long long rows = (argc > 1 ? atoll(argv[1]) : 1ll << 30) / (4 * 16384);
    uint64_t ceiling = argc > 2 ? strtoull(argv[2], NULL, 0) : 1 << 20;
    snprintf(text, sizeof text, "u32[%lld/x, 16384] on x=%d", rows, n);
    must(rsh_layout_parse(text, &from), text);
    snprintf(text, sizeof text, "u32[%lld, 16384/x] on x=%d", rows, n);
    must(rsh_layout_parse(text, &to), text);
    bool good = n <= 64 && rsh_comm_nnodes(comm) == n && check(comm, from, to, ceiling);
    if (!rank && rsh_comm_nnodes(comm) != n)
        printf("ceiling: %d ranks on %d nodes; set RESHARD_NODE for each\n", n, rsh_comm_nnodes(comm));
    rsh_layout_free(from);
    rsh_layout_free(to);
    MUST(rsh_comm_free(comm));
    MPI_Finalize();
    return !good;
}

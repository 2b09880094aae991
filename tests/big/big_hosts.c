/* Hosts: checks moves between ranks on two hosts, which hosts.sh makes.
 *
 *   big_hosts moves | stream | duplex | cut FOLDER
 *
 *   moves   checks digests, and that the bytes on the wire are those that the plan says cross between nodes
 *   stream  measures the rate from one host to the other, in alternation with plain MPI messages of the same bytes
 *           between the same ranks
 *   duplex  measures rows to columns on all ranks, in alternation with plain MPI messages of the same bytes in both
 *           directions at once
 *   cut     moves until the first error, which it writes to FOLDER/rank<R>; makes FOLDER/ready<R> when it begins
 *
 * duplex runs on any even number of ranks, the others on four. */
#include <reshard.h>
#include <reshard/mpi.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, ROUNDS = 8 };
static int rank, ranks;

static void must(rsh_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "big_hosts: rank %d: %s: %s: %s\n", rank, what, rsh_status_name(st), rsh_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define MUST(call) must(call, #call)

/* ---- one move, bound ---- */

typedef struct bound {
    rsh_layout *from, *to;
    rsh_plan *plan;
    rsh_sharded *src, *dst;
    rsh_exec *exec;
} bound;

static rsh_memory memory_of(const rsh_sharded *s) {
    return (rsh_memory){rsh_sharded_nparts(s) ? rsh_tensor_data(rsh_sharded_part(s, 0)) : NULL, NULL};
}

/* Sets small whole numbers, so that sums are exact in any order. */
static void fill(const rsh_sharded *s) {
    if (!rsh_sharded_nparts(s)) return;
    const rsh_tensor *t = rsh_sharded_part(s, 0);
    float *p = rsh_tensor_data(t);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) p[i] = (float)((i * 7 + rank * 131 + i / 1009) % 1021);
}

static bound bind(rsh_comm *comm, const char *from, const char *to) {
    bound b = {0};
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    must(rsh_layout_parse(from, &b.from), from);
    must(rsh_layout_parse(to, &b.to), to);
    MUST(rsh_plan_opts_from_comm(comm, &opts));
    MUST(rsh_plan_new(b.from, b.to, &opts, &b.plan));
    MUST(rsh_sharded_empty(comm, b.from, &b.src));
    MUST(rsh_sharded_zeros(comm, b.to, &b.dst));
    fill(b.src);
    rsh_memory src = memory_of(b.src), dst = memory_of(b.dst);
    MUST(rsh_exec_bind(b.plan, comm, &src, &dst, &b.exec));
    return b;
}

static void unbind(bound *b) {
    rsh_exec_free(b->exec);
    rsh_sharded_free(b->src);
    rsh_sharded_free(b->dst);
    rsh_plan_free(b->plan);
    rsh_layout_free(b->from);
    rsh_layout_free(b->to);
}

/* ---- moves ---- */

/* Returns the digest that the result must have: that of the source or, for a sum, of the result that MPI computes. */
static rsh_digest expected(rsh_comm *comm, const bound *b) {
    rsh_digest d;
    if (rsh_layout_op(b->from) == RSH_OP_NONE) {
        MUST(rsh_sharded_digest(b->src, &d));
        return d;
    }
    const rsh_tensor *t = rsh_sharded_part(b->src, 0);
    int64_t n = rsh_tensor_count(t);
    float *sum = malloc((size_t)n * sizeof *sum);
    MPI_Allreduce(rsh_tensor_data(t), sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    rsh_layout *whole;
    rsh_sharded *s;
    MUST(rsh_layout_whole(RSH_F32, rsh_tensor_ndim(t), rsh_tensor_shape(t), 0, &whole));
    MUST(rsh_sharded_wrap(comm, whole, &(rsh_memory){sum, NULL}, &s));
    MUST(rsh_sharded_digest(s, &d));
    rsh_sharded_free(s);
    rsh_layout_free(whole);
    free(sum);
    return d;
}

static bool move(rsh_comm *comm, const char *from, const char *to) {
    bound b = bind(comm, from, to);
    rsh_digest want = expected(comm, &b), got;
    rsh_exec_stats stats = RSH_EXEC_STATS_INIT;
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    MUST(rsh_exec_run(b.exec));
    MUST(rsh_exec_run(b.exec));
    MUST(rsh_sharded_digest(b.dst, &got));
    MUST(rsh_exec_get_stats(b.exec, &stats));
    MUST(rsh_plan_get_totals(b.plan, &totals));
    int64_t mine = (int64_t)stats.bytes_wire, wire;
    MUST(rsh_comm_allreduce(comm, &mine, &wire, 1, RSH_I64, RSH_OP_SUM));
    bool right = want.hi == got.hi && want.lo == got.lo, told = wire == totals.bytes_between_nodes;
    if (!rank)
        printf("%s  to  %s: %s, %" PRId64 " bytes on the wire, %" PRId64 " between nodes%s\n", from, to,
               right ? "right" : "WRONG", wire, totals.bytes_between_nodes, told ? "" : ": NOT THE SAME");
    unbind(&b);
    return right && told;
}

static bool moves(rsh_comm *comm) {
    static const char *pairs[][2] = {
        {"f32[2048/x, 2048] on x=4", "f32[2048, 2048/x] on x=4"},
        {"f32[2048/x, 2048] on x=2@[0,1]", "f32[2048, 2048/x] on x=2@[2,3]"},
        {"f32[2047/x:3, 1025] on x=4", "f32[2047, 1025/x~] on x=4@[3,1,0,2] order(1,0)"},
        {"f32[1024/x, 1024] on x=4", "f32[1024, 1024] on x=4"},
        {"f32[512, 512] on x=4 sum(x)", "f32[512/x, 512] on x=4"},
        {"f32[512, 512] on x=4 sum(x)", "f32[512, 512] on x=4"},
        {"f32[64/x, 64] on x=2@[0,1]", "f32[64/x, 64] on x=2"},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) good &= move(comm, pairs[i][0], pairs[i][1]);
    return good;
}

/* ---- stream ---- */

static double span(double began) {
    double mine = MPI_Wtime() - began, all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* Each rank of the first host sends `bytes` to a rank of the second; if `back` is set, it also receives as much. */
static double plain(char *buffer, int bytes, bool back) {
    int half = ranks / 2, peer = (rank + half) % ranks, n = 0;
    MPI_Request list[2];
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    if (rank >= half || back) MPI_Irecv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &list[n++]);
    if (rank < half || back) MPI_Issend(buffer + bytes, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &list[n++]);
    MPI_Waitall(n, list, MPI_STATUSES_IGNORE);
    return span(began);
}

static double ours(const bound *b) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    MUST(rsh_exec_run(b->exec));
    return span(began);
}

/* Measures the least seconds of both, in alternating rounds.  `bytes` of each sender cross between the hosts. */
static bool race(rsh_comm *comm, const char *from, const char *to, int bytes, bool back) {
    bound b = bind(comm, from, to);
    char *buffer = calloc(2, (size_t)bytes);
    double least[2] = {INFINITY, INFINITY}, crossed = ranks / 2 * (double)bytes;
    for (int i = 0; i < ROUNDS; i++) {
        least[0] = fmin(least[0], plain(buffer, bytes, back));
        least[1] = fmin(least[1], ours(&b));
    }
    if (!rank)
        printf("%s  to  %s: ours %.1f MB/s%s, plain MPI %.1f MB/s, ratio %.3f\n", from, to, crossed / least[1] / 1e6,
               back ? " each way" : "", crossed / least[0] / 1e6, least[0] / least[1]);
    unbind(&b);
    free(buffer);
    return least[0] / least[1] >= 0.9;
}

static bool stream(rsh_comm *comm) {
    enum { SIZE = 32 << 20 };
    bool good = race(comm, "f32[4096/x, 4096] on x=2@[0,1]", "f32[4096/x, 4096] on x=2@[2,3]", SIZE, false);
    return race(comm, "f32[4096/x, 4096] on x=2@[0,1]", "f32[4096, 4096/x] on x=2@[2,3]", SIZE, false) && good;
}

/* A quarter of the tensor crosses in each direction. */
static bool duplex(rsh_comm *comm) {
    char from[64], to[64];
    snprintf(from, sizeof from, "f32[4096/x, 8192] on x=%d", ranks);
    snprintf(to, sizeof to, "f32[4096, 8192/x] on x=%d", ranks);
    return race(comm, from, to, (4096 * 8192) / (ranks / 2), true);
}

/* ---- cut ---- */

static void write_file(const char *folder, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/new-%s%d", folder, name, rank);
    FILE *f = fopen(path, "w");
    if (!f) return;
    fputs(text, f);
    fclose(f);
    char at[4096];
    snprintf(at, sizeof at, "%s/%s%d", folder, name, rank);
    rename(path, at);
}

/* MPI_Finalize is not called: if the link is down, it would wait. */
static void cut(rsh_comm *comm, const char *folder) {
    char text[512];
    bound b = bind(comm, "f32[2048/x, 2048] on x=4", "f32[2048, 2048/x] on x=4");
    MUST(rsh_exec_run(b.exec));
    write_file(folder, "ready", "");
    rsh_status st = RSH_OK;
    double began = 0;
    while (!st) {
        began = MPI_Wtime();
        st = rsh_exec_run(b.exec);
    }
    snprintf(text, sizeof text, "rank %d: %s after %.1f s: %s\n", rank, rsh_status_name(st), MPI_Wtime() - began,
             rsh_error_detail());
    write_file(folder, "rank", text);
    rsh_exec_free(b.exec);
    began = MPI_Wtime();
    st = rsh_comm_barrier(comm);
    if (!st || MPI_Wtime() - began > 1) write_file(folder, "rank", "a comm that has failed went on\n");
    _exit(0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    rsh_comm *comm;
    bool good = true;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MUST(rsh_comm_mpi(MPI_COMM_WORLD, &comm));
    ranks = rsh_comm_size(comm);
    bool any = !strcmp(what, "duplex") && ranks % 2 == 0;
    if ((ranks != RANKS && !any) || rsh_comm_nnodes(comm) != 2) {
        fprintf(stderr, "big_hosts: %d ranks on %d nodes; four on two are meant\n", ranks, rsh_comm_nnodes(comm));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (!strcmp(what, "moves")) good = moves(comm);
    else if (!strcmp(what, "stream")) good = stream(comm);
    else if (!strcmp(what, "duplex")) good = duplex(comm);
    else if (!strcmp(what, "cut") && argc > 2) cut(comm, argv[2]);
    else good = false;
    MUST(rsh_comm_free(comm));
    MPI_Finalize();
    return !good;
}

/* Checkpoint on MPI: six ranks on two nodes.  Four ranks save; three ranks, and all six, load.
 *
 * RESHARD_NODE makes nodes of three ranks each.  This program uses public headers only, as users do. */
#include "mpi_checks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TENSORS = 4, RANKS = 6 };

static char folder[64] = "/tmp/reshard-mpi-XXXXXX", path[80];
static const char *const names[TENSORS] = {"rows", "qkv", "flat", "copied"};

/* Layouts for the four ranks that save, for three ranks, and for six. */
static const char *const layouts[3][TENSORS] = {
    {"f32[600/x, 400] on x=4", "bf16[(8/(k,r)|4/k|4/k), 10] on k=2,r=2", "f64[9, 7]/x on x=4", "f32[30, 10] on x=4"},
    {"f32[600, 400/y~] on y=3", "bf16[16/y~, 10] on y=3", "f64[9/y, 7] on y=3", "f32[30/y, 10] on y=3"},
    {"f32[600, 400] on y=6", "bf16[16, 10] on y=6", "f64[9, 7] on y=6", "f32[30, 10] on y=6"}};

static void make(rsh_comm *c, int which, rsh_sharded **s) {
    for (int i = 0; i < TENSORS; i++) {
        rsh_layout *l = NULL;
        CHECK_OK(rsh_layout_parse(layouts[which][i], &l));
        CHECK_OK(rsh_sharded_zeros(c, l, &s[i]));
        rsh_layout_free(l);
    }
}

static void drop(rsh_sharded **s) {
    for (int i = 0; i < TENSORS; i++) rsh_sharded_free(s[i]);
}

/* Splits off a comm of ranks 0 to n - 1; NULL on the others. */
static rsh_comm *first(rsh_comm *c, int n) {
    rsh_comm *out = NULL;
    CHECK_OK(rsh_comm_split(c, world_rank < n ? 0 : -1, world_rank, &out));
    return out;
}

static void save(rsh_comm *four, rsh_digest *digests) {
    rsh_sharded *s[TENSORS];
    struct stat found;
    make(four, 0, s);
    for (int i = 0; i < TENSORS; i++) {
        CHECK_OK(rsh_sharded_normal(s[i], (uint64_t)i));
        CHECK_OK(rsh_sharded_digest(s[i], &digests[i]));
    }
    const rsh_sharded *mine[TENSORS] = {s[0], s[1], world_rank == 3 ? NULL : s[2], s[3]};
    CHECK(rsh_ckpt_save(four, path, TENSORS, names, mine, NULL) == RSH_EVALUE); /* rank 3 passes invalid arguments */
    CHECK(lstat(path, &found) < 0);
    CHECK_OK(rsh_comm_barrier(four));
    CHECK_OK(rsh_ckpt_save(four, path, TENSORS, names, (const rsh_sharded *const *)s, NULL));
    drop(s);
}

/* Loads.  `whole`: every node needs every byte, and reads it once. */
static void load(rsh_comm *c, int which, const rsh_digest *digests, int whole) {
    rsh_sharded *s[TENSORS];
    rsh_ckpt *k = NULL;
    rsh_load_stats stats = RSH_LOAD_STATS_INIT;
    uint64_t all[RANKS], sum[RANKS] = {0}, bytes = 0;
    make(c, which, s);
    CHECK_OK(rsh_ckpt_open(path, NULL, &k));
    CHECK_OK(rsh_ckpt_load(k, c, TENSORS, names, s, &stats));
    for (int i = 0; i < TENSORS; i++) {
        rsh_digest d;
        rsh_ckpt_entry t = RSH_CKPT_ENTRY_INIT;
        CHECK_OK(rsh_sharded_digest(s[i], &d));
        CHECK(d.hi == digests[i].hi && d.lo == digests[i].lo);
        CHECK_OK(rsh_ckpt_get_tensor(k, i, &t));
        bytes += t.bytes;
    }
    CHECK_OK(rsh_comm_allgather(c, &stats.bytes_read, all, sizeof *all));
    for (int r = 0; r < rsh_comm_size(c); r++) sum[rsh_comm_node(c, r)] += all[r];
    for (int n = 0; n < rsh_comm_nnodes(c); n++) CHECK(whole ? sum[n] == bytes : sum[n] <= bytes);
    rsh_ckpt_free(k);
    drop(s);
}

int main(int argc, char **argv) {
    rsh_digest digests[TENSORS] = {{0, 0}};
    rsh_comm *c = NULL;
    char command[100];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    setenv("RESHARD_NODE", world_rank < RANKS / 2 ? "a" : "b", 1);
    if (!world_rank) CHECK(mkdtemp(folder));
    MPI_Bcast(folder, sizeof folder, MPI_BYTE, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/saved", folder);
    CHECK_OK(rsh_comm_mpi(MPI_COMM_WORLD, &c));
    CHECK(rsh_comm_size(c) == RANKS && rsh_comm_nnodes(c) == 2);
    rsh_comm *four = first(c, 4), *three = first(c, 3);
    if (four) save(four, digests);
    MPI_Bcast(digests, sizeof digests, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (three) load(three, 1, digests, 0);
    if (four) load(four, 0, digests, 0);
    load(c, 2, digests, 1);
    CHECK_OK(rsh_comm_barrier(c));
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (!world_rank) CHECK(!system(command));
    CHECK_OK(rsh_comm_free(three));
    CHECK_OK(rsh_comm_free(four));
    CHECK_OK(rsh_comm_free(c));
    MPI_Finalize();
    return 0;
}

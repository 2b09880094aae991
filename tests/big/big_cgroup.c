/* Cgroup: allocates a tensor of the given size in shared memory and writes to it.
 *
 *     big_cgroup MIB RANKS
 *
 * Prints "done", or the status and the error message of the first rank that failed. tests/big/cgroup.sh runs it with
 * limited memory. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rsh_status fill(void *ctx, rsh_comm *comm) {
    const rsh_layout *layout = ctx;
    rsh_sharded *s = NULL;
    rsh_status st = rsh_sharded_empty(comm, layout, &s);
    if (st) return st;
    const rsh_tensor *t = rsh_sharded_part(s, 0);
    memset(rsh_tensor_data(t), 1, 4 * (size_t)rsh_tensor_count(t));
    st = rsh_comm_barrier(comm);
    rsh_sharded_free(s);
    return st;
}

int main(int argc, char **argv) {
    char text[100];
    rsh_layout *layout;
    int ranks = argc > 2 ? atoi(argv[2]) : 4;
    snprintf(text, sizeof text, "f32[%lld/x] on x=%d", (argc > 1 ? atoll(argv[1]) : 200) << 18, ranks);
    rsh_status st = rsh_layout_parse(text, &layout);
    if (!st) st = rsh_run_shm(ranks, fill, layout);
    if (st)
        printf("%s: %s\n", rsh_status_name(st), rsh_error_detail());
    else
        printf("done\n");
    return 0;
}

/* Bricks: the moves of a 3-D FFT under MPI, from bricks with ghost layers to x-, y- and z-pencils and back to bricks.
 *
 *     mpirun -n 4 bricks
 *
 * Dims are z, y, x.  In each kind of pencil the transformed dim is whole and varies fastest in memory. */
#include <mpi.h>
#include <reshard.h>
#include <reshard/mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NZ = 36, NY = 40, NX = 48, GHOST = 2, STAGES = 5 };

typedef struct stage {
    const char *name, *form;
    int ghost; /* layers of cells around the part, which are not moved */
    double *array;
    rsh_layout *layout;
    rsh_sharded *tensor;
} stage;

/* Allocates this rank's part with its ghost cells, and wraps the interior. */
static rsh_status make_array(rsh_comm *comm, stage *s) {
    rsh_part part;
    int64_t wide[3], strides[3], cells = 1, first = 0;
    const rsh_layout_desc *desc = rsh_layout_describe(s->layout);
    rsh_status st = rsh_layout_part(s->layout, rsh_comm_rank(comm), 0, &part);
    if (st) return st;
    for (int i = 2; i >= 0; i--) { /* from the fastest dim to the slowest */
        int d = desc->has_order ? desc->order[i] : i;
        wide[d] = part.shape[d] + 2 * s->ghost;
        strides[d] = cells;
        first += s->ghost * strides[d];
        cells *= wide[d];
    }
    s->array = calloc((size_t)cells, 2 * sizeof *s->array); /* an element is complex: two doubles */
    if (!s->array) return RSH_ENOMEM;
    rsh_memory memory = {s->array + 2 * first, strides};
    return rsh_sharded_wrap(comm, s->layout, &memory, &s->tensor);
}

static rsh_status open_stage(rsh_comm *comm, stage *s, const int axes[3]) {
    char text[160];
    snprintf(text, sizeof text, s->form, NZ, NY, NX, axes[0], axes[1], axes[2]);
    rsh_status st = rsh_layout_parse(text, &s->layout);
    return st ? st : make_array(comm, s);
}

static void close_stage(stage *s) {
    rsh_sharded_free(s->tensor);
    rsh_layout_free(s->layout);
    free(s->array);
}

/* Makes all moves.  An FFT would transform each kind of pencil before the next move. */
static rsh_status move_through(stage *s, rsh_digest *before, rsh_digest *after) {
    rsh_status st = rsh_sharded_normal(s[0].tensor, 1);
    if (!st) st = rsh_sharded_digest(s[0].tensor, before);
    for (int i = 0; i + 1 < STAGES && !st; i++) st = rsh_reshard_into(s[i].tensor, s[i + 1].tensor, NULL);
    return st ? st : rsh_sharded_digest(s[STAGES - 1].tensor, after);
}

int main(int argc, char **argv) {
    stage s[STAGES] = {{"bricks", "c128[%d/a~, %d/b~, %d/c~] on a=%d,b=%d,c=%d", GHOST, NULL, NULL, NULL},
                       {"x-pencils", "c128[%d/(a,b)~, %d/c~, %d] on a=%d,b=%d,c=%d", 0, NULL, NULL, NULL},
                       {"y-pencils", "c128[%d/(a,b)~, %d, %d/c~] on a=%d,b=%d,c=%d order(0,2,1)", 0, NULL, NULL, NULL},
                       {"z-pencils", "c128[%d, %d/(a,b)~, %d/c~] on a=%d,b=%d,c=%d order(1,2,0)", 0, NULL, NULL, NULL},
                       {"bricks", "c128[%d/a~, %d/b~, %d/c~] on a=%d,b=%d,c=%d", GHOST, NULL, NULL, NULL}};
    rsh_comm *comm = NULL;
    rsh_digest before = {0, 0}, after = {0, 0};
    MPI_Init(&argc, &argv);
    rsh_status st = rsh_comm_mpi(MPI_COMM_WORLD, &comm);
    int ranks = rsh_comm_size(comm), rank = rsh_comm_rank(comm);
    int a = ranks % 2 ? 1 : 2, c = ranks / a % 2 ? 1 : 2, axes[3] = {a, ranks / a / c, c};
    for (int i = 0; i < STAGES && !st; i++) st = open_stage(comm, &s[i], axes);
    if (!st) st = move_through(s, &before, &after);
    if (!st && memcmp(&before, &after, sizeof before)) st = RSH_ERUNTIME;
    if (st) fprintf(stderr, "rank %d: %s: %s\n", rank, rsh_status_text(st), rsh_error_detail());
    for (int i = 0; i < STAGES && !st && !rank; i++) printf("%-10s %s\n", s[i].name, rsh_layout_text(s[i].layout));
    for (int i = 0; i < STAGES; i++) close_stage(&s[i]);
    rsh_comm_free(comm);
    MPI_Finalize();
    return st != RSH_OK;
}

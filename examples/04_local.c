/* Local: one caller has all parts in its memory and moves them without rank threads, as loaders, tests and bindings do.
 *
 * A matrix with padded rows is cut into four blocks, each stored column-major and converted to f64 on the way. */
#include <reshard.h>

#include <stdio.h>

enum { ROWS = 6, COLUMNS = 10, PITCH = 16, PARTS = 4 };

static float matrix[ROWS * PITCH];
static double block[PARTS][ROWS / 2 * COLUMNS / 2];

static int count_wrong(void) {
    int wrong = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++) {
            int x = i / (ROWS / 2), y = j / (COLUMNS / 2); /* position of the block in the mesh */
            int at = i % (ROWS / 2) + ROWS / 2 * (j % (COLUMNS / 2));
            wrong += block[2 * x + y][at] != 100 * i + j;
        }
    }
    return wrong;
}

int main(void) {
    const int64_t strides[] = {PITCH, 1};
    rsh_memory src = {matrix, strides}, dst[PARTS];
    rsh_layout *whole = NULL, *blocks = NULL;
    rsh_plan *plan = NULL;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) matrix[i * PITCH + j] = (float)(100 * i + j);
    for (int r = 0; r < PARTS; r++)
        dst[r] = (rsh_memory){block[r], NULL}; /* in rank order; contiguous in the layout's order */

    rsh_status st = rsh_layout_parse("f32[6, 10]", &whole);
    if (!st) st = rsh_layout_parse("f64[6/x, 10/y] on x=2,y=2 order(1,0)", &blocks);
    if (!st) st = rsh_plan_new(whole, blocks, NULL, &plan);
    if (!st) st = rsh_plan_run_local(plan, NULL, &src, dst);
    if (st) fprintf(stderr, "04_local: %s\n", rsh_error_detail());
    int wrong = st ? 0 : count_wrong();
    if (!st) printf("%d of %d elements are in the right place\n", ROWS * COLUMNS - wrong, ROWS * COLUMNS);

    rsh_plan_free(plan);
    rsh_layout_free(blocks);
    rsh_layout_free(whole);
    return st || wrong;
}

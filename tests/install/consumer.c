/* Consumer: a minimal program of a user of the installed library.  The argument is the version that must be found. */
#include <reshard/torch.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 2 || strcmp(argv[1], rsh_version()) != 0) {
        fprintf(stderr, "consumer: linked with reshard %s, expected %s\n", rsh_version(), argc == 2 ? argv[1] : "?");
        return 1;
    }
    rsh_layout *rows = NULL, *columns = NULL;
    rsh_plan *plan = NULL;
    rsh_status st = rsh_layout_parse("f32[8/x, 8] on x=4", &rows);
    if (!st) st = rsh_layout_parse("f32[8, 8/x] on x=4", &columns);
    if (!st) st = rsh_plan_new(rows, columns, NULL, &plan);
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    if (!st) st = rsh_plan_get_totals(plan, &totals);
    if (st) fprintf(stderr, "consumer: %s\n", rsh_error_detail());
    bool right = totals.bytes_moved == 192; /* 3/4 of 256 bytes */
    if (!st && !right) fprintf(stderr, "consumer: %lld bytes would move, not 192\n", (long long)totals.bytes_moved);
    rsh_plan_free(plan);
    rsh_layout_free(columns);
    rsh_layout_free(rows);
    return st || !right;
}

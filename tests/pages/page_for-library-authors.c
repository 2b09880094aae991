/* for-library-authors.md: options of a plan, and an error message. */
#include "page_ranks.h"

#include <string.h>

static void plan_with_options(void) {
#include "block_1.c"
    rsh_layout *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    CHECK(rsh_layout_parse("f32[8/x, 8] on x=2", &from));
    CHECK(rsh_layout_parse("f32[8, 8/x] on x=2", &to));
    CHECK(rsh_plan_new(from, to, &opts, &plan));
    rsh_plan_free(plan);
    rsh_layout_free(to);
    rsh_layout_free(from);
}

int main(void) {
    char message[500] = "";
    plan_with_options();
#include "block_2.c"
    REQUIRE(st == RSH_EVALUE && strstr(message, "mylib: ") && strstr(message, "\"y\""));
    return 0;
}

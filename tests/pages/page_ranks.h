/* Page ranks: helpers for parts of programs from pages: a failure becomes the exit status. */
#include <reshard/train.h>

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition) page_require(condition, #condition, __FILE__, __LINE__)
#define CHECK(call)        page_require((call) == RSH_OK, #call, __FILE__, __LINE__)

static inline void page_require(bool holds, const char *what, const char *file, int line) {
    if (holds) return;
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, rsh_error_detail());
    exit(1);
}

/* modules.md: a kind of module of one's own. */
#include <reshard/nn.h>

#include "page_ranks.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "block_1.c"

int main(void) {
    rsh_module *m = NULL;
    rsh_tensor *t = NULL;
    rsh_value *x = NULL, *y = NULL;
    CHECK(rsh_module_new(&twice_kind, NULL, &m));
    CHECK(rsh_tensor_zeros(RSH_F64, 1, (int64_t[]){1}, &t));
    *(double *)rsh_tensor_data(t) = 4;
    CHECK(rsh_value_adopt_tensor(t, false, &x));
    CHECK(rsh_module_forward(m, x, &y));
    REQUIRE(*(const double *)rsh_tensor_data(rsh_value_tensor(y)) == 8);
    rsh_value_free(y);
    rsh_value_free(x);
    rsh_module_free(m);
    return 0;
}

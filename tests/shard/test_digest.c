/* The digests that docs/digest.md promises. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <reshard.h>

static void expect(const char *layout, void *data, const char *want) {
    rsh_layout *l;
    rsh_memory m = {data, NULL};
    rsh_digest d;
    char text[RSH_DIGEST_TEXT];
    assert_int_equal(rsh_layout_parse(layout, &l), RSH_OK);
    assert_int_equal(rsh_digest_local(l, &m, &d), RSH_OK);
    rsh_digest_text(d, text);
    assert_string_equal(text, want);
    rsh_layout_free(l);
}

static void digests_are_those_of_the_documentation(void **state) {
    (void)state;
    float f[4] = {0, 1, 2, 3};
    unsigned char u[6] = {1, 2, 3, 4, 5, 6};
    double c[2] = {1, -1};
    expect("f32[4]", f, "d1:554822ca92b46f7d175cfcfeefc60c76");
    expect("f32[2, 2]", f, "d1:42180e00c14db15fdcb9d8c32075633d");
    expect("u8[2, 3]", u, "d1:68a1cba3beb44141440ad90dafa87b92");
    expect("c128[]", c, "d1:25b0181efec1bc78b634dd5ad022b2a6");
    expect("f32[0]", f, "d1:340d6622e0a8100786d92cb923314810");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests_are_those_of_the_documentation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

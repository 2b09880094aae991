/* Prop: tests a property with many random cases and prints how to repeat a failing one.
 *
 * RESHARD_SEED    the seed (default: fixed, see seed.h);
 * RESHARD_CASES   scales the numbers of cases; 2,000 (the default) leaves them unchanged;
 * RESHARD_ONLY    the number of the only case to run. */
#ifndef RESHARD_TESTS_PROP_H
#define RESHARD_TESTS_PROP_H

#include <reshard.h>

#include "gen.h"

typedef struct prop_case {
    gen_rng rng;
    char from[GEN_TEXT], to[GEN_TEXT]; /* "" if the property has no such text */
    char note[256];                    /* further parameters: interface, options */
    char why[2048];
} prop_case;

/* Returns true if the property holds; otherwise it has set the reason. */
typedef bool (*prop_fn)(prop_case *c);
/* Runs `share` cases for every 2,000 of RESHARD_CASES.  Continues after failures and fails at the
 * end. */
void prop_run(const char *name, int64_t share, prop_fn fn);
bool prop_say(prop_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define PROP(c, condition, ...)                                                                    \
    do                                                                                             \
        if (!(condition)) return prop_say(c, __VA_ARGS__);                                         \
    while (0)
#define PROP_OK(c, call)                                                                           \
    do {                                                                                           \
        rsh_status status_ = (call);                                                               \
        if (status_ != RSH_OK)                                                                     \
            return prop_say(c, "%s: %s: %s", #call, rsh_status_name(status_), rsh_error_detail()); \
    } while (0)

void *prop_alloc(size_t bytes); /* zeroed; aborts without memory */

#endif

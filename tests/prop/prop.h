/* Prop: runs a property over many random cases and says how to see a failing one again.
 *
 * RESHARD_SEED    the seed (default: the same every time, see seed.h);
 * RESHARD_CASES   cases of the whole suite (default 2,000); each property takes its share;
 * RESHARD_ONLY    the number of the one case to run. */
#ifndef RESHARD_TESTS_PROP_H
#define RESHARD_TESTS_PROP_H

#include <reshard.h>

#include "gen.h"

typedef struct prop_case {
    gen_rng rng;
    char from[GEN_TEXT], to[GEN_TEXT]; /* "" where the property has no such text */
    char note[256];                    /* what else there is to know: door, options */
    char why[2048];
} prop_case;

/* True: the property holds.  Otherwise it has said why. */
typedef bool (*prop_fn)(prop_case *c);
/* `share` cases of every 2,000.  Goes on after failures and fails once at the end. */
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

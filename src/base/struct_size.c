/* Struct size: compatibility with programs that were compiled with older or newer headers.
 *
 * Structs with struct_size only grow at their end.  A program with older headers gets defaults for the options it
 * lacks, and no results beyond the ones it knows.  A program with newer headers works as long as it leaves additional
 * options at 0. */
#include "base/base.h"

#include <string.h>

#define MOST_EXTRA 4096 /* bytes that a newer header may have added; larger sizes are errors */

static size_t given_size(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

rsh_status rshi_struct_check(const void *given, size_t size, const char *init) {
    size_t theirs = given_size(given);
    RSH_REQUIRE(theirs >= sizeof theirs && theirs <= size + MOST_EXTRA, RSH_EVALUE,
                "struct_size must be %zu, got %zu: start from %s", size, theirs, init);
    return RSH_OK;
}

rsh_status rsh_options_read(const void *given, size_t size, const char *init, void *options) {
    RSH_NEEDS(init);
    RSH_NEEDS(options);
    RSH_REQUIRE(size >= sizeof size, RSH_EVALUE, "rsh_options_read: size must be at least %zu, got %zu", sizeof size,
                size);
    if (!given) return RSH_OK;
    RSH_TRY(rshi_struct_check(given, size, init));
    size_t theirs = given_size(given);
    for (size_t i = size; i < theirs; i++)
        RSH_REQUIRE(!((const unsigned char *)given)[i], RSH_EVALUE,
                    "%s: options have %zu bytes and use a member that version %s does not have; update the library",
                    init, theirs, rsh_version());
    memcpy(options, given, theirs < size ? theirs : size);
    memcpy(options, &size, sizeof size);
    return RSH_OK;
}

void rshi_result_write(const void *made, size_t size, void *out) {
    size_t theirs = given_size(out);
    memcpy(out, made, theirs < size ? theirs : size);
    if (theirs > size) memset((char *)out + size, 0, theirs - size);
    memcpy(out, &theirs, sizeof theirs);
}

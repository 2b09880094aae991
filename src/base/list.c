/* List: growing arrays, and binary search in sorted ones. */
#include "base/base.h"

#include <string.h>

#define FIRST_BYTES 64 /* a cache line: most lists stay short, and a comm caches many */

/* Returns the new capacity for at least n items, which is twice the old one; -1 on overflow. */
static int64_t more_room(int64_t n, int64_t room, size_t size) {
    int64_t twice;
    if (!room) return rshi_max(n, rshi_max(2, FIRST_BYTES / (int64_t)size));
    return rshi_mul(room, 2, &twice) ? rshi_max(n, twice) : -1;
}

rsh_status rshi_grow(void **list, int64_t n, int64_t *room, size_t size) {
    if (n <= *room) return RSH_OK;
    void *items;
    memcpy(&items, list, sizeof items); /* not *list: the caller's pointer has another type */
    int64_t more = more_room(n, *room, size);
    items = rshi_realloc(items, more < 0 ? SIZE_MAX : (size_t)more, size);
    if (!items) return rshi_nomem();
    memcpy(list, &items, sizeof items);
    *room = more;
    return RSH_OK;
}

int64_t rshi_find(const void *list, int64_t n, size_t size, int64_t key) {
    int64_t lo = 0, hi = n - 1, found;
    while (lo <= hi) {
        int64_t middle = lo + (hi - lo) / 2;
        memcpy(&found, (const char *)list + (size_t)middle * size, sizeof found);
        if (found == key) return middle;
        if (found < key)
            lo = middle + 1;
        else
            hi = middle - 1;
    }
    return -1;
}

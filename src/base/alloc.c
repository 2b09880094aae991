/* Alloc: the one door through which the library asks for memory; it counts, and can be told to fail. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static _Thread_local rsh_alloc_stats stats;
static _Thread_local int64_t fail_at = -1;

rsh_alloc_stats rsh_alloc_get_stats(void) { return stats; }
void rsh_alloc_reset_peak(void) { stats.scratch_peak = stats.scratch_bytes; }
void rsh_alloc_fail_at(int64_t n) { fail_at = n; }

/* Has this request been told to fail? */
static bool door_closed(void) {
    if (fail_at < 0) return false;
    return fail_at-- == 0;
}

static void *admit(void *p, size_t bytes) {
    if (!p) {
        rshi_fail(RSH_ENOMEM, "out of memory: %zu bytes were asked for", bytes);
        return NULL;
    }
    stats.allocations++;
    stats.live++;
    return p;
}

rsh_status rshi_nomem(void) { return RSH_ENOMEM; }

static bool product_fits(size_t n, size_t size, size_t *bytes) { return !__builtin_mul_overflow(n, size, bytes); }

void *rshi_alloc(size_t n, size_t size) {
    size_t bytes = SIZE_MAX;
    bool ok = product_fits(n, size, &bytes) && !door_closed();
    return admit(ok ? malloc(bytes ? bytes : 1) : NULL, bytes);
}

void *rshi_calloc(size_t n, size_t size) {
    size_t bytes = SIZE_MAX;
    bool ok = product_fits(n, size, &bytes) && !door_closed();
    return admit(ok ? calloc(bytes ? bytes : 1, 1) : NULL, bytes);
}

void *rshi_realloc(void *p, size_t n, size_t size) {
    size_t bytes = SIZE_MAX;
    bool ok = product_fits(n, size, &bytes) && !door_closed();
    void *q = admit(ok ? realloc(p, bytes ? bytes : 1) : NULL, bytes);
    if (q && p) stats.live--;
    return q;
}

void rshi_free(void *p) {
    if (!p) return;
    stats.live--;
    free(p);
}

char *rshi_strdup(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = rshi_alloc(n, 1);
    if (copy) memcpy(copy, text, n);
    return copy;
}

/* Blocks of at least one huge page are mapped on their own, aligned, with the kernel asked for huge pages. */
static void *map_huge(size_t bytes) {
    size_t whole = bytes + HUGE_PAGE;
    if (whole < bytes) return NULL;
    char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *start = (char *)(((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    size_t used = (bytes + 4095) & ~(size_t)4095;
    if (start > p) munmap(p, (size_t)(start - p));
    size_t tail = whole - (size_t)(start - p) - used;
    if (tail) munmap(start + used, tail);
    madvise(start, used, MADV_HUGEPAGE);
    return start;
}

void *rshi_alloc_data(size_t bytes, bool zero) {
    if (door_closed()) return admit(NULL, bytes);
    if (bytes >= HUGE_PAGE) return admit(map_huge(bytes), bytes);
    size_t padded = (bytes + 63) & ~(size_t)63;
    void *p = aligned_alloc(64, padded ? padded : 64);
    if (p && zero) memset(p, 0, padded);
    return admit(p, bytes);
}

void rshi_free_data(void *p, size_t bytes) {
    if (!p) return;
    stats.live--;
    if (bytes >= HUGE_PAGE)
        munmap(p, (bytes + 4095) & ~(size_t)4095);
    else
        free(p);
}

void rshi_count_scratch(int64_t bytes) {
    stats.scratch_bytes += (uint64_t)bytes;
    if (stats.scratch_bytes > stats.scratch_peak) stats.scratch_peak = stats.scratch_bytes;
}

void *rshi_alloc_scratch(size_t bytes) {
    void *p = rshi_alloc_data(bytes, false);
    if (p) rshi_count_scratch((int64_t)bytes);
    return p;
}

void rshi_free_scratch(void *p, size_t bytes) {
    if (!p) return;
    rshi_count_scratch(-(int64_t)bytes);
    rshi_free_data(p, bytes);
}

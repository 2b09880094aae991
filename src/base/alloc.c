/* Alloc: all allocations of the library.  They are counted, and tests can make them fail. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/poison.h"

#define HUGE_PAGE ((size_t)2 << 20)

static _Thread_local rsh_alloc_stats stats;
static _Thread_local int64_t fail_at = -1;

rsh_alloc_stats rsh_alloc_get_stats(void) {
    rsh_alloc_stats all = stats;
    rshi_account_read(&all);
    return all;
}
void rsh_alloc_reset_peak(void) { stats.scratch_peak = stats.scratch_bytes; }
void rsh_alloc_fail_at(int64_t n) { fail_at = n; }

/* Must this request fail (rsh_alloc_fail_at)? */
static bool must_fail(void) {
    if (fail_at < 0) return false;
    return fail_at-- == 0;
}

static const char *in_units(double bytes, char text[32]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 6; u++) bytes /= 1024;
    rshi_text_format(text, 32, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return text;
}

rsh_status rshi_nomem_for(size_t bytes) {
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    char asked[32], all[32];
    return rshi_fail(RSH_ENOMEM, "out of memory: requested %s, this machine has %s",
                     in_units((double)bytes, asked), in_units(machine, all));
}

static void *count_allocation(void *p, size_t bytes) {
    if (!p) {
        rshi_nomem_for(bytes);
        return NULL;
    }
    stats.allocations++;
    stats.live++;
    return p;
}

rsh_status rshi_nomem(void) { return RSH_ENOMEM; }

static bool product_fits(size_t n, size_t size, size_t *bytes) { return !__builtin_mul_overflow(n, size, bytes); }

/* malloc or calloc; if it fails, frees the cached blocks and tries again. */
static void *alloc_small(size_t bytes, bool zero) {
    size_t n = bytes ? bytes : 1;
    void *p = zero ? calloc(n, 1) : malloc(n);
    if (!p && rshi_blocks_empty()) p = zero ? calloc(n, 1) : malloc(n);
    return p;
}

void *rshi_alloc(size_t n, size_t size) {
    size_t bytes = SIZE_MAX;
    bool ok = product_fits(n, size, &bytes) && !must_fail();
    return count_allocation(ok ? alloc_small(bytes, false) : NULL, bytes);
}

void *rshi_calloc(size_t n, size_t size) {
    size_t bytes = SIZE_MAX;
    bool ok = product_fits(n, size, &bytes) && !must_fail();
    return count_allocation(ok ? alloc_small(bytes, true) : NULL, bytes);
}

static void *realloc_or_trim(void *p, size_t bytes) {
    void *q = realloc(p, bytes ? bytes : 1);
    return q || !rshi_blocks_empty() ? q : realloc(p, bytes ? bytes : 1);
}

void *rshi_realloc(void *p, size_t n, size_t size) {
    size_t bytes = SIZE_MAX;
    bool ok = product_fits(n, size, &bytes) && !must_fail();
    void *q = count_allocation(ok ? realloc_or_trim(p, bytes) : NULL, bytes);
    if (q && p) stats.live--;
    return q;
}

void rshi_free(void *p) {
    if (!p) return;
    stats.live--;
    free(p);
}

/* Blocks of at least one huge page are mapped separately, aligned, with MADV_HUGEPAGE.  `bytes` is a multiple of the
 * page size. */
static void *map_huge(size_t bytes) {
    size_t whole = bytes + HUGE_PAGE;
    if (whole < bytes) return NULL;
    char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *start = (char *)(((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (start > p) munmap(p, (size_t)(start - p));
    size_t tail = whole - (size_t)(start - p) - bytes;
    if (tail) munmap(start + bytes, tail);
    madvise(start, bytes, MADV_HUGEPAGE);
    return start;
}

void rshi_count_new_block(void) { stats.new_blocks++; }

/* Allocates a new block, which rshi_block_unmap frees.  `block` is the size of a class. */
static void *map_block(size_t block) {
    if (block < RSHI_RECYCLE_FROM) return rshi_small_take(block);
    rshi_count_new_block();
    return block >= HUGE_PAGE ? map_huge(block) : aligned_alloc(64, block);
}

void rshi_block_unmap(void *p, size_t block) {
    if (block >= HUGE_PAGE) munmap(p, block);
    else if (block >= RSHI_RECYCLE_FROM) free(p);
    else rshi_small_give(p, block);
}

/* Takes a cached block or makes a new one; if that fails, frees the cache and tries again.  `fresh`: zeroed pages. */
static void *find_block(size_t block, bool *fresh) {
    void *p = rshi_block_take(NULL, block);
    *fresh = !p && block >= HUGE_PAGE;
    if (!p) p = map_block(block);
    return p || !rshi_blocks_empty() ? p : map_block(block);
}

void *rshi_alloc_data(size_t bytes, bool zero) {
    bool fresh;
    size_t block = rshi_block_bytes(bytes);
    char *p = must_fail() || block == SIZE_MAX ? NULL : find_block(block, &fresh);
    if (p && zero && !fresh) memset(p, 0, bytes);
    if (p) rshi_poison(p + bytes, block - bytes); /* so that AddressSanitizer finds reads beyond the requested size */
    return count_allocation(p, bytes);
}

static void free_block(void *p, size_t bytes, rshi_account *owner) {
    size_t block = rshi_block_bytes(bytes);
    stats.live--;
    rshi_unpoison(p, block);
    if (!rshi_block_keep(NULL, p, block, owner)) rshi_block_unmap(p, block);
}

void rshi_free_data(void *p, size_t bytes) {
    if (p) free_block(p, bytes, NULL);
}

void *rshi_alloc_elements(size_t bytes, bool zero, rshi_account **owner) {
    rshi_account *a = rshi_account_mine();
    void *p = a ? rshi_alloc_data(bytes, zero) : NULL;
    if (!p) {
        rshi_account_drop(a);
        return NULL;
    }
    rshi_account_live(a, (int64_t)bytes);
    *owner = a;
    return p;
}

void rshi_free_elements(void *p, size_t bytes, rshi_account *owner) {
    rshi_account_live(owner, -(int64_t)bytes);
    free_block(p, bytes, owner);
    rshi_account_drop(owner);
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

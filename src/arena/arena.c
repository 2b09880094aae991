/* Arena: first-fit allocation.  Pages are allocated together with each block; freed blocks keep their pages for a
 * while. */
#include "arena/arena.h"

#include "arena/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define MOST_RESERVE ((size_t)1 << 40)
#define ADDRESS_SPACE ((size_t)1 << 46) /* total for all arenas: half of a process's address space */
#define LEAST_RESERVE ((size_t)64 << 20)
#define AT_ONCE ((size_t)256 << 20) /* bytes allocated by one call; a signal loses at most this much work */

#define NEW_FROM ((size_t)64 << 10)    /* bytes: smaller blocks may be on pages that the arena already has */
#define MARGIN ((uint64_t)2 << 20)     /* bytes that stay free for the kernel's own tables and rounding */
#define MOST_CREDIT ((uint64_t)16 << 20) /* bytes that are allocated without another check of the limits */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- address range ---- */

/* Can that many bytes of address space be reserved?  Sanitizers and limits leave less than the processor has. */
static bool can_reserve(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) munmap(p, bytes);
    return p != MAP_FAILED;
}

/* Every rank maps the arenas of all. */
static size_t choose_reserve(int ranks) {
    size_t space = ADDRESS_SPACE, reserve = MOST_RESERVE, n = (size_t)ranks;
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 2 < space)
        space = limit.rlim_cur / 2;
    while (reserve > LEAST_RESERVE && (reserve > space / n || !can_reserve(reserve * n))) reserve /= 2;
    return reserve;
}

/* The mapping extends beyond the end of the file; these pages must not be accessed yet. */
char *rshi_window_map(int fd, size_t reserve) {
    char *p = mmap(NULL, reserve, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) {
        rshi_fail(RSH_ENOMEM, "cannot reserve %zu bytes of address space for an arena: %s; raise the limit (ulimit -v)",
                  reserve, strerror(errno));
        return NULL;
    }
    madvise(p, reserve, MADV_HUGEPAGE); /* if the machine supports them for shared memory */
    madvise(p, reserve, MADV_DONTDUMP);
    return p;
}

void rshi_window_unmap(char *window, size_t reserve) { munmap(window, reserve); }

/* ---- construction ---- */

/* Sealed, so that no peer can shrink memory that another one is reading. */
static rsh_status open_file(int *fd) {
    *fd = memfd_create("reshard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    RSH_REQUIRE(*fd >= 0, RSH_ERUNTIME, "cannot create shared memory: memfd_create: %s%s", strerror(errno),
                errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK);
    return RSH_OK;
}

static void release_block(rshi_home *home, void *p, size_t whole);

rsh_status rshi_arena_new(int ranks, rshi_arena **out) {
    rshi_arena *a = RSHI_NEW(rshi_arena);
    if (!a) return rshi_nomem();
    a->process = rshi_process_new();
    a->reserve = choose_reserve(ranks);
    a->ranks = ranks;
    a->root = "";
    rsh_status st = open_file(&a->fd);
    if (!st && !(a->base = rshi_window_map(a->fd, a->reserve))) st = rshi_nomem();
    if (!st && !(a->owner = rshi_account_mine())) st = rshi_nomem();
    if (st) {
        if (a->base) rshi_window_unmap(a->base, a->reserve);
        if (a->fd >= 0) close(a->fd);
        rshi_free(a);
        return st;
    }
    a->home.release = release_block;
    atomic_init(&a->refs, 1);
    pthread_mutex_init(&a->lock, NULL);
    *out = a;
    return RSH_OK;
}

rshi_arena *rshi_arena_hold(rshi_arena *a) {
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void rshi_arena_drop(rshi_arena *a) {
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1) return;
    rshi_blocks_forget(&a->home);
    rshi_window_unmap(a->base, a->reserve);
    close(a->fd);
    rshi_account_drop(a->owner);
    pthread_mutex_destroy(&a->lock);
    rshi_free(a->gaps);
    rshi_free(a);
}

/* ---- gaps ---- */

static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) & ~(unit - 1); }

static size_t alignment(size_t bytes) { return bytes >= HUGE_PAGE ? HUGE_PAGE : bytes >= PAGE ? PAGE : 64; }

static size_t block_bytes(size_t bytes) {
    if (bytes >= RSHI_RECYCLE_FROM) return rshi_block_bytes(bytes);
    return round_up(bytes ? bytes : 1, bytes >= PAGE ? PAGE : 64);
}

/* Grows the list of gaps.  The lock is released while memory is allocated, because that may return cached blocks to
 * this arena. */
static bool grow_gap_list(rshi_arena *a) {
    while (a->blocks + 2 > a->room) {
        size_t room = a->room ? 2 * a->room : 16;
        pthread_mutex_unlock(&a->lock);
        rshi_gap *gaps = rshi_alloc(room, sizeof *gaps), *old = gaps;
        pthread_mutex_lock(&a->lock);
        if (!gaps) return false;
        if (room > a->room) {
            old = a->gaps;
            if (old) memcpy(gaps, old, a->ngaps * sizeof *gaps);
            a->gaps = gaps;
            a->room = room;
        }
        rshi_free(old);
    }
    return true;
}

static void insert_gap(rshi_arena *a, size_t i, rshi_gap gap) {
    memmove(&a->gaps[i + 1], &a->gaps[i], (a->ngaps - i) * sizeof *a->gaps);
    a->gaps[i] = gap;
    a->ngaps++;
}

static void remove_gap(rshi_arena *a, size_t i) {
    a->ngaps--;
    memmove(&a->gaps[i], &a->gaps[i + 1], (a->ngaps - i) * sizeof *a->gaps);
}

/* Takes `bytes` at `at` out of gap i; the rest on either side remains. */
static void cut_gap(rshi_arena *a, size_t i, size_t at, size_t bytes) {
    rshi_gap gap = a->gaps[i];
    size_t tail = gap.at + gap.bytes - (at + bytes);
    a->gaps[i].bytes = at - gap.at;
    if (tail) insert_gap(a, i + 1, (rshi_gap){at + bytes, tail});
    if (at == gap.at) remove_gap(a, i);
}

/* Allocates a range; returns its offset, or SIZE_MAX. */
static size_t take_range(rshi_arena *a, size_t bytes, size_t align) {
    for (size_t i = 0; i < a->ngaps; i++) {
        const rshi_gap *gap = &a->gaps[i];
        size_t at = round_up(gap->at, align);
        if (at - gap->at > gap->bytes || gap->bytes - (at - gap->at) < bytes) continue;
        cut_gap(a, i, at, bytes);
        return at;
    }
    size_t at = round_up(a->end, align);
    if (at > a->reserve || bytes > a->reserve - at) {
        rshi_fail(RSH_ENOMEM, "the arena is limited to %zu bytes of address space", a->reserve);
        return SIZE_MAX;
    }
    if (at > a->end) insert_gap(a, a->ngaps, (rshi_gap){a->end, at - a->end});
    a->end = at + bytes;
    return at;
}

static void give_range(rshi_arena *a, size_t at, size_t bytes) {
    size_t i = 0;
    while (i < a->ngaps && a->gaps[i].at < at) i++;
    insert_gap(a, i, (rshi_gap){at, bytes});
    if (i + 1 < a->ngaps && at + bytes == a->gaps[i + 1].at) {
        a->gaps[i].bytes += a->gaps[i + 1].bytes;
        remove_gap(a, i + 1);
    }
    if (i && a->gaps[i - 1].at + a->gaps[i - 1].bytes == at) {
        a->gaps[i - 1].bytes += a->gaps[i].bytes;
        remove_gap(a, i--);
    }
    if (a->gaps[i].at + a->gaps[i].bytes == a->end) {
        a->end = a->gaps[i].at;
        remove_gap(a, i);
    }
}

/* ---- pages ---- */

static void punch_hole(rshi_arena *a, size_t at, size_t bytes) {
    fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

static rsh_status fail_with_limit(const rshi_limit *l) {
    return rshi_fail(RSH_ENOMEM, "%s allows %llu bytes, of which %llu are left", l->name,
                     (unsigned long long)l->allowed, (unsigned long long)l->left);
}

/* If there is not enough shared memory, the kernel kills processes instead of returning an error, so the limits are
 * checked first.  If all ranks together may request more than is available, ranks check and allocate one at a time; the
 * caller then closes `lock` after the allocation.  Part of the remaining memory becomes credit for small blocks, which
 * are allocated without a check. */
static rsh_status check_system_limits(rshi_arena *a, size_t bytes, int *lock) {
    rshi_limit l = rshi_limit_find(a->root);
    uint64_t need = bytes + bytes / 64 + MARGIN, ranks = (uint64_t)a->ranks;
    if (l.left / 2 / ranks < need && l.left >= need) {
        *lock = rshi_limit_lock(&l);
        l = rshi_limit_find(a->root);
    }
    if (l.left < need) return fail_with_limit(&l);
    a->credit = (l.left - need) / 16 / ranks;
    if (a->credit > MOST_CREDIT) a->credit = MOST_CREDIT;
    return RSH_OK;
}

static rsh_status check_limits(rshi_arena *a, size_t bytes, size_t end, int *lock) {
    struct rlimit limit;
    RSH_REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) || end <= limit.rlim_cur, RSH_ENOMEM,
                "the file size limit (ulimit -f) is %llu bytes", (unsigned long long)limit.rlim_cur);
    if (bytes < NEW_FROM && end <= a->highest) return RSH_OK;
    if (bytes > a->credit) return check_system_limits(a, bytes, lock);
    a->credit -= bytes;
    return RSH_OK;
}

/* Allocates the pages now; if memory ran out on first access, the process would get a signal. */
static rsh_status take_pages(rshi_arena *a, size_t at, size_t end) {
    while (at < end) {
        size_t n = end - at < AT_ONCE ? end - at : AT_ONCE;
        if (!fallocate(a->fd, 0, (off_t)at, (off_t)n)) at += n;
        else if (errno != EINTR)
            return rshi_fail(RSH_ENOMEM, "the system cannot provide more pages: %s", strerror(errno));
    }
    if (end > a->highest) a->highest = end;
    return RSH_OK;
}

static bool back_range(rshi_arena *a, size_t at, size_t bytes) {
    size_t end = round_up(at + bytes, PAGE);
    int lock = -1;
    rsh_status st = check_limits(a, bytes, end, &lock);
    if (!st) st = take_pages(a, at & ~(PAGE - 1), end);
    if (lock >= 0) close(lock);
    return !st;
}

/* Touches the pages of a new block in one call, which is cheaper than page faults one by one.  Failure is harmless. */
static void fault_in(char *p, size_t bytes) {
    if (bytes >= RSHI_RECYCLE_FROM) madvise(p, bytes, MADV_POPULATE_WRITE);
}

static void *take_block(rshi_arena *a, size_t bytes, bool zero) {
    size_t at = grow_gap_list(a) ? take_range(a, bytes, alignment(bytes)) : SIZE_MAX;
    if (at == SIZE_MAX) return NULL;
    if (zero && bytes >= PAGE) punch_hole(a, at, bytes);
    if (!back_range(a, at, bytes)) {
        if (bytes >= PAGE) punch_hole(a, at, bytes);
        give_range(a, at, bytes);
        return NULL;
    }
    if (zero && bytes < PAGE) memset(a->base + at, 0, bytes);
    a->blocks++;
    return a->base + at;
}

/* Adds the size to the error message, which names the limit that was exceeded. */
static void report_shortage(size_t bytes) {
    char why[RSHI_DETAIL_BYTES];
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    rshi_fail(RSH_ENOMEM, "out of shared memory: requested %zu bytes; %.900s", bytes, why);
}

static void *new_block(rshi_arena *a, size_t whole, bool zero) {
    if (whole >= RSHI_RECYCLE_FROM) rshi_count_new_block(); /* smaller blocks share existing pages */
    pthread_mutex_lock(&a->lock);
    void *p = take_block(a, whole, zero);
    pthread_mutex_unlock(&a->lock);
    if (p) fault_in(p, whole);
    return p;
}

/* A cached block has its pages, here and at the peers that have read it. */
static void *find_block(rshi_arena *a, size_t whole, bool zero) {
    void *p = rshi_block_take(&a->home, whole);
    if (p && zero) memset(p, 0, whole);
    if (!p) p = new_block(a, whole, zero);
    return p || !rshi_blocks_empty() ? p : new_block(a, whole, zero);
}

void *rshi_arena_alloc(rshi_arena *a, size_t bytes, bool zero) {
    /* too large, so that the allocation fails */
    size_t whole = bytes <= a->reserve ? block_bytes(bytes) : a->reserve + 1;
    void *p = find_block(a, whole, zero);
    if (!p) report_shortage(bytes);
    return p;
}

static void release_block(rshi_home *home, void *p, size_t whole) {
    rshi_arena *a = (rshi_arena *)home;
    size_t at = rshi_arena_offset(a, p);
    pthread_mutex_lock(&a->lock);
    if (whole >= RSHI_RECYCLE_FROM) punch_hole(a, at, whole);
    give_range(a, at, whole);
    a->blocks--;
    pthread_mutex_unlock(&a->lock);
}

void rshi_arena_free(rshi_arena *a, void *p, size_t bytes) {
    if (!p || a->process != rshi_process()) return; /* a forked child has a copy of the list, but shares the memory */
    size_t whole = block_bytes(bytes);
    if (!rshi_block_keep(&a->home, p, whole, a->owner)) release_block(&a->home, p, whole);
}

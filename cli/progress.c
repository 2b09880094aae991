/* Progress: shows bytes, rate and remaining time on one line, which is overwritten. */
#include "progress.h"

#include "cli.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST 0.1 /* seconds before the line is shown for the first time */
#define NEXT 0.2  /* seconds between two updates */
#define SAMPLES 2048 /* number of pages that are sampled */
#define WIPE "\r\033[K"

/* The state that the painter thread reads, in memory that forked ranks share. */
typedef struct work {
    _Atomic(const char *) what; /* what the line says; NULL: hidden */
    atomic_bool planning;       /* work is counted in unspecified units, not in bytes */
    _Atomic uint64_t done, total;
    _Atomic double start;
    /* destination of `total` bytes, whose resident pages show the progress; NULL: bytes are counted */
    _Atomic(const char *) memory;
} work;

static work *now;       /* NULL: nothing is shown */
static pid_t painting;  /* the process that has the painter thread; 0: none */
static atomic_bool open; /* a line without a newline is on the terminal */
static pthread_t painter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static bool over;

/* ---- the line ---- */

static const char *time_left(double seconds, char text[QUANTITY]) {
    if (seconds < 90) snprintf(text, QUANTITY, "%.0f s", seconds);
    else if (seconds < 5400) snprintf(text, QUANTITY, "%.0f min", seconds / 60);
    else snprintf(text, QUANTITY, "%.1f h", seconds / 3600);
    return text;
}

/* Estimates the fraction of memory that has been written to, from a sample of its pages. */
static double share_written(const char *memory, uint64_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page, step = pages / SAMPLES + 1, seen = 0, there = 0;
    const char *first = (const char *)(((uintptr_t)memory + page - 1) & ~(uintptr_t)(page - 1));
    for (size_t i = 0; i + 1 < pages; i += step, seen++) {
        unsigned char in = 0;
        if (!mincore((void *)(uintptr_t)(first + i * page), page, &in)) there += in & 1;
    }
    return seen ? (double)there / (double)seen : 0;
}

static double bytes_done(void) {
    const char *memory = now->memory;
    return memory ? share_written(memory, now->total) * (double)now->total : (double)now->done;
}

static void format_line(const char *what, char *line, size_t room) {
    char done[QUANTITY], all[QUANTITY], rate[QUANTITY], left[QUANTITY];
    double bytes = bytes_done(), total = (double)now->total, seconds = clock_seconds() - now->start;
    double speed = bytes / (seconds > 1e-3 ? seconds : 1e-3);
    if (bytes > total) bytes = total;
    if (total == 0 || (now->planning && bytes == 0))
        snprintf(line, room, "%s, %.0f s", what, seconds);
    else if (now->planning)
        snprintf(line, room, "%s, %.0f %%, %s left", what, 100 * bytes / total,
                 time_left((total - bytes) / speed, left));
    else if (bytes == 0)
        snprintf(line, room, "%s, 0 %% of %s", what, human_bytes(total, all));
    else
        snprintf(line, room, "%s, %s of %s (%.0f %%), %s/s, %s left", what, human_bytes(bytes, done),
                 human_bytes(total, all), 100 * bytes / total, human_bytes(speed, rate),
                 time_left((total - bytes) / speed, left));
}

/* Prints the line, truncated to the width of the terminal, since a longer line could not be overwritten. */
static void paint_line(void) {
    char line[256] = WIPE;
    struct winsize size;
    const char *what = now->what;
    if (!what) return;
    size_t skip = strlen(WIPE), room = sizeof line - skip;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 && size.ws_col < room) room = size.ws_col;
    format_line(what, line + skip, room);
    atomic_store(&open, true);
    ssize_t told = write(STDERR_FILENO, line, strlen(line));
    (void)told;
}

static struct timespec time_in(double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += (long)(1e9 * seconds);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *keep_painting(void *nothing) {
    pthread_mutex_lock(&lock);
    for (double wait = FIRST; !over; wait = NEXT) {
        struct timespec until = time_in(wait);
        pthread_cond_timedwait(&bell, &lock, &until);
        if (!over && clock_seconds() - now->start > FIRST) paint_line();
    }
    pthread_mutex_unlock(&lock);
    return nothing;
}

/* ---- beginning and end ---- */

static void start_painter(void) {
    if (painting || !isatty(STDERR_FILENO) || is_quiet()) return;
    void *shared = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return;
    now = shared;
    now->start = clock_seconds();
    over = false;
    if (!pthread_create(&painter, NULL, keep_painting, NULL)) painting = getpid();
}

static void begin_work(const char *what, uint64_t total, bool planning) {
    start_painter();
    if (!now) return;
    now->what = NULL; /* hides the line while the fields change */
    now->memory = NULL;
    now->planning = planning;
    now->done = 0;
    now->total = total;
    now->start = clock_seconds();
    now->what = what;
}

void progress_begin(const char *what, uint64_t total) { begin_work(what, total, false); }

void progress_fill(const char *what, const void *memory, uint64_t bytes) {
    progress_begin(what, bytes);
    if (now) now->memory = memory;
}

void progress_plan(const char *verb, int64_t ranks) {
    static char what[80];
    snprintf(what, sizeof what, "%s: planning for %lld rank%s", verb, (long long)ranks, plural(ranks));
    begin_work(what, 0, true);
}

void progress_add(uint64_t bytes) {
    if (now) now->done += bytes;
}

int progress_tell(void *what, uint64_t bytes, uint64_t total) {
    if (now && (now->what != what || now->total != total)) progress_begin(what, total);
    if (now) now->done = bytes;
    return 0;
}

int progress_tell_plan(void *unused, uint64_t done, uint64_t total) {
    (void)unused;
    if (now && (now->total != total || done < now->done)) begin_work(now->what, total, true);
    if (now) now->done = done;
    return 0;
}

void progress_hide(void) {
    if (now) now->what = NULL;
    progress_clear();
}

void progress_clear(void) {
    if (!atomic_exchange(&open, false)) return;
    ssize_t told = write(STDERR_FILENO, WIPE, strlen(WIPE));
    (void)told;
}

void progress_end(void) {
    if (painting != getpid()) return;
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&lock);
    pthread_join(painter, NULL);
    progress_clear();
    munmap(now, sizeof *now);
    now = NULL;
    painting = 0;
}

/* Limit: how much memory is left, at least, on the machine and in the control groups of this process and all their
 * parents.
 *
 * Page cache can be dropped and memory can be swapped out, so more than the unused memory can be allocated.  Versions
 * 1 and 2 of control groups can exist together, and a container may see its own group as the root.  So every mount of
 * either version is checked, from this process's group up to the mount. memory.high is ignored, because exceeding it
 * only slows a process down. */
#include "arena/limit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 512
#define FILE_BYTES 8192 /* enough for memory.stat and meminfo */
#define LOCK_TRIES 200  /* 5 ms apart */

typedef struct search {
    const char *root;
    uint64_t swap;             /* free swap of the machine in bytes */
    char group[2][PATH_BYTES]; /* groups of this process, by version - 1; empty: none */
    rshi_limit *tightest;
} search;

/* ---- files ---- */

/* Reads the beginning of a file as text; false if it cannot be read. */
static bool read_file(const char *root, const char *folder, const char *name, char *text, size_t bytes) {
    char path[2 * PATH_BYTES];
    if (snprintf(path, sizeof path, "%s%s/%s", root, folder, name) >= (int)sizeof path) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t at = 0;
    for (ssize_t n = 1; n > 0 && at + 1 < bytes; at += n > 0 ? (size_t)n : 0) n = read(fd, text + at, bytes - 1 - at);
    text[at] = 0;
    close(fd);
    return at > 0;
}

/* Parses digits; "max" and implausibly large numbers mean no limit. */
static uint64_t number_at(const char *text) {
    uint64_t n = 0;
    if (*text == 'm') return UINT64_MAX;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
            return UINT64_MAX;
    return n >= (uint64_t)1 << 62 ? UINT64_MAX : n;
}

static uint64_t read_number(const search *s, const char *folder, const char *name, uint64_t otherwise) {
    char text[64];
    return read_file(s->root, folder, name, text, sizeof text) ? number_at(text) : otherwise;
}

/* Returns the number after a word at the beginning of a line; 0: none. */
static uint64_t find_number(const char *text, const char *word) {
    size_t n = strlen(word);
    for (; text && *text; text = strchr(text, '\n'), text += text != NULL)
        if (!strncmp(text, word, n) && (text[n] == ' ' || text[n] == ':'))
            return number_at(text + n + strspn(text + n, ": "));
    return 0;
}

/* ---- limits ---- */

static uint64_t add_saturating(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
static uint64_t subtract_saturating(uint64_t a, uint64_t b) { return a == UINT64_MAX ? a : a > b ? a - b : 0; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void record_limit(const search *s, uint64_t left, uint64_t allowed, const char *folder, const char *name) {
    rshi_limit *t = s->tightest;
    if (left >= t->left) return;
    t->left = left;
    t->allowed = allowed;
    snprintf(t->name, sizeof t->name, "%s%.380s/%.60s", s->root, folder, name);
}

static void check_machine(search *s) {
    char text[FILE_BYTES];
    if (!read_file(s->root, "/proc", "meminfo", text, sizeof text) || !strstr(text, "MemAvailable:")) return;
    s->swap = 1024 * find_number(text, "SwapFree");
    record_limit(s, 1024 * find_number(text, "MemAvailable") + s->swap,
         1024 * (find_number(text, "MemTotal") + find_number(text, "SwapTotal")), "/proc", "meminfo");
}

/* Returns the bytes of file pages in a group; the kernel drops them if the group needs memory. */
static uint64_t reclaimable(const search *s, const char *folder, const char *active, const char *inactive) {
    char text[FILE_BYTES];
    if (!read_file(s->root, folder, "memory.stat", text, sizeof text)) return 0;
    return find_number(text, active) + find_number(text, inactive);
}

static void check_group_2(const search *s, const char *folder) {
    uint64_t most = read_number(s, folder, "memory.max", UINT64_MAX);
    if (most == UINT64_MAX) return;
    uint64_t swap = subtract_saturating(read_number(s, folder, "memory.swap.max", UINT64_MAX),
                          read_number(s, folder, "memory.swap.current", 0));
    uint64_t room = add_saturating(most, reclaimable(s, folder, "active_file", "inactive_file"));
    room = add_saturating(room, least(swap, s->swap));
    record_limit(s, subtract_saturating(room, read_number(s, folder, "memory.current", 0)), most, folder, "memory.max");
}

/* Version 1 has two limits: one for memory, one for memory and swap together. */
static void check_group_1(const search *s, const char *folder) {
    uint64_t most = read_number(s, folder, "memory.limit_in_bytes", UINT64_MAX);
    uint64_t with_swap = read_number(s, folder, "memory.memsw.limit_in_bytes", UINT64_MAX);
    if (most == UINT64_MAX && with_swap == UINT64_MAX) return;
    uint64_t files = reclaimable(s, folder, "total_active_file", "total_inactive_file");
    uint64_t used = read_number(s, folder, "memory.usage_in_bytes", 0);
    uint64_t room = add_saturating(add_saturating(most, files), s->swap);
    record_limit(s, subtract_saturating(room, used), most, folder, "memory.limit_in_bytes");
    used = read_number(s, folder, "memory.memsw.usage_in_bytes", 0);
    room = add_saturating(with_swap, files);
    record_limit(s, subtract_saturating(room, used), with_swap, folder, "memory.memsw.limit_in_bytes");
}

/* ---- groups ---- */

/* A group's parents limit it too, except those of version 1 that do not count their children. */
static void check_group_and_parents(const search *s, int version, const char *mount, const char *below) {
    char folder[2 * PATH_BYTES];
    snprintf(folder, sizeof folder, "%s%s", mount, strcmp(below, "/") ? below : "");
    for (size_t top = strlen(mount); strlen(folder) >= top;) {
        if (version == 2) check_group_2(s, folder);
        if (version == 1) check_group_1(s, folder);
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) == top) return;
        *slash = 0;
        if (version == 1 && !read_number(s, folder, "memory.use_hierarchy", 1)) return;
    }
}

/* Returns the part of the group's path that is below the mount.  In another namespace the paths have nothing in common,
 * and only the mount itself is checked. */
static const char *below_mount(const char *group, const char *root) {
    size_t n = strcmp(root, "/") ? strlen(root) : 0;
    if (!strncmp(group, "/..", 3) || strncmp(group, root, n) || (group[n] && group[n] != '/')) return "";
    return group + n;
}

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',') && (!p[n] || p[n] == ',' || p[n] == ':' || p[n] == '\n')) return true;
    return false;
}

/* Blanks in paths are written as \040. */
static void unescape(char *text) {
    char *to = text;
    unsigned code;
    for (; *text; to++)
        if (*text == '\\' && sscanf(text + 1, "%3o", &code) == 1) {
            *to = (char)code;
            text += 4;
        } else {
            *to = *text++;
        }
    *to = 0;
}

/* A line of mountinfo: id, parent, device, root, mount point, options ... - type, source, options. */
static void check_mount(search *s, const char *line) {
    char root[PATH_BYTES], mount[PATH_BYTES], type[32], options[256] = "";
    const char *tail = strstr(line, " - ");
    if (!tail || sscanf(tail, " - %31s %*s %255s", type, options) < 1 || strncmp(type, "cgroup", 6)) return;
    int version = strcmp(type, "cgroup2") ? 1 : 2;
    if (version == 1 && !has_word(options, "memory")) return;
    if (!*s->group[version - 1] || sscanf(line, "%*s %*s %*s %511s %511s", root, mount) != 2) return;
    unescape(root);
    unescape(mount);
    check_group_and_parents(s, version, mount, below_mount(s->group[version - 1], root));
}

/* A line of /proc/self/cgroup: number, controllers, path; version 2 has the number 0 and no controllers. */
static void record_group(search *s, const char *line) {
    const char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return;
    bool two = path == controllers + 1;
    if (two || has_word(controllers + 1, "memory"))
        snprintf(s->group[two], sizeof s->group[two], "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
}

/* Calls `look` for each line.  The end of a line that is too long for the buffer is skipped; it is not needed. */
static void for_each_line(search *s, const char *path, void (*look)(search *s, const char *line)) {
    char name[2 * PATH_BYTES], line[2048];
    snprintf(name, sizeof name, "%s%s", s->root, path);
    FILE *file = fopen(name, "re");
    bool whole = true;
    while (file && fgets(line, sizeof line, file)) {
        if (whole) look(s, line);
        whole = strchr(line, '\n') != NULL;
    }
    if (file) fclose(file);
}

rshi_limit rshi_limit_find(const char *root) {
    rshi_limit found = {.left = UINT64_MAX, .allowed = UINT64_MAX};
    search s = {.root = root, .tightest = &found};
    check_machine(&s);
    for_each_line(&s, "/proc/self/cgroup", record_group);
    for_each_line(&s, "/proc/self/mountinfo", check_mount);
    return found;
}

/* Locks the file of the limit itself: all processes under the limit see it, and the lock is released when a process
 * ends.  Gives up if another process holds it for too long. */
int rshi_limit_lock(const rshi_limit *l) {
    const struct timespec moment = {0, 5000000};
    int fd = open(l->name, O_RDONLY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
        if (i == LOCK_TRIES) return close(fd), -1;
        nanosleep(&moment, NULL);
    }
    return fd;
}

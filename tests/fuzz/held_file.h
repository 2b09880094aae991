/* Held file: a file in memory that has a path, and a temporary directory of files for formats that
 * need one. */
#ifndef TESTS_FUZZ_HELD_FILE_H
#define TESTS_FUZZ_HELD_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <reshard.h>

#include "ckpt/read_box.h"

/* Used instead of assert, because it must also work in builds with NDEBUG. */
static inline void must(bool condition) {
    if (!condition) abort();
}

/* Creates a file in memory, writes its path to `path`, and returns its descriptor, which the caller
 * closes. */
static inline int hold_file(const void *data, size_t size, char path[64]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static char held_folder[64];

static inline void forget_folder(void) {
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", held_folder);
    must(!system(command));
}

/* Returns the only folder of this process, which is removed when the process ends. */
static inline const char *hold_folder(void) {
    if (*held_folder) return held_folder;
    strcpy(held_folder,
           access("/dev/shm", W_OK) ? "/tmp/fuzzed-XXXXXX" : "/dev/shm/fuzzed-XXXXXX");
    must(mkdtemp(held_folder));
    atexit(forget_folder);
    return held_folder;
}

static inline void put_in_folder(const char *name, const void *data, size_t size) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", hold_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

/* Writes a safetensors file with one tensor, u8[2, 2], whose name has one letter. */
static inline void put_small_file(const char *file, const char *tensor) {
    char data[8 + 64 + 4 + 1] = "\x40";
    static const char facts[] = "\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]";
    snprintf(data + 8, 66, "{\"%.1s\":{%s}}", tensor, facts);
    for (size_t i = 8 + strlen(data + 8); i < 8 + 64; i++) data[i] = ' ';
    memcpy(data + 8 + 64, "abcd", 4);
    put_in_folder(file, data, 8 + 64 + 4);
}

/* Writes two such files, once for all inputs. */
static inline void put_small_files(const char *file, const char *tensor, const char *other_file,
                                   const char *other_tensor) {
    static bool done;
    if (done) return;
    done = true;
    put_small_file(file, tensor);
    put_small_file(other_file, other_tensor);
}

/* Writes a safetensors file with this header and 64 bytes of elements. */
static inline void put_headed_file(const char *file, const uint8_t *header, size_t size) {
    static const char elements[64] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";
    char *data = malloc(8 + size + sizeof elements);
    uint64_t length = size; /* stored little-endian, like the machines that run the fuzzers */
    must(data != NULL);
    memcpy(data, &length, 8);
    if (size) memcpy(data + 8, header, size);
    memcpy(data + 8 + size, elements, sizeof elements);
    put_in_folder(file, data, 8 + size + sizeof elements);
    free(data);
}

/* Writes two such files: the input consists of their headers, separated by a zero byte. */
static inline void put_headed_files(const uint8_t *data, size_t size, const char *file,
                                    const char *other_file) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t first = zero ? (size_t)(zero - data) : size;
    put_headed_file(file, data, first);
    put_headed_file(other_file, zero ? zero + 1 : NULL, zero ? size - first - 1 : 0);
}

/* Checks that small tensors of the open checkpoint can be read. */
static inline void read_small(const rsh_ckpt *c) {
    for (int64_t t = 0; t < c->ntensors && t < 20; t++) {
        static char memory[1 << 16];
        int64_t count = rshi_ckpt_count(&c->tensor[t]),
                bytes = rsh_dtype_bits(c->tensor[t].dtype) / 8;
        if (!bytes || count > (int64_t)sizeof memory / bytes) continue;
        rsh_status st = rsh_ckpt_read(c, t, NULL, &(rsh_memory){memory, NULL});
        must(st == RSH_OK || st == RSH_EUNSUP || st == RSH_EIO);
    }
}

/* Opens the path, reads small tensors, and checks that no memory leaks. */
static inline void open_and_read(const char *path, const rsh_ckpt_rules *from) {
    uint64_t live = rsh_alloc_get_stats().live;
    rsh_ckpt *c;
    if (!rsh_ckpt_open(path, from, &c)) {
        read_small(c);
        rsh_ckpt_free(c);
    } else {
        must(*rsh_error_detail());
    }
    must(rsh_alloc_get_stats().live == live);
}

#endif

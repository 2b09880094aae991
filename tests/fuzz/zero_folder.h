/* zero_folder: a copy of a ZeRO directory of the tests, in which an input replaces one file. */
#ifndef RESHARD_TESTS_FUZZ_ZERO_FOLDER_H
#define RESHARD_TESTS_FUZZ_ZERO_FOLDER_H

#include "fuzz/held_file.h"

/* Copies a file of the tests to the folder, which restores it if an input had replaced it. */
static void put_golden(const char *stage, const char *name) {
    static char bytes[1 << 16];
    char path[200];
    snprintf(path, sizeof path, "tests/ckpt/zero/%s/global_step7/%s", stage, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    /* if it cannot be read, the copy is empty */
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    put_in_folder(name, bytes, n > 0 ? (size_t)n : 0);
    if (fd >= 0) close(fd);
}

/* Reads the directory with the input in place of file `replaced`; names end with NULL. */
static void read_with(const char *stage, const char *const *names, const char *replaced,
                      const uint8_t *data, size_t size) {
    static bool done;
    for (size_t i = 0; names[i] && !done; i++) put_golden(stage, names[i]);
    done = true;
    put_in_folder(replaced, data, size);
    open_and_read(hold_folder(), NULL);
    put_golden(stage, replaced);
}

#endif

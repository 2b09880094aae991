/* Files: a directory for small files of one test, which is removed when the test ends. */
#ifndef TESTS_CKPT_FILES_H
#define TESTS_CKPT_FILES_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/read_whole.h"

static char folder[64]; /* of the current test */

static inline int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/reshard-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static inline void write_file(const char *name, const void *bytes, size_t n) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static inline void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

/* Writes a safetensors file: the header and n bytes of data. */
static inline void write_safetensors(const char *name, const char *header, const void *data,
                                     size_t n) {
    size_t length = strlen(header);
    char *all = malloc(8 + length + n);
    assert_non_null(all);
    uint64_t size = length;
    memcpy(all, &size, 8);
    memcpy(all + 8, header, length);
    if (n) memcpy(all + 8 + length, data, n);
    write_file(name, all, 8 + length + n);
    free(all);
}

/* Checks that opening the folder fails with this status, and that the error message contains
 * `words`. */
static inline void expect_refusal(const rsh_ckpt_rules *from, rsh_status status,
                                  const char *words) {
    rsh_ckpt *c;
    rsh_status st = rsh_ckpt_open(folder, from, &c);
    if (st != status || !strstr(rsh_error_detail(), words))
        fail_msg("%d: \"%s\", not %d: \"%s\"", (int)st, st ? rsh_error_detail() : "", (int)status,
                 words);
}

/* Checks that the tensor has these bytes. */
static inline void expect_bytes(const rsh_ckpt *c, const char *name, const void *bytes, int64_t n) {
    int64_t t = rshi_ckpt_find(c, name, strlen(name));
    assert_true(t >= 0);
    assert_int_equal(tensor_bytes(c, t), n);
    unsigned char *got = read_whole(c, t, NULL);
    assert_memory_equal(got, bytes, (size_t)n);
    free(got);
}

#endif

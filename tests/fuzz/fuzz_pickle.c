/* Fuzz pickle: uses any bytes as the metadata of a DCP directory (first byte even), or as an archive in it (first byte
 * odd). */
#include "fuzz/held_file.h"

#include "ckpt/archive.h"
#include "ckpt/pickle.h"

/* Copies a file of the tests to the directory, because the metadata refers to it. */
static void copy_golden(const char *name) {
    static char bytes[1 << 16];
    char path[200];
    snprintf(path, sizeof path, "tests/ckpt/dcp/2/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes); /* if the file cannot be read, the copy is empty */
    put_in_folder(name, bytes, n > 0 ? (size_t)n : 0);
    if (fd >= 0) close(fd);
}

static void prepare(void) {
    static bool done;
    if (done) return;
    done = true;
    copy_golden("__0_0.distcp");
    copy_golden("__1_0.distcp");
}

static void read_archive(const uint8_t *data, size_t size) {
    char path[64];
    uint64_t live = rsh_alloc_get_stats().live;
    int fd = hold_file(data, size, path);
    rshi_saved_tensor t;
    if (!rshi_saved_tensor_read(&(rshi_file_span){fd, "fuzz", 0, size}, &t)) must(t.at <= size);
    must(rsh_alloc_get_stats().live == live);
    close(fd);
}

static void read_pickle(const uint8_t *data, size_t size) {
    rshi_pickle p;
    if (!rshi_pickle_read(data, size, "fuzz", 0, &p)) must(p.root != NULL);
    rshi_pickle_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (*data & 1) return read_archive(data + 1, size - 1), 0;
    read_pickle(data + 1, size - 1);
    prepare();
    put_in_folder(".metadata", data + 1, size - 1);
    open_and_read(hold_folder(), NULL);
    return 0;
}

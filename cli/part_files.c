/* Part files: reads and writes the files of a layout's parts one at a time. */
#include "part_files.h"

#include "interrupt.h"
#include "npy.h"
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE ((size_t)8 << 20) /* bytes per call, and per update of the progress */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- the current file and its rank ---- */

static int64_t rank_of(const files *f) { return rsh_layout_rank(f->parts->layout, f->unit); }
static int64_t parts_here(const files *f) {
    return f->each ? rsh_layout_nparts(f->parts->layout, rank_of(f)) : f->parts->n;
}

static size_t bytes_here(const files *f) {
    size_t bytes = 0;
    if (!f->each) return f->parts->bytes;
    for (int64_t i = 0; i < parts_here(f); i++) bytes += parts_bytes(f->parts, f->part + i);
    return bytes;
}

static rsh_status name_file(files *f) {
    bool has;
    if (!f->name)
        strcpy(f->path, f->out ? "standard output" : "standard input");
    else if (!part_path(f->name, f->each ? rank_of(f) : 0, f->path, &has))
        return sentence(RSH_EVALUE, "%s: the file name is too long", f->name);
    return RSH_OK;
}

static rsh_status system_error(const files *f) { return sentence(RSH_EIO, "%s: %s", f->path, strerror(errno)); }

static rsh_status wrong_size(const files *f, size_t came, bool or_more) {
    char whose[64] = "";
    if (f->each) snprintf(whose, sizeof whose, "rank %lld of ", (long long)rank_of(f));
    return sentence(RSH_EIO, "%s: expected %zu bytes for %s%s, got %zu%s", f->path, bytes_here(f), whose, f->side,
                    came, or_more ? " or more" : "");
}

/* ---- bytes ---- */

/* Returns the number of bytes read, which is less than `bytes` only at the end of the file; -1 with errno. */
static ssize_t read_up_to(int fd, char *data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, data + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? n : (ssize_t)done;
        done += (size_t)n;
        progress_add((uint64_t)n);
    }
    return (ssize_t)done;
}

static rsh_status read_bytes(files *f, char *data, size_t bytes) {
    ssize_t n = read_up_to(f->fd, data, bytes);
    if (n < 0) return system_error(f);
    return (size_t)n < bytes ? wrong_size(f, bytes_here(f) - f->left + (size_t)n, false) : RSH_OK;
}

static rsh_status write_bytes(const files *f, const char *data, size_t bytes) {
    while (bytes) {
        ssize_t n = write(f->fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(f);
        data += n;
        bytes -= (size_t)n;
        progress_add((uint64_t)n);
    }
    return RSH_OK;
}

/* Fails if the file has more bytes.  A stream may be endless, so at most 64 KiB more are read. */
static rsh_status check_end(const files *f) {
    static char rest[1 << 16];
    ssize_t more = read_up_to(f->fd, rest, sizeof rest);
    if (more < 0) return system_error(f);
    return more ? wrong_size(f, bytes_here(f) + (size_t)more, (size_t)more == sizeof rest) : RSH_OK;
}

/* ---- one file ---- */

static rsh_status part_here(const files *f, rsh_part *part) {
    return rsh_layout_part(f->parts->layout, f->each ? rank_of(f) : rsh_layout_rank(f->parts->layout, 0), 0, part);
}

/* Checks that the array has the dtype and shape of the part. */
static rsh_status check_array(files *f, const npy_array *a) {
    char wanted[NPY_TEXT], found[NPY_TEXT];
    rsh_part part;
    rsh_status st = part_here(f, &part);
    if (st) return st;
    npy_array want = {rsh_layout_dtype(f->parts->layout), part.ndim, {0}, false};
    memcpy(want.shape, part.shape, sizeof want.shape);
    bool same = a->dtype == want.dtype && a->ndim == want.ndim &&
                !memcmp(a->shape, want.shape, (size_t)want.ndim * sizeof *a->shape);
    if (same) return RSH_OK;
    return sentence(RSH_EVALUE, "%s: expected %s, the part of rank %lld of %s, got %s", f->path,
                    npy_print(&want, wanted),
                    (long long)(f->each ? rank_of(f) : rsh_layout_rank(f->parts->layout, 0)), f->side,
                    npy_print(a, found));
}

static rsh_status read_header(files *f, npy_array *a) {
    rsh_status st = npy_read(f->fd, f->path, a);
    return st ? st : check_array(f, a);
}

static rsh_status write_header(const files *f) {
    char header[NPY_HEADER];
    rsh_part part;
    rsh_status st = part_here(f, &part);
    if (st) return st;
    npy_array a = {rsh_layout_dtype(f->parts->layout), part.ndim, {0}, f->fortran};
    memcpy(a.shape, part.shape, sizeof a.shape);
    return write_bytes(f, header, npy_write(&a, header));
}

/* Sets the message for Ctrl-C.  Bytes that were written to a pipe or a device cannot be removed. */
static void set_interrupt_message(const files *f, bool kept) {
    static char words[2][PATH_MAX + 64];
    static int next;
    char *text = words[next ^= 1];
    spell(f->path, strlen(f->path), text, PATH_MAX);
    strcat(text, kept ? " is incomplete" : " was not written");
    strcat(text, f->each && f->unit ? "; the files before it are complete" : "");
    interrupt_leaves(text);
}

static int open_here(files *f) {
    if (!f->name) return f->out ? STDOUT_FILENO : STDIN_FILENO;
    return f->out ? new_file_open(&f->new, f->path) : open(f->path, O_RDONLY | O_CLOEXEC);
}

static rsh_status begin_file(files *f) {
    npy_array a;
    rsh_status st = name_file(f);
    if (st) return st;
    if (f->out) set_interrupt_message(f, !f->name);
    f->left = bytes_here(f);
    f->fd = open_here(f);
    if (f->fd < 0) return system_error(f);
    if (f->out && f->name && !new_file_is_beside(&f->new)) set_interrupt_message(f, true);
    if (!f->name && !f->out && isatty(f->fd) && f->left) {
        progress_hide();
        note("reading the %zu bytes of %s from the terminal; press Ctrl-D at the end", f->left, f->side);
    }
    if (!f->npy) return RSH_OK;
    return f->out ? write_header(f) : read_header(f, &a);
}

static rsh_status end_file(files *f) {
    rsh_status st = f->out ? RSH_OK : check_end(f);
    if (!st && f->name && (f->out ? new_file_publish(&f->new, f->fd) : close(f->fd))) st = system_error(f);
    f->fd = -1;
    f->part += parts_here(f);
    f->unit++;
    return st;
}

/* ---- all of them ---- */

rsh_status files_move(files *f, char *data, size_t bytes) {
    rsh_status st = RSH_OK;
    while (bytes && !st) {
        if (f->fd < 0 && (st = begin_file(f))) break;
        size_t n = smaller(smaller(bytes, f->left), AT_ONCE);
        st = f->out ? write_bytes(f, data, n) : read_bytes(f, data, n);
        data += n;
        bytes -= n;
        f->left -= n;
        if (!st && !f->left) st = end_file(f);
    }
    return st;
}

rsh_status files_finish(files *f) {
    rsh_status st = RSH_OK;
    while (!st && f->unit < f->units) {
        if (f->fd < 0) st = begin_file(f);
        if (!st) st = end_file(f);
    }
    return st;
}

void files_abandon(files *f) {
    if (f->out && f->name && f->fd >= 0) new_file_abandon(&f->new, f->fd);
    f->fd = -1;
}

/* Does the order of elements matter?  It does if at least two dims have more than one index. */
static bool has_order(const npy_array *a) {
    int wide = 0;
    for (int d = 0; d < a->ndim; d++) wide += a->shape[d] > 1;
    for (int d = 0; d < a->ndim; d++)
        if (!a->shape[d]) return false;
    return wide > 1;
}

static rsh_status check_npy_order(files *f, bool *known) {
    npy_array a;
    rsh_status st = read_header(f, &a);
    if (st || !has_order(&a)) return st;
    if (*known && a.fortran != f->fortran)
        return sentence(RSH_EUNSUP,
                        "%s: fortran_order differs from the files before it; all files must have the same order",
                        f->path);
    f->fortran = a.fortran;
    *known = true;
    return RSH_OK;
}

static rsh_status check_input_file(files *f, bool *known) {
    struct stat status;
    rsh_status st = name_file(f);
    if (st) return st;
    f->fd = open_here(f);
    if (f->fd < 0 || fstat(f->fd, &status)) return system_error(f);
    if (f->npy) st = check_npy_order(f, known);
    off_t start = lseek(f->fd, 0, SEEK_CUR);
    size_t left = status.st_size > start ? (size_t)(status.st_size - start) : 0;
    if (!st && S_ISREG(status.st_mode) && left != bytes_here(f)) st = wrong_size(f, left, false);
    if (f->name) close(f->fd);
    f->fd = -1;
    return st;
}

static rsh_status check_output_place(files *f) {
    char path[PATH_MAX];
    rsh_status st = name_file(f);
    if (st || !f->name) return st;
    strcpy(path, f->path);
    return access(dirname(path), W_OK) && access(f->path, W_OK) ? system_error(f) : RSH_OK;
}

static rsh_status check_array_kind(const files *f) {
    const rsh_layout *l = f->parts->layout;
    rsh_dtype dtype = rsh_layout_dtype(l);
    if (!npy_descr(dtype))
        return sentence(RSH_EUNSUP, "%s: .npy has no dtype for %s; use another file ending to write raw elements",
                        f->name, rsh_dtype_name(dtype));
    if (!f->each && f->parts->n != 1)
        return sentence(RSH_EUNSUP,
                        "%s: a .npy file holds one part, but %s has %lld; use %%d in the name for one file per rank",
                        f->name, f->side, (long long)f->parts->n);
    for (int64_t k = 0; f->each && k < f->units; k++) {
        int64_t rank = rsh_layout_rank(l, k), n = rsh_layout_nparts(l, rank);
        if (n != 1)
            return sentence(RSH_EUNSUP,
                            "%s: a .npy file holds one part, but rank %lld of %s has %lld; write raw elements instead",
                            f->name, (long long)rank, f->side, (long long)n);
    }
    return RSH_OK;
}

/* Chooses column-major order if the layout is column-major, otherwise row-major; .npy supports only these two. */
static rsh_status choose_order(files *f) {
    rsh_part part;
    rsh_status st = f->parts->n ? part_here(f, &part) : RSH_OK;
    if (st || !f->parts->n) return st;
    int64_t expected = 1;
    f->fortran = part.ndim > 1;
    for (int d = 0; d < part.ndim; d++) {
        if (part.shape[d] > 1 && part.strides[d] != expected) f->fortran = false;
        expected *= part.shape[d];
    }
    npy_array a = {.ndim = part.ndim};
    memcpy(a.shape, part.shape, sizeof a.shape);
    if (!has_order(&a)) f->fortran = false;
    return RSH_OK;
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

rsh_status files_open(files *f, const char *name, const char *side, const parts *p, bool out, bool look) {
    bool known = false;
    rsh_status st = RSH_OK;
    *f = (files){.name = name, .side = side, .parts = p, .out = out, .fd = -1, .npy = name && ends_in(name, ".npy")};
    if (name) part_path(name, 0, f->path, &f->each);
    f->units = f->each ? rsh_layout_nranks(p->layout) : 1;
    if (f->npy) st = check_array_kind(f);
    if (!st && f->npy && out) st = choose_order(f);
    if (!st && out && look && f->units) st = check_output_place(f);
    for (; !st && !out && look && f->unit < f->units; f->unit++) {
        st = check_input_file(f, &known);
        f->part += parts_here(f);
    }
    f->unit = f->part = 0;
    return st;
}

/* ---- memory ---- */

/* Maps the file, so that its bytes are copied only once.  Returns false if it cannot be mapped and must be read. */
static bool map_file(files *f, parts *p) {
    struct stat status;
    off_t start = lseek(f->fd, 0, SEEK_CUR);
    if (start < 0 || fstat(f->fd, &status) || !S_ISREG(status.st_mode)) return false;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = (size_t)start % page;
    if (!p->bytes || skip % 16) return false; /* elements in the mapping must be aligned */
    p->mapped = p->bytes + skip;
    void *at = mmap(NULL, p->mapped, PROT_READ, MAP_PRIVATE, f->fd, start - (off_t)skip);
    if (at == MAP_FAILED) return false;
    p->mapping = at;
    madvise(at, p->mapped, MADV_WILLNEED);
    parts_settle(p, (char *)at + skip);
    return true;
}

rsh_status files_load(files *f, parts *p) {
    rsh_status st = f->units ? begin_file(f) : RSH_OK;
    if (st) return st;
    if (!f->each && map_file(f, p)) return RSH_OK;
    st = parts_allocate(p);
    if (!st) st = files_move(f, p->data, p->bytes);
    return st ? st : files_finish(f);
}

int files_order(const files *f, parts *p) { return f->npy ? parts_order(p, f->fortran) : DONE; }

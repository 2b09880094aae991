/* Npy: reads and writes the header of .npy files: a magic number of six bytes, a version, a length, and a line of
 * Python:
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */
#include "npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "\x93NUMPY"
#define LONGEST 65536 /* bytes of the longest supported header */

static const struct {
    rsh_dtype dtype;
    const char *descr;
} names[] = {{RSH_BOOL, "|b1"}, {RSH_U8, "|u1"},  {RSH_I8, "|i1"},  {RSH_U16, "<u2"}, {RSH_I16, "<i2"},
             {RSH_U32, "<u4"},  {RSH_I32, "<i4"}, {RSH_U64, "<u8"}, {RSH_I64, "<i8"}, {RSH_F16, "<f2"},
             {RSH_F32, "<f4"},  {RSH_F64, "<f8"}, {RSH_C64, "<c8"}, {RSH_C128, "<c16"}};
#define NAMES (sizeof names / sizeof *names)

const char *npy_descr(rsh_dtype dtype) {
    for (size_t i = 0; i < NAMES; i++)
        if (names[i].dtype == dtype) return names[i].descr;
    return NULL;
}

const char *npy_print(const npy_array *a, char text[NPY_TEXT]) {
    int n = snprintf(text, NPY_TEXT, "%s[", rsh_dtype_name(a->dtype));
    for (int d = 0; d < a->ndim; d++)
        n += snprintf(text + n, (size_t)(NPY_TEXT - n), "%s%lld", d ? ", " : "", (long long)a->shape[d]);
    snprintf(text + n, (size_t)(NPY_TEXT - n), "]");
    return text;
}

/* ---- writing ---- */

size_t npy_write(const npy_array *a, char header[NPY_HEADER]) {
    char *line = header + 10;
    int room = NPY_HEADER - 10, n = snprintf(line, (size_t)room, "{'descr': '%s', 'fortran_order': %s, 'shape': (",
                                             npy_descr(a->dtype), a->fortran ? "True" : "False");
    for (int d = 0; d < a->ndim; d++)
        n += snprintf(line + n, (size_t)(room - n), "%s%lld%s", d ? " " : "", (long long)a->shape[d],
                      a->ndim == 1 || d + 1 < a->ndim ? "," : "");
    n += snprintf(line + n, (size_t)(room - n), "), }");
    while ((10 + n + 1) % 64) line[n++] = ' ';
    line[n++] = '\n';
    memcpy(header, MAGIC "\x01\x00", 8);
    header[8] = (char)(n & 255);
    header[9] = (char)(n >> 8);
    return 10 + (size_t)n;
}

/* ---- reading ---- */

static bool read_exactly(int fd, void *data, size_t bytes) {
    char *p = data;
    while (bytes) {
        ssize_t n = read(fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Finds the value of a key; NULL: there is no such key. */
static const char *value_of(const char *line, const char *key) {
    const char *p = strstr(line, key);
    if (!p || p == line || (p[-1] != '\'' && p[-1] != '"') || p[strlen(key)] != p[-1]) return NULL;
    p += strlen(key) + 1;
    p += strspn(p, " ");
    return *p == ':' ? p + 1 + strspn(p + 1, " ") : NULL;
}

static bool read_shape(const char *p, npy_array *a) {
    if (!p || *p++ != '(') return false;
    for (a->ndim = 0; *(p += strspn(p, " ")) != ')'; a->ndim++) {
        char *end;
        if (a->ndim == RSH_MAX_NDIM || *p < '0' || *p > '9') return false;
        errno = 0;
        a->shape[a->ndim] = strtoll(p, &end, 10);
        if (errno) return false;
        p = end + (*end == 'L');
        p += strspn(p, " ");
        if (*p != ',' && *p != ')') return false;
        p += *p == ',';
    }
    return true;
}

static bool read_dtype(const char *p, npy_array *a) {
    for (size_t i = 0; p && (*p == '\'' || *p == '"') && i < NAMES; i++) {
        size_t n = strlen(names[i].descr);
        bool byte = *names[i].descr == '|'; /* a type of one byte has no byte order */
        if (strncmp(p + 1 + byte, names[i].descr + byte, n - byte) || p[1 + n] != *p) continue;
        a->dtype = names[i].dtype;
        return true;
    }
    return false;
}

static rsh_status read_line(const char *line, const char *path, npy_array *a) {
    const char *descr = value_of(line, "descr"), *order = value_of(line, "fortran_order");
    bool fortran = order && !strncmp(order, "True", 4);
    if (!descr || !order || (!fortran && strncmp(order, "False", 5)))
        return sentence(RSH_EVALUE, "%s: invalid .npy header: 'descr' or 'fortran_order' is missing", path);
    if (!read_dtype(descr, a))
        return sentence(RSH_EVALUE, "%s: dtype %.*s is not supported; expected little-endian numbers", path,
                        (int)strcspn(descr, ","), descr);
    a->fortran = fortran;
    if (read_shape(value_of(line, "shape"), a)) return RSH_OK;
    return sentence(RSH_EVALUE, "%s: invalid .npy header: 'shape' cannot be parsed, or has more than %d dims", path,
                    RSH_MAX_NDIM);
}

rsh_status npy_read(int fd, const char *path, npy_array *out) {
    unsigned char start[12] = {0};
    if (!read_exactly(fd, start, 10) || memcmp(start, MAGIC, 6))
        return sentence(RSH_EVALUE, "%s: not a .npy file: wrong magic number", path);
    bool old = start[6] == 1;
    if (start[6] < 1 || start[6] > 3 || (!old && !read_exactly(fd, start + 10, 2)))
        return sentence(RSH_EVALUE, "%s: version %d of .npy is not supported; expected 1, 2 or 3", path, start[6]);
    size_t length = start[8] | (size_t)start[9] << 8 | (old ? 0 : (size_t)start[10] << 16 | (size_t)start[11] << 24);
    char *line = length <= LONGEST ? calloc(1, length + 1) : NULL;
    rsh_status st =
        line && read_exactly(fd, line, length)
            ? read_line(line, path, out)
            : sentence(RSH_EVALUE, "%s: the .npy header of %zu bytes is truncated or too long", path, length);
    free(line);
    return st;
}

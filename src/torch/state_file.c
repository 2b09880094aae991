/* State file: saves a rank's tensor to memory that the library allocates, or to a file. */
#include "torch/impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ---- */

typedef struct buffer {
    char *data;
    size_t bytes, room;
} buffer;

static int append_bytes(void *ctx, const char *data, size_t bytes) {
    buffer *b = ctx;
    if (b->room - b->bytes < bytes) {
        size_t room = b->bytes + bytes + b->room / 2;
        char *grown = rshi_realloc(b->data, room, 1);
        if (!grown) return 1;
        b->data = grown;
        b->room = room;
    }
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return 0;
}

/* Creates a single object that takes ownership of the bytes. */
static rsh_status make_object(buffer *b, rsh_objects **out) {
    rsh_objects *o = RSHI_NEW(rsh_objects);
    if (!o) return rshi_nomem();
    o->data = rshi_calloc(1, sizeof *o->data);
    o->bytes = rshi_calloc(1, sizeof *o->bytes);
    if (!o->data || !o->bytes) {
        rsh_objects_free(o);
        return rshi_nomem();
    }
    o->n = 1;
    o->data[0] = b->data;
    o->bytes[0] = b->bytes;
    b->data = NULL;
    *out = o;
    return RSH_OK;
}

rsh_status rsh_torch_save_object(const rsh_torch_tensor *t, rsh_objects **out) {
    buffer b = {NULL, 0, 0};
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_save_object: t and out must not be NULL");
    rsh_status st = rsh_torch_save(t, &(rsh_sink){append_bytes, &b});
    if (st == RSH_EIO) st = rshi_nomem(); /* this sink fails only if memory runs out */
    if (!st) st = make_object(&b, out);
    rshi_free(b.data);
    return st;
}

/* ---- files ---- */

static int write_file(void *ctx, const char *data, size_t bytes) { return fwrite(data, 1, bytes, ctx) != bytes; }

static rsh_status save_to(const rsh_torch_tensor *t, const char *path) {
    FILE *f = fopen(path, "wbe");
    RSH_REQUIRE(f, RSH_EIO, "cannot write \"%.300s\": %s", path, strerror(errno));
    rsh_status st = rsh_torch_save(t, &(rsh_sink){write_file, f});
    if (!st && (fflush(f) || fsync(fileno(f)))) st = RSH_EIO; /* must be on disk before it is renamed */
    int number = errno;
    bool closed = !fclose(f);
    if (closed && st != RSH_EIO) return st;
    return rshi_fail(RSH_EIO, "cannot write \"%.300s\": %s", path, strerror(closed ? number : errno));
}

/* Saves to a file, which is written under a temporary name and then renamed, so that it is always complete. */
rsh_status rsh_torch_save_file(const rsh_torch_tensor *t, const char *path) {
    RSH_REQUIRE(t && path && path[0], RSH_EVALUE,
                "rsh_torch_save_file: t must not be NULL, and path must not be NULL or empty");
    size_t n = strlen(path);
    char *part = rshi_alloc(n + sizeof ".part", 1);
    if (!part) return rshi_nomem();
    memcpy(part, path, n);
    memcpy(part + n, ".part", sizeof ".part");
    rsh_status st = save_to(t, part);
    if (!st && rename(part, path)) st = rshi_fail(RSH_EIO, "cannot write \"%.300s\": %s", path, strerror(errno));
    if (st) remove(part);
    rshi_free(part);
    return st;
}

static rsh_status read_all(FILE *f, const char *path, buffer *b) {
    char block[1 << 16];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        if (append_bytes(b, block, n)) return rshi_nomem();
    RSH_REQUIRE(!ferror(f), RSH_EIO, "cannot read \"%.300s\": %s", path, strerror(errno));
    return RSH_OK;
}

rsh_status rsh_torch_load_file(const char *path, rsh_torch_tensor **out) {
    buffer b = {NULL, 0, 0};
    RSH_REQUIRE(path && out, RSH_EVALUE, "rsh_torch_load_file: path and out must not be NULL");
    FILE *f = fopen(path, "rbe");
    RSH_REQUIRE(f, RSH_EIO, "cannot read \"%.300s\": %s", path, strerror(errno));
    rsh_status st = read_all(f, path, &b);
    fclose(f);
    if (!st) st = rsh_torch_load(b.data ? b.data : "", b.bytes, out);
    rshi_free(b.data);
    return st;
}

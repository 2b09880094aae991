/* Target GGUF: writes the header of a GGUF file: metadata and the list of tensors.
 *
 * The first file has all metadata of the source, byte for byte.  If there are several files, each has the keys that
 * llama.cpp needs: split.no, split.count and split.tensors.count. */
#include "ckpt/gguf.h"
#include "ckpt/impl.h"

#include <string.h>

enum { U16 = 2, U32 = 4, I32 = 5 }; /* types of values */
enum { BUFFER = 16384 };             /* bytes that are collected before each call of the sink */

typedef struct emitting {
    const rsh_sink *sink;
    uint64_t total; /* bytes written so far */
    char buffer[BUFFER];
    size_t used;
    rsh_status st;
    const rshi_target *t;
    const rshi_target_file *f;
} emitting;

static void flush(emitting *e) {
    if (!e->st && e->used && e->sink->write(e->sink->ctx, e->buffer, e->used))
        e->st = rsh_error_detail()[0] ? RSH_EIO : rshi_fail(RSH_EIO, "%s: cannot write the header", e->f->name);
    e->used = 0;
}

static void emit(emitting *e, const void *bytes, size_t n) {
    const char *from = bytes;
    e->total += n;
    while (n) {
        size_t k = n < BUFFER - e->used ? n : BUFFER - e->used;
        memcpy(e->buffer + e->used, from, k);
        e->used += k;
        from += k;
        n -= k;
        if (e->used == BUFFER) flush(e);
    }
}

static void emit_number(emitting *e, uint64_t x, size_t bytes) {
    unsigned char b[8];
    for (size_t i = 0; i < 8; i++) b[i] = (unsigned char)(x >> 8 * i);
    emit(e, b, bytes);
}

static void emit_text(emitting *e, const char *text) {
    emit_number(e, strlen(text), 8);
    emit(e, text, strlen(text));
}

static void emit_key(emitting *e, const char *key, uint32_t type, uint64_t value) {
    emit_text(e, key);
    emit_number(e, type, 4);
    emit_number(e, value, type == U16 ? 2 : 4);
}

static void emit_pair(emitting *e, const rshi_gguf_pair *p) {
    char buffer[BUFFER];
    for (uint64_t done = 0; done < p->bytes && !e->st;) {
        size_t n = p->bytes - done < sizeof buffer ? (size_t)(p->bytes - done) : sizeof buffer;
        e->st = rshi_ckpt_pread(e->t->source, p->file, p->at + done, buffer, n);
        if (!e->st) emit(e, buffer, n);
        done += n;
    }
}

/* Writes the metadata of a file.  Each file states its alignment if it is not the default, because readers look only at
 * the file itself. */
static void emit_metadata(emitting *e, int64_t file) {
    const struct rshi_gguf *g = e->t->gguf;
    bool split = e->t->nfiles > 1, aligned = file && g->align != RSHI_GGUF_ALIGN;
    emit_number(e, (uint64_t)((file ? 0 : g->npairs) + 3 * split + aligned), 8);
    for (int64_t i = 0; !file && i < g->npairs; i++) emit_pair(e, &g->pair[i]);
    if (aligned) emit_key(e, "general.alignment", U32, g->align);
    if (!split) return;
    emit_key(e, "split.no", U16, (uint64_t)file);
    emit_key(e, "split.count", U16, (uint64_t)e->t->nfiles);
    emit_key(e, "split.tensors.count", I32, (uint64_t)e->t->ntensors);
}

static void emit_tensor(emitting *e, const rshi_target_entry *x) {
    const rshi_ckpt_tensor *s = &e->t->source->tensor[e->t->tensor[x->tensor].source];
    const rshi_packing *type = rshi_gguf_type_of(s);
    emit_text(e, s->name);
    emit_number(e, (uint64_t)s->ndim, 4);
    for (int d = s->ndim; d-- > 0;) { /* the fastest dim comes first */
        bool row = d == s->ndim - 1 && s->packing;
        emit_number(e, (uint64_t)(row ? s->shape[d] / type->bytes * type->elements : s->shape[d]), 8);
    }
    emit_number(e, rshi_gguf_number(type), 4);
    emit_number(e, x->begin, 8);
}

rsh_status rshi_target_gguf_header(const rshi_target *t, int64_t file, const rsh_sink *sink) {
    emitting e = {.sink = sink, .t = t, .f = &t->file[file]};
    emit(&e, "GGUF", 4);
    emit_number(&e, t->gguf->version, 4);
    emit_number(&e, (uint64_t)e.f->nentries, 8);
    emit_metadata(&e, file);
    for (int64_t i = e.f->entry; i < e.f->entry + e.f->nentries; i++) emit_tensor(&e, &t->entry[i]);
    static const char zeros[64];
    for (uint64_t left = -e.total & (t->gguf->align - 1); left;) {
        size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        emit(&e, zeros, n);
        left -= n;
    }
    flush(&e);
    return e.st;
}

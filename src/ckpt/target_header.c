/* Target header: writes the header of a safetensors file, and the index of a directory of several files. */
#include "ckpt/impl.h"
#include "ckpt/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BUFFER 32768 /* bytes that are collected before each call of the sink */

typedef struct emitting {
    const rsh_sink *sink;
    uint64_t total; /* bytes written so far */
    char buffer[BUFFER];
    size_t used;
    rsh_status st;
    const rshi_target *t;
    const rshi_target_file *f;
    const rsh_digest *sums;
} emitting;

static void flush_buffer(emitting *e) {
    if (!e->st && e->sink->write(e->sink->ctx, e->buffer, e->used))
        e->st = rsh_error_detail()[0] ? RSH_EIO : rshi_fail(RSH_EIO, "cannot write the header of %s", e->f->name);
    e->used = 0;
}

static void emit(emitting *e, const char *text, size_t n) {
    e->total += n;
    if (n < BUFFER - e->used) {
        memcpy(e->buffer + e->used, text, n);
        e->used += n;
        return;
    }
    while (n) {
        size_t k = n < BUFFER - e->used ? n : BUFFER - e->used;
        memcpy(e->buffer + e->used, text, k);
        e->used += k;
        text += k;
        n -= k;
        if (e->used == BUFFER) flush_buffer(e);
    }
}

static void emit_text(emitting *e, const char *text) { emit(e, text, strlen(text)); }

static void emit_number(emitting *e, uint64_t x) {
    char text[24];
    emit(e, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, x));
}

/* Writes text with the escapes of a JSON string. */
static void emit_inside(emitting *e, const char *text) {
    for (const char *p = text;;) {
        const char *start = p;
        char code[8];
        while ((unsigned char)*p >= 32 && *p != '"' && *p != '\\') p++;
        emit(e, start, (size_t)(p - start));
        if (!*p) return;
        bool quoted = *p == '"' || *p == '\\';
        emit(e, code, (size_t)snprintf(code, sizeof code, quoted ? "\\%c" : "\\u%04x", (unsigned char)*p));
        p++;
    }
}

static void emit_pair(emitting *e, const char *key, const char *more, const char *value) {
    emit_text(e, "\"");
    emit_text(e, key);
    emit_inside(e, more);
    emit_text(e, "\":\"");
    emit_inside(e, value);
    emit_text(e, "\"");
}

static const char *name_of(const emitting *e, const rshi_target_entry *x) {
    return e->t->source->tensor[e->t->tensor[x->tensor].source].name;
}

/* ---- __metadata__ ---- */

static void emit_digest(emitting *e, const rshi_target_entry *x) {
    char text[RSH_DIGEST_TEXT];
    rsh_digest none = {0, 0};
    rsh_digest_text(e->sums ? e->sums[x->tensor] : none, text);
    emit_text(e, ",");
    emit_pair(e, "reshard.digest/", name_of(e, x), text);
}

static void emit_cuts(emitting *e) {
    const rshi_target *t = e->t;
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, e->f->rank);
    emit_text(e, ",\"reshard.version\":\"1\",");
    emit_pair(e, "reshard.rank", "", number);
    if (t->rules && t->rules->files && strchr(t->rules->files, '/')) { /* readers find the other files by it */
        emit_text(e, ",");
        emit_pair(e, "reshard.files", "", t->rules->files);
    }
    for (int64_t i = e->f->entry; i < e->f->entry + e->f->nentries; i++) {
        const rshi_target_entry *x = &t->entry[i];
        emit_text(e, ",");
        emit_pair(e, "reshard.layout/", name_of(e, x), rsh_layout_text(t->tensor[x->tensor].layout));
        if (t->digests) emit_digest(e, x);
    }
}

static void emit_metadata(emitting *e) {
    const rsh_ckpt *c = e->t->source;
    emit_text(e, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int64_t i = 0; i < c->nmeta; i++) {
        if (!strcmp(c->meta[i].key, "format") || !strncmp(c->meta[i].key, "reshard.", 8)) continue;
        emit_text(e, ",");
        emit_pair(e, "", c->meta[i].key, c->meta[i].value);
    }
    if (e->f->rank >= 0) emit_cuts(e);
    emit_text(e, "}");
}

/* ---- tensors ---- */

static int stored_shape(const rshi_target *t, const rshi_target_entry *x, int64_t *shape) {
    const rshi_target_tensor *tt = &t->tensor[x->tensor];
    const rshi_ckpt_tensor *s = &t->source->tensor[tt->source];
    rsh_part part;
    if (!tt->layout) {
        memcpy(shape, s->shape, (size_t)s->ndim * sizeof *shape);
        return s->ndim;
    }
    if (rsh_layout_part(tt->layout, rsh_layout_rank(tt->layout, x->part - tt->part), 0, &part)) return 0;
    rshi_part_stored_shape(tt->layout, &part, shape);
    return part.ndim;
}

static void emit_entry(emitting *e, const rshi_target_entry *x) {
    int64_t shape[RSH_MAX_NDIM];
    int ndim = stored_shape(e->t, x, shape);
    emit_text(e, ",\"");
    emit_inside(e, name_of(e, x));
    emit_text(e, "\":{\"dtype\":\"");
    emit_text(e, rshi_safetensors_name(e->t->tensor[x->tensor].dtype));
    emit_text(e, "\",\"shape\":[");
    for (int d = 0; d < ndim; d++) {
        if (d) emit_text(e, ",");
        emit_number(e, (uint64_t)shape[d]);
    }
    emit_text(e, "],\"data_offsets\":[");
    emit_number(e, x->begin);
    emit_text(e, ",");
    emit_number(e, x->end);
    emit_text(e, "]}");
}

/* Writes the JSON, padded with blanks to a multiple of 8, so that the data is aligned. */
static void emit_json(emitting *e) {
    emit_metadata(e);
    for (int64_t i = e->f->entry; i < e->f->entry + e->f->nentries; i++) emit_entry(e, &e->t->entry[i]);
    emit_text(e, "}");
    while (e->total % 8) emit_text(e, " ");
}

/* Writes the header.  In the first call the length of the JSON is not known and is written as 0; that call only
 * measures the header. */
rsh_status rshi_target_header(const rshi_target *t, int64_t file, const rsh_digest *sums, const rsh_sink *sink) {
    if (t->gguf) return rshi_target_gguf_header(t, file, sink);
    emitting *e = RSHI_NEW(emitting);
    if (!e) return rshi_nomem();
    e->sink = sink;
    e->t = t;
    e->f = &t->file[file];
    e->sums = sums;
    uint64_t length = e->f->header ? e->f->header - 8 : 0;
    unsigned char b[8];
    for (int i = 0; i < 8; i++) b[i] = (unsigned char)(length >> 8 * i);
    emit(e, (const char *)b, 8);
    emit_json(e);
    flush_buffer(e);
    rsh_status st = e->st;
    rshi_free(e);
    return st;
}

/* ---- the index ---- */

rsh_status rshi_target_index(const rshi_target *t, const rsh_sink *sink) {
    emitting *e = RSHI_NEW(emitting);
    uint64_t total = 0;
    if (!e) return rshi_nomem();
    e->sink = sink;
    e->t = t;
    e->f = t->file;
    for (int64_t i = 0; i < t->nfiles; i++) total += t->file[i].size - t->file[i].header;
    emit_text(e, "{\n  \"metadata\": {\n    \"total_size\": ");
    emit_number(e, total);
    emit_text(e, "\n  },\n  \"weight_map\": {");
    for (int64_t i = 0, first = 1; i < t->nfiles; i++)
        for (int64_t k = t->file[i].entry; k < t->file[i].entry + t->file[i].nentries; k++, first = 0) {
            emit_text(e, first ? "\n    \"" : ",\n    \"");
            emit_inside(e, name_of(e, &t->entry[k]));
            emit_text(e, "\": \"");
            emit_inside(e, t->file[i].name);
            emit_text(e, "\"");
        }
    emit_text(e, "\n  }\n}\n");
    flush_buffer(e);
    rsh_status st = e->st;
    rshi_free(e);
    return st;
}

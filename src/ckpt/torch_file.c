/* Torch file: opens a file of torch.save: a zip archive, or the stream of pickles that PyTorch wrote before
 * version 1.6.
 *
 * An archive has the pickle of all values in NAME/data.pkl and the elements of each storage in NAME/data/KEY.  A stream
 * has three short pickles (a magic number, a version, facts about the machine), the pickle of all values, a list of
 * keys, and for each key the number of elements and the elements. */
#include "ckpt/archive.h"

#include <inttypes.h>
#include <string.h>

typedef rshi_pickle_value value;

enum { PICKLE_MOST = 32 << 20 }; /* largest pickle in bytes; a tensor needs about 200 */

static const unsigned char magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

bool rshi_saved_detect(const unsigned char *bytes, size_t n) {
    bool tar = n >= 262 && !memcmp(bytes + 257, "ustar", 5);
    return (n >= 4 && !memcmp(bytes, "PK\3\4", 4)) || (n >= sizeof magic && !memcmp(bytes, magic, sizeof magic)) || tar;
}

static rsh_status read_pickle(rshi_torch_file *s, const rshi_file_span *at) {
    if (at->bytes > PICKLE_MOST)
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %" PRIu64 ": the pickle has %" PRIu64 " bytes; at most %d are supported",
                         at->file, at->at, at->bytes, PICKLE_MOST);
    s->bytes = rshi_alloc(at->bytes, 1);
    if (!s->bytes) return rshi_nomem();
    RSH_TRY(rshi_file_span_read(at, 0, s->bytes, at->bytes));
    return rshi_pickle_read(s->bytes, at->bytes, at->file, at->at, &s->pickle);
}

/* ---- archives ---- */

static rsh_status entry_name(const char *prefix, const char *name, size_t length, char **out) {
    rshi_text text = {0};
    rshi_text_add(&text, "%s%.*s", prefix, (int)length, name);
    if (text.failed) return rshi_text_free(&text), rshi_nomem();
    *out = text.data;
    return RSH_OK;
}

/* Checks the byte order, which PyTorch 2.1 and later state. */
static rsh_status check_byte_order(const rshi_archive *a) {
    rshi_file_span entry;
    char word[8] = {0};
    const char *name = rshi_archive_ending(a, "/byteorder");
    if (!name) return RSH_OK;
    RSH_TRY(rshi_archive_find(a, name, &entry));
    if (entry.bytes < sizeof word) RSH_TRY(rshi_file_span_read(&entry, 0, word, entry.bytes));
    if (strcmp(word, "little"))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %" PRIu64 ": byte order \"%s\" is not supported; expected \"little\"",
                         entry.file, entry.at, word);
    return RSH_OK;
}

static rsh_status open_archive(rshi_torch_file *s) {
    rshi_file_span entry;
    RSH_TRY(rshi_archive_open(&s->span, &s->archive));
    RSH_TRY(check_byte_order(&s->archive));
    const char *name = rshi_archive_ending(&s->archive, "/data.pkl");
    if (!name)
        return rshi_fail(
            RSH_EVALUE,
            "%.150s: byte %" PRIu64 ": not a torch.save file: the zip archive must have exactly one \"data.pkl\"",
            s->span.file, s->span.at);
    RSH_TRY(entry_name("", name, strlen(name) - strlen(".pkl") + 1, &s->prefix));
    s->prefix[strlen(s->prefix) - 1] = '/'; /* NAME/data/ */
    RSH_TRY(rshi_archive_find(&s->archive, name, &entry));
    return read_pickle(s, &entry);
}

/* ---- streams ---- */

typedef struct streaming {
    rshi_torch_file *s;
    uint64_t at; /* offset of the next byte in the span */
} streaming;

/* Reads the next pickle into its own buffer. */
static rsh_status next_pickle(streaming *x, rshi_pickle *out, unsigned char **bytes) {
    const rshi_file_span *span = &x->s->span;
    uint64_t left = span->bytes - x->at, n = left < PICKLE_MOST ? left : PICKLE_MOST;
    *bytes = rshi_alloc(n, 1);
    if (!*bytes) return rshi_nomem();
    RSH_TRY(rshi_file_span_read(span, x->at, *bytes, n));
    RSH_TRY(rshi_pickle_read(*bytes, n, span->file, span->at + x->at, out));
    x->at += out->end;
    return RSH_OK;
}

static rsh_status skip_pickle(streaming *x) {
    rshi_pickle p = {0};
    unsigned char *bytes = NULL;
    rsh_status st = next_pickle(x, &p, &bytes);
    rshi_pickle_free(&p);
    rshi_free(bytes);
    return st;
}

/* Element sizes of storages, which only the persistent ids state. */
typedef struct sizing {
    rshi_torch_file *s;
    rshi_name_table sizes; /* bytes of an element, by the key of the storage */
} sizing;

static rsh_status note_storage(sizing *z, const value *id) {
    const rshi_pickle *p = &z->s->pickle;
    const value *class = id->n > 1 ? id->item[1] : NULL, *key = id->n > 2 ? id->item[2] : NULL;
    if (!rshi_pickle_is_class(class, RSHI_CLASS_STORAGE) || !key || key->kind != RSHI_PICKLE_TEXT) return RSH_OK;
    if (id->n > 5 && id->item[5]->kind != RSHI_PICKLE_NONE)
        return rshi_fail(RSH_EUNSUP, "%.150s: byte %" PRIu64 ": storages that are views of others are not supported",
                         p->file, p->base + id->at);
    int64_t size = class->number == RSH_DTYPE_NONE ? 1 : rsh_dtype_bits((rsh_dtype) class->number) / 8;
    char *name = rshi_store_text(&z->s->store, key->text, key->n);
    if (!name) return rshi_nomem();
    int64_t known = rshi_name_table_find(&z->sizes, name);
    if (known >= 0 && known != size) return rshi_pickle_fail(p, id, "a storage is described with two types");
    return known >= 0 ? RSH_OK : rshi_name_table_add(&z->sizes, name, size);
}

/* Reads the number of elements of a storage and skips the elements. */
static rsh_status place_storage(streaming *x, const sizing *z, const rshi_pickle *keys, const value *key) {
    rshi_torch_file *s = x->s;
    unsigned char count[8];
    uint64_t n = 0, bytes;
    if (key->kind != RSHI_PICKLE_TEXT) return rshi_pickle_fail(keys, key, "expected the key of a storage as a text");
    char *name = rshi_store_text(&s->store, key->text, key->n);
    if (!name) return rshi_nomem();
    int64_t size = rshi_name_table_find(&z->sizes, name);
    if (size < 0 || rshi_name_table_find(&s->keys, name) >= 0)
        return rshi_pickle_fail(keys, key, "the key of a storage is duplicate, or no tensor uses it");
    RSH_TRY(rshi_file_span_read(&s->span, x->at, count, 8));
    for (int i = 8; i--;) n = n << 8 | count[i];
    x->at += 8;
    if (n > s->span.bytes || n * (uint64_t)size > s->span.bytes - x->at)
        return rshi_fail(RSH_EVALUE,
                         "%.150s: byte %" PRIu64 ": the file ends inside a storage of %" PRIu64
                         " elements; it is truncated",
                         s->span.file, s->span.at + x->at, n);
    bytes = n * (uint64_t)size;
    s->storage[s->nstorages] = (rshi_file_span){s->span.fd, s->span.file, s->span.at + x->at, bytes};
    x->at += bytes;
    return rshi_name_table_add(&s->keys, name, s->nstorages++);
}

static rsh_status place_storages(streaming *x, const sizing *z) {
    rshi_pickle keys = {0};
    unsigned char *bytes = NULL;
    rsh_status st = next_pickle(x, &keys, &bytes);
    const value *list = keys.root;
    if (!st && list->kind != RSHI_PICKLE_LIST) st = rshi_pickle_fail(&keys, list, "expected the list of storages");
    if (!st) x->s->storage = rshi_alloc(list->n, sizeof *x->s->storage);
    if (!st && !x->s->storage) st = rshi_nomem();
    for (uint32_t i = 0; !st && i < list->n; i++) st = place_storage(x, z, &keys, list->item[i]);
    rshi_pickle_free(&keys);
    rshi_free(bytes);
    return st;
}

static rsh_status open_stream(rshi_torch_file *s) {
    streaming x = {s, 0};
    sizing z = {.s = s};
    for (int i = 0; i < 3; i++) RSH_TRY(skip_pickle(&x));
    RSH_TRY(next_pickle(&x, &s->pickle, &s->bytes));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < s->pickle.nids && !st; i++) st = note_storage(&z, s->pickle.id[i]);
    if (!st) st = place_storages(&x, &z);
    rshi_name_table_free(&z.sizes);
    return st;
}

/* ---- both ---- */

rsh_status rshi_saved_open(const rshi_file_span *span, rshi_torch_file *out) {
    unsigned char head[RSHI_SAVED_HEAD] = {0};
    size_t n = span->bytes < sizeof head ? (size_t)span->bytes : sizeof head;
    *out = (rshi_torch_file){.span = *span};
    RSH_TRY(rshi_file_span_read(span, 0, head, n));
    if (n >= sizeof magic && !memcmp(head, magic, sizeof magic)) return open_stream(out);
    if (n >= 262 && !memcmp(head + 257, "ustar", 5))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: the tar format of PyTorch before 0.1.10 is not supported; load the file with a later "
                         "PyTorch and save it again",
                         span->file);
    return open_archive(out);
}

void rshi_saved_close(rshi_torch_file *s) {
    rshi_pickle_free(&s->pickle);
    rshi_free(s->bytes);
    rshi_archive_close(&s->archive);
    rshi_free(s->prefix);
    rshi_name_table_free(&s->keys);
    rshi_free(s->storage);
    rshi_store_free(&s->store);
    *s = (rshi_torch_file){0};
}

rsh_status rshi_saved_storage(const rshi_torch_file *s, const value *key, rshi_file_span *out) {
    char *name = NULL;
    RSH_TRY(entry_name(s->prefix ? s->prefix : "", key->text, key->n, &name));
    rsh_status st = RSH_OK;
    int64_t number = s->prefix ? -1 : rshi_name_table_find(&s->keys, name);
    if (s->prefix)
        st = rshi_archive_find(&s->archive, name, out);
    else if (number < 0)
        st = rshi_pickle_fail(&s->pickle, key, "a storage is not in the file");
    else
        *out = s->storage[number];
    rshi_free(name);
    return st;
}

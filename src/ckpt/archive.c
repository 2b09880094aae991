/* Archive: reads the directory of a zip archive and finds its uncompressed entries.
 *
 * An archive may start at any byte of a file; its offsets count from its first byte.  All numbers are little-endian. */
#include "ckpt/archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    END = 22,                 /* bytes of the end record, without its comment */
    LOCATOR = 20,             /* bytes of ZIP64's locator, which precedes the end record */
    END64 = 56,               /* bytes of ZIP64's end record */
    CENTRAL = 46,             /* bytes of an entry of the central directory, without its name */
    LOCAL = 30,               /* bytes of an entry's local header, without its name */
    COMMENT = 256,            /* bytes of the longest supported comment at the end; PyTorch writes none */
    DIRECTORY_MOST = 64 << 20 /* bytes of the largest supported directory, which has half a million entries */
};

/* An entry of the central directory. */
typedef struct rshi_archive_entry {
    const char *name; /* in the archive's store */
    uint64_t at;      /* offset of the entry's local header */
    uint64_t bytes, packed;
    unsigned method, flags;
} listed;

static uint64_t little(const unsigned char *b, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)b[i] << 8 * i;
    return v;
}

static rsh_status refuse(const rshi_file_span *s, uint64_t at, const char *sentence) {
    rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": %s", s->file, s->at + at, sentence);
    return RSH_EVALUE;
}

rsh_status rshi_file_span_read(const rshi_file_span *s, uint64_t at, void *to, uint64_t n) {
    if (at > s->bytes || n > s->bytes - at)
        return refuse(s, at, "the zip archive refers to bytes beyond its end; the file is truncated or damaged");
    for (uint64_t have = 0; have < n;) {
        ssize_t got = pread(s->fd, (char *)to + have, n - have, (off_t)(s->at + at + have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return rshi_fail(RSH_EIO, "%.150s: byte %" PRIu64 ": %s", s->file, s->at + at + have, strerror(errno));
        if (!got) return rshi_fail(RSH_EIO, "%.150s: the file ends at byte %" PRIu64, s->file, s->at + at + have);
        have += (uint64_t)got;
    }
    return RSH_OK;
}

/* Finds the end record, which a comment may follow. */
static rsh_status find_end(const rshi_file_span *s, uint64_t *at, unsigned char end[END]) {
    if (s->bytes < END) return refuse(s, 0, "not a zip archive: fewer than 22 bytes");
    uint64_t most = s->bytes - END < COMMENT ? s->bytes - END : COMMENT;
    for (uint64_t comment = 0; comment <= most; comment++) {
        *at = s->bytes - END - comment;
        RSH_TRY(rshi_file_span_read(s, *at, end, END));
        if (little(end, 4) == 0x06054b50 && little(end + 20, 2) == comment) return RSH_OK;
    }
    return refuse(s, 0, "not a zip archive, or a truncated one: no end record found");
}

/* Finds the offset, size and number of entries of the central directory. */
static rsh_status find_directory(const rshi_file_span *s, uint64_t *at, uint64_t *bytes, uint64_t *entries) {
    unsigned char end[END], locator[LOCATOR], end64[END64];
    uint64_t end_at = 0;
    RSH_TRY(find_end(s, &end_at, end));
    *entries = little(end + 10, 2);
    *bytes = little(end + 12, 4);
    *at = little(end + 16, 4);
    if (end_at < LOCATOR) return RSH_OK;
    RSH_TRY(rshi_file_span_read(s, end_at - LOCATOR, locator, LOCATOR));
    if (little(locator, 4) != 0x07064b50) return RSH_OK;
    RSH_TRY(rshi_file_span_read(s, little(locator + 8, 8), end64, END64));
    if (little(end64, 4) != 0x06064b50)
        return refuse(s, little(locator + 8, 8), "expected a ZIP64 end record; the zip archive is damaged");
    *entries = little(end64 + 32, 8);
    *bytes = little(end64 + 40, 8);
    *at = little(end64 + 48, 8);
    return RSH_OK;
}

/* Reads the ZIP64 extra field.  It holds, in this order, those of the three numbers that do not fit into 32 bits. */
static void read_zip64_field(const unsigned char *extra, size_t n, listed *e) {
    for (size_t i = 0; i + 4 <= n;) {
        size_t length = little(extra + i + 2, 2), from = i + 4;
        if (length > n - from) return;
        if (little(extra + i, 2) == 1) {
            uint64_t *number[3] = {&e->bytes, &e->packed, &e->at};
            for (int k = 0; k < 3; k++)
                if (*number[k] == 0xffffffff && from + 8 <= i + 4 + length) {
                    *number[k] = little(extra + from, 8);
                    from += 8;
                }
            return;
        }
        i += 4 + length;
    }
}

/* ---- the directory ---- */

static rsh_status add_entry(rshi_archive *a, uint64_t at, const unsigned char *e, uint64_t name, uint64_t extra) {
    listed *out = &a->entry[a->nentries];
    *out = (listed){.name = rshi_store_text(&a->store, (const char *)e + CENTRAL, name),
                    .at = little(e + 42, 4),
                    .bytes = little(e + 24, 4),
                    .packed = little(e + 20, 4),
                    .method = (unsigned)little(e + 10, 2),
                    .flags = (unsigned)little(e + 8, 2)};
    if (!out->name) return rshi_nomem();
    read_zip64_field(e + CENTRAL + name, extra, out);
    if (memchr(e + CENTRAL, 0, name)) return refuse(&a->span, at, "zip entry has a NUL character in its name");
    if (rshi_name_table_find(&a->names, out->name) >= 0)
        return refuse(&a->span, at, "zip archive has two entries of the same name");
    return rshi_name_table_add(&a->names, out->name, a->nentries++);
}

static rsh_status read_entries(rshi_archive *a, uint64_t at, const unsigned char *directory, uint64_t bytes,
                               uint64_t entries) {
    for (uint64_t i = 0; entries--;) {
        const unsigned char *e = directory + i;
        if (bytes - i < CENTRAL || little(e, 4) != 0x02014b50)
            return refuse(&a->span, at + i, "expected an entry of the zip directory; the archive is damaged");
        uint64_t name = little(e + 28, 2), extra = little(e + 30, 2), comment = little(e + 32, 2);
        if (bytes - i - CENTRAL < name + extra + comment)
            return refuse(&a->span, at + i, "zip directory entry is truncated");
        RSH_TRY(add_entry(a, at + i, e, name, extra));
        i += CENTRAL + name + extra + comment;
    }
    return RSH_OK;
}

static int by_place(const void *a, const void *b) {
    const listed *x = *(const listed *const *)a, *y = *(const listed *const *)b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Rejects entries that share bytes.  No tool writes them, and they could describe far more data than the file has. */
static rsh_status check_no_overlap(const rshi_archive *a) {
    const listed **list = rshi_alloc((size_t)a->nentries, sizeof *list);
    rsh_status st = list ? RSH_OK : rshi_nomem();
    for (int64_t i = 0; i < a->nentries && !st; i++) list[i] = &a->entry[i];
    if (!st && a->nentries) qsort(list, (size_t)a->nentries, sizeof *list, by_place);
    for (int64_t i = 0; i + 1 < a->nentries && !st; i++) {
        uint64_t room = list[i + 1]->at - list[i]->at, head = LOCAL + strlen(list[i]->name);
        if (room < head || list[i]->packed > room - head)
            st = refuse(&a->span, list[i + 1]->at < a->span.bytes ? list[i + 1]->at : 0, "zip entries overlap");
    }
    rshi_free(list);
    return st;
}

rsh_status rshi_archive_open(const rshi_file_span *span, rshi_archive *out) {
    uint64_t at, bytes, entries;
    *out = (rshi_archive){.span = *span};
    RSH_TRY(find_directory(span, &at, &bytes, &entries));
    if (bytes > DIRECTORY_MOST || entries > bytes / CENTRAL)
        return refuse(span, at < span->bytes ? at : 0,
                      "zip directory is larger than 64 MiB, or too small for its entries");
    unsigned char *directory = rshi_alloc(bytes, 1);
    out->entry = rshi_alloc(entries, sizeof *out->entry);
    rsh_status st = directory && out->entry ? rshi_file_span_read(span, at, directory, bytes) : rshi_nomem();
    if (!st) st = read_entries(out, at, directory, bytes, entries);
    if (!st) st = check_no_overlap(out);
    rshi_free(directory);
    return st;
}

void rshi_archive_close(rshi_archive *a) {
    rshi_free(a->entry);
    rshi_name_table_free(&a->names);
    rshi_store_free(&a->store);
    *a = (rshi_archive){0};
}

/* ---- entries ---- */

const char *rshi_archive_ending(const rshi_archive *a, const char *ending) {
    const char *found = NULL;
    for (int64_t i = 0; i < a->nentries; i++) {
        if (!rshi_ckpt_ends(a->entry[i].name, ending)) continue;
        if (found) return NULL;
        found = a->entry[i].name;
    }
    return found;
}

rsh_status rshi_archive_find(const rshi_archive *a, const char *name, rshi_file_span *entry) {
    const rshi_file_span *s = &a->span;
    unsigned char local[LOCAL];
    int64_t number = rshi_name_table_find(&a->names, name);
    if (number < 0)
        return rshi_fail(RSH_EKEY, "%.150s: byte %" PRIu64 ": the zip archive has no entry named \"%.100s\"", s->file,
                         s->at, name);
    const listed *e = &a->entry[number];
    if (e->method || (e->flags & 1) || e->bytes != e->packed)
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %" PRIu64 ": zip entry is compressed or encrypted, which is not supported",
                         s->file, s->at + e->at);
    RSH_TRY(rshi_file_span_read(s, e->at, local, LOCAL));
    if (little(local, 4) != 0x04034b50)
        return refuse(s, e->at, "expected the header of a zip entry; the archive is damaged");
    uint64_t at = e->at + LOCAL + little(local + 26, 2) + little(local + 28, 2);
    if (at > s->bytes || e->bytes > s->bytes - at)
        return refuse(s, e->at, "a zip entry extends beyond the end of the archive; the file is truncated or damaged");
    *entry = (rshi_file_span){s->fd, s->file, s->at + at, e->bytes};
    return RSH_OK;
}

/* Archive: finds a stored entry of a zip archive, by its central directory and without reading anything else.
 *
 * Offsets in an archive count from its first byte, wherever it lies in the file.  All numbers are little-endian. */
#include "ckpt/archive.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    END = 22,        /* bytes of the end record without its comment */
    LOCATOR = 20,    /* of ZIP64's locator, before the end record */
    END64 = 56,      /* of ZIP64's end record */
    CENTRAL = 46,    /* of an entry of the central directory without its name */
    LOCAL = 30,      /* of an entry's local header without its name */
    COMMENT = 256,   /* longest comment at the end that is looked for; PyTorch writes none */
    DIRECTORY_MOST = 1 << 20
};

/* What the central directory says of an entry. */
typedef struct listed {
    uint64_t at; /* of its local header */
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
    if (at > s->bytes || n > s->bytes - at) return refuse(s, at, "the zip archive points outside itself");
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

/* The end record, before a comment perhaps. */
static rsh_status find_end(const rshi_file_span *s, uint64_t *at, unsigned char end[END]) {
    if (s->bytes < END) return refuse(s, 0, "too short for a zip archive");
    uint64_t most = s->bytes - END < COMMENT ? s->bytes - END : COMMENT;
    for (uint64_t comment = 0; comment <= most; comment++) {
        *at = s->bytes - END - comment;
        RSH_TRY(rshi_file_span_read(s, *at, end, END));
        if (little(end, 4) == 0x06054b50 && little(end + 20, 2) == comment) return RSH_OK;
    }
    return refuse(s, 0, "no zip archive: its end record is missing");
}

/* Where the central directory lies, and how many bytes and entries it has. */
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
    if (little(end64, 4) != 0x06064b50) return refuse(s, little(locator + 8, 8), "no ZIP64 end record");
    *entries = little(end64 + 32, 8);
    *bytes = little(end64 + 40, 8);
    *at = little(end64 + 48, 8);
    return RSH_OK;
}

/* ZIP64's extra field has, in this order, those of the three numbers that do not fit into 32 bits. */
static void widen(const unsigned char *extra, size_t n, listed *e) {
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

static bool ends_in(const unsigned char *name, size_t n, const char *ending) {
    size_t k = strlen(ending);
    return n >= k && !memcmp(name + n - k, ending, k);
}

/* Looks through the directory; *found is how many entries have that ending. */
static rsh_status search(const rshi_file_span *s, uint64_t at, const unsigned char *directory, uint64_t bytes,
                         uint64_t entries, const char *ending, listed *out, int *found) {
    uint64_t i = 0;
    for (*found = 0; entries--;) {
        const unsigned char *e = directory + i;
        if (bytes - i < CENTRAL || little(e, 4) != 0x02014b50)
            return refuse(s, at + i, "no entry of a zip archive's directory");
        uint64_t name = little(e + 28, 2), extra = little(e + 30, 2), comment = little(e + 32, 2);
        if (bytes - i - CENTRAL < name + extra + comment) return refuse(s, at + i, "a directory entry that is cut off");
        if (ends_in(e + CENTRAL, name, ending)) {
            *out = (listed){little(e + 42, 4), little(e + 24, 4), little(e + 20, 4), (unsigned)little(e + 10, 2),
                            (unsigned)little(e + 8, 2)};
            widen(e + CENTRAL + name, extra, out);
            ++*found;
        }
        i += CENTRAL + name + extra + comment;
    }
    return RSH_OK;
}

static rsh_status find_listed(const rshi_file_span *s, const char *ending, listed *out) {
    uint64_t at, bytes, entries;
    int found;
    RSH_TRY(find_directory(s, &at, &bytes, &entries));
    if (bytes > DIRECTORY_MOST || entries > bytes / CENTRAL)
        return refuse(s, at < s->bytes ? at : 0, "a zip directory of an unlikely size");
    unsigned char *directory = rshi_alloc(bytes, 1);
    if (!directory) return rshi_nomem();
    rsh_status st = rshi_file_span_read(s, at, directory, bytes);
    if (!st) st = search(s, at, directory, bytes, entries, ending, out, &found);
    rshi_free(directory);
    if (st) return st;
    if (found > 1) return refuse(s, at, "a zip archive with more than one such entry");
    if (!found)
        return rshi_fail(RSH_EKEY, "%.150s: byte %" PRIu64 ": the zip archive has no entry named \"...%s\"", s->file,
                         s->at, ending);
    return RSH_OK;
}

rsh_status rshi_archive_find(const rshi_file_span *archive, const char *ending, rshi_file_span *entry) {
    unsigned char local[LOCAL];
    listed e;
    RSH_TRY(find_listed(archive, ending, &e));
    if (e.method || (e.flags & 1) || e.bytes != e.packed)
        return rshi_fail(RSH_EUNSUP, "%.150s: byte %" PRIu64 ": a zip entry that is compressed or encrypted",
                         archive->file, archive->at + e.at);
    RSH_TRY(rshi_file_span_read(archive, e.at, local, LOCAL));
    if (little(local, 4) != 0x04034b50) return refuse(archive, e.at, "no header of a zip entry");
    uint64_t at = e.at + LOCAL + little(local + 26, 2) + little(local + 28, 2);
    if (at > archive->bytes || e.bytes > archive->bytes - at)
        return refuse(archive, e.at, "a zip entry that ends outside its archive");
    *entry = (rshi_file_span){archive->fd, archive->file, archive->at + at, e.bytes};
    return RSH_OK;
}

/* Journal: lists the windows of a job that have been written, with digests and hashes, so that an interrupted run can
 * resume.
 *
 * Records have a fixed size and a checksum; a record with a wrong checksum is ignored.  A resumed run reads the data of
 * every record back, so journal and data need not reach the disk in order. */
#include "ckpt/impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC      UINT64_C(0x314a44524853520a) /* "\nRSHRDJ1" */
#define VERSION    2
#define PUBLISHING (-1)                         /* value of `window` in a record whose `hash` is an inode */

typedef struct record {
    int64_t window;
    uint64_t hi, lo, source_hi, source_lo, hash;
    uint64_t check; /* checksum of the words above, seeded with the fingerprint */
} record;

typedef struct head {
    uint64_t magic, fingerprint, version, reserved, check;
} head;

static uint64_t check_of(const rshi_ckpt_partial *p, const void *bytes, size_t n) {
    return rshi_hash(bytes, n, p->fingerprint);
}

static rsh_status append(rshi_ckpt_partial *p, const void *bytes, size_t n) {
    for (const char *at = bytes; n;) {
        ssize_t put = write(p->journal, at, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return rshi_io_fail(p->journal_path);
        at += put;
        n -= (size_t)put;
    }
    return RSH_OK;
}

rsh_status rshi_journal_start(rshi_ckpt_partial *p) {
    head h = {MAGIC, p->fingerprint, VERSION, 0, 0};
    h.check = check_of(p, &h, offsetof(head, check));
    if (ftruncate(p->journal, 0)) return rshi_io_fail(p->journal_path);
    if (lseek(p->journal, 0, SEEK_SET) != 0) return rshi_io_fail(p->journal_path);
    return append(p, &h, sizeof h);
}

/* Returns whether the file is a journal.  After a power failure a journal may consist of zeros. */
rsh_status rshi_journal_is_one(int fd, const char *path, bool *is) {
    unsigned char bytes[sizeof(uint64_t)], ours[sizeof(uint64_t)] = {0};
    ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    if (got < 0) return rshi_io_fail(path);
    *is = !memcmp(bytes, ours, (size_t)got);
    memcpy(ours, &(uint64_t){MAGIC}, sizeof ours);
    *is = *is || !memcmp(bytes, ours, (size_t)got);
    return RSH_OK;
}

rsh_status rshi_journal_same(rshi_ckpt_partial *p, bool *same, bool *empty) {
    head h;
    ssize_t got = pread(p->journal, &h, sizeof h, 0);
    if (got < 0) return rshi_io_fail(p->journal_path);
    *empty = got < (ssize_t)sizeof h;
    *same = !*empty && h.magic == MAGIC && h.fingerprint == p->fingerprint && h.version == VERSION &&
            h.check == check_of(p, &h, offsetof(head, check));
    return RSH_OK;
}

static void add_checksum(const rshi_ckpt_partial *p, record *r) { r->check = check_of(p, r, offsetof(record, check)); }

rsh_status rshi_journal_add(rshi_ckpt_partial *p, const rshi_moved *list, int64_t n) {
    record r[64];
    for (int64_t i = 0, k = 0; i < n; i++) {
        r[k] = (record){list[i].window,        list[i].sum.hi, list[i].sum.lo, list[i].source_sum.hi,
                        list[i].source_sum.lo, list[i].hash,   0};
        add_checksum(p, &r[k++]);
        if (k < 64 && i + 1 < n) continue;
        RSH_TRY(append(p, r, (size_t)k * sizeof *r));
        k = 0;
    }
    return RSH_OK;
}

rsh_status rshi_journal_publishing(rshi_ckpt_partial *p, uint64_t inode) {
    record r = {PUBLISHING, 0, 0, 0, 0, inode, 0};
    add_checksum(p, &r);
    RSH_TRY(append(p, &r, sizeof r));
    if (fdatasync(p->journal)) return rshi_io_fail(p->journal_path);
    return RSH_OK;
}

typedef rsh_status (*record_fn)(void *ctx, const record *r);

/* Calls fn for each intact record, then truncates an incomplete record at the end, so that new records can follow. */
static rsh_status walk_records(rshi_ckpt_partial *p, record_fn fn, void *ctx) {
    record r;
    off_t at = sizeof(head);
    while (pread(p->journal, &r, sizeof r, at) == (ssize_t)sizeof r) {
        if (r.check == check_of(p, &r, offsetof(record, check))) RSH_TRY(fn(ctx, &r));
        at += sizeof r;
    }
    RSH_REQUIRE(!ftruncate(p->journal, at) && lseek(p->journal, at, SEEK_SET) == at, RSH_EIO, "%s: %s", p->journal_path,
                strerror(errno));
    return RSH_OK;
}

typedef struct handing {
    void (*fn)(void *ctx, const rshi_moved *m);
    void *ctx;
    uint64_t inode;
} handing;

static rsh_status pass_record(void *ctx, const record *r) {
    handing *h = ctx;
    if (r->window == PUBLISHING)
        h->inode = r->hash;
    else if (h->fn)
        h->fn(h->ctx, &(rshi_moved){r->window, {r->hi, r->lo}, {r->source_hi, r->source_lo}, r->hash});
    return RSH_OK;
}

rsh_status rshi_journal_read(rshi_ckpt_partial *p, void (*fn)(void *ctx, const rshi_moved *m), void *ctx) {
    handing h = {fn, ctx, 0};
    return walk_records(p, pass_record, &h);
}

uint64_t rshi_journal_inode(rshi_ckpt_partial *p) {
    handing h = {NULL, NULL, 0};
    return walk_records(p, pass_record, &h) ? 0 : h.inode;
}

/* State: writes a rank's sharded tensor to bytes, and reads it back. */
#include "torch/state.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "states have the byte order of little-endian machines");

rsh_status rshi_state_ranks(const rsh_group *g, int ranks[RSHI_STATE_RANKS]) {
    const rsh_group *world = rsh_group_default();
    RSH_REQUIRE(world, RSH_ERUNTIME, "this rank has no default group; call rsh_group_init first");
    ranks[RSHI_GROUP_RANK] = rsh_group_rank(g);
    ranks[RSHI_GLOBAL_RANK] = rsh_group_rank(world);
    ranks[RSHI_GROUP_SIZE] = rsh_group_size(g);
    ranks[RSHI_GLOBAL_SIZE] = rsh_group_size(world);
    return RSH_OK;
}

/* ---- saving ---- */

typedef struct writer {
    const rsh_sink *sink;
    uint64_t hash;
} writer;

/* Writes large pieces in portions, for sinks with small counters. */
static rsh_status write_bytes(writer *w, const void *data, size_t bytes) {
    const size_t most = (size_t)1 << 30;
    w->hash = rshi_hash(data, bytes, w->hash);
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < most ? bytes - at : most;
        RSH_REQUIRE(!w->sink->write(w->sink->ctx, (const char *)data + at, n), RSH_EIO,
                    "cannot write %zu bytes of a state: the sink returned an error", n);
        at += n;
    }
    return RSH_OK;
}

static int append_text(void *ctx, const char *text, size_t length) {
    rshi_text *t = ctx;
    rshi_text_add(t, "%.*s", (int)length, text);
    return t->failed;
}

static size_t shard_bytes(const rsh_shard_meta *m, rsh_dtype dtype) {
    return (size_t)rsh_shard_meta_count(m) * rsh_dtype_size(dtype);
}

static void write_head(const rsh_torch_tensor *t, const int *ranks, size_t meta, char head[RSHI_STATE_HEAD]) {
    uint32_t version[2] = {RSHI_STATE_VERSION, 0};
    int32_t numbers[RSHI_STATE_RANKS];
    uint64_t lengths[3] = {meta, strlen(rsh_spec_text(t->spec)), 0};
    for (int i = 0; i < RSHI_STATE_RANKS; i++) numbers[i] = ranks[i];
    for (int64_t i = 0; i < t->sharded->nparts; i++) lengths[2] += shard_bytes(&t->shards[i].meta, rsh_torch_dtype(t));
    memcpy(head, RSHI_STATE_MAGIC, 8);
    memcpy(head + 8, version, sizeof version);
    memcpy(head + 16, numbers, sizeof numbers);
    memcpy(head + 32, lengths, sizeof lengths);
}

static rsh_status write_state(const rsh_torch_tensor *t, const int *ranks, const rshi_text *meta, writer *w) {
    char head[RSHI_STATE_HEAD];
    write_head(t, ranks, meta->length, head);
    RSH_TRY(write_bytes(w, head, sizeof head));
    RSH_TRY(write_bytes(w, meta->data, meta->length));
    RSH_TRY(write_bytes(w, rsh_spec_text(t->spec), strlen(rsh_spec_text(t->spec))));
    for (int64_t i = 0; i < t->sharded->nparts; i++)
        RSH_TRY(
            write_bytes(w, rsh_tensor_data(t->shards[i].tensor), shard_bytes(&t->shards[i].meta, rsh_torch_dtype(t))));
    uint64_t hash = w->hash;
    return write_bytes(w, &hash, sizeof hash);
}

rsh_status rsh_torch_save(const rsh_torch_tensor *t, const rsh_sink *sink) {
    int ranks[RSHI_STATE_RANKS];
    rsh_tensor_meta *all = NULL;
    rshi_text meta = {0};
    RSH_REQUIRE(t && sink && sink->write, RSH_EVALUE, "rsh_torch_save: t and sink must not be NULL");
    RSH_TRY(rshi_state_ranks(t->group, ranks));
    writer w = {.sink = sink};
    rsh_status st = rshi_torch_meta_new(t, &all);
    if (!st) st = rsh_tensor_meta_save(all, &(rsh_sink){append_text, &meta});
    rsh_tensor_meta_free(all);
    if (meta.failed) st = rshi_nomem();
    if (!st) st = write_state(t, ranks, &meta, &w);
    rshi_text_free(&meta);
    return st;
}

/* ---- reading ---- */

/* Reads the lengths of the three pieces and checks that they account for all bytes. */
static rsh_status read_head(const char *data, size_t bytes, uint64_t lengths[3]) {
    uint32_t version;
    RSH_REQUIRE(data && bytes >= RSHI_STATE_HEAD + 8 && !memcmp(data, RSHI_STATE_MAGIC, 8), RSH_ERUNTIME,
                "the data (%zu bytes) are not a saved sharded tensor; load what rsh_torch_save has written", bytes);
    memcpy(&version, data + 8, sizeof version);
    RSH_REQUIRE(version == RSHI_STATE_VERSION, RSH_ERUNTIME,
                "saved sharded tensor has version %u; this library reads version %d", version, RSHI_STATE_VERSION);
    memcpy(lengths, data + 32, 3 * sizeof *lengths);
    uint64_t left = bytes - RSHI_STATE_HEAD - 8;
    for (int i = 0; i < 3; i++) {
        RSH_REQUIRE(lengths[i] <= left, RSH_ERUNTIME, "saved sharded tensor is truncated: it has only %zu bytes",
                    bytes);
        left -= lengths[i];
    }
    RSH_REQUIRE(!left, RSH_ERUNTIME, "saved sharded tensor has %llu extra bytes at its end", (unsigned long long)left);
    return RSH_OK;
}

/* Computes the bytes of a rank's shards from the metadata; returns false on overflow. */
static bool owned_bytes(const rsh_tensor_meta *m, int rank, uint64_t *out) {
    int64_t sum = 0, count, bytes;
    for (int64_t i = 0; i < m->nshards; i++) {
        if (!m->shards[i].has_placement || m->shards[i].placement.rank != rank) continue;
        if (!rshi_product(m->shards[i].ndim, m->shards[i].sizes, &count)) return false;
        if (!rshi_mul(count, (int64_t)rsh_dtype_size(m->props.dtype), &bytes) || !rshi_add(sum, bytes, &sum))
            return false;
    }
    *out = (uint64_t)sum;
    return true;
}

/* Checks the hash.  Bytes are hashed in the way they were written: shard by shard. */
static rsh_status check_hash(const char *data, size_t bytes, const uint64_t lengths[3], const rshi_state *s) {
    const char *at = data + RSHI_STATE_HEAD;
    uint64_t hash = rshi_hash(data, RSHI_STATE_HEAD, 0), saved;
    hash = rshi_hash(at, lengths[0], hash);
    hash = rshi_hash(at + lengths[0], lengths[1], hash);
    at = s->shards;
    for (int64_t i = 0; i < s->meta->nshards; i++) {
        const rsh_shard_meta *m = &s->meta->shards[i];
        if (!m->has_placement || m->placement.rank != s->ranks[RSHI_GROUP_RANK]) continue;
        size_t n = shard_bytes(m, s->meta->props.dtype);
        hash = rshi_hash(at, n, hash);
        at += n;
    }
    memcpy(&saved, data + bytes - 8, sizeof saved);
    RSH_REQUIRE(hash == saved, RSH_ERUNTIME, "saved sharded tensor is damaged: its checksum does not match");
    return RSH_OK;
}

static rsh_status read_pieces(const char *data, size_t bytes, rshi_state *s) {
    uint64_t lengths[3], owned;
    int32_t numbers[RSHI_STATE_RANKS];
    RSH_TRY(read_head(data, bytes, lengths));
    memcpy(numbers, data + 16, sizeof numbers);
    for (int i = 0; i < RSHI_STATE_RANKS; i++) s->ranks[i] = numbers[i];
    RSH_TRY(rsh_tensor_meta_load(data + RSHI_STATE_HEAD, lengths[0], &s->meta));
    s->spec = rshi_calloc(lengths[1] + 1, 1);
    if (!s->spec) return rshi_nomem();
    memcpy(s->spec, data + RSHI_STATE_HEAD + lengths[0], lengths[1]);
    s->shards = data + RSHI_STATE_HEAD + lengths[0] + lengths[1];
    RSH_REQUIRE(owned_bytes(s->meta, s->ranks[RSHI_GROUP_RANK], &owned) && owned == lengths[2], RSH_ERUNTIME,
                "saved sharded tensor is damaged: it has %llu bytes of shards, which does not match its metadata",
                (unsigned long long)lengths[2]);
    return check_hash(data, bytes, lengths, s);
}

rsh_status rshi_state_read(const void *data, size_t bytes, rshi_state *out) {
    rshi_state s = {.meta = NULL};
    rsh_status st = read_pieces(data, bytes, &s);
    if (st)
        rshi_state_clear(&s);
    else
        *out = s;
    return st;
}

void rshi_state_clear(rshi_state *s) {
    rsh_tensor_meta_free(s->meta);
    rshi_free(s->spec);
    *s = (rshi_state){.meta = NULL};
}

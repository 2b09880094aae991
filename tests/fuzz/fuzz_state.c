/* Fuzz state: any bytes either load as a sharded tensor or cause an error.  A tensor that loads is saved and loaded
 * again, and must be the same.
 *
 * A state ends with a hash, which almost every input would fail, so the hash is corrected first. */
#include <stdlib.h>
#include <string.h>

#include <reshard/torch.h>

#include "base/base.h"
#include "torch/kept.h"

enum { HEAD = 56, HASH = 8 };

/* Used instead of assert, because it must also work in builds with NDEBUG. */
static void must(bool condition) {
    if (!condition) abort();
}

/* Corrects the hash, assuming that there is at most one shard. */
static void mend(char *data, size_t n) {
    uint64_t lengths[3], hash = rshi_hash(data, HEAD, 0);
    memcpy(lengths, data + 32, sizeof lengths);
    if (lengths[0] > n || lengths[1] > n || HEAD + lengths[0] + lengths[1] + HASH > n) return;
    size_t shards = n - HEAD - HASH - lengths[0] - lengths[1];
    hash = rshi_hash(data + HEAD, lengths[0], hash);
    hash = rshi_hash(data + HEAD + lengths[0], lengths[1], hash);
    if (shards) hash = rshi_hash(data + HEAD + lengths[0] + lengths[1], shards, hash);
    memcpy(data + n - HASH, &hash, sizeof hash);
}

static void check_again(const rsh_torch_tensor *t) {
    bytes b = {NULL, 0};
    rsh_torch_tensor *again;
    must(!rsh_torch_save(t, &(rsh_sink){keep, &b}));
    must(!rsh_torch_load(b.data, b.n, &again));
    must(rsh_tensor_meta_equal(rsh_torch_meta(t), rsh_torch_meta(again)));
    rsh_torch_free(again);
    free(b.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static rsh_comm *comm;
    if (!comm) must(!rsh_comm_threads(1, &comm) && !rsh_group_init(comm));
    uint64_t live = rsh_alloc_get_stats().live;
    char *copy = malloc(size + 1);
    rsh_torch_tensor *t;
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    if (size >= HEAD + HASH) mend(copy, size);
    if (!rsh_torch_load(copy, size, &t)) {
        check_again(t);
        rsh_torch_free(t);
    }
    free(copy);
    must(rsh_alloc_get_stats().live == live);
    return 0;
}

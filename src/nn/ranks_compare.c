/* Ranks compare: checks whether all ranks have the same bytes, such as a hash of a plan. */
#include <string.h>

#include "nn/impl.h"

/* The hash is FNV-1a. */
uint64_t rshn_hash(uint64_t h, const void *data, size_t bytes) {
    if (!h) h = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return h;
}

uint64_t rshn_hash_text(uint64_t h, const char *text) { return rshn_hash(h, text, strlen(text) + 1); }

rsh_status rshn_ranks_compare(rsh_comm *comm, rsh_status ready, const void *mine, size_t bytes, int *other) {
    int size = rsh_comm_size(comm);
    char *all = ready ? NULL : rshn_malloc((size_t)size * bytes);
    if (!ready && !all) ready = rshn_fail(RSH_ENOMEM, "out of memory: cannot compare %d ranks", size);
    rsh_status st = rsh_comm_agree(comm, ready);
    if (!st) st = rsh_comm_allgather(comm, mine, all, bytes);
    *other = 0;
    for (int r = size - 1; !st && r > 0; r--)
        if (memcmp(all + (size_t)r * bytes, all, bytes)) *other = r;
    rshn_free(all);
    return st;
}

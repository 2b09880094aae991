/* Chunk: computes sizes and offsets of the chunks of a dim. */
#include "spec/spec.h"

rsh_status rsh_chunk_split(int64_t n, int64_t chunks, int64_t *out) {
    RSH_REQUIRE(out, RSH_EVALUE, "rsh_chunk_split: out is NULL");
    RSH_REQUIRE(chunks >= 1, RSH_EVALUE, "cannot split %lld elements into %lld chunks: at least one chunk is required",
                (long long)n,
                (long long)chunks);
    RSH_REQUIRE(n >= 0, RSH_EVALUE, "dim size must not be negative, got %lld", (long long)n);
    *out = rshi_ceil_div(n, chunks);
    return RSH_OK;
}

/* Returns min(s * c, n).  If the product exceeds 2^63, it is beyond n as well. */
int64_t rsh_chunk_offset(int64_t n, int64_t s, int64_t c) {
    int64_t at;
    return rshi_mul(s, c, &at) ? rshi_min(at, n) : n;
}

int64_t rsh_chunk_size(int64_t n, int64_t s, int64_t c) { return rshi_min(s, n - rsh_chunk_offset(n, s, c)); }

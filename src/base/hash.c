/* Hash: 64-bit hash of a byte array. */
#include "base/base.h"

#include <xxhash.h>

uint64_t rshi_hash(const void *data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

/* Gather: allgather and bcast.  If a block is larger than a slot, they take several rounds. */
#include "node/impl.h"

#include <string.h>

static size_t piece_at(size_t at, size_t bytes) {
    return bytes - at < RSHI_BLOCK_BYTES ? bytes - at : RSHI_BLOCK_BYTES;
}

/* One round of an allgather: gathers `bytes` of each rank's block; blocks are `step` bytes apart in `all`. */
static rsh_status gather_piece(rshi_node *n, const void *mine, char *all, size_t bytes, size_t step) {
    RSH_TRY(rshi_node_round(n, mine, bytes));
    size_t first = rshi_node_block(n, 0)->bytes;
    for (int r = 0; r < n->size; r++)
        RSH_REQUIRE(rshi_node_block(n, r)->bytes == first, RSH_EMISMATCH,
                    "allgather: ranks must give equally many bytes: rank 0 gave %zu, rank %d gave %zu", first, r,
                    rshi_node_block(n, r)->bytes);
    for (int r = 0; r < n->size; r++)
        if (bytes) memcpy(all + (size_t)r * step, rshi_node_block(n, r)->data, bytes);
    return RSH_OK;
}

/* `mine` may be inside `all`: each piece is copied to the board before its place in `all` is overwritten. */
rsh_status rshi_node_allgather(rshi_node *n, const void *mine, void *all, size_t bytes) {
    size_t at = 0;
    do {
        size_t piece = piece_at(at, bytes);
        RSH_TRY(gather_piece(n, (const char *)mine + at, (char *)all + at, piece, bytes));
        at += piece;
    } while (at < bytes);
    return RSH_OK;
}

rsh_status rshi_node_bcast(rshi_node *n, int root, void *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += RSHI_BLOCK_BYTES) {
        size_t piece = piece_at(at, bytes);
        RSH_TRY(rshi_node_round(n, (char *)data + at, n->rank == root ? piece : 0));
        if (n->rank != root) memcpy((char *)data + at, rshi_node_block(n, root)->data, piece);
    }
    return RSH_OK;
}

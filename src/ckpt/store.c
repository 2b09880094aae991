/* Store: an arena allocator; its blocks never move and are freed together. */
#include "ckpt/ckpt.h"

#include <string.h>

#define BLOCK 65536 /* bytes of a block; a longer text gets a block of its own */

static rsh_status add_block(rshi_ckpt_store *s, size_t n) {
    RSH_TRY(RSHI_GROW(s->block, s->nblocks + 1, &s->room));
    void *block = rshi_alloc(n, 1);
    if (!block) return rshi_nomem();
    s->block[s->nblocks++] = block;
    s->used = 0;
    s->size = n;
    return RSH_OK;
}

void *rshi_store_take(rshi_ckpt_store *s, size_t n, size_t align) {
    size_t at = (s->used + align - 1) / align * align;
    if ((!s->nblocks || at + n > s->size) && add_block(s, n > BLOCK ? n : BLOCK)) return NULL;
    if (!s->used) at = 0;
    s->used = at + n;
    return (char *)s->block[s->nblocks - 1] + at;
}

char *rshi_store_text(rshi_ckpt_store *s, const char *text, size_t length) {
    char *copy = rshi_store_take(s, length + 1, 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

void rshi_store_free(rshi_ckpt_store *s) {
    for (int64_t i = 0; i < s->nblocks; i++) rshi_free(s->block[i]);
    rshi_free(s->block);
    *s = (rshi_ckpt_store){0};
}

/* Storage: reference-counted memory of the library or of the caller. */
#include "tensor/storage.h"

/* Returns the next serial number.  Threads reserve numbers in blocks, so that they rarely contend for the counter. */
static uint64_t next_serial(void) {
    enum { BLOCK = 1024 };
    static atomic_uint_fast64_t blocks;
    static _Thread_local uint64_t next;
    if (next % BLOCK == 0) next = BLOCK * (atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed) + 1);
    return next++;
}

static rshi_storage *new_storage(void) {
    rshi_storage *s = rshi_alloc_data(sizeof *s, true);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->serial = next_serial();
    return s;
}

rshi_storage *rshi_storage_new(size_t bytes, bool zero) {
    rshi_storage *s = new_storage();
    if (!s) return NULL;
    s->data = rshi_alloc_elements(bytes, zero, &s->owner);
    if (!s->data) {
        rshi_free_data(s, sizeof *s);
        return NULL;
    }
    s->bytes = bytes;
    return s;
}

rshi_storage *rshi_storage_wrap(void *data, size_t bytes, void (*deleter)(void *ctx), void *ctx) {
    rshi_storage *s = new_storage();
    if (!s) return NULL;
    s->data = data;
    s->bytes = bytes;
    s->deleter = deleter;
    s->ctx = ctx;
    return s;
}

rshi_storage *rshi_storage_hold(rshi_storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); /* the caller's own reference keeps it alive */
    return s;
}

void rshi_storage_drop(rshi_storage *s) {
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    if (s->owner) rshi_free_elements(s->data, s->bytes, s->owner);
    if (s->deleter) s->deleter(s->ctx);
    rshi_free_data(s, sizeof *s);
}

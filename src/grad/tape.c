/* Tape: the recording state of a thread, and the blocks that its graphs reuse.
 *
 * A training step creates and frees thousands of small objects, always of the same sizes.  Free ones are kept in lists
 * of the thread, so that a step needs no system calls and an op costs a few list operations. */
#include "grad/impl.h"

#include <pthread.h>

#include "layout/layout.h"

static _Thread_local rshi_tape *mine;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor runs when a thread ends */
static bool has_key;

static void free_blocks(rshi_shelf *shelf) {
    while (shelf->first) {
        void *p = shelf->first;
        shelf->first = *(void **)p;
        rshi_free(p);
    }
}

static void free_tape(void *tape) {
    rshi_tape *t = tape;
    for (int64_t i = 0; i < t->depth; i++) rshi_hooks_drop(t->stack[i]);
    mine = NULL;
    free_blocks(&t->values);
    free_blocks(&t->payloads);
    free_blocks(&t->forms);
    for (int i = 0; i < RSHI_ENTRY_CLASSES; i++) free_blocks(&t->nodes[i]);
    for (int i = 0; i < RSHI_UNPARTIAL; i++) {
        rsh_layout_free(t->unpartial[i].of);
        rsh_layout_free(t->unpartial[i].is);
    }
    rshi_free(t->stack);
    rshi_free(t->disabled);
    rshi_free(t);
}

static void make_key(void) { has_key = !pthread_key_create(&key, free_tape); }

/* Without this, a thread that ends after the library was unloaded would call the destructor. */
__attribute__((destructor)) static void delete_key(void) {
    if (has_key) pthread_key_delete(key);
}

static rshi_tape *new_tape(void) {
    pthread_once(&once, make_key);
    mine = RSHI_NEW(rshi_tape);
    if (mine && has_key) pthread_setspecific(key, mine);
    return mine;
}

rshi_tape *rshi_tape_mine(void) { return mine ? mine : new_tape(); }

/* ---- lists of free blocks ---- */

void *rshi_shelf_take(rshi_shelf *shelf, size_t bytes) {
    void *p = shelf->first;
    if (!p) return rshi_alloc(1, bytes);
    shelf->first = *(void **)p;
    return p;
}

static void put_block(rshi_shelf *shelf, void *p) {
    *(void **)p = shelf->first;
    shelf->first = p;
}

void rshi_value_block_give(void *p) {
    if (mine)
        put_block(&mine->values, p);
    else rshi_free(p);
}

void rshi_payload_block_give(void *p) {
    if (mine)
        put_block(&mine->payloads, p);
    else rshi_free(p);
}

void rshi_profile_block_give(void *p) {
    if (mine)
        put_block(&mine->forms, p);
    else rshi_free(p);
}

void rshi_entry_block_give(void *p, int size_class) {
    if (mine && size_class >= 0)
        put_block(&mine->nodes[size_class], p);
    else rshi_free(p);
}

/* ---- layouts ---- */

rsh_status rshi_tape_unpartial(const rsh_layout *l, rsh_layout **out) {
    rshi_tape *t = rshi_tape_mine();
    if (!t || !rsh_layout_op(l)) return rshi_layout_unpartial(l, out);
    size_t i = (size_t)rsh_layout_hash(l) % RSHI_UNPARTIAL;
    if (!t->unpartial[i].of || !rsh_layout_equal(t->unpartial[i].of, l)) {
        rsh_layout *made;
        RSH_TRY(rshi_layout_unpartial(l, &made));
        rsh_layout_free(t->unpartial[i].of);
        rsh_layout_free(t->unpartial[i].is);
        t->unpartial[i].of = rsh_layout_hold(l);
        t->unpartial[i].is = made;
    }
    *out = rsh_layout_hold(t->unpartial[i].is);
    return RSH_OK;
}

/* ---- recording ---- */

bool rsh_grad_enabled(void) { return !mine || !mine->off; }

rsh_pool *rsh_grad_set_pool(rsh_pool *pool) {
    rshi_tape *t = rshi_tape_mine();
    rsh_pool *was = t ? t->pool : NULL;
    if (t) t->pool = pool;
    return was;
}

bool rsh_grad_enable(bool on) {
    rshi_tape *t = rshi_tape_mine();
    bool was = !t || !t->off;
    if (t) t->off = !on;
    return was;
}

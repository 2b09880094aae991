/* Entry: one application of an op, with all its lists in one block of memory. */
#include "grad/impl.h"

#include <string.h>

#define SPARE_SLOTS 2 /* number of slots in addition to one for each input and output */

/* The offsets of the lists of an entry in its block. */
typedef struct plan_of_block {
    size_t edges, outs, slots, attrs, total; /* in bytes from the start of the block */
    int room;
} plan_of_block;

static size_t aligned(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

static plan_of_block plan_block(size_t attr_bytes, int nin, int nout) {
    plan_of_block b = {.room = nin + nout + SPARE_SLOTS};
    b.edges = aligned(sizeof(rshi_entry));
    b.outs = aligned(b.edges + (size_t)nin * sizeof(rshi_input));
    b.slots = aligned(b.outs + (size_t)nout * sizeof(rshi_output));
    b.attrs = aligned(b.slots + (size_t)b.room * sizeof(rshi_slot));
    b.total = b.attrs + attr_bytes;
    return b;
}

/* Returns the smallest size class that has room for the bytes; -1: none. */
static int class_of(size_t bytes) {
    size_t size = RSHI_ENTRY_LEAST;
    for (int i = 0; i < RSHI_ENTRY_CLASSES; i++, size *= 2)
        if (bytes <= size) return i;
    return -1;
}

rshi_entry *rshi_entry_new(const rsh_grad_op *op, const void *attrs, int nin, int nout) {
    plan_of_block b = plan_block(op->attr_bytes, nin, nout);
    rshi_tape *tape = rshi_tape_mine();
    if (!tape) return NULL;
    int c = class_of(b.total);
    char *p = c < 0 ? rshi_alloc(1, b.total)
                    : rshi_shelf_take(&tape->nodes[c], (size_t)RSHI_ENTRY_LEAST << c);
    if (!p) return NULL;
    memset(p, 0, b.slots); /* slots are initialized when they are used */
    rshi_entry *n = (rshi_entry *)p;
    *n = (rshi_entry){.refs = 1, .op = op, .nin = nin, .nout = nout, .room = b.room, .size_class = c, .nparts = 1};
    n->number = tape->next++;
    n->edge = (rshi_input *)(p + b.edges);
    n->out = (rshi_output *)(p + b.outs);
    n->slot = (rshi_slot *)(p + b.slots);
    n->attrs = p + b.attrs;
    if (op->attr_bytes && attrs) memcpy(n->attrs, attrs, op->attr_bytes);
    else memset(n->attrs, 0, op->attr_bytes);
    return n;
}

rshi_entry *rshi_entry_hold(rshi_entry *n) {
    if (n) n->refs++;
    return n;
}

/* Drops a reference.  An entry without references is added to the list of entries to free, linked by `next`, so that
 * long chains do not cause deep recursion. */
static void unlink_to(rshi_entry *from, rshi_entry **list) {
    if (!from || --from->refs) return;
    from->next = *list;
    *list = from;
}

static void release_to(rshi_entry *n, rshi_entry **list) {
    for (int i = 0; i < n->nslots; i++) rshi_slot_end(&n->slot[i]);
    if (n->spilled) rshi_free(n->slot);
    n->spilled = false;
    n->nslots = n->room = 0;
    for (int i = 0; i < n->nin; i++) {
        rshi_input *e = &n->edge[i];
        unlink_to(e->node, list);
        rsh_value_free(e->leaf);
        rsh_layout_free(e->grad_layout);
        *e = (rshi_input){0};
    }
    if (!n->used && n->op->drop) n->op->drop(n->attrs);
    n->used = true;
}

static void free_all(rshi_entry *list) {
    while (list) {
        rshi_entry *n = list;
        list = n->next;
        release_to(n, &list);
        for (int i = 0; i < n->nout; i++) {
            rshi_profile_end(&n->out[i].form);
            rsh_layout_free(n->out[i].grad_layout);
            rsh_value_free(n->out[i].value);
        }
        rshi_entry_block_give(n, n->size_class);
    }
}

void rshi_entry_release(rshi_entry *n) {
    rshi_entry *list = NULL;
    if (!n->used) release_to(n, &list);
    free_all(list);
}

void rshi_entry_drop(rshi_entry *n) {
    rshi_entry *list = NULL;
    unlink_to(n, &list);
    free_all(list);
}

/* Objects: sends bytes from every rank to every rank, and implements the barrier.
 *
 * Lengths are sent first, so that every rank knows what it will receive.  Then the bytes are sent without padding. */
#include <string.h>

#include "group/group.h"

rsh_status rsh_group_barrier(rsh_group *g) {
    rsh_comm *c;
    RSH_TRY(rshi_group_comm(g, &c));
    return c ? rsh_comm_barrier(c) : RSH_OK;
}

void rsh_objects_free(rsh_objects *o) {
    if (!o) return;
    for (int r = 0; o->data && r < o->n; r++) rshi_free(o->data[r]);
    rshi_free(o->data);
    rshi_free(o->bytes);
    rshi_free(o);
}

/* Allocates n empty objects, and lists of messages to and from n ranks. */
static rsh_status make_places(int n, rsh_objects **out, rsh_message **lists) {
    rsh_objects *o = RSHI_NEW(rsh_objects);
    if (!o) return rshi_nomem();
    *out = o; /* the caller frees it, even after an error */
    o->n = n;
    o->data = rshi_calloc((size_t)n, sizeof *o->data);
    o->bytes = rshi_calloc((size_t)n, sizeof *o->bytes);
    *lists = rshi_alloc(2 * (size_t)n, sizeof **lists);
    return o->data && o->bytes && *lists ? RSH_OK : rshi_nomem();
}

/* Allocates memory for objects of the received lengths. */
static rsh_status make_room(rsh_objects *o) {
    for (int r = 0; r < o->n; r++) {
        o->data[r] = rshi_alloc(o->bytes[r], 1);
        if (!o->data[r]) return rshi_nomem();
    }
    return RSH_OK;
}

/* Lists the messages.  This rank's own bytes are not sent. */
static void list_messages(const rsh_comm *c, const void *data, size_t bytes, const rsh_objects *o, rsh_message *send,
                          rsh_message *recv) {
    int n = 0;
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank) continue;
        send[n] = (rsh_message){r, (void *)data, bytes};
        recv[n++] = (rsh_message){r, o->data[r], o->bytes[r]};
    }
    if (bytes) memcpy(o->data[c->rank], data, bytes);
}

rsh_status rsh_group_all_gather_object(rsh_group *g, const void *data, size_t bytes, rsh_objects **out) {
    rsh_comm *c;
    rsh_objects *o = NULL;
    rsh_message *lists = NULL;
    RSH_TRY(rshi_group_comm(g, &c));
    if (!c) {
        if (out) *out = NULL;
        return RSH_OK;
    }
    rsh_status st = out && (data || !bytes) ? make_places(c->size, &o, &lists)
                                            : rshi_fail(RSH_EVALUE, "all_gather_object: %s is NULL (%zu bytes)",
                                                        out ? "data" : "out", bytes);
    RSH_GOTO(rshi_comm_open(c, "all_gather_object", 0, NULL, st));
    RSH_GOTO(rshi_comm_verdict(c, c->ops->allgather(c, &bytes, o->bytes, sizeof bytes)));
    RSH_GOTO(rshi_comm_open(c, "all_gather_object: room", 0, NULL, make_room(o)));
    list_messages(c, data, bytes, o, lists, lists + c->size);
    RSH_GOTO(rshi_comm_verdict(c, c->ops->exchange(c, c->size - 1, lists, c->size - 1, lists + c->size)));
    *out = o;
    o = NULL;
out:
    rshi_free(lists);
    rsh_objects_free(o);
    return st;
}

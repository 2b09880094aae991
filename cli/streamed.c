/* Streamed: moves data in windows.  Each window is one exchange of messages between rank 0 and the ranks that hold its
 * bytes. */
#include "streamed.h"

#include "rank_parts.h"
#include "progress.h"

#include <stdlib.h>

#define WINDOW ((size_t)64 << 20)

/* Bytes lo to hi - 1 of the stream, which is the concatenation of all parts. */
typedef struct window {
    size_t lo, hi;
    char *data; /* on rank 0 only */
} window;

/* Returns the offset of part i in the stream, which is stored in `data` as long as the parts have no memory. */
static size_t start_of(const parts *p, int64_t i) { return (size_t)p->memory[i].data; }

/* Returns the first part that ends after byte `at`. */
static int64_t first_part_after(const parts *p, size_t at) {
    int64_t lo = 0, hi = p->n;
    while (lo < hi) {
        int64_t middle = lo + (hi - lo) / 2;
        if (start_of(p, middle) + parts_bytes(p, middle) <= at) lo = middle + 1;
        else hi = middle;
    }
    return lo;
}

/* Intersects part i with the window; returns false if they do not overlap. */
static bool intersect_window(const parts *p, int64_t i, const window *w, size_t *lo, size_t *bytes) {
    size_t start = start_of(p, i), end = start + parts_bytes(p, i);
    *lo = start > w->lo ? start : w->lo;
    end = end < w->hi ? end : w->hi;
    *bytes = end > *lo ? end - *lo : 0;
    return *bytes;
}

/* Lists the messages with rank 0 for the parts of this rank. */
static int64_t own_messages(const rank_parts *h, const window *w, rsh_message *list) {
    size_t lo, bytes;
    int64_t n = 0;
    for (int64_t i = 0; i < h->nparts; i++)
        if (intersect_window(h->whole, h->first + i, w, &lo, &bytes))
            list[n++] = (rsh_message){0, (char *)h->memory[i].data + (lo - start_of(h->whole, h->first + i)), bytes};
    return n;
}

/* Lists rank 0's messages for the parts of all ranks. */
static int64_t all_messages(const parts *p, const int *owner, const window *w, rsh_message *list) {
    size_t lo, bytes;
    int64_t n = 0;
    for (int64_t i = first_part_after(p, w->lo); i < p->n && start_of(p, i) < w->hi; i++)
        if (intersect_window(p, i, w, &lo, &bytes)) list[n++] = (rsh_message){owner[i], w->data + (lo - w->lo), bytes};
    return n;
}

static void list_owners(const parts *p, int *owner) {
    int64_t next = 0, nranks = rsh_layout_nranks(p->layout);
    for (int64_t k = 0; k < nranks; k++) {
        int64_t rank = rsh_layout_rank(p->layout, k), n = rsh_layout_nparts(p->layout, rank);
        for (int64_t i = 0; i < n; i++) owner[next++] = (int)rank;
    }
}

/* The data of a transfer, except for the window. */
typedef struct carrier {
    rsh_comm *comm;
    const rank_parts *held;
    files *files;
    int *owner; /* rank of each part, on rank 0 only */
    rsh_message *own, *all;
} carrier;

static rsh_status transfer_window(carrier *c, const window *w) {
    bool root = !rsh_comm_rank(c->comm), out = c->files->out;
    rsh_status st = root && !out ? files_move(c->files, w->data, w->hi - w->lo) : RSH_OK;
    st = rsh_comm_agree(c->comm, st);
    if (st) return st;
    int64_t nown = own_messages(c->held, w, c->own),
            nall = root ? all_messages(c->held->whole, c->owner, w, c->all) : 0;
    st = out ? rsh_comm_exchange(c->comm, nown, c->own, nall, c->all)
             : rsh_comm_exchange(c->comm, nall, c->all, nown, c->own);
    if (!st && root && out) st = files_move(c->files, w->data, w->hi - w->lo);
    return rsh_comm_agree(c->comm, st);
}

static rsh_status transfer_windows(carrier *c, window *w) {
    size_t bytes = c->held->whole->bytes;
    rsh_status st = RSH_OK;
    for (w->lo = 0; !st && w->lo < bytes; w->lo = w->hi) {
        w->hi = bytes - w->lo < WINDOW ? bytes : w->lo + WINDOW;
        st = transfer_window(c, w);
    }
    if (!st && !rsh_comm_rank(c->comm)) st = files_finish(c->files);
    st = rsh_comm_agree(c->comm, st);
    if (st) files_abandon(c->files);
    return st;
}

static rsh_status transfer(rsh_comm *comm, const rank_parts *h, files *f) {
    bool root = !rsh_comm_rank(comm);
    size_t n = (size_t)h->whole->n + 1, room = h->whole->bytes < WINDOW ? h->whole->bytes : WINDOW;
    carrier c = {comm, h, f, NULL, calloc((size_t)h->nparts + 1, sizeof *c.own), NULL};
    window w = {0, 0, NULL};
    if (root) {
        c.owner = calloc(n, sizeof *c.owner);
        c.all = calloc(n, sizeof *c.all);
        w.data = malloc(room + 1);
        if (c.owner) list_owners(h->whole, c.owner);
        progress_begin(f->out ? "apply: writing" : "apply: reading", h->whole->bytes);
    }
    bool ready = c.own && (!root || (c.owner && c.all && w.data));
    rsh_status st = rsh_comm_agree(comm, ready ? RSH_OK : sentence(RSH_ENOMEM, "out of memory for a window"));
    if (!st) st = transfer_windows(&c, &w);
    free(c.owner);
    free(c.all);
    free(c.own);
    free(w.data);
    return st;
}

/* Sends the element order of the files from rank 0, which has read their headers, to the other ranks. */
static rsh_status share_order(rsh_comm *comm, files *f) {
    char mine = f->fortran, *all = calloc((size_t)rsh_comm_size(comm), 1);
    rsh_status st = rsh_comm_agree(comm, all ? RSH_OK : sentence(RSH_ENOMEM, "out of memory for the order of files"));
    if (!st) st = rsh_comm_allgather(comm, &mine, all, 1);
    if (!st) f->fortran = all[0];
    free(all);
    return st;
}

rsh_status streamed_move(rsh_comm *comm, const rsh_plan *plan, files *in, files *out) {
    rank_parts from = {0}, to = {0};
    rsh_status st = share_order(comm, in);
    if (st) return st;
    st = rank_parts_take(comm, in, &from);
    if (!st) st = rank_parts_take(comm, out, &to);
    st = rsh_comm_agree(comm, st);
    if (!st) st = transfer(comm, &from, in);
    if (!st && !rsh_comm_rank(comm)) progress_begin("apply: moving", 0);
    if (!st) st = rank_parts_reshard(comm, plan, &from, &to);
    if (!st) st = transfer(comm, &to, out);
    rank_parts_free(&from);
    rank_parts_free(&to);
    return st;
}

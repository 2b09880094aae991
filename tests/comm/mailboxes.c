/* Mailboxes: a wire for tests.  Every rank has a mailbox, in which a message waits until a receive with its sender and
 * tag has begun.
 *
 * One lock serves all ranks of a wire.  A short message is copied, so its send completes at once.  A long one points to
 * the sender's memory until it is received or its send is cancelled. */
#include "mailboxes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/impl.h"

typedef struct letter {
    struct letter *next;
    int from, tag;
    bool is_receive; /* true: a receive that the owner of the box has begun and that has not matched */
    const void *data;
    void *copy; /* owned: copy of a short message */
    void *to;   /* destination of a receive */
    size_t bytes;
    bool done;     /* true: the request may be completed */
    bool detached; /* true: no request refers to it, so it is freed when it is done */
} letter;

/* A rank's request to split. */
typedef struct parting {
    int colour, key;
    bool come;
    struct office *office; /* the new wire, and the rank in it */
    int rank;
} parting;

typedef struct office {
    pthread_mutex_t lock;
    pthread_cond_t parted;
    int size, refs;
    letter **box;      /* [size]: messages and receives that are waiting, oldest first */
    parting *partings; /* [size]: the requests to split */
    int come, rounds;
    struct office *next; /* link to the next closed wire that still has messages to deliver */
} office;

typedef struct desk {
    office *office;
    int rank;
} desk;

static atomic_bool stopped;
static office *closed; /* guarded by `closing` */
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;

static office *open_office(int size) {
    office *o = calloc(1, sizeof *o);
    *o = (office){.size = size,
                  .refs = size,
                  .box = calloc((size_t)size, sizeof *o->box),
                  .partings = calloc((size_t)size, sizeof *o->partings)};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->parted, NULL);
    return o;
}

static void throw_away(letter *l) {
    free(l->copy);
    free(l);
}

static void free_office(office *o) {
    for (int r = 0; r < o->size; r++)
        for (letter *l = o->box[r], *next; l; l = next) {
            next = l->next;
            throw_away(l);
        }
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->parted);
    free(o->box);
    free(o->partings);
    free(o);
}

static void leave_office(office *o) {
    pthread_mutex_lock(&o->lock);
    bool last = !--o->refs;
    pthread_mutex_unlock(&o->lock);
    if (!last) return;
    if (!stopped) {
        free_office(o);
        return;
    }
    pthread_mutex_lock(&closing);
    o->next = closed;
    closed = o;
    pthread_mutex_unlock(&closing);
}

/* ---- messages ---- */

static void take_out(letter **box, letter *l) {
    while (*box != l) box = &(*box)->next;
    *box = l->next;
}

static void finish(letter *l) {
    l->done = true;
    if (l->detached) throw_away(l);
}

/* Finds the first message or receive in the box that matches a new one. */
static letter *find_match(letter *box, const letter *new) {
    while (box && (box->is_receive == new->is_receive || box->from != new->from || box->tag != new->tag))
        box = box->next;
    return box;
}

static void move_bytes(const letter *l, const letter *receive) {
    if (receive->bytes != l->bytes) abort(); /* the library guarantees that they are equal */
    if (l->bytes) memcpy(receive->to, l->copy ? l->copy : l->data, l->bytes);
}

/* Matches a message or receive with a waiting one, or adds it to the box. */
static rsh_status put(office *o, int owner, letter *new) {
    bool stays = stopped && new->bytes > MAILBOX_EAGER;
    letter *other = stays ? NULL : find_match(o->box[owner], new), **end = &o->box[owner];
    if (!other) {
        while (*end) end = &(*end)->next;
        *end = new;
        return RSH_OK;
    }
    letter *receive = new->is_receive ? new : other, *letter = new->is_receive ? other : new;
    move_bytes(letter, receive);
    take_out(&o->box[owner], other);
    finish(letter);
    finish(receive);
    return RSH_OK;
}

static rsh_status send_letter(void *ctx, int peer, int tag, const void *data, size_t bytes, rsh_wire_request *out) {
    desk *d = ctx;
    letter *l = calloc(1, sizeof *l);
    *l = (letter){.from = d->rank, .tag = tag, .data = data, .bytes = bytes, .detached = bytes <= MAILBOX_EAGER};
    if (l->detached) l->copy = memcpy(malloc(bytes + 1), bytes ? data : "", bytes);
    out->pointer = l->detached ? NULL : l;
    pthread_mutex_lock(&d->office->lock);
    rsh_status st = put(d->office, peer, l);
    pthread_mutex_unlock(&d->office->lock);
    return st;
}

static rsh_status receive_letter(void *ctx, int peer, int tag, void *data, size_t bytes, rsh_wire_request *out) {
    desk *d = ctx;
    letter *l = calloc(1, sizeof *l);
    *l = (letter){.from = peer, .tag = tag, .is_receive = true, .to = data, .bytes = bytes};
    out->pointer = l;
    pthread_mutex_lock(&d->office->lock);
    rsh_status st = put(d->office, d->rank, l);
    pthread_mutex_unlock(&d->office->lock);
    return st;
}

static rsh_status test(void *ctx, rsh_wire_request *request, bool *done) {
    desk *d = ctx;
    letter *l = request->pointer;
    pthread_mutex_lock(&d->office->lock);
    *done = !l || l->done;
    pthread_mutex_unlock(&d->office->lock);
    if (l && *done) throw_away(l);
    return RSH_OK;
}

static bool cancel(void *ctx, rsh_wire_request *request) {
    desk *d = ctx;
    letter *l = request->pointer;
    if (!l) return true;
    pthread_mutex_lock(&d->office->lock);
    bool goes_on = stopped && !l->done;
    for (int r = 0; r < d->office->size && !l->done && !goes_on; r++) {
        letter **at = &d->office->box[r];
        while (*at && *at != l) at = &(*at)->next;
        if (*at) take_out(&d->office->box[r], l);
    }
    pthread_mutex_unlock(&d->office->lock);
    if (!goes_on) throw_away(l);
    return !goes_on;
}

void mailboxes_stop(void) { stopped = true; }

/* Delivers messages to which no request refers any more. */
static int deliver_box(letter **box) {
    int n = 0;
    for (letter *l = *box, *other; l; l = *box) {
        take_out(box, l);
        other = find_match(*box, l);
        if (other) {
            move_bytes(l->is_receive ? other : l, l->is_receive ? l : other);
            take_out(box, other);
            throw_away(other);
            n++;
        }
        throw_away(l);
    }
    return n;
}

int mailboxes_deliver(void) {
    int n = 0;
    stopped = false;
    for (office *o = closed, *next; o; o = next) {
        next = o->next;
        for (int r = 0; r < o->size; r++) n += deliver_box(&o->box[r]);
        free_office(o);
    }
    closed = NULL;
    return n;
}

static rsh_status probe(void *ctx, int tag, int *peer) {
    desk *d = ctx;
    *peer = -1;
    pthread_mutex_lock(&d->office->lock);
    for (const letter *l = d->office->box[d->rank]; l && *peer < 0; l = l->next)
        if (!l->is_receive && l->tag == tag) *peer = l->from;
    pthread_mutex_unlock(&d->office->lock);
    return RSH_OK;
}

/* ---- splitting ---- */

static bool comes_before(const office *o, int a, int b) {
    const parting *x = &o->partings[a], *y = &o->partings[b];
    return x->key != y->key ? x->key < y->key : a < b;
}

/* Called when all ranks have arrived: makes a wire for each colour. */
static void part(office *o) {
    for (int r = 0; r < o->size; r++) {
        parting *p = &o->partings[r];
        int size = 0, lowest = -1;
        p->rank = 0;
        for (int s = 0; s < o->size; s++) {
            if (o->partings[s].colour != p->colour) continue;
            if (lowest < 0) lowest = s;
            size++;
            p->rank += comes_before(o, s, r);
        }
        p->office = p->colour < 0 ? NULL : lowest == r ? open_office(size) : o->partings[lowest].office;
    }
    o->come = 0;
    o->rounds++;
    pthread_cond_broadcast(&o->parted);
}

static rsh_wire wire_of(office *o, int rank);

static rsh_status split(void *ctx, int colour, int key, rsh_wire *out) {
    desk *d = ctx;
    office *o = d->office;
    pthread_mutex_lock(&o->lock);
    int round = o->rounds;
    o->partings[d->rank] = (parting){.colour = colour, .key = key};
    if (++o->come == o->size) part(o);
    while (o->rounds == round) pthread_cond_wait(&o->parted, &o->lock);
    parting mine = o->partings[d->rank];
    pthread_mutex_unlock(&o->lock);
    if (mine.office) *out = wire_of(mine.office, mine.rank);
    return RSH_OK;
}

static void close_desk(void *ctx, bool orderly) {
    desk *d = ctx;
    (void)orderly;
    leave_office(d->office);
    free(d);
}

static rsh_wire wire_of(office *o, int rank) {
    desk *d = malloc(sizeof *d);
    *d = (desk){o, rank};
    return (rsh_wire){.name = "mailboxes",
                      .rank = rank,
                      .size = o->size,
                      .ctx = d,
                      .send = send_letter,
                      .recv = receive_letter,
                      .test = test,
                      .cancel = cancel,
                      .probe = probe,
                      .split = split,
                      .close = close_desk};
}

rsh_status mailbox_wires(int n, rsh_wire *wires) {
    office *o = open_office(n);
    for (int r = 0; r < n; r++) wires[r] = wire_of(o, r);
    return RSH_OK;
}

/* ---- running ---- */

/* Makes the nodes of all ranks. */
static rsh_status make_near(int n, const int64_t *node, rshi_node **near) {
    rshi_node **nodes = calloc((size_t)n, sizeof *nodes);
    rsh_status st = RSH_OK;
    for (int r = 0; r < n && !st; r++) {
        int size = 0;
        if (near[r]) continue;
        for (int s = r; s < n; s++) size += node[s] == node[r];
        st = rshi_threads_new(size, nodes);
        for (int s = r, i = 0; s < n && !st; s++)
            if (node[s] == node[r]) near[s] = nodes[i++];
    }
    free(nodes);
    return st;
}

rsh_status run_on_nodes(int n, const int *node, rsh_rank_fn fn, void *ctx) {
    rsh_wire *wires = calloc((size_t)n, sizeof *wires);
    rshi_node **near = calloc((size_t)n, sizeof *near);
    rsh_comm **comms = calloc((size_t)n, sizeof *comms);
    int64_t *nodes = calloc((size_t)n, sizeof *nodes);
    for (int r = 0; r < n; r++) nodes[r] = node ? node[r] : 0;
    rsh_status st = make_near(n, nodes, near);
    if (!st) st = mailbox_wires(n, wires);
    for (int r = 0; r < n && !st; r++) st = rshi_comm_mixed(&wires[r], near[r], nodes, &comms[r]);
    if (!st) st = rshi_run_comms(n, comms, fn, ctx);
    free(wires);
    free(near);
    free(comms);
    free(nodes);
    return st;
}

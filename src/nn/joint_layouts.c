/* Joint layouts: describes values of several comms and meshes on one comm that has all their ranks. */
#include "nn/joint_layouts.h"

#include <reshard/message.h>
#include <stdio.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"

/* ---- comms of values: maps their ranks to ranks of the joint comm ---- */

typedef struct numbering {
    rsh_comm *comm; /* borrowed: the comm of some value */
    int64_t *ranks; /* owned: ranks of this comm in the joint comm */
} numbering;

typedef struct describing {
    rsh_comm *comm;
    numbering *at; /* owned: has room for one entry per value */
    int64_t n;
} describing;

static numbering *find_numbering(const describing *d, const rsh_comm *comm) {
    for (int64_t i = 0; i < d->n; i++)
        if (d->at[i].comm == comm) return &d->at[i];
    return NULL;
}

/* Finds the joint ranks of the members of a value's comm; collective over that comm. */
static rsh_status number_ranks(describing *d, rsh_comm *comm) {
    int size = rsh_comm_size(comm);
    int64_t mine = rsh_comm_rank(d->comm), *ranks = rshn_malloc((size_t)size * sizeof *ranks);
    rsh_status st = rsh_comm_agree(comm, ranks ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for %d ranks", size));
    if (!st) st = rsh_comm_allgather(comm, &mine, ranks, sizeof mine);
    d->at[d->n++] = (numbering){comm, ranks};
    return st;
}

/* Ranks process the comms in the order of the values.  A rank that has failed continues, because others wait for it. */
static rsh_status number_all(describing *d, int64_t n, rsh_value *const *values) {
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < n; i++) {
        rsh_comm *comm = rsh_value_comm(values[i]);
        if (!comm || comm == d->comm || find_numbering(d, comm)) continue;
        rsh_status one = number_ranks(d, comm);
        if (!st) st = one;
    }
    return st;
}

static void end_describing(describing *d) {
    for (int64_t i = 0; i < d->n; i++) rshn_free(d->at[i].ranks);
    rshn_free(d->at);
}

/* ---- one layout ---- */

static rsh_status whole_everywhere(rsh_comm *comm, const rsh_value *v, rsh_layout **out) {
    rsh_layout_desc desc = {.dtype = rsh_value_dtype(v), .ndim = rsh_value_ndim(v), .naxes = 1};
    for (int d = 0; d < desc.ndim; d++) desc.dim[d].size = rsh_value_shape(v)[d];
    desc.axis[0] = (rsh_axis){"r", rsh_comm_size(comm)};
    return rsh_layout_new(&desc, out);
}

static rsh_status renumber_boxes(rsh_layout_desc desc, const int64_t *ranks, rsh_layout **out) {
    int64_t total = 0, used = 0;
    for (int64_t i = 0; i < desc.nboxes; i++) total += desc.boxes[i].nranks;
    rsh_ranked_box *boxes = rshn_malloc((size_t)desc.nboxes * sizeof *boxes);
    int64_t *list = rshn_malloc((size_t)total * sizeof *list);
    rsh_status st = boxes && list ? RSH_OK : rshn_fail(RSH_ENOMEM,
            "out of memory for %lld boxes", (long long)desc.nboxes);
    for (int64_t i = 0; !st && i < desc.nboxes; i++) {
        boxes[i] = desc.boxes[i];
        boxes[i].ranks = list + used;
        for (int64_t k = 0; k < boxes[i].nranks; k++) list[used++] = ranks[desc.boxes[i].ranks[k]];
    }
    desc.boxes = boxes;
    if (!st) st = rsh_layout_new(&desc, out);
    rshn_free(boxes);
    rshn_free(list);
    return st;
}

static rsh_status renumber_mesh(rsh_layout_desc desc, const int64_t *ranks, rsh_layout **out) {
    int64_t n = 1;
    for (int a = 0; a < desc.naxes; a++) n *= desc.axis[a].size;
    int64_t *list = rshn_malloc((size_t)n * sizeof *list);
    if (!list) return rshn_fail(RSH_ENOMEM, "out of memory for %lld ranks", (long long)n);
    for (int64_t i = 0; i < n; i++) list[i] = ranks[desc.ranks ? desc.ranks[i] : desc.first_rank + i];
    desc.ranks = list;
    if (!desc.naxes) { /* a layout without axes has rank 0 only */
        desc.naxes = 1;
        desc.axis[0] = (rsh_axis){"r", 1};
    }
    rsh_status st = rsh_layout_new(&desc, out);
    rshn_free(list);
    return st;
}

static rsh_status describe(const describing *d, const rsh_value *v, rsh_layout **out) {
    if (!rsh_value_sharded(v)) return whole_everywhere(d->comm, v, out);
    const rsh_layout *l = rsh_value_layout(v);
    if (rsh_value_comm(v) == d->comm) return *out = rsh_layout_hold(l), RSH_OK;
    const int64_t *ranks = find_numbering(d, rsh_value_comm(v))->ranks;
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    return desc->is_boxes ? renumber_boxes(*desc, ranks, out) : renumber_mesh(*desc, ranks, out);
}

static rsh_status describe_all(rshn_joint *j, rsh_value *const *values, describing *d) {
    NN_TRY(number_all(d, j->n, values));
    for (int64_t i = 0; i < j->n; i++) {
        NN_TRY(describe(d, values[i], &j->layout[i]));
        if (rsh_layout_op(j->layout[i]))
            return rshn_fail(RSH_EUNSUP, "cannot save or load a partial value with layout \"%.300s\"; reduce it first",
                             rsh_layout_text(j->layout[i]));
    }
    return RSH_OK;
}

/* ---- classes ---- */

/* Joins the texts of all layouts of this rank, each with its terminating NUL. */
static rsh_status join_texts(const rshn_joint *j, char **out, uint64_t *bytes) {
    *bytes = 0;
    for (int64_t i = 0; i < j->n; i++) *bytes += strlen(rsh_layout_text(j->layout[i])) + 1;
    char *text = rshn_malloc(*bytes + 1), *at = text;
    if (!text) return rshn_fail(RSH_ENOMEM, "out of memory for the texts of %lld layouts", (long long)j->n);
    for (int64_t i = 0; i < j->n; i++) at = stpcpy(at, rsh_layout_text(j->layout[i])) + 1;
    *out = text;
    return RSH_OK;
}

/* Record that each rank sends to the others. */
typedef struct card {
    uint64_t hash, bytes; /* hash and length of the rank's texts */
} card;

/* Sets leader[k] to the lowest rank of class k. */
static int find_classes(int size, int me, const card *cards, int *leader, int *mine) {
    int n = 0;
    for (int r = 0; r < size; r++) {
        int k = 0;
        while (k < n && memcmp(&cards[leader[k]], &cards[r], sizeof *cards)) k++;
        if (k == n) leader[n++] = r;
        if (r == me) *mine = k;
    }
    return n;
}

/* The leader of a class sends its texts to all others. */
static rsh_status send_texts(rsh_comm *comm, int leader, const char *mine, uint64_t bytes, char *theirs) {
    int size = rsh_comm_size(comm), me = rsh_comm_rank(comm);
    if (me != leader) return rsh_comm_exchange(comm, 0, NULL, 1, &(rsh_message){leader, theirs, bytes});
    rsh_message *send = rshn_malloc((size_t)size * sizeof *send);
    int n = 0;
    for (int r = 0; send && r < size; r++)
        if (r != me) send[n++] = (rsh_message){r, (void *)(uintptr_t)mine, bytes};
    rsh_status st = send ? rsh_comm_exchange(comm, n, send, 0, NULL)
                         : rshn_fail(RSH_ENOMEM, "out of memory: cannot send layouts to %d ranks", size);
    rshn_free(send);
    return st;
}

static rsh_status parse_texts(rshn_joint *j, int class, const char *text) {
    for (int64_t i = 0; i < j->n; i++, text += strlen(text) + 1)
        NN_TRY(rsh_layout_parse(text, &j->layout[class * j->n + i]));
    return RSH_OK;
}

/* Moves this rank's layouts, which are still in class 0, to their own class, and receives those of the other
 * classes. */
static rsh_status collect_classes(rshn_joint *j, const card *cards, const int *leader, const char *mine) {
    rsh_layout **all = rshn_calloc((size_t)(j->nclasses * j->n) + 1, sizeof *all);
    rsh_status st = all ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for the layouts of %d classes", j->nclasses);
    NN_TRY(rsh_comm_agree(j->comm, st));
    memcpy(all + j->mine * j->n, j->layout, (size_t)j->n * sizeof *all);
    rshn_free(j->layout);
    j->layout = all;
    for (int k = 0; k < j->nclasses; k++) {
        uint64_t bytes = cards[leader[k]].bytes;
        char *theirs = rshn_malloc(bytes + 1);
        st = theirs ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for the texts of layouts");
        st = rsh_comm_agree(j->comm, st);
        if (!st) st = send_texts(j->comm, leader[k], mine, bytes, theirs);
        if (!st && k != j->mine) st = parse_texts(j, k, theirs);
        rshn_free(theirs);
        NN_TRY(rsh_comm_agree(j->comm, st));
    }
    return RSH_OK;
}

/* Checks that no layout of another class contains this rank, which would otherwise be asked for parts that it does not
 * have. */
static rsh_status check_classes(const rshn_joint *j) {
    int me = rsh_comm_rank(j->comm);
    for (int k = 0; k < j->nclasses; k++)
        for (int64_t i = 0; i < j->n; i++) {
            const rsh_layout *own = rshn_joint_layout(j, j->mine, i), *l = rshn_joint_layout(j, k, i);
            if (k == j->mine || rsh_layout_equal(own, l) || !rsh_layout_nparts(l, me)) continue;
            return rshn_fail(RSH_EUNSUP,
                             "ranks must share a value in the same way, got layouts \"%.200s\" and "
                             "\"%.200s\"",
                             rsh_layout_text(own), rsh_layout_text(l));
        }
    return RSH_OK;
}

static rsh_status classify(rshn_joint *j) {
    int size = rsh_comm_size(j->comm), me = rsh_comm_rank(j->comm);
    card own = {0}, *cards = rshn_malloc((size_t)size * sizeof *cards);
    int *leader = rshn_malloc((size_t)size * sizeof *leader);
    char *text = NULL;
    rsh_status st = cards && leader ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for %d ranks", size);
    if (!st) st = join_texts(j, &text, &own.bytes);
    if (!st) own.hash = rshn_hash(0, text, own.bytes);
    st = rsh_comm_agree(j->comm, st);
    if (!st) st = rsh_comm_allgather(j->comm, &own, cards, sizeof own);
    if (!st) j->nclasses = find_classes(size, me, cards, leader, &j->mine);
    if (!st && j->nclasses > 1) st = collect_classes(j, cards, leader, text);
    if (!st && j->nclasses > 1) st = rsh_comm_agree(j->comm, check_classes(j));
    rshn_free(text);
    rshn_free(leader);
    rshn_free(cards);
    return st;
}

/* Checks that all ranks have the same names and shapes; only then can their layouts be compared. */
static rsh_status compare_names(rsh_comm *comm, rsh_status st, int64_t n, const char *const *names,
                                rsh_value *const *values) {
    uint64_t h = 0;
    int other = 0;
    for (int64_t i = 0; !st && i < n; i++) {
        h = rshn_hash_text(h, names[i]);
        h = rshn_hash(h, rsh_value_shape(values[i]), (size_t)rsh_value_ndim(values[i]) * sizeof(int64_t));
    }
    NN_TRY(rshn_ranks_compare(comm, st, &h, sizeof h, &other));
    if (!other) return RSH_OK;
    return rshn_fail(RSH_EMISMATCH,
                     "tensors on rank %d have different names or shapes than on rank 0; all ranks "
                     "must have the same model",
                     other);
}

rsh_status rshn_joint_make(rsh_comm *comm, rsh_status status, int64_t n, const char *const *names,
                           rsh_value *const *values, rshn_joint *out) {
    describing d = {.comm = comm};
    *out = (rshn_joint){.comm = comm, .n = n, .nclasses = 1};
    if (!status) {
        out->layout = rshn_calloc((size_t)n + 1, sizeof *out->layout);
        d.at = rshn_malloc(((size_t)n + 1) * sizeof *d.at);
        if (!out->layout || !d.at) status = rshn_fail(RSH_ENOMEM, "out of memory for %lld layouts", (long long)n);
    }
    rsh_status st = compare_names(comm, status, n, names, values);
    if (!st) st = rsh_comm_agree(comm, describe_all(out, values, &d));
    end_describing(&d);
    return st ? st : classify(out);
}

void rshn_joint_end(rshn_joint *j) {
    for (int64_t i = 0; j->layout && i < j->nclasses * j->n; i++) rsh_layout_free(j->layout[i]);
    rshn_free(j->layout);
    j->layout = NULL;
}

/* ---- tensors ---- */

int rshn_joint_first(const rshn_joint *j, int class, int64_t i) {
    int k = 0;
    while (!rsh_layout_equal(rshn_joint_layout(j, k, i), rshn_joint_layout(j, class, i))) k++;
    return k;
}

rsh_status rshn_joint_tensor(const rshn_joint *j, int class, int64_t i, const rsh_value *value, rsh_sharded **out) {
    const rsh_layout *l = rshn_joint_layout(j, class, i);
    const rsh_tensor **part = NULL;
    int64_t n = rshn_joint_first(j, j->mine, i) == rshn_joint_first(j, class, i) ? rsh_value_nparts(value) : 0;
    if (n && !(part = rshn_malloc((size_t)n * sizeof *part))) return rshn_fail(RSH_ENOMEM, "out of memory for parts");
    for (int64_t k = 0; k < n; k++) part[k] = rsh_value_part(value, k);
    rsh_status st = rsh_sharded_from_tensors(j->comm, l, n, part, out);
    rshn_free(part);
    return st;
}

/* Load: restores a sharded tensor from saved states, in the same group or, with another spec, in any group. */
#include "torch/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- in the same group ---- */

static rsh_status compare_ranks(const int *saved, const int *now) {
    static const char *const names[RSHI_STATE_RANKS] = {"group rank", "global rank", "group size", "global size"};
    for (int i = 0; i < RSHI_STATE_RANKS; i++)
        RSH_REQUIRE(saved[i] == now[i], RSH_ERUNTIME,
                    "cannot load: the tensor was saved with %s %d, but now it is %d; use rsh_torch_load_resharded",
                    names[i],
                    saved[i], now[i]);
    return RSH_OK;
}

static void fill_shards(const rsh_torch_tensor *t, const char *at) {
    for (int64_t i = 0; i < t->sharded->nparts; i++) {
        const rsh_tensor *part = t->sharded->part[i];
        size_t n = (size_t)rsh_tensor_count(part) * rsh_dtype_size(rsh_torch_dtype(t));
        if (n) memcpy(rsh_tensor_data(part), at, n);
        at += n;
    }
}

static rsh_status restore_with(const rshi_state *s, const rsh_spec *spec, rsh_group *group, rsh_torch_tensor **out) {
    rshi_outline o;
    RSH_TRY(rshi_outline_make(spec, s->meta->ndim, s->meta->size, &s->meta->props, group, &o));
    rsh_status st = rsh_tensor_meta_equal(o.meta, s->meta)
                        ? rshi_torch_alloc(&o, false, out)
                        : rshi_fail(RSH_ERUNTIME, "spec %.300s does not match the metadata saved with it", s->spec);
    rshi_outline_clear(&o);
    if (!st) fill_shards(*out, s->shards);
    return st;
}

static rsh_status restore_state(const rshi_state *s, rsh_group *group, rsh_torch_tensor **out) {
    rsh_spec *spec = NULL;
    bool known = !strncmp(s->spec, "chunk(", 6) || !strncmp(s->spec, "boxes(", 6);
    RSH_REQUIRE(known, RSH_EUNSUP,
                "cannot load a tensor with the user-defined spec %.300s; use rsh_torch_load_resharded with that spec",
                s->spec);
    RSH_TRY(rsh_spec_parse(s->spec, &spec));
    rsh_status st = restore_with(s, spec, group, out);
    rsh_spec_free(spec);
    return st;
}

rsh_status rsh_torch_load(const void *data, size_t bytes, rsh_torch_tensor **out) {
    rsh_group *group;
    rshi_state s;
    int now[RSHI_STATE_RANKS];
    RSH_NEEDS(data);
    RSH_REQUIRE(out, RSH_EVALUE, "rsh_torch_load: out is NULL");
    RSH_REQUIRE(rsh_group_default(), RSH_ERUNTIME, "this rank has no default group; call rsh_group_init first");
    RSH_TRY(rsh_group_current(&group));
    RSH_TRY(rshi_state_ranks(group, now));
    RSH_TRY(rshi_state_read(data, bytes, &s));
    rsh_status st = compare_ranks(s.ranks, now);
    if (!st) st = restore_state(&s, group, out);
    rshi_state_clear(&s);
    return st;
}

/* ---- with another spec ---- */

/* A box whose data this rank has; in the list of all ranks, a box and a rank that has its data. */
typedef struct held_box {
    rsh_shard_meta meta; /* placement.rank: the rank that has it */
    const char *data;    /* the data, on this rank */
} held_box;

/* The record that a rank sends, followed by its boxes. */
typedef struct offer {
    int64_t nboxes;
    int32_t known; /* 0: this rank has no state, so the other members of the record are not set */
    int32_t ndim;
    int64_t size[RSH_MAX_NDIM];
    rsh_tensor_props props;
} offer;

typedef struct loading {
    rsh_group *group;
    rsh_comm *comm;
    held_box *own; /* owned: nonempty boxes, each once */
    int64_t nown, room;
    offer mine;
    char *message; /* owned */
    size_t bytes;
    rsh_objects *all; /* owned */
    offer whole;      /* size and properties, equal on all ranks */
} loading;

static rsh_status add_box(loading *l, const rsh_shard_meta *m, const char *data) {
    for (int64_t i = 0; i < l->nown; i++)
        if (rshi_same_box(&l->own[i].meta, m)) return RSH_OK; /* the box is a duplicate */
    RSH_TRY(RSHI_GROW(l->own, l->nown + 1, &l->room));
    l->own[l->nown] = (held_box){*m, data};
    l->own[l->nown++].meta.placement = (rsh_remote_device){.rank = l->comm->rank, .device = {RSH_DEVICE_CPU, -1}};
    return RSH_OK;
}

static bool same_whole(const offer *a, const offer *b) {
    return a->ndim == b->ndim && !memcmp(a->size, b->size, sizeof a->size) &&
           rsh_tensor_props_equal(&a->props, &b->props);
}

static rsh_status add_state(loading *l, const rshi_state *s, int64_t number) {
    const rsh_tensor_meta *m = s->meta;
    const char *at = s->shards;
    offer o = {.known = 1, .ndim = m->ndim, .props = m->props};
    memcpy(o.size, m->size, (size_t)m->ndim * sizeof *m->size);
    RSH_REQUIRE(!l->mine.known || same_whole(&l->mine, &o), RSH_EVALUE,
                "states must belong to one tensor: states 0 and %lld of rank %d differ", (long long)number,
                l->comm->rank);
    l->mine = o;
    for (int64_t i = 0; i < m->nshards; i++) {
        if (!m->shards[i].has_placement || m->shards[i].placement.rank != s->ranks[RSHI_GROUP_RANK]) continue;
        int64_t count = rsh_shard_meta_count(&m->shards[i]);
        if (count) RSH_TRY(add_box(l, &m->shards[i], at));
        at += (size_t)count * rsh_dtype_size(m->props.dtype);
    }
    return RSH_OK;
}

static rsh_status read_states(loading *l, int64_t n, const void *const *data, const size_t *bytes) {
    RSH_REQUIRE(n >= 0 && (!n || (data && bytes)), RSH_EVALUE,
            "the number of states must not be negative, nor their list NULL; got %lld states%s", (long long)n,
                data && bytes ? "" : " (NULL)");
    for (int64_t i = 0; i < n; i++) {
        rshi_state s;
        RSH_TRY(rshi_state_read(data[i], bytes[i], &s));
        rsh_status st = add_state(l, &s, i);
        rshi_state_clear(&s);
        if (st) return st;
    }
    return RSH_OK;
}

static rsh_status write_offer(loading *l) {
    l->mine.nboxes = l->nown;
    l->bytes = sizeof l->mine + (size_t)l->nown * sizeof(rsh_shard_meta);
    l->message = rshi_calloc(l->bytes, 1);
    if (!l->message) return rshi_nomem();
    memcpy(l->message, &l->mine, sizeof l->mine);
    for (int64_t i = 0; i < l->nown; i++) ((rsh_shard_meta *)(l->message + sizeof l->mine))[i] = l->own[i].meta;
    return RSH_OK;
}

static rsh_status compare_offers(loading *l) {
    int first = -1;
    for (int r = 0; r < l->all->n; r++) {
        const offer *o = l->all->data[r];
        if (!o->known) continue;
        if (first < 0) first = r, l->whole = *o;
        RSH_REQUIRE(same_whole(&l->whole, o), RSH_EVALUE,
                    "states must belong to one tensor: those of ranks %d and %d differ", first, r);
    }
    RSH_REQUIRE(first >= 0, RSH_EVALUE, "rsh_torch_load_resharded: at least one rank must pass a state, got none");
    return RSH_OK;
}

/* Sorts boxes in row-major order of offsets, then of sizes, then by rank. */
static int by_box(const void *x, const void *y) {
    const rsh_shard_meta *a = *(const rsh_shard_meta *const *)x, *b = *(const rsh_shard_meta *const *)y;
    for (int d = 0; d < a->ndim; d++)
        if (a->offsets[d] != b->offsets[d]) return a->offsets[d] < b->offsets[d] ? -1 : 1;
    for (int d = 0; d < a->ndim; d++)
        if (a->sizes[d] != b->sizes[d]) return a->sizes[d] < b->sizes[d] ? -1 : 1;
    return (a->placement.rank > b->placement.rank) - (a->placement.rank < b->placement.rank);
}

static const rsh_shard_meta **list_boxes(const loading *l, int64_t *n) {
    int64_t k = 0;
    for (int r = 0; r < l->all->n; r++) k += ((const offer *)l->all->data[r])->nboxes;
    const rsh_shard_meta **list = rshi_alloc((size_t)k, sizeof *list);
    *n = k;
    k = 0;
    for (int r = 0; list && r < l->all->n; r++) {
        const offer *o = l->all->data[r];
        for (int64_t i = 0; i < o->nboxes; i++) list[k++] = (const rsh_shard_meta *)(o + 1) + i;
    }
    if (list && k) qsort(list, (size_t)k, sizeof *list, by_box);
    return list;
}

/* Merges equal boxes into one box with all ranks that have it; `ranks` has room for all entries of the list. */
static int64_t join_boxes(const rsh_shard_meta **list, int64_t n, int64_t *ranks, rsh_ranked_box *boxes) {
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        ranks[i] = list[i]->placement.rank;
        if (i && rshi_same_box(list[i], list[i - 1])) {
            boxes[k - 1].nranks++;
            continue;
        }
        boxes[k] = (rsh_ranked_box){.nranks = 1, .ranks = &ranks[i]};
        for (int d = 0; d < list[i]->ndim; d++) {
            boxes[k].box.lo[d] = list[i]->offsets[d];
            boxes[k].box.hi[d] = list[i]->offsets[d] + list[i]->sizes[d];
        }
        k++;
    }
    return k;
}

static rsh_status make_layout(const loading *l, rsh_layout **out) {
    int64_t n;
    const rsh_shard_meta **list = list_boxes(l, &n);
    int64_t *ranks = rshi_alloc((size_t)n, sizeof *ranks);
    rsh_ranked_box *boxes = rshi_calloc((size_t)n, sizeof *boxes);
    rsh_status st = list && ranks && boxes ? RSH_OK : rshi_nomem();
    if (!st) {
        rsh_layout_desc d = {.dtype = l->whole.props.dtype, .ndim = l->whole.ndim, .is_boxes = true, .boxes = boxes};
        for (int i = 0; i < d.ndim; i++) d.dim[i].size = l->whole.size[i];
        d.nboxes = join_boxes(list, n, ranks, boxes);
        st = rsh_layout_new(&d, out);
    }
    rshi_free(list);
    rshi_free(ranks);
    rshi_free(boxes);
    return st;
}

static int by_own_box(const void *x, const void *y) {
    const rsh_shard_meta *a = &((const held_box *)x)->meta, *b = &((const held_box *)y)->meta;
    return by_box(&a, &b);
}

/* Wraps this rank's parts.  They are in the order of the boxes, which all ranks have sorted. */
static rsh_status wrap_own(loading *l, const rsh_layout *layout, rsh_sharded **out) {
    rsh_memory *memory = rshi_calloc((size_t)l->nown, sizeof *memory);
    if (!memory) return rshi_nomem();
    if (l->nown) qsort(l->own, (size_t)l->nown, sizeof *l->own, by_own_box);
    for (int64_t i = 0; i < l->nown; i++) memory[i].data = (void *)l->own[i].data;
    rsh_status st = rsh_sharded_wrap(l->comm, layout, memory, out);
    rshi_free(memory);
    return st;
}

static rsh_status prepare_move(loading *l, const rsh_spec *to, rsh_torch_tensor **made, rsh_sharded **src) {
    rsh_layout *layout;
    RSH_TRY(compare_offers(l));
    RSH_TRY(rshi_torch_new(to, l->whole.ndim, l->whole.size, &l->whole.props, l->group, false, made));
    RSH_TRY(make_layout(l, &layout));
    rsh_status st = wrap_own(l, layout, src);
    rsh_layout_free(layout);
    return st;
}

static rsh_status check_states(loading *l, int64_t n, const void *const *data, const size_t *bytes, const rsh_spec *to,
                               bool result) {
    RSH_REQUIRE(to && result, RSH_EVALUE, "rsh_torch_load_resharded: to and out must not be NULL");
    RSH_TRY(read_states(l, n, data, bytes));
    return write_offer(l);
}

rsh_status rsh_torch_load_resharded(int64_t n, const void *const *data, const size_t *bytes, const rsh_spec *to,
                                    rsh_torch_tensor **out) {
    loading l = {.mine = {.known = 0}};
    rsh_torch_tensor *made = NULL;
    rsh_sharded *src = NULL;
    RSH_TRY(rsh_group_current(&l.group));
    RSH_TRY(rshi_group_take(l.group, &l.group, &l.comm));
    rsh_status st = check_states(&l, n, data, bytes, to, out != NULL);
    RSH_GOTO(rshi_comm_open(l.comm, "torch_load_as", 0, NULL, st));
    RSH_GOTO(rsh_group_all_gather_object(l.group, l.message, l.bytes, &l.all));
    st = prepare_move(&l, to, &made, &src);
    RSH_GOTO(rshi_reshard_as(l.comm, "torch_load_as", st, src, made ? made->sharded : NULL, NULL));
    *out = made;
    made = NULL;
out:
    rsh_sharded_free(src);
    rsh_torch_free(made);
    rsh_objects_free(l.all);
    rshi_free(l.message);
    rshi_free(l.own);
    return st;
}

/* Load: reads tensors of a checkpoint into sharded tensors.  Each rank reads its share; a reshard then distributes the
 * elements. */
#include <string.h>

#include "ckpt/impl.h"
#include "ckpt/rules.h"
#include "ckpt/shares.h"
#include "ckpt/view_read.h"
#include "shard/shard.h"

#define BATCH ((int64_t)64 << 20) /* bytes that a rank reads before they are redistributed */

typedef struct loading {
    const rsh_ckpt *c;
    rsh_comm *comm;
    int64_t n;
    const char *const *names;
    rsh_sharded *const *to;
    int64_t *tensor; /* owned: indices of the tensors in the checkpoint */
    /* the current batch: tensors first to first + nbatch - 1 */
    int64_t first, nbatch;
    rshi_shares *shares; /* owned: n entries, of which only those of the batch are set */
    int64_t *load;       /* owned: bytes that each rank reads in this batch */
    int64_t bytes;       /* size of this rank's buffer */
    rsh_digest *sum;     /* owned: n digests of the elements that this rank has read */
    rsh_digest *total;   /* owned: n digests of the elements that all ranks have read */
    rsh_load_stats stats;
} loading;

/* ---- checking the arguments ---- */

static rsh_status check_tensor(const loading *l, int64_t i) {
    const rsh_ckpt *c = l->c;
    RSH_REQUIRE(l->names[i] && l->to[i], RSH_EVALUE, "rsh_ckpt_load: tensor %lld has no name or is NULL", (long long)i);
    int64_t t = rshi_ckpt_find(c, l->names[i], strlen(l->names[i]));
    RSH_REQUIRE(t >= 0, RSH_EKEY, "%s: the checkpoint has no tensor \"%.300s\"", c->path, l->names[i]);
    const rshi_ckpt_tensor *s = &c->tensor[t];
    const rsh_layout *to = rsh_sharded_layout(l->to[i]);
    bool same = s->ndim == rsh_layout_ndim(to);
    for (int d = 0; d < s->ndim && same; d++) same = s->shape[d] == rsh_layout_shape(to)[d];
    RSH_REQUIRE(same, RSH_EVALUE, "%s: the shape of tensor \"%.200s\" differs from that of the destination, %.300s",
                c->path, s->name, rsh_layout_text(to));
    RSH_REQUIRE(rsh_sharded_comm(l->to[i]) == l->comm, RSH_EVALUE,
                "rsh_ckpt_load: tensor \"%.300s\" must be on the comm that was passed", s->name);
    RSH_REQUIRE(!rsh_layout_op(to), RSH_EUNSUP, "cannot load tensor \"%.200s\" into a partial layout: %.300s", s->name,
                rsh_layout_text(to));
    RSH_REQUIRE(!s->packing || rsh_layout_dtype(to) == RSH_U8, RSH_ETYPE,
                "%.200s: tensor \"%.200s\" is quantised and can be loaded only as bytes (u8), got %.300s", c->path,
                s->name, rsh_layout_text(to));
    rsh_status st = rsh_dtype_check_convert(s->dtype, rsh_layout_dtype(to));
    if (st) return rshi_fail(st, "%.200s: tensor \"%.200s\": %s", c->path, s->name, rsh_error_detail());
    l->tensor[i] = t;
    return RSH_OK;
}

static rsh_status prepare_load(loading *l) {
    RSH_REQUIRE(l->c, RSH_EVALUE, "rsh_ckpt_load: c is NULL");
    RSH_REQUIRE(l->n >= 0, RSH_EVALUE, "rsh_ckpt_load: n must be at least 0, got %lld", (long long)l->n);
    RSH_REQUIRE(!l->n || (l->names && l->to), RSH_EVALUE, "rsh_ckpt_load: names or tensors are NULL");
    l->tensor = rshi_alloc((size_t)l->n, sizeof *l->tensor);
    l->shares = rshi_calloc((size_t)l->n, sizeof *l->shares);
    l->load = rshi_calloc((size_t)rsh_comm_size(l->comm), sizeof *l->load);
    l->sum = rshi_calloc((size_t)l->n, sizeof *l->sum);
    l->total = rshi_calloc((size_t)l->n, sizeof *l->total);
    if (!l->tensor || !l->shares || !l->load || !l->sum || !l->total) return rshi_nomem();
    for (int64_t i = 0; i < l->n; i++) RSH_TRY(check_tensor(l, i));
    return RSH_OK;
}

/* Hashes everything that identifies the call: the headers of the checkpoint, the names and the layouts. */
static uint64_t fingerprint(const loading *l) {
    uint64_t hash = rshi_hash(&l->n, sizeof l->n, l->c->rules ? l->c->rules->hash : 0);
    for (int64_t i = 0; i < l->c->nfiles; i++) {
        const rshi_ckpt_file *f = &l->c->file[i];
        uint64_t numbers[2] = {f->size, f->hash};
        hash = rshi_hash(f->name, strlen(f->name), rshi_hash(numbers, sizeof numbers, hash));
    }
    for (int64_t i = 0; i < l->n; i++) {
        uint64_t layout = rsh_layout_hash(rsh_sharded_layout(l->to[i]));
        hash = rshi_hash(l->names[i], strlen(l->names[i]), rshi_hash(&layout, sizeof layout, hash));
    }
    return hash;
}

/* ---- a batch ---- */

/* Adds tensors to the batch until one of the ranks has BATCH bytes to read. */
static rsh_status choose_batch(loading *l) {
    int size = rsh_comm_size(l->comm);
    l->nbatch = l->bytes = 0;
    memset(l->load, 0, (size_t)size * sizeof *l->load);
    for (int64_t most = 0; l->first + l->nbatch < l->n && most < BATCH; l->nbatch++) {
        int64_t i = l->first + l->nbatch;
        RSH_TRY(rshi_shares_make(l->c, l->tensor[i], rsh_sharded_layout(l->to[i]), l->comm, l->load, &l->bytes,
                                 &l->shares[i]));
        for (int r = 0; r < size; r++) most = rshi_max(most, l->load[r]);
    }
    return RSH_OK;
}

/* Allocates a buffer that other ranks of the node can read. */
static rsh_status allocate_buffer(loading *l, rsh_sharded **out) {
    rsh_layout *layout;
    RSH_TRY(rsh_layout_whole(RSH_U8, 1, &l->bytes, rsh_comm_rank(l->comm), &layout));
    rsh_status st = rsh_sharded_empty(l->comm, layout, out);
    rsh_layout_free(layout);
    return st;
}

/* Digests a chunk.  If ranks of several nodes read the same chunk, only the first of them adds it. */
static rsh_status digest_chunk(loading *l, int64_t i, const rshi_chunk *c, const char *memory) {
    const rshi_shares *s = &l->shares[i];
    const rshi_ckpt_tensor *t = &l->c->tensor[l->tensor[i]];
    if (!t->digest || s->reader[c->reader] != rsh_comm_rank(l->comm)) return RSH_OK;
    for (int64_t b = c->box; b < c->box + c->nboxes; b++) {
        const rshi_share_box *box = &s->box[b];
        int64_t sizes[RSH_MAX_NDIM];
        for (int d = 0; d < t->ndim; d++) sizes[d] = box->box.hi[d] - box->box.lo[d];
        RSH_TRY(rsh_digest_add_box(&l->sum[i], (size_t)s->size, t->ndim, t->shape, box->box.lo, sizes,
                                   memory + c->at + box->offset, box->strides));
    }
    return RSH_OK;
}

static rsh_status read_chunk(loading *l, int64_t i, const rshi_chunk *c, char *to) {
    const rshi_ckpt_tensor *t = &l->c->tensor[l->tensor[i]];
    if (!c->of_view) return rshi_file_region_read(l->c, &c->region, l->shares[i].size, to, &l->stats.bytes_read);
    const rsh_box *box = &l->shares[i].box[c->box].box;
    return rshi_view_read(l->c, t->view, t->name, box, t->dtype, to, &l->stats.bytes_read);
}

static rsh_status read_shares(loading *l, char *memory) {
    for (int64_t i = l->first; i < l->first + l->nbatch; i++)
        for (int64_t k = 0; k < l->shares[i].nchunks; k++) {
            const rshi_chunk *c = &l->shares[i].chunk[k];
            if (c->at < 0) continue;
            RSH_TRY(read_chunk(l, i, c, memory + c->at));
            RSH_TRY(digest_chunk(l, i, c, memory));
        }
    return RSH_OK;
}

/* Adds up the digests of all ranks, so that every rank returns the same status. */
static rsh_status check_digests(loading *l) {
    bool stated = false, damaged;
    for (int64_t i = l->first; i < l->first + l->nbatch; i++) stated |= rshi_stated_known(l->c, l->tensor[i]);
    const rsh_digest *mine = l->sum + l->first;
    if (stated) RSH_TRY(rsh_comm_allreduce(l->comm, mine, l->total + l->first, 2 * l->nbatch, RSH_U64, RSH_OP_SUM));
    for (int64_t i = l->first; i < l->first + l->nbatch; i++) {
        bool known = rshi_stated_known(l->c, l->tensor[i]);
        l->stats.digests_checked += known;
        l->stats.digests_unchecked += !known && l->c->tensor[l->tensor[i]].digest;
        if (known) RSH_TRY(rshi_stated_compare(l->c, l->tensor[i], l->total[i], &damaged));
    }
    return RSH_OK;
}

/* This rank's parts on both sides, and the layouts. */
typedef struct binding {
    rsh_memory *src, *dst;
    const rsh_layout **from, **to;
    int64_t n; /* number of non-empty tensors */
} binding;

static void free_binding(binding *b) {
    rshi_free(b->src);
    rshi_free(b->dst);
    rshi_free(b->from);
    rshi_free(b->to);
}

static int64_t list_sources(const rshi_shares *s, char *memory, rsh_memory *out) {
    int64_t n = 0;
    for (int64_t k = 0; k < s->nchunks; k++) {
        const rshi_chunk *c = &s->chunk[k];
        for (int64_t b = c->box; c->at >= 0 && b < c->box + c->nboxes; b++)
            out[n++] = (rsh_memory){memory + c->at + s->box[b].offset, s->box[b].strides};
    }
    return n;
}

static rsh_status list_parts(const loading *l, char *memory, binding *b) {
    int64_t nsrc = 0, ndst = 0;
    for (int64_t i = l->first; i < l->first + l->nbatch; i++) {
        nsrc += l->shares[i].mine;
        ndst += rsh_sharded_nparts(l->to[i]);
    }
    b->src = rshi_alloc((size_t)nsrc, sizeof *b->src);
    b->dst = rshi_alloc((size_t)ndst, sizeof *b->dst);
    b->from = rshi_alloc((size_t)l->nbatch, sizeof *b->from);
    b->to = rshi_alloc((size_t)l->nbatch, sizeof *b->to);
    if (!b->src || !b->dst || !b->from || !b->to) return rshi_nomem();
    nsrc = ndst = 0;
    for (int64_t i = l->first; i < l->first + l->nbatch; i++) {
        if (!l->shares[i].layout) continue;
        nsrc += list_sources(&l->shares[i], memory, b->src + nsrc);
        rshi_sharded_memory(l->to[i], b->dst + ndst);
        ndst += rsh_sharded_nparts(l->to[i]);
        b->from[b->n] = l->shares[i].layout;
        b->to[b->n++] = rsh_sharded_layout(l->to[i]);
    }
    return RSH_OK;
}

/* Distributes a batch; called when all ranks have read their shares. */
static rsh_status redistribute_batch(loading *l, const binding *b) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    if (!b->n) return RSH_OK;
    rsh_status st = rsh_plan_opts_from_comm(l->comm, &opts);
    if (!st) st = rsh_plan_new_many(b->n, b->from, b->to, &opts, &plan);
    st = rsh_comm_agree(l->comm, st);
    if (!st) st = rsh_exec_bind(plan, l->comm, b->src, b->dst, &exec);
    if (!st) st = rsh_exec_run(exec);
    if (!st) st = rsh_comm_barrier(l->comm); /* ranks that are in neither layout wait too */
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    return st;
}

static rsh_status load_batch(loading *l) {
    rsh_sharded *memory = NULL;
    binding b = {0};
    rsh_status st = choose_batch(l);
    if (!st) st = allocate_buffer(l, &memory);
    char *bytes = st ? NULL : rsh_tensor_data(rsh_sharded_part(memory, 0));
    if (!st) st = read_shares(l, bytes);
    if (!st) st = list_parts(l, bytes, &b);
    st = rsh_comm_agree(l->comm, st);
    if (!st) st = check_digests(l);
    if (!st) st = redistribute_batch(l, &b);
    for (int64_t i = l->first; i < l->first + l->nbatch && !st; i++)
        for (int64_t k = 0; k < rsh_sharded_nparts(l->to[i]); k++)
            rsh_tensor_bump_version(rsh_sharded_part(l->to[i], k));
    l->stats.most_scratch = (uint64_t)rshi_max((int64_t)l->stats.most_scratch, l->bytes);
    free_binding(&b);
    rsh_sharded_free(memory);
    return st;
}

rsh_status rsh_ckpt_load(const rsh_ckpt *c, rsh_comm *comm, int64_t n, const char *const *names,
                         rsh_sharded *const *tensors, rsh_load_stats *stats) {
    RSH_REQUIRE(comm, RSH_EVALUE, "rsh_ckpt_load: comm is NULL");
    loading l = {.c = c, .comm = comm, .n = n, .names = names, .to = tensors};
    rsh_status st = stats ? rshi_struct_check(stats, sizeof *stats, "RSH_LOAD_STATS_INIT") : RSH_OK;
    if (!st) st = prepare_load(&l);
    st = rshi_comm_open(comm, "load of a checkpoint", st ? 0 : fingerprint(&l), c ? c->path : "", st);
    while (!st && l.first < n) {
        st = load_batch(&l);
        for (int64_t i = l.first; i < n && i <= l.first + l.nbatch; i++) rshi_shares_free(&l.shares[i]);
        l.first += l.nbatch;
    }
    rshi_free(l.tensor);
    rshi_free(l.shares);
    rshi_free(l.load);
    rshi_free(l.sum);
    rshi_free(l.total);
    if (!st && stats) rshi_result_write(&l.stats, sizeof l.stats, stats);
    return st;
}

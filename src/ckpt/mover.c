/* Mover: copies one window of a tensor from the source files to the target files.
 *
 * The source blocks of the window are read once, converted and digested in memory.  Each destination block is assembled
 * from them and written to all files that hold a copy of it.  A destination block that is one run of a source block is
 * written directly from there. */
#include "ckpt/impl.h"

#include <string.h>

/* A piece of the source in the window's buffer. */
typedef struct seen_view {
    rshi_view view;
    const char *block;
} seen_view;

typedef struct window_job {
    rshi_mover *m;
    const rsh_box *window;
    seen_view *view; /* owned: the pieces of the source */
    int64_t nviews, room;
    size_t size;       /* bytes of an element of the destination, and of a source element after conversion */
    bool once;         /* every element is written once, so the digest covers all bytes that are written */
    rsh_digest before; /* digest of the windows before this one */
    bool dry;          /* moves are counted but not run, because nothing was read yet */
    /* the current destination block */
    const rshi_ckpt_block *block;
    int64_t nmoves;
    rshi_move pending;
    int64_t pending_strides[RSHI_MOVE_DIMS];
    const char *pending_src;
    int64_t pending_dst;
} window_job;

static rsh_status grow_buffer(char **memory, size_t *room, size_t bytes) {
    if (bytes <= *room) return RSH_OK;
    rshi_free_data(*memory, *room);
    *room = 0;
    *memory = rshi_alloc_data(bytes, false);
    if (!*memory) return rshi_nomem();
    *room = bytes;
    return RSH_OK;
}

void rshi_mover_free(rshi_mover *m) {
    rshi_free_data(m->raw, m->raw_room);
    rshi_free_data(m->mem, m->mem_room);
    rshi_free_data(m->put, m->put_room);
    rshi_free_data(m->seen, m->seen_room);
    rshi_end_free(&m->src);
    rshi_end_free(&m->dst);
    rshi_free(m->in.block);
    rshi_free(m->out.block);
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(m->run[d].run);
    *m = (rshi_mover){0};
}

/* ---- files ---- */

typedef struct transport {
    rshi_mover *m;
    const rshi_ckpt_part *part;
    char *memory; /* the block's elements in memory */
    size_t size;  /* bytes of an element */
} transport;

static rsh_status read_source(void *ctx, int64_t offset, int64_t at, int64_t count) {
    const transport *t = ctx;
    size_t n = (size_t)count * t->size;
    t->m->bytes_read += n;
    return rshi_ckpt_pread(t->m->source, t->part->file, t->part->at + (uint64_t)offset * t->size,
                           t->memory + (size_t)at * t->size, n);
}

static rsh_status write_target(void *ctx, int64_t offset, int64_t at, int64_t count) {
    const transport *t = ctx;
    const rshi_files *f = t->m->files;
    size_t n = (size_t)count * t->size;
    t->m->bytes_written += n;
    return f->write(f->ctx, t->part->file, t->part->at + (uint64_t)offset * t->size, t->memory + (size_t)at * t->size,
                    n);
}

static rsh_status read_target(void *ctx, int64_t offset, int64_t at, int64_t count) {
    const transport *t = ctx;
    const rshi_files *f = t->m->files;
    size_t n = (size_t)count * t->size;
    t->m->bytes_read += n;
    return f->read(f->ctx, t->part->file, t->part->at + (uint64_t)offset * t->size, t->memory + (size_t)at * t->size,
                   n);
}

/* ---- the source in memory ---- */

static rsh_status list_views(window_job *j) {
    rshi_mover *m = j->m;
    for (int64_t i = 0; i < m->in.n; i++) {
        const rshi_ckpt_block *b = &m->in.block[i];
        for (int64_t p = b->piece; p < b->piece + b->npieces; p++) {
            RSH_TRY(RSHI_GROW(j->view, j->nviews + 1, &j->room));
            seen_view *v = &j->view[j->nviews];
            v->block = (m->converts ? m->mem : m->raw) + b->at;
            j->nviews += rshi_view_make(&m->src, j->window, b, p, j->size, &v->view);
        }
    }
    return RSH_OK;
}

/* Digests the elements of a block as they were read (raw) and as they will be written (block). */
static void digest_source(window_job *j, const rshi_ckpt_block *b, const char *raw, const char *block) {
    rshi_mover *m = j->m;
    size_t size = rsh_dtype_size(m->src.group[b->group].from);
    for (int64_t p = b->piece; p < b->piece + b->npieces; p++) {
        rshi_view v;
        if (!rshi_view_make(&m->src, j->window, b, p, j->size, &v)) continue;
        rshi_view_digest(&m->src, j->window, &v, block, j->size, &m->sum);
        if (!m->src.piece[p].checked || !rshi_view_make(&m->src, j->window, b, p, size, &v)) continue;
        rshi_view_source_digest(&m->src, &v, raw, size, &m->source_sum);
    }
}

/* Reads, converts and digests one block, while it is in the cache. */
static rsh_status load_block(window_job *j, rshi_ckpt_block *b, size_t *used) {
    rshi_mover *m = j->m;
    const rshi_ckpt_group *g = &m->src.group[b->group];
    transport t = {m, &m->src.copy[g->copy], m->raw + *used * m->src.size, rsh_dtype_size(g->from)};
    RSH_TRY(rshi_block_runs(&m->src, j->window, b, read_source, &t));
    b->at = *used * j->size;
    *used += (size_t)b->count;
    if (m->converts) rshi_block_convert(&m->src, j->window, b, t.memory, m->to, m->mem + b->at);
    if (m->digest) digest_source(j, b, t.memory, (m->converts ? m->mem : m->raw) + b->at);
    return RSH_OK;
}

static rsh_status load_source(window_job *j) {
    rshi_mover *m = j->m;
    size_t used = 0;
    RSH_TRY(rshi_blocks_list(&m->src, j->window, &m->in));
    RSH_TRY(grow_buffer(&m->raw, &m->raw_room, (size_t)m->in.count * m->src.size));
    if (m->converts) RSH_TRY(grow_buffer(&m->mem, &m->mem_room, (size_t)m->in.count * j->size));
    for (int64_t i = 0; i < m->in.n; i++) RSH_TRY(load_block(j, &m->in.block[i], &used));
    return RSH_OK;
}

/* ---- assembling a destination block ---- */

static void run_pending(window_job *j) {
    if (j->dry) return;
    j->pending.ss = j->pending_strides;
    rshi_move_run(&j->pending, 0, 0, j->pending.nd ? j->pending.n[0] : 1, j->m->put + j->pending_dst, &j->pending_src);
}

static void add_loop(rshi_move *mv, int64_t n, int64_t src, int64_t dst) {
    mv->n[mv->nd] = n;
    mv->ss[mv->nd] = src;
    mv->ds[mv->nd] = dst;
    mv->nd++;
}

/* Adds the move of the elements in one common run of each dim. */
static void add_move(window_job *j, const seen_view *s, const rshi_view *d, const rshi_run *const *run) {
    rshi_move mv = {.nsrc = 1, .from = j->m->to, .to = j->m->to};
    int64_t strides[RSHI_MOVE_DIMS], src = s->view.bias, dst = d->bias;
    mv.ss = strides;
    if (j->nmoves == 1) run_pending(j);
    for (int k = 0; k < j->m->src.ndim; k++) {
        int64_t ss = s->view.stride[k], ds = d->stride[k];
        src += run[k]->ia * ss;
        dst += run[k]->ib * ds;
        if (run[k]->count > 1) add_loop(&mv, run[k]->count, run[k]->da * ss, run[k]->db * ds);
        add_loop(&mv, run[k]->len, ss, ds);
    }
    rshi_move_prepare(&mv, 0);
    j->pending = mv;
    memcpy(j->pending_strides, strides, sizeof strides);
    j->pending_src = s->block + src;
    j->pending_dst = dst;
    if (j->nmoves++) run_pending(j);
}

static int64_t stripe_end(const rshi_stripe *s) { return s->lo + (s->count - 1) * s->stride + s->last; }

/* Do the bounding boxes of both pieces intersect inside the window? */
static bool may_overlap(const window_job *j, const rshi_stored_piece *a, const rshi_stored_piece *b) {
    for (int d = 0; d < j->m->src.ndim; d++) {
        int64_t lo = rshi_max(a->set[d].lo, b->set[d].lo),
                hi = rshi_min(stripe_end(&a->set[d]), stripe_end(&b->set[d]));
        if (rshi_max(lo, j->window->lo[d]) >= rshi_min(hi, j->window->hi[d])) return false;
    }
    return true;
}

static rsh_status add_overlap_moves(window_job *j, const seen_view *s, const rshi_view *d) {
    rshi_mover *m = j->m;
    int ndim = m->src.ndim;
    int64_t at[RSH_MAX_NDIM] = {0};
    const rshi_run *run[RSH_MAX_NDIM];
    if (!may_overlap(j, s->view.piece, d->piece)) return RSH_OK;
    for (int k = 0; k < ndim; k++) {
        m->run[k].n = 0;
        RSH_TRY(rshi_stripe_overlap(&s->view.piece->set[k], &d->piece->set[k], j->window->lo[k], j->window->hi[k],
                                    &m->run[k]));
        if (!m->run[k].n) return RSH_OK;
    }
    for (;;) {
        int k = ndim;
        for (int e = 0; e < ndim; e++) run[e] = &m->run[e].run[at[e]];
        add_move(j, s, d, run);
        while (k-- > 0 && ++at[k] == m->run[k].n) at[k] = 0;
        if (k < 0) return RSH_OK;
    }
}

/* Returns the bytes of the block: in place in a source block, or assembled in m->put. */
static rsh_status assemble(window_job *j, const rshi_ckpt_block *b, const char **bytes) {
    rshi_mover *m = j->m;
    j->block = b;
    j->nmoves = 0;
    for (int64_t p = b->piece; p < b->piece + b->npieces; p++) {
        rshi_view v;
        if (!rshi_view_make(&m->dst, j->window, b, p, j->size, &v)) continue;
        for (int64_t i = 0; i < j->nviews; i++) RSH_TRY(add_overlap_moves(j, &j->view[i], &v));
    }
    bool direct = j->nmoves == 1 && (j->pending.kernel == RSHI_KERNEL_CONTIGUOUS || b->count == 1);
    if (j->nmoves == 1 && !direct) run_pending(j);
    *bytes = direct ? j->pending_src : m->put;
    return RSH_OK;
}

/* ---- modes: write, check, compare ---- */

static rsh_status write_block(window_job *j, const rshi_ckpt_block *b) {
    rshi_mover *m = j->m;
    const rshi_ckpt_group *g = &m->dst.group[b->group];
    const char *bytes;
    RSH_TRY(assemble(j, b, &bytes));
    for (int64_t c = 0; c < g->ncopies; c++) {
        transport t = {m, &m->dst.copy[g->copy + c], (char *)(uintptr_t)bytes, j->size};
        if (t.part->file >= 0) RSH_TRY(rshi_block_runs(&m->dst, j->window, b, write_target, &t));
    }
    if (m->mode == RSHI_WINDOW_WRITE && !j->once) m->hash = rshi_hash(bytes, (size_t)b->count * j->size, m->hash);
    return RSH_OK;
}

static rsh_status digest_block(window_job *j, const rshi_ckpt_block *b) {
    rshi_mover *m = j->m;
    transport t = {m, &m->dst.copy[m->dst.group[b->group].copy], m->put, j->size};
    RSH_TRY(rshi_block_runs(&m->dst, j->window, b, read_target, &t));
    for (int64_t p = b->piece; p < b->piece + b->npieces; p++) {
        rshi_view v;
        if (rshi_view_make(&m->dst, j->window, b, p, j->size, &v))
            rshi_view_digest(&m->dst, j->window, &v, m->put, j->size, &m->sum);
    }
    return RSH_OK;
}

/* Hashes the block.  If its copies differ, the hash is changed so that it matches no journal record. */
static rsh_status check_block(window_job *j, const rshi_ckpt_block *b) {
    rshi_mover *m = j->m;
    const rshi_ckpt_group *g = &m->dst.group[b->group];
    uint64_t before = m->hash, first = 0;
    if (j->once) return digest_block(j, b);
    for (int64_t c = 0, seen = 0; c < g->ncopies; c++) {
        transport t = {m, &m->dst.copy[g->copy + c], m->put, j->size};
        if (t.part->file < 0) continue;
        RSH_TRY(rshi_block_runs(&m->dst, j->window, b, read_target, &t));
        uint64_t h = rshi_hash(m->put, (size_t)b->count * j->size, before);
        if (!seen++) first = h;
        m->hash = h == first ? h : ~first;
        if (h != first) return RSH_OK;
    }
    return RSH_OK;
}

static bool comes_before(int ndim, const int64_t *a, const int64_t *b) {
    for (int d = 0; d < ndim; d++)
        if (a[d] != b[d]) return a[d] < b[d];
    return false;
}

/* Keeps the lowest global index of the view at which both blocks differ. */
static void find_in_view(window_job *j, const rshi_view *v, const char *want, const char *have, int64_t rank) {
    rshi_differing *best = &j->m->differing;
    int ndim = j->m->dst.ndim;
    int64_t i[RSH_MAX_NDIM] = {0};
    for (int k = 0; k >= 0;) {
        int64_t at = v->bias, index[RSH_MAX_NDIM] = {0};
        for (int d = 0; d < ndim; d++) {
            at += (v->first[d] + i[d]) * v->stride[d];
            index[d] = rshi_stripe_at(&v->piece->set[d], v->first[d] + i[d]);
        }
        if (memcmp(want + at, have + at, j->size) && (!best->found || comes_before(ndim, index, best->index))) {
            memcpy(best->index, index, sizeof index);
            best->found = true;
            best->rank = rank;
        }
        for (k = ndim; k-- > 0 && ++i[k] == v->n[k];) i[k] = 0;
    }
}

static void find_difference(window_job *j, const rshi_ckpt_block *b, const char *want, const char *have, int64_t rank) {
    for (int64_t p = b->piece; p < b->piece + b->npieces; p++) {
        rshi_view v;
        if (rshi_view_make(&j->m->dst, j->window, b, p, j->size, &v)) find_in_view(j, &v, want, have, rank);
    }
}

static rsh_status compare_block(window_job *j, const rshi_ckpt_block *b) {
    rshi_mover *m = j->m;
    const rshi_ckpt_group *g = &m->dst.group[b->group];
    size_t n = (size_t)b->count * j->size;
    const char *bytes;
    RSH_TRY(grow_buffer(&m->seen, &m->seen_room, n));
    RSH_TRY(assemble(j, b, &bytes));
    for (int64_t c = 0; c < g->ncopies; c++) {
        transport t = {m, &m->dst.copy[g->copy + c], m->seen, j->size};
        if (t.part->file < 0) continue;
        RSH_TRY(rshi_block_runs(&m->dst, j->window, b, read_target, &t));
        if (memcmp(bytes, m->seen, n)) find_difference(j, b, bytes, m->seen, g->rank);
    }
    return RSH_OK;
}

/* Returns whether each element of the window is stored once in the destination.  The hash is then derived from the
 * digest, which is computed anyway, and the bytes need not be hashed. */
static bool is_written_once(const window_job *j) {
    const rshi_mover *m = j->m;
    int64_t count = 1;
    for (int d = 0; d < m->dst.ndim; d++) count *= j->window->hi[d] - j->window->lo[d];
    for (int64_t i = 0; i < m->out.n; i++)
        if (m->dst.group[m->out.block[i].group].ncopies != 1) return false;
    return m->out.count == count;
}

static void hash_digest(window_job *j) {
    rshi_mover *m = j->m;
    rsh_digest added = {m->sum.hi - j->before.hi, m->sum.lo - j->before.lo};
    m->hash = rshi_hash(&added, sizeof added, m->hash);
}

static rsh_status put_blocks(window_job *j) {
    rshi_mover *m = j->m;
    if (m->mode != RSHI_WINDOW_COPY) RSH_TRY(rshi_blocks_list(&m->dst, j->window, &m->out));
    RSH_TRY(grow_buffer(&m->put, &m->put_room, (size_t)m->out.largest * j->size));
    j->once = (m->mode == RSHI_WINDOW_WRITE || m->mode == RSHI_WINDOW_CHECK) && is_written_once(j);
    if (m->mode != RSHI_WINDOW_CHECK) RSH_TRY(list_views(j));
    for (int64_t i = 0; i < m->out.n; i++) {
        const rshi_ckpt_block *b = &m->out.block[i];
        switch (m->mode) {
        case RSHI_WINDOW_CHECK: RSH_TRY(check_block(j, b)); break;
        case RSHI_WINDOW_COMPARE: RSH_TRY(compare_block(j, b)); break;
        default: RSH_TRY(write_block(j, b));
        }
    }
    if (j->once) hash_digest(j);
    return RSH_OK;
}

/* ---- copying inside the kernel ---- */

/* Finds the position of the block in a source file; returns false if it is not one run of a source file. */
static bool find_run(const window_job *j, const rshi_ckpt_block *b, int32_t *file, uint64_t *at) {
    const rshi_mover *m = j->m;
    if (!b->dense || j->nmoves != 1 || (j->pending.kernel != RSHI_KERNEL_CONTIGUOUS && b->count != 1)) return false;
    size_t offset = (size_t)(j->pending_src - m->raw);
    for (int64_t i = 0; i < m->in.n; i++) {
        const rshi_ckpt_block *s = &m->in.block[i];
        if (offset < s->at || offset >= s->at + (size_t)s->count * j->size) continue;
        const rshi_ckpt_part *part = &m->src.copy[m->src.group[s->group].copy];
        *file = part->file;
        *at = part->at + (uint64_t)s->lo * j->size + (offset - s->at);
        return s->dense;
    }
    return false;
}

/* Lets the kernel write all copies of the block; *done is false if it cannot. */
static rsh_status copy_block(window_job *j, const rshi_ckpt_block *b, bool *done) {
    rshi_mover *m = j->m;
    const rshi_ckpt_group *g = &m->dst.group[b->group];
    const char *bytes;
    int32_t file = -1;
    uint64_t at = 0;
    size_t n = (size_t)b->count * j->size;
    RSH_TRY(assemble(j, b, &bytes));
    *done = find_run(j, b, &file, &at);
    for (int64_t c = 0; c < g->ncopies && *done; c++) {
        const rshi_ckpt_part *to = &m->dst.copy[g->copy + c];
        if (to->file < 0) continue;
        RSH_TRY(
            m->files->copy(m->files->ctx, m->source, file, at, to->file, to->at + (uint64_t)b->lo * j->size, n, done));
        m->bytes_written += *done ? n : 0;
    }
    m->bytes_read += *done ? n : 0;
    return RSH_OK;
}

/* Lets the kernel copy destination blocks that are runs of source files; the other blocks stay in m->out. */
static rsh_status copy_blocks(window_job *j) {
    rshi_mover *m = j->m;
    int64_t left = 0;
    size_t used = 0;
    RSH_TRY(rshi_blocks_list(&m->src, j->window, &m->in));
    RSH_TRY(rshi_blocks_list(&m->dst, j->window, &m->out));
    RSH_TRY(grow_buffer(&m->raw, &m->raw_room, (size_t)m->in.count * m->src.size));
    for (int64_t i = 0; i < m->in.n; i++) {
        m->in.block[i].at = used;
        used += (size_t)m->in.block[i].count * j->size;
    }
    j->dry = true;
    RSH_TRY(list_views(j));
    for (int64_t i = 0; i < m->out.n; i++) {
        bool done;
        RSH_TRY(copy_block(j, &m->out.block[i], &done));
        if (!done) m->out.block[left++] = m->out.block[i];
    }
    m->out.n = left;
    j->dry = false;
    j->nviews = 0;
    return RSH_OK;
}

/* ---- windows ---- */

static size_t buffer_bytes(const rshi_mover *m, const rsh_box *w) {
    size_t count = 1, size = m->mode == RSHI_WINDOW_DIGEST ? 0 : m->dst.size;
    for (int d = 0; d < m->src.ndim; d++) count *= (size_t)(w->hi[d] - w->lo[d]);
    size_t each = m->src.size + size + (m->converts ? rsh_dtype_size(m->to) : 0);
    return count * (m->mode == RSHI_WINDOW_COMPARE ? each + size : each);
}

/* Returns the first dim with more than one index, which is halved; -1: there is none. */
static int split_dim(const rshi_mover *m, const rsh_box *w) {
    for (int d = 0; d < m->src.ndim; d++)
        if (w->hi[d] - w->lo[d] > 1) return d;
    return -1;
}

rsh_status rshi_mover_window(rshi_mover *m, const rsh_box *window) {
    int d = buffer_bytes(m, window) > m->budget ? split_dim(m, window) : -1;
    if (d >= 0) {
        rsh_box a = *window, b = *window;
        a.hi[d] = b.lo[d] = window->lo[d] + (window->hi[d] - window->lo[d]) / 2;
        RSH_TRY(rshi_mover_window(m, &a));
        return rshi_mover_window(m, &b);
    }
    window_job j = {.m = m, .window = window, .before = m->sum};
    j.size = rsh_dtype_size(m->to);
    rsh_status st = RSH_OK;
    bool left = true;
    if (m->mode == RSHI_WINDOW_COPY) {
        st = !m->converts ? copy_blocks(&j) : rshi_blocks_list(&m->dst, window, &m->out);
        left = m->out.n > 0;
    }
    if (!st && left && m->mode != RSHI_WINDOW_CHECK) st = load_source(&j);
    if (!st && left && m->mode != RSHI_WINDOW_DIGEST) st = put_blocks(&j);
    rshi_free(j.view);
    return st;
}

/* Rank edges: what one rank does in a plan, as arrays of copies, receives and sends.
 *
 * Pieces that edges refer to are kept in blocks that never move, so that edges may point to them while the arrays grow.
 */
#include "plan/relay.h"

#define FIRST_BLOCK 8 /* pieces; blocks double from there */
#define LARGEST_BLOCK 1024

typedef struct rshi_pieces_kept {
    struct rshi_pieces_kept *next;
    int64_t used, room;
    rshi_piece piece[];
} block;

/* ---- pieces ---- */

static size_t block_bytes(int64_t room) { return sizeof(block) + (size_t)room * sizeof(rshi_piece); }

static block *add_block(rshi_rank_edges *s, int64_t n) {
    int64_t room = s->now ? rshi_min(2 * s->now->room, LARGEST_BLOCK) : FIRST_BLOCK;
    room = rshi_max(n, room);
    block *b = rshi_alloc_data(block_bytes(room), false);
    if (!b) return NULL;
    *b = (block){.next = s->now ? s->now->next : s->first, .room = room};
    *(s->now ? &s->now->next : &s->first) = b;
    return b;
}

rshi_piece *rshi_pieces_room(rshi_rank_edges *s, int64_t n) {
    block *b = s->now;
    while (b && b->used + n > b->room) {
        b = b->next;
        if (b) b->used = 0;
    }
    if (!b) b = add_block(s, n);
    if (!b) {
        rshi_nomem();
        return NULL;
    }
    s->now = b;
    b->used += n;
    return b->piece + b->used - n;
}

int64_t *rshi_pieces_numbers(rshi_rank_edges *s, int64_t n) {
    return (int64_t *)rshi_pieces_room(s, rshi_ceil_div(n, (int64_t)(sizeof(rshi_piece) / sizeof(int64_t))));
}

rshi_piece *rshi_piece_keep(rshi_rank_edges *s, const rshi_piece *p) {
    rshi_piece *kept = rshi_pieces_room(s, 1);
    if (kept) *kept = *p;
    return kept;
}

rshi_kept rshi_pieces_end(const rshi_rank_edges *s) { return (rshi_kept){s->now, s->now ? s->now->used : 0}; }

void rshi_pieces_forget_after(rshi_rank_edges *s, rshi_kept mark) {
    s->now = mark.now ? mark.now : s->first;
    if (s->now) s->now->used = mark.used;
}

/* ---- edges ---- */

rshi_edge *rshi_edges_new(rshi_edges *list, const rshi_edge *like) {
    if (RSHI_GROW(list->edge, list->n + 1, &list->room)) return NULL;
    list->edge[list->n] = *like;
    return &list->edge[list->n++];
}

rsh_status rshi_edges_add(rshi_edges *list, const rshi_edge *e) {
    return rshi_edges_new(list, e) ? RSH_OK : RSH_ENOMEM;
}

rsh_status rshi_edges_keep(rshi_rank_edges *s, rshi_edges *list, const rshi_edge *e) {
    const rshi_piece *src = rshi_piece_keep(s, e->src), *dst = rshi_piece_keep(s, e->dst);
    rshi_edge *kept = src && dst ? rshi_edges_new(list, e) : NULL;
    if (!kept) return RSH_ENOMEM;
    kept->src = kept->with = src;
    kept->dst = dst;
    return RSH_OK;
}

rsh_status rshi_edges_hand_over(rshi_rank_edges *s, rshi_edges *list, rshi_kept mark) {
    if (!s->take) return RSH_OK;
    for (int64_t i = 0; i < list->n; i++) RSH_TRY(s->take(s->ctx, &list->edge[i]));
    list->n = 0;
    rshi_pieces_forget_after(s, mark);
    return RSH_OK;
}

bool rshi_edge_is_copy(const rshi_edge *e) {
    for (int64_t i = 0; i < e->nsrc; i++)
        if (rshi_edge_source(e, i) != e->dst->rank) return false;
    return true;
}

bool rshi_edge_reads(const rshi_edge *e, int64_t rank) {
    for (int64_t i = 0; i < e->nsrc; i++)
        if (rshi_edge_source(e, i) == rank) return true;
    return false;
}

void rshi_rank_edges_clear(rshi_rank_edges *s) {
    s->copies.n = s->receives.n = s->sends.n = 0;
    rshi_pieces_forget_after(s, (rshi_kept){0});
}

void rshi_rank_edges_free(rshi_rank_edges *s) {
    for (block *b = s->first, *next; b; b = next) {
        next = b->next;
        rshi_free_data(b, block_bytes(b->room));
    }
    rshi_relay_free(s->relay);
    rshi_wanted_free(s->wanted);
    rshi_free(s->near.first);
    rshi_free(s->copies.edge);
    rshi_free(s->receives.edge);
    rshi_free(s->sends.edge);
    *s = (rshi_rank_edges){0};
}

/* ---- all edges of a rank ---- */

rsh_status rshi_plan_edges(const rsh_plan *p, int64_t rank, rshi_rank_edges *s) {
    RSH_TRY(rshi_plan_receives(p, rank, s));
    return rshi_rank_edges_add_sends(p, s);
}

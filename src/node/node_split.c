/* Split of a node: the lowest rank of a colour makes the new board and sends its handle over the old board. */
#include "node/impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct offer {
    rsh_status status;
    rshi_handle board; /* handle of the new board of the rank's colour, if this rank made it */
} offer;

/* The ranks of one colour in the order of the new node. */
typedef struct circle {
    rshi_wish *list; /* owned */
    int size;
    int rank;  /* this rank's index */
    int maker; /* index of the rank that makes the board: the lowest of the old node */
} circle;

static int by_key(const void *a, const void *b) {
    const rshi_wish *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

int rshi_wishes_of(int size, const rshi_wish *all, int colour, rshi_wish *out) {
    int n = 0;
    for (int r = 0; r < size; r++)
        if (all[r].colour == colour) out[n++] = all[r];
    qsort(out, (size_t)n, sizeof *out, by_key);
    return n;
}

static rsh_status find_circle(const rshi_node *n, const rshi_wish *mine, circle *out) {
    out->list = rshi_alloc((size_t)n->size, sizeof *out->list);
    if (!out->list) return rshi_nomem();
    for (int r = 0; r < n->size; r++) memcpy(&out->list[r], rshi_node_block(n, r)->data, sizeof *out->list);
    out->size = rshi_wishes_of(n->size, out->list, mine->colour, out->list);
    for (int i = 0; i < out->size; i++) {
        if (out->list[i].rank == n->rank) out->rank = i;
        if (out->list[i].rank < out->list[out->maker].rank) out->maker = i;
    }
    return RSH_OK;
}

/* Makes this rank's node and, on the maker, the board. */
static rsh_status prepare_split(const rshi_node *n, const rshi_wish *mine, circle *around, rshi_node **made) {
    RSH_TRY(find_circle(n, mine, around));
    int *member = rshi_alloc((size_t)around->size, sizeof *member);
    for (int i = 0; member && i < around->size; i++) member[i] = n->member[around->list[i].rank];
    *made = rshi_node_new(n->world, around->rank, around->size, member, around->maker);
    if (!*made) return rshi_nomem();
    if (around->rank != around->maker) return RSH_OK;
    (*made)->board = rshi_board_new(n->world, around->size);
    return (*made)->board ? RSH_OK : rshi_nomem();
}

static offer read_offer(const rshi_node *n, int r) {
    offer o;
    memcpy(&o, rshi_node_block(n, r)->data, sizeof o);
    return o;
}

/* If ranks failed, all fail with the status of the lowest of them. */
static rsh_status agree_on_split(rshi_node *n, rsh_status prepared, const rshi_node *made) {
    offer mine = {.status = prepared};
    if (made && made->board) RSH_TRY(rshi_node_publish(n, made->board, &mine.board));
    RSH_TRY(rshi_node_round(n, &mine, sizeof mine));
    for (int r = 0; r < n->size; r++) {
        rsh_status status = read_offer(n, r).status;
        RSH_REQUIRE(!status, status, "split: rank %d ran out of memory", r);
    }
    return RSH_OK;
}

/* Frees the node of a failed split.  No other rank reads its board. */
static void discard_split(rshi_node *made) {
    if (made && made->board) atomic_store(&made->board->open, 1);
    rshi_node_free(made);
}

rsh_status rshi_node_split(rshi_node *n, int colour, int key, rsh_status mine, rshi_node **out) {
    rshi_node *made = NULL;
    rshi_wish wish = {colour, key, n->rank};
    circle around = {0};
    RSH_TRY(rshi_node_round(n, &wish, sizeof wish));
    if (!mine && colour >= 0) mine = prepare_split(n, &wish, &around, &made);
    rsh_status st = agree_on_split(n, mine, made);
    if (!st && made) {
        int maker = around.list[around.maker].rank;
        made->board = rshi_node_reach(n, maker, read_offer(n, maker).board);
        *out = made;
    }
    if (st) discard_split(made);
    rshi_free(around.list);
    return st;
}

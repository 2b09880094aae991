/* Group: makes a comm PyTorch's process group: a default group for each rank thread, its subgroups, and the group that
 * is currently entered.
 *
 * This state is thread-local, so that the ranks of one process do not interfere. */
#include "group/group.h"

#include <stdlib.h>

struct rsh_group {
    rsh_comm *comm;   /* owned by subgroups, borrowed by the default group; NULL: this rank is not a member */
    rsh_group *world; /* the default group of this group; the default group points to itself */
    int children;     /* only in the default group: number of subgroups */
    int64_t tensors;  /* only in the default group: number of tensors of this group and its subgroups */
    int n;            /* number of members */
    int *ranks;       /* owned: the members' global ranks, ascending; NULL: 0, 1, 2, ... */
};

static _Thread_local rsh_group *default_group;
static _Thread_local rsh_group *entered_group;

/* ---- the default group ---- */

rsh_status rsh_group_init(rsh_comm *world) {
    RSH_REQUIRE(world, RSH_EVALUE, "rsh_group_init: comm is NULL");
    RSH_REQUIRE(!default_group, RSH_ERUNTIME, "this rank already has a default group (%d ranks)",
                default_group->n);
    rsh_group *g = RSHI_NEW(rsh_group);
    if (!g) return rshi_nomem();
    *g = (rsh_group){.comm = world, .world = g, .n = rsh_comm_size(world)};
    default_group = g;
    return RSH_OK;
}

rsh_status rsh_group_destroy(void) {
    RSH_REQUIRE(default_group, RSH_ERUNTIME, "this rank has no default group; call rsh_group_init first");
    RSH_REQUIRE(!default_group->children, RSH_EBUSY, "cannot destroy the default group: it still has %d subgroups",
                default_group->children);
    RSH_REQUIRE(!default_group->tensors, RSH_EBUSY,
                "cannot destroy the default group: it is still used by %lld tensors",
                (long long)default_group->tensors);
    RSH_REQUIRE(!entered_group, RSH_EBUSY, "cannot destroy the default group while it is entered");
    rshi_free(default_group);
    default_group = NULL;
    return RSH_OK;
}

rsh_group *rsh_group_default(void) { return default_group; }

/* Returns g, or the default group for NULL.  RSH_ERUNTIME if there is none. */
static rsh_status resolve_group(rsh_group *g, rsh_group **out) {
    RSH_REQUIRE(g || default_group, RSH_ERUNTIME, "this rank has no default group; call rsh_group_init first");
    *out = g ? g : default_group;
    return RSH_OK;
}

rsh_status rshi_group_comm(rsh_group *g, rsh_comm **out) {
    RSH_TRY(resolve_group(g, &g));
    *out = g->comm;
    return RSH_OK;
}

rsh_group *rshi_group_add_tensor(rsh_group *g) {
    g->world->tensors++;
    return g->world;
}

void rshi_group_drop_tensor(rsh_group *world) { world->tensors--; }

/* ---- subgroups ---- */

static int compare_ranks(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static rsh_status check_members(const rsh_comm *world, int n, const int *sorted) {
    for (int i = 0; i < n; i++) {
        RSH_REQUIRE(sorted[i] >= 0 && sorted[i] < world->size, RSH_EVALUE,
                    "group names rank %d; the default group has ranks 0 to %d", sorted[i], world->size - 1);
        RSH_REQUIRE(!i || sorted[i] != sorted[i - 1], RSH_EVALUE, "group names rank %d more than once", sorted[i]);
    }
    return RSH_OK;
}

/* Creates a handle with sorted members, without a comm. */
static rsh_status make_handle(int n, const int *ranks, rsh_group **out) {
    RSH_REQUIRE(n >= 0 && (!n || ranks), RSH_EVALUE, "group: the number of ranks must not be negative, nor their "
                                                     "list NULL; got %d ranks%s", n, ranks ? "" : " (NULL)");
    rsh_group *g = RSHI_NEW(rsh_group);
    int *sorted = rshi_alloc((size_t)n, sizeof *sorted);
    if (!g || !sorted) {
        rshi_free(g);
        rshi_free(sorted);
        return rshi_nomem();
    }
    for (int i = 0; i < n; i++) sorted[i] = ranks[i];
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, compare_ranks);
    *g = (rsh_group){.world = default_group, .n = n, .ranks = sorted};
    *out = g;
    return RSH_OK;
}

static void handle_free(rsh_group *g) {
    if (!g) return;
    rshi_free(g->ranks);
    rshi_free(g);
}

/* Returns the rank of a global rank in the group; -1: not a member. */
static int find_member(const rsh_group *g, int global) {
    if (!g->ranks) return global >= 0 && global < g->n ? global : -1;
    const int *found = g->n ? bsearch(&global, g->ranks, (size_t)g->n, sizeof *g->ranks, compare_ranks) : NULL;
    return found ? (int)(found - g->ranks) : -1;
}

/* Fails unless all ranks pass the same members; the text is for the error message. */
static rsh_status agree_on_members(rsh_comm *world, const rsh_group *g, rsh_status mine) {
    rshi_text what = {0};
    rshi_text_add(&what, "ranks");
    for (int i = 0; g && i < g->n && what.length < RSHI_DETAIL_BYTES; i++)
        rshi_text_add(&what, i ? ", %d" : " %d", g->ranks[i]);
    if (!mine && what.failed) mine = rshi_nomem();
    uint64_t fingerprint = g ? rshi_hash(g->ranks, (size_t)g->n * sizeof *g->ranks, (uint64_t)g->n) : 0;
    rsh_status st = rshi_comm_open(world, "new group", fingerprint, what.data, mine);
    rshi_text_free(&what);
    return st;
}

rsh_status rsh_group_new(int n, const int *ranks, rsh_group **out) {
    rsh_comm *world = NULL;
    RSH_TRY(rshi_group_comm(NULL, &world));
    rsh_group *g = NULL;
    rsh_status st = out ? make_handle(n, ranks, &g) : rshi_fail(RSH_EVALUE, "new group: out is NULL");
    if (!st) st = check_members(world, n, g->ranks);
    RSH_GOTO(agree_on_members(world, g, st));
    RSH_GOTO(rsh_comm_split(world, find_member(g, world->rank) < 0 ? -1 : 0, world->rank, &g->comm));
    default_group->children++;
    *out = g;
    return RSH_OK;
out:
    handle_free(g);
    return st;
}

void rsh_group_free(rsh_group *g) {
    if (!g || g == g->world) return; /* rsh_group_destroy frees the default group */
    if (entered_group == g) entered_group = NULL;
    g->world->children--;
    rshi_comm_give_up(g->comm); /* tensors that are freed later may have execs on this comm */
    handle_free(g);
}

/* ---- getters ---- */

static const rsh_group *or_default(const rsh_group *g) { return g ? g : default_group; }

int rsh_group_rank(const rsh_group *g) {
    g = or_default(g);
    return g && g->comm ? g->comm->rank : -1;
}

int rsh_group_size(const rsh_group *g) {
    g = or_default(g);
    return g && g->comm ? g->n : -1;
}

rsh_comm *rsh_group_comm(const rsh_group *g) {
    g = or_default(g);
    return g ? g->comm : NULL;
}

static rsh_status require_member(const rsh_group **g, const int *out) {
    *g = or_default(*g);
    RSH_REQUIRE(*g, RSH_ERUNTIME, "this rank has no default group; call rsh_group_init first");
    RSH_REQUIRE(out, RSH_EVALUE, "rank of a group: out is NULL");
    RSH_REQUIRE((*g)->comm, RSH_ERUNTIME, "global rank %d is not a member of the group", (*g)->world->comm->rank);
    return RSH_OK;
}

rsh_status rsh_group_to_global(const rsh_group *g, int rank, int *out) {
    RSH_TRY(require_member(&g, out));
    RSH_REQUIRE(rank >= 0 && rank < g->n, RSH_ERUNTIME, "rank %d is out of range for a group of %d ranks", rank, g->n);
    *out = g->ranks ? g->ranks[rank] : rank;
    return RSH_OK;
}

rsh_status rsh_group_from_global(const rsh_group *g, int global, int *out) {
    RSH_TRY(require_member(&g, out));
    int rank = find_member(g, global);
    RSH_REQUIRE(rank >= 0, RSH_ERUNTIME, "global rank %d is not in the group of %d ranks", global, g->n);
    *out = rank;
    return RSH_OK;
}

/* ---- the entered group ---- */

/* While a group is entered no other can be, so there is at most one, and leaving needs no stack. */
rsh_status rsh_group_enter(rsh_group *g) {
    RSH_REQUIRE(!entered_group, RSH_ERUNTIME, "a group of %d ranks is already entered; leave it first",
                entered_group->n);
    RSH_REQUIRE(!g || g->world == default_group, RSH_EVALUE, "the group belongs to another rank of this process");
    entered_group = g;
    return RSH_OK;
}

void rsh_group_leave(void) { entered_group = NULL; }

rsh_status rsh_group_within(rsh_group *g, rsh_status (*fn)(void *ctx, rsh_group *g), void *ctx) {
    RSH_REQUIRE(fn, RSH_EVALUE, "rsh_group_within: fn is NULL");
    RSH_TRY(rsh_group_enter(g));
    rsh_status st = fn(ctx, g);
    rsh_group_leave();
    return st;
}

rsh_status rsh_group_current(rsh_group **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "current group: out is NULL");
    RSH_REQUIRE(entered_group || default_group, RSH_ERUNTIME,
                "this rank has no current group: none is entered and there is no default group; call rsh_group_init "
                "first");
    *out = entered_group ? entered_group : default_group;
    return RSH_OK;
}

/* Nodes of a comm on a wire: finds the ranks that can share memory.
 *
 * Every rank states its location as a number; ranks with equal numbers may share memory.  They then try to form a node
 * of processes.  If one of them fails, each rank of that node becomes a separate node.  All decisions are exchanged
 * over the wire, so all ranks compute the same map. */
#include "comm/impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PROBING 30.0 /* seconds in which ranks that may share a node must have found one another */

typedef struct introduction {
    uint64_t where;
    uint64_t nonce; /* identifies this comm and rank on the machine */
} introduction;

typedef struct search {
    rshi_link *link;
    introduction *all; /* [size], owned: the introductions of all ranks */
    int64_t *node;     /* [size], owned: lowest rank of each rank's node */
    int64_t *status;   /* [size], owned: the result of each rank */
    rshi_node *near;
} search;

/* ---- the location of this rank ---- */

static uint64_t hash_text(const char *text, uint64_t seed) { return rshi_hash(text, strlen(text), seed); }

/* The boot id identifies the kernel.  Processes share memory through a socket, which cannot be reached from another
 * network namespace. */
static uint64_t find_where(const rsh_wire *wire) {
    char boot[64] = "", net[64] = "";
    const char *node = getenv("RESHARD_NODE");
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, boot, sizeof boot - 1) < 0) boot[0] = 0;
    if (fd >= 0) close(fd);
    if (readlink("/proc/self/ns/net", net, sizeof net - 1) < 0) net[0] = 0;
    uint64_t kernel = hash_text(net, hash_text(boot, 0));
    return node && *node ? hash_text(node, kernel) : rshi_hash(&wire->host, sizeof wire->host, kernel);
}

static uint64_t make_nonce(void) {
    uint64_t words[3] = {(uint64_t)getpid(), (uint64_t)(rshi_seconds() * 1e9), 0};
    /* without random numbers, pid and time distinguish the ranks */
    if (getrandom(&words[2], sizeof words[2], 0) < 0) words[2] = (uintptr_t)&words;
    return rshi_hash(words, sizeof words, 0);
}

/* ---- the locations of all ranks ---- */

/* The lowest rank with the same location. */
static int64_t lowest_of(const search *s, int rank) {
    int r = 0;
    while (s->all[r].where != s->all[rank].where) r++;
    return r;
}

static rsh_status exchange_locations(search *s) {
    int size = s->link->wire.size;
    introduction mine = {find_where(&s->link->wire), make_nonce()};
    s->all = rshi_calloc((size_t)size, sizeof *s->all);
    s->node = rshi_calloc((size_t)size, sizeof *s->node);
    s->status = rshi_calloc((size_t)size, sizeof *s->status);
    if (!s->all || !s->node || !s->status) return rshi_nomem();
    RSH_TRY(rshi_link_allgather(s->link, &mine, s->all, sizeof mine));
    for (int r = 0; r < size; r++) s->node[r] = lowest_of(s, r);
    return RSH_OK;
}

/* ---- forming nodes ---- */

/* Prepares this rank's part of its node. */
static rsh_status prepare_node(const search *s, rshi_node **out) {
    const rsh_wire *wire = &s->link->wire;
    int place = 0, size = 0;
    for (int r = 0; r < wire->size; r++) {
        if (s->node[r] != s->node[wire->rank]) continue;
        place += r < wire->rank;
        size++;
    }
    return rshi_processes_prepare(place, size, out);
}

/* Joins the node.  The other ranks of the comm wait meanwhile, so this must not use up the timeout: it takes at most
 * slightly more than twice `most`. */
static rsh_status join_node(const search *s, rshi_node *n, rshi_node **out) {
    const introduction *host = &s->all[s->node[s->link->wire.rank]];
    double most = s->link->patience.timeout / 3;
    char job[64];
    snprintf(job, sizeof job, "wire %016llx %016llx", (unsigned long long)host->nonce, (unsigned long long)host->where);
    RSH_TRY(rshi_processes_join(n, job, most < PROBING ? most : PROBING));
    *out = n;
    return RSH_OK;
}

/* Divides every node in which a rank failed into nodes of one rank.  Takes the status of the lowest rank of such a
 * node.  Returns whether this rank's node was divided. */
static bool dissolve_nodes(search *s) {
    int size = s->link->wire.size;
    for (int r = 0; r < size; r++)
        if (s->status[r]) s->status[s->node[r]] = s->status[r];
    bool mine = s->status[s->node[s->link->wire.rank]];
    for (int r = 0; r < size; r++)
        if (s->status[s->node[r]]) s->node[r] = r;
    return mine;
}

static rsh_status exchange_status(search *s, rsh_status mine) {
    int64_t status = mine;
    return rshi_link_allgather(s->link, &status, s->status, sizeof status);
}

/* Forms this rank's node.  If a rank could not prepare, the others do not wait for it. */
static rsh_status find_near(search *s) {
    rshi_node *n = NULL;
    rsh_status prepared = prepare_node(s, &n), st = exchange_status(s, prepared);
    if (st || dissolve_nodes(s)) {
        rshi_node_free(n);
        n = NULL;
        RSH_TRY(st);
        prepared = prepare_node(s, &n); /* this rank is alone on its node */
    }
    RSH_TRY(exchange_status(s, prepared ? prepared : join_node(s, n, &s->near)));
    if (!dissolve_nodes(s)) return RSH_OK;
    rshi_node_free(s->near);
    s->near = NULL;
    RSH_TRY(prepare_node(s, &n));
    return join_node(s, n, &s->near);
}

/* ---- the comm ---- */

/* A rank that cannot continue tells the others, and all fail. */
static rsh_status make_comm(search *s, rsh_comm **made) {
    RSH_TRY(exchange_locations(s));
    rsh_status st = find_near(s);
    if (st == RSH_EPEER || st == RSH_ETIMEOUT) return st;
    if (!st) st = rshi_comm_on_link(s->link, s->near, s->node, made);
    return rshi_link_agree(s->link, st, s->status);
}

static void discard_comm(search *s, rsh_comm *made, rsh_status why) {
    char detail[RSHI_DETAIL_BYTES];
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    rshi_link_leave(s->link, why, detail);
    if (made) {
        rsh_comm_free(made);
    } else {
        rshi_link_close(s->link);
        rshi_node_free(s->near);
    }
    rshi_set_detail(detail);
}

static rsh_status check_wire(const rsh_wire *w) {
    RSH_REQUIRE(w->size >= 1 && w->rank >= 0 && w->rank < w->size, RSH_EVALUE,
                "wire has rank %d of %d: expected 0 <= rank < size", w->rank, w->size);
    RSH_REQUIRE(w->send && w->recv && w->test && w->cancel && w->probe && w->split, RSH_EVALUE,
                "wire must set send, recv, test, cancel, probe and split; at least one is NULL");
    return RSH_OK;
}

rsh_status rsh_comm_wire(const rsh_wire *wire, rsh_comm **out) {
    RSH_REQUIRE(wire && wire->close, RSH_EVALUE, "wire is NULL or has no close function");
    search s = {0};
    rsh_comm *made = NULL;
    rsh_status st = check_wire(wire);
    if (st) {
        wire->close(wire->ctx, false);
        return st;
    }
    RSH_TRY(rshi_link_new(wire, &s.link));
    st = out ? make_comm(&s, &made) : rshi_fail(RSH_EVALUE, "comm on a wire: out is NULL");
    if (st)
        discard_comm(&s, made, st);
    else
        *out = made;
    rshi_free(s.all);
    rshi_free(s.node);
    rshi_free(s.status);
    return st;
}

/* Comm: the public functions, the same for every engine.  They check arguments, agree with the other ranks, and call
 * the engine. */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

#include "comm/reduce.h"

#define SMALL_BLOCK ((size_t)4096) /* bytes per rank that the engine's allgather accepts */

static rsh_status check_idle(const rsh_comm *c) {
    return c->attached ? c->attached_ops->check_idle(c->attached) : RSH_OK;
}

rsh_status rsh_comm_free(rsh_comm *comm) {
    if (!comm) return RSH_OK;
    RSH_TRY(rshi_comm_own(comm));
    RSH_TRY(check_idle(comm));
    if (comm->attached) comm->attached_ops->free(comm->attached);
    comm->ops->leave(comm, RSH_OK, "");
    comm->ops->close(comm);
    return RSH_OK;
}

rsh_status rsh_comm_fail(rsh_comm *comm, rsh_status status, const char *sentence) {
    RSH_REQUIRE(comm && sentence, RSH_EVALUE, "comm_fail: %s must not be NULL", comm ? "sentence" : "comm");
    RSH_TRY(rshi_comm_own(comm));
    RSH_REQUIRE(status != RSH_OK && (unsigned)status <= RSH_EBUSY, RSH_EVALUE,
                "comm_fail: status must be a failure, got %d", (int)status);
    rsh_fail(status, sentence);
    rshi_comm_abandon(comm, status);
    return RSH_OK;
}

void rshi_comm_give_up(rsh_comm *c) {
    if (c && check_idle(c))
        c->given_up = true;
    else
        rsh_comm_free(c);
}

void rshi_comm_client_gone(rsh_comm *c) {
    if (c->given_up && !check_idle(c)) rsh_comm_free(c);
}

int rsh_comm_rank(const rsh_comm *comm) { return comm ? comm->rank : -1; }
int rsh_comm_size(const rsh_comm *comm) { return comm ? comm->size : 0; }
const char *rsh_comm_engine(const rsh_comm *comm) { return comm ? comm->ops->name : NULL; }

int rsh_comm_nnodes(const rsh_comm *c) {
    int64_t last = 0;
    if (!c) return 0;
    for (int r = 0; c->node && r < c->size; r++) last = rshi_max(last, c->node[r]);
    return (int)last + 1;
}

int rsh_comm_node(const rsh_comm *c, int rank) {
    if (!c) return -1;
    return c->node && rank >= 0 && rank < c->size ? (int)c->node[rank] : 0;
}

static rsh_status require_comm(const rsh_comm *comm) {
    RSH_REQUIRE(comm, RSH_EVALUE, "comm is NULL");
    return RSH_OK;
}

rsh_status rsh_comm_barrier(rsh_comm *comm) {
    RSH_TRY(require_comm(comm));
    return rshi_comm_open(comm, "barrier", 0, NULL, RSH_OK);
}

rsh_status rsh_comm_agree(rsh_comm *comm, rsh_status mine) {
    RSH_TRY(require_comm(comm));
    if ((unsigned)mine > RSH_EBUSY) mine = rshi_fail(RSH_EVALUE, "agree: %d is not a status", (int)mine);
    return rshi_comm_open(comm, "agree", 0, NULL, mine);
}

/* ---- allgather ---- */

static rsh_status check_allgather(const rsh_comm *c, const void *mine, const void *all, size_t bytes) {
    size_t total;
    RSH_REQUIRE(!bytes || (mine && all), RSH_EVALUE, "allgather of %zu bytes: %s is NULL", bytes,
                mine ? "all" : "mine");
    RSH_REQUIRE(!__builtin_mul_overflow(bytes, (size_t)c->size, &total), RSH_EVALUE,
                "allgather: %zu bytes from each of %d ranks are too many", bytes, c->size);
    return RSH_OK;
}

/* Lists the messages of an allgather; `lists` has 2*size entries: the sends, then the receives. */
static void list_blocks(const rsh_comm *c, const void *mine, void *all, size_t bytes, rsh_message *lists) {
    for (int r = 0; r < c->size; r++) {
        lists[r] = (rsh_message){r, (void *)mine, bytes};
        lists[c->size + r] = (rsh_message){r, (char *)all + (size_t)r * bytes, bytes};
    }
}

static rsh_status allgather_large(rsh_comm *c, const void *mine, void *all, size_t bytes, rsh_message *lists) {
    list_blocks(c, mine, all, bytes, lists);
    return c->ops->exchange(c, c->size, lists, c->size, lists + c->size);
}

rsh_status rsh_comm_allgather(rsh_comm *comm, const void *mine, void *all, size_t bytes) {
    RSH_TRY(require_comm(comm));
    rsh_message *lists = NULL;
    bool large = bytes > SMALL_BLOCK;
    rsh_status st = check_allgather(comm, mine, all, bytes);
    if (!st && large) {
        lists = rshi_alloc(2 * (size_t)comm->size, sizeof *lists);
        if (!lists) st = rshi_nomem();
    }
    char what[32];
    snprintf(what, sizeof what, "%zu bytes", bytes);
    RSH_GOTO(rshi_comm_open(comm, "allgather", bytes, what, st));
    st = large ? allgather_large(comm, mine, all, bytes, lists) : comm->ops->allgather(comm, mine, all, bytes);
    rshi_comm_verdict(comm, st);
out:
    rshi_free(lists);
    return st;
}

/* ---- allreduce ---- */

/* Returns the number of elements in a round.  It limits the size of blocks, and the bytes that all ranks together send
 * to one. */
static int64_t round_count(const rsh_comm *c, rsh_dtype dtype) {
    int64_t bytes = rshi_min(rshi_max(65536 / c->size, 256), (int64_t)SMALL_BLOCK);
    return bytes / (int64_t)rsh_dtype_size(dtype);
}

static rsh_status check_allreduce(const void *mine, const void *result, int64_t count, rsh_dtype dtype, rsh_op op) {
    int64_t bytes;
    RSH_TRY(rshi_reduce_check(op, dtype));
    RSH_REQUIRE(count >= 0 && rshi_mul(count, (int64_t)rsh_dtype_size(dtype), &bytes), RSH_EVALUE,
                "allreduce: count must be 0 or more and fit in 2^63 bytes, got %lld", (long long)count);
    RSH_REQUIRE(!count || (mine && result), RSH_EVALUE, "allreduce of %lld elements: %s is NULL", (long long)count,
                mine ? "result" : "mine");
    return RSH_OK;
}

/* Every rank reduces all elements: suitable for the few numbers that ranks agree on, not for tensors. */
static rsh_status allreduce_rounds(rsh_comm *c, const void *mine, void *result, int64_t count, rsh_dtype dtype,
                                   rsh_op op, void *blocks) {
    size_t item = rsh_dtype_size(dtype);
    int64_t step = round_count(c, dtype);
    for (int64_t i = 0; i < count; i += step) {
        int64_t n = rshi_min(step, count - i);
        size_t at = (size_t)i * item;
        RSH_TRY(c->ops->allgather(c, (const char *)mine + at, blocks, (size_t)n * item));
        rshi_reduce(op, dtype, c->size, n, blocks, (char *)result + at);
    }
    return RSH_OK;
}

rsh_status rsh_comm_allreduce(rsh_comm *comm, const void *mine, void *result, int64_t count, rsh_dtype dtype,
                              rsh_op op) {
    RSH_TRY(require_comm(comm));
    void *blocks = NULL;
    rsh_status st = check_allreduce(mine, result, count, dtype, op);
    if (!st) {
        int64_t n = rshi_min(count, round_count(comm, dtype));
        blocks = rshi_alloc((size_t)n * (size_t)comm->size, rsh_dtype_size(dtype));
        if (!blocks) st = rshi_nomem();
    }
    const int64_t asked[3] = {count, dtype, op};
    char what[64];
    snprintf(what, sizeof what, "%s of %lld %s", rsh_op_name(op), (long long)count, rsh_dtype_name(dtype));
    RSH_GOTO(rshi_comm_open(comm, "allreduce", rshi_hash(asked, sizeof asked, 0), what, st));
    RSH_GOTO(rshi_comm_verdict(comm, allreduce_rounds(comm, mine, result, count, dtype, op, blocks)));
out:
    rshi_free(blocks);
    return st;
}

/* ---- exchange and split ---- */

static rsh_status check_messages(const rsh_comm *c, const char *kind, int64_t n, const rsh_message *list) {
    RSH_REQUIRE(n >= 0 && (!n || list), RSH_EVALUE, "exchange: the number of messages must not be negative, nor "
                                                    "their list NULL; got %lld %ss at %p", (long long)n, kind,
                (const void *)list);
    for (int64_t i = 0; i < n; i++) {
        RSH_REQUIRE(list[i].peer >= 0 && list[i].peer < c->size, RSH_EVALUE,
                    "exchange: %s %lld names rank %d, but the comm has %d ranks",
                    kind, (long long)i, list[i].peer, c->size);
        RSH_REQUIRE(!list[i].bytes || list[i].data, RSH_EVALUE,
                "exchange: %s %lld has %zu bytes, but its data is NULL",
                    kind, (long long)i,
                    list[i].bytes);
    }
    return RSH_OK;
}

rsh_status rsh_comm_exchange(rsh_comm *comm, int64_t nsend, const rsh_message *send, int64_t nrecv,
                             const rsh_message *recv) {
    RSH_TRY(require_comm(comm));
    rsh_status st = check_messages(comm, "send", nsend, send);
    if (!st) st = check_messages(comm, "receive", nrecv, recv);
    RSH_TRY(rshi_comm_open(comm, "exchange", 0, NULL, st));
    return rshi_comm_verdict(comm, comm->ops->exchange(comm, nsend, send, nrecv, recv));
}

rsh_status rsh_comm_split(rsh_comm *comm, int colour, int key, rsh_comm **out) {
    RSH_TRY(require_comm(comm));
    rsh_status st = out ? RSH_OK : rshi_fail(RSH_EVALUE, "split: out is NULL");
    RSH_TRY(rshi_comm_open(comm, "split", 0, NULL, st));
    return rshi_comm_verdict(comm, comm->ops->split(comm, colour, key, out));
}

/* The move with reshard: a bound exec on the engines shm and mpi, in the library's memory and in the caller's. */
#include "peers.h"

#include <reshard.h>
#include <reshard/mpi.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct bound {
    rsh_comm *comm;
    rsh_layout *from, *to;
    rsh_plan *plan;
    rsh_sharded *src, *dst; /* NULL: the caller's memory */
    rsh_exec *exec;
} bound;

static void must(rsh_status st) {
    if (st) peers_end(rsh_error_detail());
}

static rsh_layout *layout(const char *form, const move *m) {
    char text[128];
    rsh_layout *l;
    snprintf(text, sizeof text, form, (long long)m->n, (long long)m->n, m->ranks);
    must(rsh_layout_parse(text, &l));
    return l;
}

static uint32_t *part(const rsh_sharded *s) { return rsh_tensor_data(rsh_sharded_part(s, 0)); }

static bool open_on(contestant *c, const move *m, rsh_comm *comm, bool caller) {
    bound *b = calloc(1, sizeof *b);
    *b = (bound){
        .comm = comm, .from = layout("f32[%lld/x, %lld] on x=%d", m), .to = layout("f32[%lld, %lld/x] on x=%d", m)};
    must(rsh_plan_new(b->from, b->to, NULL, &b->plan));
    c->move = m, c->src = m->src, c->dst = m->dst, c->state = b;
    if (!caller) {
        must(rsh_sharded_zeros(comm, b->from, &b->src));
        must(rsh_sharded_zeros(comm, b->to, &b->dst));
        c->src = part(b->src), c->dst = part(b->dst);
    }
    must(rsh_exec_bind(b->plan, comm, &(rsh_memory){c->src, NULL}, &(rsh_memory){c->dst, NULL}, &b->exec));
    return true;
}

static rsh_comm *join(void) {
    rsh_comm *comm;
    must(rsh_comm_join(&comm));
    return comm;
}

static bool open_shm(contestant *c, const move *m) { return open_on(c, m, join(), false); }
static bool open_shm_caller(contestant *c, const move *m) { return open_on(c, m, join(), true); }

static void run_bound(contestant *c) { must(rsh_exec_run(((bound *)c->state)->exec)); }

static void close_bound(contestant *c) {
    bound *b = c->state;
    rsh_exec_free(b->exec);
    rsh_sharded_free(b->src);
    rsh_sharded_free(b->dst);
    rsh_plan_free(b->plan);
    rsh_layout_free(b->from);
    rsh_layout_free(b->to);
    must(rsh_comm_free(b->comm));
    free(b);
}

const contestant ours_shm = {
    .name = "reshard, engine shm", .ours = true, .open = open_shm, .run = run_bound, .close = close_bound};
const contestant ours_shm_caller = {.name = "reshard, shm, caller's memory",
                                    .ours = true,
                                    .open = open_shm_caller,
                                    .run = run_bound,
                                    .close = close_bound};

static bool open_mpi(contestant *c, const move *m) {
    rsh_comm *comm;
    must(rsh_comm_mpi(MPI_COMM_WORLD, &comm));
    return open_on(c, m, comm, false);
}
const contestant ours_mpi = {
    .name = "reshard, engine mpi", .ours = true, .open = open_mpi, .run = run_bound, .close = close_bound};

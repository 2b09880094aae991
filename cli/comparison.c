/* Comparison: measures memcpy, the fastest loop and the move in alternation.  Rank 0 measures the references while the
 * other ranks sleep at the barrier, then releases them for a round of moves. */
#include "comparison.h"
#include "progress.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LEAST_ROUNDS 15
#define MOST_ROUNDS 1000
#define LEAST_TOTAL 0.2    /* seconds of all rounds together, at least */
#define LEAST_SAMPLE 200e-6 /* seconds of one round, at least; shorter moves are repeated within a round */
#define MOST_BATCH 100000

/* ---- one rank ---- */

static rsh_memory *memory_of(const rsh_sharded *s) {
    int64_t n = rsh_sharded_nparts(s);
    rsh_memory *m = calloc((size_t)n + 1, sizeof *m);
    for (int64_t i = 0; m && i < n; i++) {
        const rsh_tensor *t = rsh_sharded_part(s, i);
        m[i] = (rsh_memory){rsh_tensor_data(t), rsh_tensor_strides(t)};
    }
    return m;
}

static void poison_destination(const runner *r) {
    size_t size = rsh_dtype_size(rsh_layout_dtype(rsh_sharded_layout(r->dst)));
    for (int64_t i = 0; i < rsh_sharded_nparts(r->dst); i++)
        memset(r->dst_memory[i].data, 0xa5, (size_t)rsh_tensor_count(rsh_sharded_part(r->dst, i)) * size);
}

static rsh_status allocate_tensors(const comparison *c, runner *r, rsh_comm *comm) {
    rsh_status st = rsh_sharded_empty(comm, c->pair->from, &r->src);
    if (!st) st = rsh_sharded_empty(comm, c->pair->to, &r->dst);
    if (st) return st;
    r->src_memory = memory_of(r->src);
    r->dst_memory = memory_of(r->dst);
    return r->src_memory && r->dst_memory ? RSH_OK : RSH_ENOMEM;
}

/* Opens the references.  They use all cores, although launchers may pin a rank to a core or two. */
static rsh_status open_reference(comparison *c, rsh_comm *comm) {
    cpu_set_t tied, all;
    bool known = c->comm && !sched_getaffinity(0, sizeof tied, &tied);
    memset(&all, -1, sizeof all);
    if (known) sched_setaffinity(0, sizeof all, &all);
    rsh_status st = reference_open(&c->reference, c->bytes);
    if (!st) st = fastest_open(&c->fastest, c->reference.pool, comm, c->sources, c->bytes);
    if (known) sched_setaffinity(0, sizeof tied, &tied);
    return st;
}

/* Allocates memory and binds.  Touches all memory, so that no page fault falls into a timed round. */
static rsh_status prepare_rank(comparison *c, runner *r, rsh_comm *comm) {
    int rank = rsh_comm_rank(comm);
    r->comm = comm;
    rsh_status st = allocate_tensors(c, r, comm);
    for (int64_t i = 0; !st && i < rsh_sharded_nparts(r->src); i++)
        st = pattern_fill(&c->source, rank, i, r->src_memory[i].data);
    if (!st) poison_destination(r);
    if (!st && !rank) st = open_reference(c, comm);
    st = rsh_comm_agree(comm, st);
    return st ? st : rsh_exec_bind(c->plan, comm, r->src_memory, r->dst_memory, &r->exec);
}

static void free_runner(runner *r) {
    rsh_exec_free(r->exec);
    rsh_sharded_free(r->src);
    rsh_sharded_free(r->dst);
    free(r->src_memory);
    free(r->dst_memory);
}

static rsh_status check_elements(const comparison *c, runner *r, int rank) {
    rsh_status st = RSH_OK;
    for (int64_t i = 0; !st && i < rsh_sharded_nparts(r->dst); i++)
        st = pattern_check(&c->result, rank, i, r->dst_memory[i].data, &r->fault);
    return st;
}

/* Runs the move.  The references have evicted its data from the caches, so it first runs once without being timed. */
static rsh_status run_batch(comparison *c, runner *r) {
    if (c->phase == PHASE_RUN_POISONED) poison_destination(r);
    rsh_status st = rsh_exec_run(r->exec);
    if (st) return st;
    if (c->comm)
        st = rsh_comm_barrier(c->comm); /* all ranks are awake now */
    else
        barrier_start(&c->barrier);
    double start = c->comm ? clock_seconds() : 0;
    for (int64_t b = 0; !st && b < c->batch; b++) st = rsh_exec_run(r->exec);
    r->end = clock_seconds() - start;
    return st;
}

/* The record that a launched rank sends to the others. */
typedef struct word {
    int64_t phase, batch;
    double end;
    pattern_fault fault;
} word;

/* Distributes the decisions of rank 0 and the results of all ranks. */
static rsh_status exchange_words(comparison *c, const runner *r) {
    word mine = {c->phase, c->batch, r->end, r->fault};
    rsh_status st = rsh_comm_allgather(c->comm, &mine, c->words, sizeof mine);
    if (st) return st;
    c->phase = (bench_phase)c->words[0].phase;
    c->batch = c->words[0].batch;
    for (int i = 0; i < c->nranks; i++) {
        c->runner[i].end = c->words[i].end;
        c->runner[i].fault = c->words[i].fault;
    }
    return RSH_OK;
}

/* Waits for all ranks.  A process that dies is noticed by its comm, not by the barrier. */
static rsh_status synchronise(comparison *c, const runner *r) {
    if (c->comm) return exchange_words(c, r);
    if (c->processes) return rsh_comm_barrier(r->comm);
    return barrier_wait(&c->barrier) ? RSH_OK : RSH_EPEER;
}

/* Runs one round of a rank, between two synchronizations.  Rank 0 may change the phase only outside of them. */
static rsh_status take_part(comparison *c, int rank, bool *stopped) {
    runner *r = &c->runner[rank];
    rsh_status st = synchronise(c, r);
    *stopped = c->phase == PHASE_STOP;
    if (st || *stopped) return st;
    st = c->phase == PHASE_CHECK ? check_elements(c, r, rank) : run_batch(c, r);
    return st ? st : synchronise(c, r);
}

static rsh_status follow_rank0(comparison *c, int rank) {
    bool stopped = false;
    rsh_status st = RSH_OK;
    while (!st && !stopped) st = take_part(c, rank, &stopped);
    return st;
}

/* ---- rank 0 ---- */

static rsh_status run_phase(comparison *c, bench_phase phase) {
    bool stopped;
    c->phase = phase;
    return take_part(c, 0, &stopped);
}

/* Measures the seconds of one move, from the common start to the end of the last rank. */
static rsh_status sample_move(comparison *c, bench_phase phase, double *seconds) {
    rsh_status st = run_phase(c, phase);
    double end = 0;
    for (int r = 0; r < c->nranks; r++) end = fmax(end, c->runner[r].end);
    *seconds = (end - c->barrier.started) / (double)c->batch;
    return st;
}

static int64_t batch_for(double seconds) {
    double n = ceil(LEAST_SAMPLE / fmax(seconds, 1e-9));
    return n < 1 ? 1 : n > MOST_BATCH ? MOST_BATCH : (int64_t)n;
}

/* Chooses the number of moves per round.  The first moves are slower than the rest; a longer batch then gives a more
 * precise time. */
static rsh_status choose_batch(comparison *c, double *seconds) {
    rsh_status st = RSH_OK;
    double least = INFINITY;
    c->batch = 1;
    for (int i = 0; !st && i < 3; i++) {
        st = sample_move(c, PHASE_RUN, seconds);
        least = fmin(least, *seconds);
    }
    for (int i = 0; !st && i < 2 && batch_for(least) > 1; i++) {
        c->batch = batch_for(least);
        st = sample_move(c, PHASE_RUN, seconds);
        least = *seconds;
    }
    *seconds = least;
    return st;
}

static int64_t count_rounds(const comparison *c, double seconds) {
    if (c->repeat) return c->repeat;
    double n = ceil(LEAST_TOTAL / fmax(seconds * (double)c->batch, 1e-9));
    return n < LEAST_ROUNDS ? LEAST_ROUNDS : n > MOST_ROUNDS ? MOST_ROUNDS : (int64_t)n;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list, int64_t n) {
    qsort(list, (size_t)n, sizeof *list, by_size);
    return n % 2 ? list[n / 2] : (list[n / 2 - 1] + list[n / 2]) / 2;
}

static uint64_t batch_bytes(const comparison *c) { return (uint64_t)c->batch * c->bytes; }

/* Measures memcpy, the fastest pass and the move.  The speed of the machine varies, so the move is compared with the
 * pass of the same round. */
static rsh_status run_round(comparison *c, bench_phase phase, double *rate, double *fraction) {
    double seconds;
    c->memcpy_seconds = fmin(c->memcpy_seconds, reference_sample(&c->reference, c->batch));
    progress_add(batch_bytes(c));
    *rate = fastest_bytes(&c->fastest) / fmax(fastest_sample(&c->fastest, c->batch), 1e-9);
    progress_add(batch_bytes(c));
    rsh_status st = sample_move(c, phase, &seconds);
    if (st) return st;
    progress_add(batch_bytes(c));
    c->seconds = fmin(c->seconds, seconds);
    *fraction = (double)(c->bytes_read + c->bytes) / *rate / fmax(seconds, 1e-9);
    return RSH_OK;
}

static rsh_status run_rounds(comparison *c, int64_t rounds) {
    double *rate = calloc(2 * (size_t)rounds, sizeof *rate), *fraction = rate + rounds;
    rsh_status st = rate ? RSH_OK : RSH_ENOMEM;
    c->seconds = c->memcpy_seconds = INFINITY;
    progress_begin("bench: alternating memcpy, stream and the move", 3 * (uint64_t)rounds * batch_bytes(c));
    for (int64_t i = 1; !st && i <= rounds; i++)
        st = run_round(c, i < rounds ? PHASE_RUN : PHASE_RUN_POISONED, &rate[i - 1], &fraction[i - 1]);
    progress_begin("bench: checking every element", 0);
    if (!st) {
        c->stream_rate = median(rate, rounds);
        c->stream_fraction = median(fraction, rounds);
        c->stream_name = fastest_name(&c->fastest);
    }
    free(rate);
    return st;
}

static rsh_status lead_rounds(comparison *c) {
    double seconds;
    rsh_status st = choose_batch(c, &seconds);
    if (!st) st = run_rounds(c, count_rounds(c, seconds));
    if (!st) st = run_phase(c, PHASE_CHECK);
    return st ? st : run_phase(c, PHASE_STOP);
}

/* ---- all ranks ---- */

/* Runs a rank.  The memory of a failed rank is not freed, because other ranks may be reading it.  Launched ranks keep
 * it mapped as long as they need it. */
static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    comparison *c = ctx;
    int rank = rsh_comm_rank(comm);
    rsh_status st = prepare_rank(c, &c->runner[rank], comm);
    if (!st) st = rank ? follow_rank0(c, rank) : lead_rounds(c);
    if (st && !c->comm) {
        if (!c->processes) barrier_break(&c->barrier);
        return st;
    }
    free_runner(&c->runner[rank]);
    if (!rank) fastest_close(&c->fastest);
    if (!rank) reference_close(&c->reference);
    return st;
}

static void collect_faults(comparison *c) {
    for (int r = c->nranks - 1; r >= 0; r--) {
        const pattern_fault *f = &c->runner[r].fault;
        if (f->count) c->fault = (pattern_fault){c->fault.count + f->count, f->rank, f->index};
    }
}

/* Allocates zeroed memory that forked processes share. */
static void *map_shared(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static rsh_status run_launched(comparison *c) {
    c->words = calloc((size_t)c->nranks, sizeof *c->words);
    rsh_status st = rsh_comm_agree(c->comm, c->words ? RSH_OK : RSH_ENOMEM);
    if (!st) st = rank_main(c, c->comm);
    if (!st) collect_faults(c);
    free(c->words);
    return st;
}

/* Runs on a copy of the comparison that all ranks share. */
static rsh_status run_shared(comparison *c) {
    comparison *shared = map_shared(sizeof *shared);
    if (!shared) return RSH_ENOMEM;
    *shared = *c;
    barrier_init(&shared->barrier, c->nranks);
    rsh_status st = (c->processes ? rsh_run_shm : rsh_run)(c->nranks, rank_main, shared);
    if (!st) {
        collect_faults(shared);
        c->seconds = shared->seconds;
        c->memcpy_seconds = shared->memcpy_seconds;
        c->stream_rate = shared->stream_rate;
        c->stream_fraction = shared->stream_fraction;
        c->stream_name = shared->stream_name; /* static data has the same address in a forked rank */
        c->fault = shared->fault;
    }
    munmap(shared, sizeof *shared);
    return st;
}

rsh_status comparison_run(comparison *c) {
    int64_t n = layout_pair_group(c->pair);
    if (n > INT32_MAX) return RSH_EUNSUP;
    c->nranks = n < 1 ? 1 : (int)n;
    size_t bytes = (size_t)c->nranks * sizeof *c->runner;
    c->runner = map_shared(bytes);
    progress_begin("bench: filling memory and trying loops", 0);
    bool ready = c->runner && pattern_source(&c->source, c->pair) && pattern_result(&c->result, c->pair);
    rsh_status st = ready ? RSH_OK : RSH_ENOMEM;
    if (c->comm) st = rsh_comm_agree(c->comm, st);
    if (!st) st = c->comm ? run_launched(c) : run_shared(c);
    pattern_free(&c->source);
    pattern_free(&c->result);
    if (c->runner) munmap(c->runner, bytes);
    progress_end();
    return st;
}

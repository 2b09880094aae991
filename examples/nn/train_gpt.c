/* Trains a GPT-style character model, tensor-parallel on 1, 2 and 4 ranks, and prints the memory kept for backward.
 *
 *     train_gpt [--full] [--f64] [--steps N] [--ranks N] [--time] [--svg FILE]   ranks are threads: 1, 2 and 4, or N
 *     reshard run -n 4 train_gpt --join ...                                      ranks are processes of this machine
 *     mpirun -n 4 train_gpt --mpi ...                                            ranks are those of MPI
 *
 * The program generates its own text.  Query, key, value and "up" are cut by columns, "out" and "down" by rows, and the
 * vocabulary over all ranks; everything else is replicated.  Each model is trained twice: without and with
 * rsh_input_reshard, which keeps only one chunk per rank of every replicated tensor for backward.  Losses are bit for
 * bit the same.  --full uses 4 layers of width 256 with 8 heads, 256 characters per row and 8 rows; the default is
 * small.  --time alternates steps of both and prints the best times. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <reshard.h>
#include <reshard/mpi_world.h>
#include <reshard/nn.h>

#include "gpt_plot.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        rsh_status st_ = (call);                                                                                       \
        if (st_) return st_;                                                                                           \
    } while (0)

enum { VOCABULARY = 64, TEXT = 1 << 16, MOST_STEPS = 1000, MOST_RUNS = 6 };

typedef struct sizes {
    int64_t layers, width, heads, length, rows;
} sizes;

typedef struct settings {
    sizes size;
    rsh_dtype dtype;
    int steps, ranks;
    bool time, join, mpi;
    const char *svg;
} settings;

/* Settings and results of one training. */
typedef struct run {
    const settings *set;
    int ranks;
    bool reshard;
    double loss[MOST_STEPS];
    uint64_t kept; /* bytes kept for backward, maximum over the ranks */
} run;

/* ---- text: sentences of a small language, generated before ranks start ---- */

static char text[TEXT];

static const char *const subjects[] = {"the rank", "a mesh", "the old plan", "one layout", "her tensor", "the wire"};
static const char *const verbs[] = {"moves", "keeps", "cuts", "reads", "sends", "follows", "gathers"};
static const char *const objects[] = {"a chunk", "the rows", "every part", "its own box", "two columns", "the sum"};
static const char *const ends[] = {". ", ", and ", "; then ", ". "};

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void make_text(void) {
    uint64_t state = 11;
    for (size_t n = 0; n < TEXT;) {
        const char *words[] = {subjects[next_random(&state) % 6], " ",
                               verbs[next_random(&state) % 7],    " ",
                               objects[next_random(&state) % 6],  ends[next_random(&state) % 4]};
        for (int w = 0; w < 6; w++)
            for (const char *c = words[w]; *c && n < TEXT; c++) text[n++] = *c;
    }
}

/* Creates rows of characters from positions of the text that depend only on the step, and the characters that follow
 * them. */
static rsh_status make_batch(const sizes *s, int step, rsh_value **in, rsh_value **target) {
    rsh_tensor *x = NULL, *y = NULL;
    TRY(rsh_tensor_empty(RSH_I64, 2, (const int64_t[]){s->rows, s->length}, &x));
    TRY(rsh_tensor_empty(RSH_I64, 1, (const int64_t[]){s->rows * s->length}, &y));
    uint64_t state = (uint64_t)step + 1;
    for (int64_t r = 0; r < s->rows; r++) {
        next_random(&state);
        const char *from = text + next_random(&state) % (uint64_t)(TEXT - s->length - 1);
        for (int64_t i = 0; i < s->length; i++) {
            ((int64_t *)rsh_tensor_data(x))[r * s->length + i] = from[i] % VOCABULARY;
            ((int64_t *)rsh_tensor_data(y))[r * s->length + i] = from[i + 1] % VOCABULARY;
        }
    }
    TRY(rsh_value_adopt_tensor(x, false, in));
    return rsh_value_adopt_tensor(y, false, target);
}

/* ---- the model: embeds characters and positions, runs blocks, and returns a logit for every next character ---- */

static rsh_status through(rsh_module *m, const char *name, rsh_value **v) {
    rsh_module *part = NULL;
    rsh_value *next = NULL;
    TRY(rsh_module_child(m, name, &part));
    TRY(rsh_module_forward(part, *v, &next));
    rsh_value_free(*v);
    *v = next;
    return RSH_OK;
}

static rsh_status forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    static const char *const rest[] = {"blocks", "norm", "head"};
    rsh_value *places = NULL, *a = NULL, *b = NULL, *v = NULL;
    TRY(rsh_module_buffer(m, "places", &places));
    a = rsh_value_hold(in[0]);
    b = rsh_value_hold(places);
    rsh_status st = through(m, "tokens", &a);
    if (!st) st = through(m, "positions", &b);
    if (!st) st = rsh_nn_add(a, b, &v);
    rsh_value_free(a);
    rsh_value_free(b);
    for (int i = 0; i < 3 && !st; i++) st = through(m, rest[i], &v);
    if (st)
        rsh_value_free(v);
    else
        *out = v;
    return st;
}

static const char *const inputs[] = {"input"};
static const rsh_module_kind gpt = {.name = "GPT", .nin = 1, .nout = 1, .inputs = inputs, .forward = forward};

static rsh_status give(rsh_module *m, const char *name, rsh_module *part) {
    rsh_status st = rsh_module_set_child(m, name, part);
    rsh_module_free(part);
    return st;
}

static rsh_status give_blocks(rsh_module *m, const sizes *s, rsh_dtype dtype) {
    rsh_module *block[8] = {0}, *blocks = NULL;
    rsh_attention_opts opts = {sizeof opts, .width = s->width, .heads = s->heads, .bias = true, .causal = true};
    for (int64_t i = 0; i < s->layers; i++) TRY(rsh_transformer_block_new(&opts, 4 * s->width, dtype, &block[i]));
    TRY(rsh_sequential_new((int)s->layers, block, &blocks));
    for (int64_t i = 0; i < s->layers; i++) rsh_module_free(block[i]);
    return give(m, "blocks", blocks);
}

static rsh_status give_places(rsh_module *m, int64_t n) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    TRY(rsh_tensor_empty(RSH_I64, 1, &n, &t));
    for (int64_t i = 0; i < n; i++) ((int64_t *)rsh_tensor_data(t))[i] = i;
    TRY(rsh_value_adopt_tensor(t, false, &v));
    rsh_status st = rsh_module_set_buffer(m, "places", v, false);
    rsh_value_free(v);
    return st;
}

static rsh_status make_model(const sizes *s, rsh_dtype dtype, rsh_module **out) {
    rsh_module *m = NULL, *part = NULL;
    rsh_random_seed(7); /* initial values depend on the seed, not on the number of ranks */
    TRY(rsh_module_new(&gpt, NULL, &m));
    TRY(rsh_embedding_new(VOCABULARY, s->width, NULL, dtype, &part));
    TRY(give(m, "tokens", part));
    TRY(rsh_embedding_new(s->length, s->width, NULL, dtype, &part));
    TRY(give(m, "positions", part));
    TRY(give_blocks(m, s, dtype));
    TRY(rsh_layer_norm_new(1, &s->width, 1e-5, true, dtype, &part));
    TRY(give(m, "norm", part));
    TRY(rsh_linear_new(s->width, VOCABULARY, false, dtype, &part));
    TRY(give(m, "head", part));
    TRY(give_places(m, s->length));
    *out = m;
    return RSH_OK;
}

/* Cuts the model.  Between layers everything stays a DTensor, so that placements are always explicit. */
static rsh_status cut_model(rsh_module *m, rsh_mesh *mesh) {
    rsh_style columns = rsh_colwise_style(), rows = rsh_rowwise_style();
    columns.local_output = rows.local_output = false;
    rsh_parallel_entry plan[] = {
        {"tokens", rows},
        {"blocks.*.attention.[qkv]*", columns},
        {"blocks.*.attention.out", rows},
        {"blocks.*.up", columns},
        {"blocks.*.down", rows},
        {"head", columns},
    };
    TRY(rsh_parallelize_module(m, mesh, 6, plan));
    return rsh_distribute_module(m, mesh, NULL); /* the rest is replicated */
}

/* ---- a step ---- */

typedef struct trainer {
    rsh_mesh *mesh;
    rsh_module *m;
    rsh_optimizer *o;
} trainer;

static rsh_status trainer_new(const settings *set, rsh_comm *comm, bool reshard, trainer *t) {
    int64_t ranks = rsh_comm_size(comm);
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    TRY(rsh_mesh_new(comm, 1, &ranks, NULL, NULL, &t->mesh));
    TRY(make_model(&set->size, set->dtype, &t->m));
    TRY(cut_model(t->m, t->mesh));
    /* Within a node, a rank gathers by copying by itself, so a prefetch would save no time. */
    rsh_input_reshard_opts keep = {sizeof keep, .no_prefetch = rsh_comm_nnodes(comm) == 1};
    if (reshard) TRY(rsh_input_reshard(t->m, t->mesh, 0, &keep));
    return rsh_adam_new(t->m, &opts, &t->o);
}

static void trainer_free(trainer *t) {
    rsh_optimizer_free(t->o);
    rsh_module_free(t->m);
    rsh_mesh_free(t->mesh);
}

/* Computes the mean over all characters of -log of the probability of the next one.  Logits stay cut along the
 * vocabulary: ranks exchange only a few numbers for each character. */
static rsh_status loss_of(rsh_value *logits, rsh_value *target, rsh_value **out) {
    rsh_value *flat = NULL, *loss = NULL;
    rsh_status st = rsh_nn_reshape(logits, 2, (const int64_t[]){-1, VOCABULARY}, &flat);
    if (!st) st = rsh_nn_cross_entropy(flat, target, NULL, &loss);
    if (!st) st = rsh_dtensor_full_tensor(loss, NULL, out);
    rsh_value_free(flat);
    rsh_value_free(loss);
    return st;
}

static double number(const rsh_value *v) {
    const void *data = rsh_tensor_data(rsh_value_tensor(v));
    return rsh_value_dtype(v) == RSH_F32 ? *(const float *)data : *(const double *)data;
}

/* Runs one step. *kept: bytes of tensors that forward created and that still exist afterwards, when the program itself
 * holds only the loss. */
static rsh_status step(const settings *set, const trainer *t, int i, double *loss, uint64_t *kept) {
    rsh_value *x = NULL, *target = NULL, *logits = NULL, *v = NULL;
    TRY(rsh_optimizer_zero_grad(t->o));
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    TRY(make_batch(&set->size, i, &x, &target));
    rsh_status st = rsh_module_forward(t->m, x, &logits);
    if (!st) st = loss_of(logits, target, &v);
    rsh_value_free(x);
    rsh_value_free(target);
    rsh_value_free(logits);
    *kept = rsh_alloc_get_stats().data_bytes - before;
    if (!st) *loss = number(v);
    if (!st) st = rsh_backward(v, NULL, 0);
    if (!st) st = rsh_optimizer_step(t->o);
    rsh_value_free(v);
    return st;
}

/* ---- trainings ---- */

static rsh_status train(void *ctx, rsh_comm *comm) {
    run *r = ctx;
    trainer t = {0};
    uint64_t kept = 0, most = 0;
    TRY(rsh_nn_open(comm, NULL));
    rsh_status st = trainer_new(r->set, comm, r->reshard, &t);
    for (int i = 0; i < r->set->steps && !st; i++) {
        double loss = 0;
        st = step(r->set, &t, i, &loss, &kept);
        if (!rsh_comm_rank(comm)) r->loss[i] = loss;
    }
    if (!st) st = rsh_comm_allreduce(comm, &kept, &most, 1, RSH_U64, RSH_OP_MAX);
    if (!st && !rsh_comm_rank(comm)) r->kept = most;
    trainer_free(&t);
    rsh_nn_close();
    return st;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Alternates steps without and with input_reshard, and reports the best of each. */
static rsh_status time_steps(void *ctx, rsh_comm *comm) {
    const run *r = ctx;
    trainer t[2] = {{0}};
    double best[2] = {INFINITY, INFINITY}, loss;
    uint64_t kept;
    TRY(rsh_nn_open(comm, NULL));
    for (int k = 0; k < 2; k++) TRY(trainer_new(r->set, comm, k, &t[k]));
    for (int i = 0; i < r->set->steps + 2; i++)
        for (int k = 0; k < 2; k++) {
            TRY(rsh_comm_barrier(comm));
            double start = seconds();
            TRY(step(r->set, &t[k], i, &loss, &kept));
            TRY(rsh_comm_barrier(comm));
            if (i >= 2) best[k] = fmin(best[k], seconds() - start);
        }
    if (!rsh_comm_rank(comm))
        printf("%d ranks: a step takes %.4f s, with input_reshard %.4f s: %.3f times\n", rsh_comm_size(comm), best[0],
               best[1], best[1] / best[0]);
    for (int k = 0; k < 2; k++) trainer_free(&t[k]);
    rsh_nn_close();
    return RSH_OK;
}

/* ---- comparing ---- */

/* Returns the largest difference of losses, relative to max(1, loss). */
static double difference(const run *a, const run *b, int steps) {
    double most = 0;
    for (int i = 0; i < steps; i++) most = fmax(most, fabs(a->loss[i] - b->loss[i]) / fmax(1, b->loss[i]));
    return most;
}

static void run_name(const run *r, char name[64]) {
    snprintf(name, 64, "%d rank%s%s", r->ranks, r->ranks > 1 ? "s" : "", r->reshard ? ", input_reshard" : "");
}

static void print_run(const run *r, const run *first) {
    char name[64];
    int last = r->set->steps - 1;
    run_name(r, name);
    printf("%s, %-22s loss %.15g -> %.15g", rsh_dtype_name(r->set->dtype), name, r->loss[0], r->loss[last]);
    printf(", differs by %.1e at step 1, %.1e in all", difference(r, first, 1), difference(r, first, last + 1));
    printf("; kept for backward: %.2f MB, %.3f of the first\n", (double)r->kept / 1e6,
           (double)r->kept / (double)first->kept);
}

/* Returns whether the losses are those of the first run and decrease. */
static bool as_expected(const run *r, const run *first) {
    const settings *set = r->set;
    bool single = set->dtype == RSH_F32;
    double off = difference(r, first, set->steps);
    if (difference(r, first, 1) > (single ? 1e-5 : 1e-12)) return false;
    if (single ? !(off <= 1e-2) : set->steps <= 50 && !(off <= 1e-9)) return false;
    return r->loss[set->steps - 1] < 0.95 * r->loss[0];
}

/* Prints run k as soon as it is complete, and any problems; returns 1 if there are any. */
static int judge(const run *runs, int k) {
    int wrong = 0;
    print_run(&runs[k], &runs[0]);
    if (!as_expected(&runs[k], &runs[0]))
        wrong = printf("  the losses are not those of the first run, or do not fall\n");
    if (runs[k].reshard && memcmp(runs[k].loss, runs[k - 1].loss, sizeof runs->loss))
        wrong = printf("  the losses are not those without input_reshard, bit for bit\n");
    if (runs[k].reshard && runs[k].ranks == 4 && runs[0].ranks == 1 && runs[k].kept > 0.27 * (double)runs[0].kept)
        wrong = printf("  that is more than 0.27\n");
    fflush(stdout);
    return wrong != 0;
}

static int draw(const settings *set, int n, const run *runs) {
    curve curves[MOST_RUNS];
    char title[64];
    snprintf(title, sizeof title, "loss, %s, steps 1 to %d", rsh_dtype_name(set->dtype), set->steps);
    for (int k = 0; k < n; k++) {
        curves[k] = (curve){.steps = set->steps, .loss = runs[k].loss, .kept = (double)runs[k].kept};
        run_name(&runs[k], curves[k].name);
    }
    return plot(set->svg, title, n, curves);
}

/* ---- the program ---- */

static int fail(rsh_status st) {
    fprintf(stderr, "%s: %s\n", rsh_status_name(st), rsh_error_detail());
    return 2;
}

/* Trains with ranks that are threads of this process. */
static int run_threads(const settings *set) {
    static run runs[MOST_RUNS];
    int n = 0, wrong = 0;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        if (set->ranks && set->ranks != ranks) continue;
        if (set->time) {
            rsh_status st = rsh_run(ranks, time_steps, &(run){.set = set});
            if (st) return fail(st);
            continue;
        }
        for (int reshard = 0; reshard <= (ranks > 1); reshard++) {
            runs[n] = (run){.set = set, .ranks = ranks, .reshard = reshard};
            rsh_status st = rsh_run(ranks, train, &runs[n]);
            if (st) return fail(st);
            wrong |= judge(runs, n++);
        }
    }
    if (n && set->svg && draw(set, n, runs)) return fprintf(stderr, "cannot write %s\n", set->svg), 2;
    return wrong;
}

/* Trains with ranks that are processes which a launcher has started; the first one prints. */
static int run_joined(const settings *set, rsh_comm *comm) {
    static run runs[2];
    int wrong = 0;
    for (int k = 0; k < 2; k++) {
        runs[k] = (run){.set = set, .ranks = rsh_comm_size(comm), .reshard = k};
        rsh_status st = set->time ? (k ? RSH_OK : time_steps(&runs[k], comm)) : train(&runs[k], comm);
        if (st) return fail(st);
        if (!set->time && !rsh_comm_rank(comm)) wrong |= judge(runs, k);
    }
    return wrong;
}

static int run_mpi(const settings *set) {
    const char *chosen = getenv("RESHARD_MPI_LIBRARY");
    void *library = dlopen(chosen ? chosen : "libreshard-mpi.so", RTLD_NOW | RTLD_GLOBAL);
    rsh_status (*open)(rsh_comm **) = NULL, (*close)(rsh_comm *) = NULL;
    rsh_comm *comm = NULL;
    if (library) *(void **)&open = dlsym(library, "rsh_mpi_open");
    if (library) *(void **)&close = dlsym(library, "rsh_mpi_close");
    if (!open || !close) return fprintf(stderr, "cannot load libreshard-mpi: %s\n", dlerror()), 2;
    rsh_status st = open(&comm);
    int result = st ? fail(st) : run_joined(set, comm);
    st = close(comm);
    return result ? result : st ? fail(st) : 0;
}

static int run_shm(const settings *set) {
    rsh_comm *comm = NULL;
    rsh_status st = rsh_comm_join(&comm);
    if (st) return fail(st);
    int result = run_joined(set, comm);
    rsh_comm_free(comm);
    return result;
}

static bool read_option(settings *s, int *i, char **argv) {
    static const sizes full = {4, 256, 8, 256, 8};
    const char *option = argv[*i], *value = argv[*i + 1];
    if (!strcmp(option, "--full"))
        s->size = full;
    else if (!strcmp(option, "--f64"))
        s->dtype = RSH_F64;
    else if (!strcmp(option, "--time"))
        s->time = true;
    else if (!strcmp(option, "--join"))
        s->join = true;
    else if (!strcmp(option, "--mpi"))
        s->mpi = true;
    else if (!value)
        return false;
    else if (!strcmp(option, "--steps"))
        s->steps = atoi(argv[++*i]);
    else if (!strcmp(option, "--ranks"))
        s->ranks = atoi(argv[++*i]);
    else if (!strcmp(option, "--svg"))
        s->svg = argv[++*i];
    else
        return false;
    return true;
}

static const char usage[] =
    "train_gpt [--full] [--f64] [--steps N] [--ranks 1|2|4] [--time] [--svg FILE] [--join|--mpi]\n";

int main(int argc, char **argv) {
    settings set = {.size = {2, 32, 4, 16, 8}, .dtype = RSH_F32, .steps = 12};
    for (int i = 1; i < argc; i++)
        if (!read_option(&set, &i, argv)) return fputs(usage, stderr), 2;
    if (set.steps < 1 || set.steps > MOST_STEPS) return fprintf(stderr, "--steps must be 1 to %d\n", MOST_STEPS), 2;
    make_text();
    return set.mpi ? run_mpi(&set) : set.join ? run_shm(&set) : run_threads(&set);
}

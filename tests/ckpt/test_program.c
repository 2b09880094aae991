/* Checkpoints of programs: saved by 4 ranks and loaded by 3 and by 6, on every engine; each byte is read once per node;
 * and if one rank fails, all get an error and nothing stays visible. */
#include "ckpt/files.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <reshard.h>
#include <reshard/ckpt.h>

#include "comm/mailboxes.h"

enum { PATIENCE = 200 }; /* seconds after which a test counts as hung, even on a busy machine */

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return rshi_fail(RSH_ERUNTIME, "%s:%d: %s  [%s]", __FILE__, __LINE__, #condition, rsh_error_detail());     \
    } while (0)

/* Layouts for 4 ranks, for 3 and for 6. */
static const struct {
    const char *name, *layout[3];
} list[] = {
    {"rows", {"f32[64/x, 48] on x=4", "f32[64, 48/y] on y=3", "f32[64/y~, 48] on y=6"}},
    {"qkv", {"bf16[(8/(k,r)|4/k|4/k), 10] on k=2,r=2", "bf16[16/y~, 10] on y=3", "bf16[(8|4|4)/y~, 10] on y=6"}},
    {"inner", {"i16[5, (8/(k,r)|4/k)] on k=2,r=2", "i16[5, 12/y] on y=3", "i16[5/y~, 12] on y=6"}},
    {"copied", {"i64[7, 5] on x=4", "i64[7, 5] boxes 1:[0:7,0:5]", "i64[7, 5] on y=6"}},
    {"flat", {"f64[9, 7]/x on x=4", "f64[9, 7]/y~ on y=3", "f64[9/y~, 7] on y=6"}},
    {"column", {"f16[12/x, 10] on x=4 order(1,0)", "f16[12, 10/y~] on y=3", "f16[12/y, 10] on y=6 order(1,0)"}},
    {"boxes",
     {"u8[6, 6] boxes 0:[0:3,0:3] 0:[3:6,3:6] 2:[0:3,3:6] 3:[3:6,0:3]", "u8[6/y, 6] on y=3",
      "u8[6, 6] boxes 5:[0:6,0:3] 1:[0:6,3:5] 5:[0:6,5:6]"}},
    {"step", {"i32[] on x=4", "i32[] on y=3", "i32[] on y=6"}},
    {"empty", {"f32[0, 4/x] on x=4", "f32[0, 4/y~] on y=3", "f32[0, 4] boxes"}},
    {"cyclic", {"f32[40/x:3, 6] on x=4", "f32[40, 6/y:1] on y=3", "f32[40/y:2, 6] on y=6"}},
    {"late", {"u16[9] on x=2@2-3", "u16[9/y] on y=3", "u16[9] on y=2@0-1"}},
    {"large", {"f32[700, 800] boxes 2:[0:700,0:800]", "f32[700/y, 800] on y=3", "f32[700, 800/y~] on y=6"}},
};
#define N ((int64_t)(sizeof list / sizeof *list))

/* ---- values: the bits of an element depend on its global index ---- */

static unsigned char bits_at(int64_t index, size_t byte) {
    return (unsigned char)((uint64_t)(index + 1) * UINT64_C(0x9e3779b97f4a7c15) >> (8 * (byte % 8)));
}

/* Computes the expected element at `offset` of a part of a rank. */
static void value_at(const rsh_layout *l, int64_t rank, int64_t part, int64_t offset, unsigned char *out) {
    int64_t index[RSH_MAX_NDIM], n = 0;
    must(rsh_layout_global_index(l, rank, part, offset, index));
    for (int d = 0; d < rsh_layout_ndim(l); d++) n = n * rsh_layout_shape(l)[d] + index[d];
    for (size_t b = 0; b < rsh_dtype_size(rsh_layout_dtype(l)); b++) out[b] = bits_at(n, b);
}

/* Sets or checks all elements of this rank; returns the number of wrong ones. */
static int64_t walk(const rsh_sharded *s, bool set) {
    const rsh_layout *l = rsh_sharded_layout(s);
    size_t size = rsh_dtype_size(rsh_layout_dtype(l));
    int64_t wrong = 0;
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        unsigned char *data = rsh_tensor_data(rsh_sharded_part(s, p)), want[16];
        for (int64_t i = 0; i < rsh_tensor_count(rsh_sharded_part(s, p)); i++) {
            value_at(l, rsh_comm_rank(rsh_sharded_comm(s)), p, i, want);
            if (set) memcpy(data + (size_t)i * size, want, size);
            wrong += memcmp(data + (size_t)i * size, want, size) != 0;
        }
    }
    return wrong;
}

typedef struct tensors {
    const char *name[N];
    rsh_sharded *s[N];
} tensors;

static rsh_status make(rsh_comm *comm, int which, tensors *t) {
    for (int64_t i = 0; i < N; i++) {
        rsh_layout *l;
        t->name[i] = list[i].name;
        RSH_TRY(rsh_layout_parse(list[i].layout[which], &l));
        rsh_status st = rsh_sharded_zeros(comm, l, &t->s[i]);
        rsh_layout_free(l);
        RSH_TRY(st);
    }
    return RSH_OK;
}

static void drop(tensors *t) {
    for (int64_t i = 0; i < N; i++) rsh_sharded_free(t->s[i]);
}

/* ---- on every engine ---- */

typedef enum where { THREADS, PROCESSES, NODES, WHERES } where;
static const char *const wheres[] = {"threads", "processes", "nodes"};

typedef struct scene {
    where where;
    char path[100];
    int which; /* index of the layouts to load */
} scene;

static rsh_status run_on(const scene *s, int n, rsh_rank_fn fn) {
    static const int node[] = {0, 0, 1, 1, 1, 0};
    alarm(PATIENCE);
    rsh_status st = s->where == THREADS     ? rsh_run(n, fn, (void *)s)
                    : s->where == PROCESSES ? rsh_run_shm(n, fn, (void *)s)
                                            : run_on_nodes(n, node, fn, (void *)s);
    alarm(0);
    return st;
}

static void run_well(const scene *s, int n, rsh_rank_fn fn) {
    rsh_status st = run_on(s, n, fn);
    if (st) fail_msg("%s, %d ranks: %s", wheres[s->where], n, rsh_error_detail());
}

static scene scene_at(where w) {
    scene s = {.where = w};
    snprintf(s.path, sizeof s.path, "%s/saved-%s", folder, wheres[w]);
    return s;
}

static rsh_status save(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    rsh_save_opts opts = RSH_SAVE_OPTS_INIT;
    const char *key = "step", *value = "7";
    opts.nmeta = 1;
    opts.keys = &key;
    opts.values = &value;
    CHECK(!make(comm, 0, &t));
    for (int64_t i = 0; i < N; i++) walk(t.s[i], true);
    rsh_status st = rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, &opts);
    drop(&t);
    return st;
}

static uint64_t bytes_of_all(const rsh_ckpt *c) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < c->ntensors; i++) sum += (uint64_t)tensor_bytes(c, i);
    return sum;
}

/* Checks what the ranks of each node have read.  No node reads a byte twice, except for a few copies between the short
 * rows of "inner". */
static rsh_status check_read(rsh_comm *comm, const rsh_ckpt *c, uint64_t mine, bool all_of_it) {
    uint64_t all[8], sum[8] = {0}, bytes = bytes_of_all(c);
    CHECK(!rsh_comm_allgather(comm, &mine, all, sizeof mine));
    for (int r = 0; r < rsh_comm_size(comm); r++) sum[rsh_comm_node(comm, r)] += all[r];
    for (int n = 0; n < rsh_comm_nnodes(comm); n++) {
        CHECK(sum[n] <= bytes + bytes / 1000);
        CHECK(!(all_of_it || rsh_comm_nnodes(comm) == 1) || sum[n] >= bytes);
    }
    return RSH_OK;
}

static rsh_status load(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    rsh_ckpt *c;
    rsh_load_stats stats = RSH_LOAD_STATS_INIT;
    CHECK(!make(comm, s->which, &t));
    CHECK(!rsh_ckpt_open(s->path, NULL, &c));
    CHECK(!rsh_ckpt_load(c, comm, N, t.name, t.s, &stats));
    for (int64_t i = 0; i < N; i++)
        if (walk(t.s[i], false)) return rshi_fail(RSH_ERUNTIME, "%s: wrong values", list[i].name);
    CHECK(!check_read(comm, c, stats.bytes_read, false));
    rsh_ckpt_free(c);
    drop(&t);
    return RSH_OK;
}

static void what_4_ranks_save_3_and_6_load(void **state) {
    (void)state;
    for (where w = 0; w < WHERES; w++) {
        scene s = scene_at(w);
        run_well(&s, 4, save);
        for (s.which = 0; s.which < 3; s.which++) run_well(&s, s.which == 0 ? 4 : 3 * s.which, load);
    }
}

/* Loads every tensor whole on every rank, so that every node needs every byte. */
static rsh_status load_copies(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    rsh_ckpt *c;
    rsh_load_stats stats = RSH_LOAD_STATS_INIT;
    CHECK(!rsh_ckpt_open(s->path, NULL, &c));
    for (int64_t i = 0; i < N; i++) {
        rsh_layout *l, *whole;
        rsh_layout_desc d = {.naxes = 1, .axis = {{"y", rsh_comm_size(comm)}}};
        CHECK(!rsh_layout_parse(list[i].layout[0], &l));
        d.dtype = rsh_layout_dtype(l);
        d.ndim = rsh_layout_ndim(l);
        for (int k = 0; k < d.ndim; k++) d.dim[k].size = rsh_layout_shape(l)[k];
        CHECK(!rsh_layout_new(&d, &whole));
        t.name[i] = list[i].name;
        CHECK(!rsh_sharded_zeros(comm, whole, &t.s[i]));
        rsh_layout_free(l);
        rsh_layout_free(whole);
    }
    CHECK(!rsh_ckpt_load(c, comm, N, t.name, t.s, &stats));
    for (int64_t i = 0; i < N; i++) CHECK(!walk(t.s[i], false));
    CHECK(!check_read(comm, c, stats.bytes_read, true));
    rsh_ckpt_free(c);
    drop(&t);
    return RSH_OK;
}

static void every_node_reads_every_byte_once(void **state) {
    (void)state;
    for (where w = 0; w < WHERES; w++) {
        scene s = scene_at(w);
        run_well(&s, 4, save);
        run_well(&s, 6, load_copies);
    }
}

/* ---- what is on disk ---- */

static void the_files_hold_one_copy_layouts_digests_and_metadata(void **state) {
    (void)state;
    scene s = scene_at(THREADS);
    rsh_ckpt *c;
    struct stat found;
    char partial[200];
    run_well(&s, 4, save);
    must(rsh_ckpt_open(s.path, NULL, &c));
    assert_string_equal(c->kind->name, "sharded directory");
    assert_int_equal(c->nfiles, 4);
    assert_int_equal(c->ntensors, N);
    int64_t copied = rshi_ckpt_find(c, "copied", 6);
    assert_true(c->parts[c->tensor[copied].part].file >= 0);
    for (int k = 1; k < 4; k++) assert_int_equal(c->parts[c->tensor[copied].part + k].file, -1);
    for (int64_t i = 0; i < c->ntensors; i++) assert_non_null(c->tensor[i].digest);
    bool has_step = false;
    for (int64_t i = 0; i < c->nmeta; i++)
        has_step |= !strcmp(c->meta[i].key, "step") && !strcmp(c->meta[i].value, "7");
    assert_true(has_step);
    rsh_ckpt_free(c);
    snprintf(partial, sizeof partial, "%s.reshard-partial", s.path);
    assert_int_equal(lstat(partial, &found), -1);
}

static void any_box_is_read_lazily(void **state) {
    (void)state;
    scene s = scene_at(THREADS);
    rsh_ckpt *c;
    run_well(&s, 4, save);
    must(rsh_ckpt_open(s.path, NULL, &c));
    for (int64_t i = 0; i < N; i++) {
        int64_t t = rsh_ckpt_find(c, list[i].name);
        const rshi_ckpt_tensor *x = &c->tensor[t];
        size_t size = (size_t)rsh_dtype_bits(x->dtype) / 8;
        if (x->ndim != 2 || !x->shape[0]) continue;
        rsh_box box = {{x->shape[0] / 3, 1}, {x->shape[0] / 2 + 1, x->shape[1] - 1}};
        int64_t rows = box.hi[0] - box.lo[0], columns = box.hi[1] - box.lo[1], strides[2] = {1, rows};
        unsigned char *got = malloc((size_t)(rows * columns) * size);
        must(rsh_ckpt_read(c, t, &box, &(rsh_memory){got, strides})); /* transposed while it is read */
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < columns; k++)
                for (size_t b = 0; b < size; b++)
                    assert_int_equal(got[(size_t)(r + k * rows) * size + b],
                                     bits_at((box.lo[0] + r) * x->shape[1] + box.lo[1] + k, b));
        free(got);
    }
    rsh_box beyond = {{0, 0}, {65, 48}}, backwards = {{INT64_MAX, 0}, {INT64_MIN, 1}};
    float some[4];
    assert_int_equal(rsh_ckpt_read(c, rsh_ckpt_find(c, "rows"), &beyond, &(rsh_memory){some, NULL}), RSH_EINDEX);
    assert_int_equal(rsh_ckpt_read(c, rsh_ckpt_find(c, "rows"), &backwards, &(rsh_memory){some, NULL}), RSH_EINDEX);
    assert_int_equal(rsh_ckpt_read(c, N, NULL, &(rsh_memory){some, NULL}), RSH_EINDEX);
    assert_int_equal(rsh_ckpt_read(c, rsh_ckpt_find(c, "rows"), NULL, &(rsh_memory){NULL, NULL}), RSH_EVALUE);
    rsh_ckpt_free(c);
}

/* ---- dtypes ---- */

static rsh_status load_as_f64(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    rsh_layout *from, *to;
    rsh_sharded *a, *b;
    rsh_ckpt *c;
    const char *name = "w";
    CHECK(!rsh_layout_parse("f32[8/x, 4] on x=2", &from) && !rsh_layout_parse("f64[8, 4/x] on x=2", &to));
    CHECK(!rsh_sharded_zeros(comm, from, &a) && !rsh_sharded_zeros(comm, to, &b));
    for (int i = 0; i < 16; i++)
        ((float *)rsh_tensor_data(rsh_sharded_part(a, 0)))[i] = (float)(16 * rsh_comm_rank(comm) + i);
    CHECK(!rsh_ckpt_save(comm, s->path, 1, &name, (const rsh_sharded *const *)&a, NULL));
    CHECK(!rsh_ckpt_open(s->path, NULL, &c) && !rsh_ckpt_load(c, comm, 1, &name, &b, NULL));
    const double *got = rsh_tensor_data(rsh_sharded_part(b, 0));
    for (int r = 0; r < 8; r++)
        for (int k = 0; k < 2; k++) CHECK(got[2 * r + k] == 4 * r + 2 * rsh_comm_rank(comm) + k);
    rsh_ckpt_free(c);
    rsh_sharded_free(a);
    rsh_sharded_free(b);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return RSH_OK;
}

static void elements_are_converted_where_dtypes_differ(void **state) {
    (void)state;
    scene s = scene_at(THREADS);
    run_well(&s, 2, load_as_f64);
}

/* Saves memory of the caller whose strides differ from the layout's. */
static rsh_status save_columns(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    rsh_layout *l;
    rsh_sharded *w;
    const char *name = "w";
    int16_t data[12];
    int64_t strides[2] = {1, 3};
    CHECK(!rsh_layout_parse("i16[6/x, 4] on x=2", &l));
    for (int i = 0; i < 12; i++) data[i] = (int16_t)(4 * (3 * rsh_comm_rank(comm) + i % 3) + i / 3);
    CHECK(!rsh_sharded_wrap(comm, l, &(rsh_memory){data, strides}, &w));
    CHECK(!rsh_ckpt_save(comm, s->path, 1, &name, (const rsh_sharded *const *)&w, NULL));
    rsh_sharded_free(w);
    rsh_layout_free(l);
    return RSH_OK;
}

static void memory_with_any_strides_is_saved(void **state) {
    (void)state;
    scene s = scene_at(THREADS);
    rsh_ckpt *c;
    int16_t got[24];
    run_well(&s, 2, save_columns);
    must(rsh_ckpt_open(s.path, NULL, &c));
    must(rsh_ckpt_read(c, 0, NULL, &(rsh_memory){got, NULL}));
    for (int i = 0; i < 24; i++) assert_int_equal(got[i], i);
    rsh_ckpt_free(c);
}

/* ---- failures ---- */

static void expect_nothing(const scene *s) {
    struct stat found;
    char partial[200];
    assert_int_equal(lstat(s->path, &found), -1);
    snprintf(partial, sizeof partial, "%s.reshard-partial", s->path);
    assert_int_equal(lstat(partial, &found), -1);
}

static rsh_status save_with_one_without_tensor(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    CHECK(!make(comm, 0, &t));
    if (rsh_comm_rank(comm) == 2) rsh_sharded_free(t.s[3]), t.s[3] = NULL;
    rsh_status st = rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, NULL);
    CHECK(st == RSH_EVALUE && strstr(rsh_error_detail(), "tensor 3 has no name or is NULL"));
    drop(&t);
    return RSH_OK;
}

static rsh_status save_under_two_names(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    CHECK(!make(comm, 0, &t));
    if (rsh_comm_rank(comm) == 1) t.name[0] = "columns";
    CHECK(rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, NULL) == RSH_EMISMATCH);
    t.name[0] = t.name[1];
    CHECK(rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, NULL) == RSH_EVALUE);
    drop(&t);
    return RSH_OK;
}

static void a_rank_that_refuses_is_an_error_on_all(void **state) {
    (void)state;
    for (where w = 0; w < WHERES; w++) {
        scene s = scene_at(w);
        run_well(&s, 4, save_with_one_without_tensor);
        expect_nothing(&s);
        run_well(&s, 4, save_under_two_names);
        expect_nothing(&s);
    }
}

/* For one rank the disk seems to be full. */
static rsh_status save_with_a_limit(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    struct rlimit limit = {100000, 100000};
    CHECK(!make(comm, 0, &t));
    if (rsh_comm_rank(comm) == 2) {
        signal(SIGXFSZ, SIG_IGN);
        CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    }
    rsh_status st = rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, NULL);
    CHECK(st == RSH_EIO && strstr(rsh_error_detail(), "rank-00002-of-00004.safetensors"));
    drop(&t);
    return RSH_OK;
}

static void a_rank_that_cannot_write_leaves_nothing_visible(void **state) {
    (void)state;
    scene s = scene_at(PROCESSES);
    run_well(&s, 4, save_with_a_limit);
    expect_nothing(&s);
}

static rsh_status save_without_rank_1(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    CHECK(!make(comm, 0, &t));
    if (rsh_comm_rank(comm) == 1) _exit(3);
    rsh_status st = rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, NULL);
    CHECK(st == RSH_EPEER);
    drop(&t);
    return RSH_OK;
}

static void a_rank_that_dies_leaves_nothing_visible(void **state) {
    (void)state;
    scene s = scene_at(PROCESSES);
    assert_int_equal(run_on(&s, 4, save_without_rank_1), RSH_EPEER);
    expect_nothing(&s);
}

static rsh_status save_again(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    rsh_save_opts opts = RSH_SAVE_OPTS_INIT;
    opts.force = true;
    CHECK(!make(comm, 0, &t));
    CHECK(rsh_ckpt_save(comm, s->path, N, t.name, (const rsh_sharded *const *)t.s, NULL) == RSH_EVALUE);
    CHECK(!rsh_ckpt_save(comm, s->path, 2, t.name, (const rsh_sharded *const *)t.s, &opts));
    drop(&t);
    return RSH_OK;
}

static void what_is_there_is_replaced_only_if_asked(void **state) {
    (void)state;
    scene s = scene_at(THREADS);
    rsh_ckpt *c;
    run_well(&s, 4, save);
    run_well(&s, 4, save_again);
    must(rsh_ckpt_open(s.path, NULL, &c));
    assert_int_equal(c->ntensors, 2);
    rsh_ckpt_free(c);
}

/* A file is truncated after the ranks have opened it. */
static rsh_status load_cut_off(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    rsh_ckpt *c;
    char path[200];
    CHECK(!make(comm, 1, &t));
    CHECK(!rsh_ckpt_open(s->path, NULL, &c));
    CHECK(!rsh_comm_barrier(comm));
    snprintf(path, sizeof path, "%s/rank-00002-of-00004.safetensors", s->path);
    if (rsh_comm_rank(comm) == 0) CHECK(!truncate(path, 5000));
    CHECK(!rsh_comm_barrier(comm));
    CHECK(rsh_ckpt_load(c, comm, N, t.name, t.s, NULL) == RSH_EIO);
    CHECK(strstr(rsh_error_detail(), "rank-00002-of-00004.safetensors"));
    rsh_ckpt_free(c);
    drop(&t);
    return RSH_OK;
}

static rsh_status load_what_is_not_there(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    tensors t = {0};
    rsh_ckpt *c;
    CHECK(!make(comm, 1, &t));
    CHECK(!rsh_ckpt_open(s->path, NULL, &c));
    t.name[1] = "nothing";
    CHECK(rsh_ckpt_load(c, comm, N, t.name, t.s, NULL) == RSH_EKEY && strstr(rsh_error_detail(), "\"nothing\""));
    t.name[1] = "rows";
    CHECK(rsh_ckpt_load(c, comm, N, t.name, t.s, NULL) == RSH_EVALUE &&
          strstr(rsh_error_detail(), "the shape of tensor"));
    t.name[1] = rsh_comm_rank(comm) ? list[1].name : NULL;
    CHECK(rsh_ckpt_load(c, comm, N, t.name, t.s, NULL) == RSH_EVALUE);
    CHECK(rsh_ckpt_load(c, comm, rsh_comm_rank(comm) ? 1 : 2, (const char *const[]){"rows", "qkv"}, t.s, NULL) ==
          RSH_EMISMATCH);
    rsh_ckpt_free(c);
    drop(&t);
    return RSH_OK;
}

static void a_load_that_fails_on_one_rank_fails_on_all(void **state) {
    (void)state;
    for (where w = 0; w < WHERES; w++) {
        scene s = scene_at(w);
        run_well(&s, 4, save);
        run_well(&s, 3, load_what_is_not_there);
        run_well(&s, 3, load_cut_off);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_4_ranks_save_3_and_6_load),
        IN_FOLDER(every_node_reads_every_byte_once),
        IN_FOLDER(the_files_hold_one_copy_layouts_digests_and_metadata),
        IN_FOLDER(any_box_is_read_lazily),
        IN_FOLDER(elements_are_converted_where_dtypes_differ),
        IN_FOLDER(memory_with_any_strides_is_saved),
        IN_FOLDER(a_rank_that_refuses_is_an_error_on_all),
        IN_FOLDER(a_rank_that_cannot_write_leaves_nothing_visible),
        IN_FOLDER(a_rank_that_dies_leaves_nothing_visible),
        IN_FOLDER(what_is_there_is_replaced_only_if_asked),
        IN_FOLDER(a_load_that_fails_on_one_rank_fails_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Maps in a program: a checkpoint with separate q, k and v is read and loaded as fused tensors, and saved under its old
 * names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ckpt/files.h"

#include <unistd.h>

#include <reshard.h>
#include <reshard/ckpt.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return rshi_fail(RSH_ERUNTIME, "%s:%d: %s  [%s]", __FILE__, __LINE__, #condition, rsh_error_detail());     \
    } while (0)

enum { D = 6, Q = 8, K = 4 };

static const char map_text[] = "mesh tp=2\n"
                               "{n*}.qkv = cat(0, {n*}.{q,k,v}, 8, 4, 4)  [(_|_|_)/tp, _]\n"
                               "turned = transpose(o)                     [_, _/tp]\n"
                               "wide = dequantise(w, s, 2, 4)             f32[...]\n"
                               "o -> plain\n";

/* Writes a model in which element i of the file has the value i. */
static void write_model(void) {
    static float data[(Q + K + K) * D + D * Q + 4 * 8 + 2 * 2];
    char header[1000];
    int n = 0;
    size_t at = 0;
    static const struct {
        const char *name;
        int rows, columns;
    } list[] = {{"l.0.q", Q, D}, {"l.0.k", K, D}, {"l.0.v", K, D}, {"o", D, Q}, {"w", 4, 8}, {"s", 2, 2}};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = (float)i;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        size_t bytes = (size_t)(list[i].rows * list[i].columns) * sizeof *data;
        n += snprintf(header + n, sizeof header - (size_t)n,
                      "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}", i ? "," : "{",
                      list[i].name, list[i].rows, list[i].columns, at, at + bytes);
        at += bytes;
    }
    snprintf(header + n, sizeof header - (size_t)n, "}");
    write_safetensors("m.safetensors", header, data, sizeof data);
}

/* Returns the expected element of a target at a global index. */
static float expected(const char *name, const int64_t *i) {
    const int o = (Q + K + K) * D, w = o + D * Q, s = w + 4 * 8;
    if (!strcmp(name, "l.0.qkv")) return (float)(i[0] * D + i[1]); /* q, k and v follow each other */
    if (!strcmp(name, "turned")) return (float)(o + i[1] * Q + i[0]);
    if (!strcmp(name, "plain")) return (float)(o + i[0] * Q + i[1]);
    return (float)(w + i[0] * 8 + i[1]) * (float)(s + i[0] / 2 * 2 + i[1] / 4);
}

static const char *const names[] = {"l.0.qkv", "turned", "plain", "wide"};
static const char *const layouts[] = {"f32[(8|4|4)/tp, 6] on tp=2", "f32[8, 6/tp] on tp=2", "f64[6/tp, 8] on tp=2",
                                      "f32[4, 8/tp] on tp=2"};
#define N 4

static rsh_status make_all(rsh_comm *comm, rsh_sharded **s) {
    for (int i = 0; i < N; i++) {
        rsh_layout *l;
        RSH_TRY(rsh_layout_parse(layouts[i], &l));
        RSH_TRY(rsh_sharded_zeros(comm, l, &s[i]));
        rsh_layout_free(l);
    }
    return RSH_OK;
}

static rsh_status check_all(rsh_comm *comm, rsh_sharded **s) {
    for (int k = 0; k < N; k++) {
        const rsh_layout *l = rsh_sharded_layout(s[k]);
        const rsh_tensor *part = rsh_sharded_part(s[k], 0);
        for (int64_t i = 0; i < rsh_tensor_count(part); i++) {
            int64_t index[RSH_MAX_NDIM];
            RSH_TRY(rsh_layout_global_index(l, rsh_comm_rank(comm), 0, i, index));
            float want = expected(names[k], index);
            double got = rsh_layout_dtype(l) == RSH_F64 ? ((const double *)rsh_tensor_data(part))[i]
                                                        : (double)((const float *)rsh_tensor_data(part))[i];
            CHECK(got == (double)want);
        }
    }
    return RSH_OK;
}

/* Opens, maps and loads on two ranks; saves with the map that separates q, k and v again. */
static rsh_status load_and_save(void *ctx, rsh_comm *comm) {
    const char *home = ctx;
    char path[200];
    rsh_ckpt *c, *m;
    rsh_ckpt_rules *map, *back;
    rsh_sharded *s[N];
    snprintf(path, sizeof path, "%s/m.safetensors", home);
    RSH_TRY(rsh_ckpt_rules_parse(map_text, "map", &map));
    RSH_TRY(rsh_ckpt_open(path, NULL, &c));
    RSH_TRY(rsh_ckpt_map(c, map, &m));
    RSH_TRY(make_all(comm, s));
    RSH_TRY(rsh_ckpt_load(m, comm, N, names, s, NULL));
    RSH_TRY(check_all(comm, s));
    rsh_save_opts opts = RSH_SAVE_OPTS_INIT;
    RSH_TRY(rsh_ckpt_rules_parse("{n*}.{q,k,v} = split(0, {n*}.qkv, 8, 4, 4)\n"
                                 "o = transpose(turned)\ndrop plain\nwide -> w\n",
                                 "back", &back));
    opts.map = back;
    snprintf(path, sizeof path, "%s/saved", home);
    RSH_TRY(rsh_ckpt_save(comm, path, N, names, (const rsh_sharded *const *)s, &opts));
    for (int i = 0; i < N; i++) rsh_sharded_free(s[i]);
    rsh_ckpt_free(m);
    rsh_ckpt_free(c);
    rsh_ckpt_rules_free(map);
    rsh_ckpt_rules_free(back);
    return RSH_OK;
}

static void a_program_loads_and_saves_through_maps(void **state) {
    (void)state;
    rsh_ckpt *a, *b;
    char path[200];
    write_model();
    must(rsh_run(2, load_and_save, folder));
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    must(rsh_ckpt_open(path, NULL, &a));
    snprintf(path, sizeof path, "%s/saved", folder);
    must(rsh_ckpt_open(path, NULL, &b));
    assert_int_equal(rsh_ckpt_ntensors(b), 5);
    static const char *const same[] = {"l.0.q", "l.0.k", "l.0.v", "o"};
    for (int i = 0; i < 4; i++) {
        float x[48], y[48];
        must(rsh_ckpt_read(a, rsh_ckpt_find(a, same[i]), NULL, &(rsh_memory){x, NULL}));
        must(rsh_ckpt_read(b, rsh_ckpt_find(b, same[i]), NULL, &(rsh_memory){y, NULL}));
        assert_memory_equal(x, y, strcmp(same[i], "l.0.q") && strcmp(same[i], "o") ? 96 : 192);
    }
    rsh_ckpt_free(a);
    rsh_ckpt_free(b);
    snprintf(path, sizeof path, "%s/saved.reshard-unmapped", folder);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Any box can be read into memory with any strides. */
static void boxes_of_mapped_tensors_are_read(void **state) {
    (void)state;
    char path[200];
    rsh_ckpt *c, *m;
    rsh_ckpt_rules *map;
    float got[3 * 8];
    write_model();
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    must(rsh_ckpt_open(path, NULL, &c));
    must(rsh_ckpt_rules_parse(map_text, "map", &map));
    must(rsh_ckpt_map(c, map, &m));
    for (int k = 0; k < N; k++) {
        rsh_box box = {{1, 2}, {4, 5}};
        must(rsh_ckpt_read(m, rsh_ckpt_find(m, names[k]), &box, &(rsh_memory){got, (int64_t[]){1, 3}}));
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 3; j++)
                assert_true(got[i + 3 * j] == expected(names[k], (int64_t[]){1 + i, 2 + j}));
    }
    assert_int_equal(rsh_ckpt_map(m, map, &m), RSH_EUNSUP);
    rsh_ckpt_free(m);
    rsh_ckpt_rules_free(map);
    must(rsh_ckpt_rules_parse("x = cat(0, o, nothing)\n*\n", "map", &map));
    assert_int_equal(rsh_ckpt_map(c, map, &m), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "\"nothing\" is not in the checkpoint"));
    rsh_ckpt_rules_free(map);
    rsh_ckpt_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_program_loads_and_saves_through_maps),
        IN_FOLDER(boxes_of_mapped_tensors_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

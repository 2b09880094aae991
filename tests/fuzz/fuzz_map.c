/* Fuzz map: any text either is a rule file or causes an error.  The rules are applied to a small checkpoint, and every
 * target must be readable. */
#include "fuzz/held_file.h"

#include "ckpt/map.h"
#include "ckpt/view_read.h"

/* Opens a checkpoint with ten tensors of 4 x 6 elements and one of scales. */
static rsh_ckpt *open_small(void) {
    static const char *const names[] = {"a", "b", "l.0.q", "l.0.k", "l.1.q", "l.1.k", "e.0", "e.1", "m.w", "x y", "s"};
    static char file[4096];
    char header[1500] = "{";
    size_t n = 1, at = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes = i == 10 ? 4 * 2 * 3 : 4 * 6 * 4;
        n += (size_t)snprintf(header + n, sizeof header - n,
                              "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
                              "\"data_offsets\":[%zu,%zu]}",
                              i ? "," : "", names[i], i == 10 ? "2,3" : "4,6", at, at + bytes);
        at += bytes;
    }
    n += (size_t)snprintf(header + n, sizeof header - n, "}");
    memset(file, 0, sizeof file);
    for (int i = 0; i < 2; i++) file[i] = (char)(n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < at; i++) file[8 + n + i] = (char)(i % 64);
    must(8 + n + at <= sizeof file);
    char path[64];
    rsh_ckpt *c = NULL;
    int fd = hold_file(file, 8 + n + at, path);
    must(!rsh_ckpt_open(path, NULL, &c));
    (void)fd; /* stays open until the process ends */
    return c;
}

static void read_targets(const rsh_ckpt *m) {
    for (int64_t i = 0; i < m->ntensors; i++) {
        const rshi_ckpt_tensor *t = &m->tensor[i];
        int64_t count = rshi_ckpt_count(t);
        if (!t->view || count > 1 << 16) continue;
        float *all = malloc((size_t)count * sizeof *all + 1);
        must(all != NULL);
        rshi_view_read(m, t->view, t->name, NULL, RSH_F32, all, NULL);
        free(all);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static rsh_ckpt *c;
    if (!c) c = open_small();
    uint64_t live = rsh_alloc_get_stats().live;
    char *text = malloc(size + 1);
    rsh_ckpt_rules *r;
    rsh_ckpt *m;
    must(text != NULL);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (!rsh_ckpt_rules_parse(text, "fuzz", &r)) {
        if (!rshi_map_apply(c, r, NULL, &m)) {
            read_targets(m);
            rsh_ckpt_free(m);
        }
        rsh_ckpt_rules_free(r);
    }
    free(text);
    must(rsh_alloc_get_stats().live == live);
    return 0;
}

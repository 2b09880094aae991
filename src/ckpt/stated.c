/* Stated: checks the digests that the files of a checkpoint state. */
#include "ckpt/impl.h"

#include <string.h>

rsh_status rshi_stated_compare(const rsh_ckpt *c, int64_t tensor, rsh_digest elements, bool *damaged) {
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    char text[RSH_DIGEST_TEXT];
    rsh_digest stated, got;
    if (!t->digest || rsh_digest_parse(t->digest, &stated)) return RSH_OK;
    RSH_TRY(rsh_digest_begin(rsh_dtype_name(t->dtype), t->ndim, t->shape, &got));
    rsh_digest_merge(&got, elements);
    rsh_digest_text(got, text);
    *damaged = memcmp(&stated, &got, sizeof stated) != 0;
    RSH_REQUIRE(
        !*damaged, RSH_EIO,
        "%s: tensor \"%.300s\" is damaged: its files state the digest %s, but its elements have %s; restore the "
        "files from another copy",
        c->path, t->name, t->digest, text);
    return RSH_OK;
}

bool rshi_stated_known(const rsh_ckpt *c, int64_t tensor) {
    rsh_digest d;
    return c->tensor[tensor].digest && !rsh_digest_parse(c->tensor[tensor].digest, &d);
}

typedef struct checking {
    const rsh_ckpt *c;
    const int64_t *tensor;
} checking;

static void describe_sides(void *ctx, int64_t i, rshi_file_tensor *from, rshi_file_tensor *to) {
    const checking *k = ctx;
    const rshi_ckpt_tensor *t = &k->c->tensor[k->tensor[i]];
    *from = (rshi_file_tensor){t->name, t->dtype, t->ndim, t->shape, t->layout, k->c->parts + t->part, NULL};
    to->dtype = t->dtype;
}

rsh_status rshi_stated_check(const rsh_ckpt *c, int64_t n, const int64_t *tensors, uint64_t mem, int threads,
                             bool *damaged) {
    checking k = {c, tensors};
    rshi_job j = {
        .source = c, .mode = RSHI_WINDOW_DIGEST, .digest = true, .ntensors = n, .describe = describe_sides, .ctx = &k};
    if (!n) return RSH_OK;
    j.mem = mem;
    j.threads = threads;
    rsh_status st = rshi_job_plan(&j);
    if (!st) st = rshi_job_run(&j);
    for (int64_t i = 0; i < n && !st; i++) st = rshi_stated_compare(c, tensors[i], j.sum[i], damaged);
    rshi_job_free(&j);
    return st;
}

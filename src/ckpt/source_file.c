/* File: reads one safetensors file, and adds such a file to a checkpoint of several files. */
#include "ckpt/ckpt.h"

#include <string.h>

#include <reshard/shard.h>

/* Adds metadata, except for keys that describe layouts and digests. */
static rsh_status add_metadata(rsh_ckpt *c, const rshi_header *h) {
    for (int64_t i = 0; i < h->nmeta; i++) {
        if (!strncmp(h->meta[i].key, "reshard.", 8)) continue;
        RSH_TRY(rshi_ckpt_add_meta(c, h->meta[i].key, h->meta[i].value));
    }
    return RSH_OK;
}

rsh_status rshi_header_meta_of(const rshi_header *h, const char *prefix, const char *name, const char **out) {
    rshi_text key = {0};
    *out = NULL;
    if (!h->nmeta) return RSH_OK;
    rshi_text_add(&key, "%s%s", prefix, name);
    if (key.failed) return rshi_text_free(&key), rshi_nomem();
    *out = rshi_header_meta(h, key.data);
    rshi_text_free(&key);
    return RSH_OK;
}

/* Returns whether a text is a digest that can be checked: "d2:...".  A "d" with another number belongs to an unknown
 * version and is not checked. */
static bool is_digest(const char *text) {
    rsh_digest d;
    const char *p = text + 1;
    if (!rsh_digest_parse(text, &d)) return true;
    if (*text != 'd' || !strncmp(text, "d2:", 3)) return false;
    while (*p >= '0' && *p <= '9') p++;
    return p > text + 1 && *p == ':';
}

/* Copies the value of "reshard.digest/<name>" in the header to the checkpoint's store; *out is NULL if the header has
 * none. */
rsh_status rshi_ckpt_take_digest(rsh_ckpt *c, const rshi_header *h, const char *name, const char **out) {
    const char *found;
    *out = NULL;
    RSH_TRY(rshi_header_meta_of(h, "reshard.digest/", name, &found));
    if (!found) return RSH_OK;
    RSH_REQUIRE(is_digest(found), RSH_EVALUE,
                "%.150s: tensor \"%.200s\": the stated digest must be \"d2:\" and 32 hexadecimal digits, got \"%.60s\"",
                c->file[c->nfiles - 1].path, name, found);
    *out = rshi_store_text(&c->store, found, strlen(found));
    return *out ? RSH_OK : rshi_nomem();
}

static rsh_status add_tensors(rsh_ckpt *c, int32_t file, const rshi_header *h) {
    for (int64_t i = 0; i < h->ntensors; i++) {
        const rshi_header_tensor *t = &h->tensor[i];
        int64_t tensor;
        RSH_TRY(rshi_ckpt_add_tensor(c, t->name, strlen(t->name), (rsh_dtype)t->dtype, t->ndim, h->shapes + t->shape,
                                     file, t->at, &tensor));
        RSH_TRY(rshi_ckpt_set_whole(c, tensor, file, t->begin));
        RSH_TRY(rshi_ckpt_take_digest(c, h, t->name, &c->tensor[tensor].digest));
    }
    return RSH_OK;
}

rsh_status rshi_ckpt_add_safetensors(rsh_ckpt *c, const char *directory, const char *name, int32_t *file) {
    rshi_header h;
    RSH_TRY(rshi_ckpt_add_file(c, directory, name, file));
    RSH_TRY(rshi_header_read(c->file[*file].path, c->file[*file].path, &h));
    c->file[*file].hash = h.hash;
    rsh_status st = add_tensors(c, *file, &h);
    if (!st) st = add_metadata(c, &h);
    rshi_header_free(&h);
    return st;
}

static bool detect_file(const rshi_ckpt_place *place) { return !place->is_directory; }

static rsh_status read_safetensors_file(const rshi_ckpt_place *place, rsh_ckpt *c) {
    int32_t file;
    return rshi_ckpt_add_safetensors(c, NULL, place->path, &file);
}

const rshi_ckpt_kind rshi_kind_file = {"safetensors file", detect_file, read_safetensors_file, false};

/* Target: plans the files of a result, and the offset of every part in them. */
#include "ckpt/gguf.h"
#include "ckpt/impl.h"
#include "ckpt/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_PARTS  INT64_C(8388608) /* most parts of a target; each takes about 50 bytes of memory */
#define WHOLE_SHARD UINT64_C(5000000000) /* most bytes of a file; this is the default of Hugging Face's tools */

void rshi_target_free(rshi_target *t) {
    for (int64_t i = 0; t->tensor && i < t->ntensors; i++) rsh_layout_free(t->tensor[i].layout);
    for (int64_t i = 0; t->file && i < t->nfiles; i++) rshi_free(t->file[i].name);
    rshi_free(t->tensor);
    rshi_free(t->parts);
    rshi_free(t->file);
    rshi_free(t->entry);
    *t = (rshi_target){0};
}

static uint64_t bytes_of(rsh_dtype dtype, int64_t count) {
    return (uint64_t)count * (uint64_t)rsh_dtype_bits(dtype) / 8;
}

/* ---- parts ---- */

static rsh_status add_entry(rshi_target *t, int64_t tensor, uint64_t bytes) {
    RSH_TRY(RSHI_GROW(t->entry, t->nentries + 1, &t->entries_room));
    t->entry[t->nentries++] = (rshi_target_entry){tensor, t->nparts, 0, bytes};
    return RSH_OK;
}

static rsh_status add_part(rshi_target *t) {
    RSH_REQUIRE(t->nparts < MOST_PARTS, RSH_EUNSUP,
                "%s: %" PRId64 " tensors on %" PRId64 " ranks have more than %" PRId64
                " parts; convert fewer tensors at a time, with --include",
                t->source->path, t->ntensors, t->nranks, MOST_PARTS);
    RSH_TRY(RSHI_GROW(t->parts, t->nparts + 1, &t->parts_room));
    t->parts[t->nparts++] = (rshi_ckpt_part){-1, 0};
    return RSH_OK;
}

static rsh_status add_rank_part(rshi_target *t, int64_t tensor, int64_t rank, bool dedup) {
    const rsh_layout *l = t->tensor[tensor].layout;
    rsh_part part;
    int64_t of = -1;
    RSH_TRY(rsh_layout_part(l, rank, 0, &part));
    if (dedup) RSH_TRY(rshi_part_copy_of(l, rank, &of));
    RSH_REQUIRE(part.count * rsh_dtype_bits(rsh_layout_dtype(l)) % 8 == 0, RSH_EUNSUP,
                "tensor \"%.300s\": %s: the part of rank %" PRId64 " does not have a whole number of bytes",
                t->source->tensor[t->tensor[tensor].source].name, rsh_layout_text(l), rank);
    if (of < 0) RSH_TRY(add_entry(t, tensor, bytes_of(rsh_layout_dtype(l), part.count)));
    return add_part(t);
}

/* Lists entries in the order of tensors; the rank of an entry follows from its part. */
static rsh_status list_parts(rshi_target *t, bool dedup) {
    for (int64_t i = 0; i < t->ntensors; i++) {
        rshi_target_tensor *x = &t->tensor[i];
        x->part = t->nparts;
        if (x->layout) {
            for (int64_t k = 0; k < rsh_layout_nranks(x->layout); k++)
                RSH_TRY(add_rank_part(t, i, rsh_layout_rank(x->layout, k), dedup));
        } else {
            RSH_TRY(add_entry(t, i, bytes_of(x->dtype, rshi_ckpt_count(&t->source->tensor[x->source]))));
            RSH_TRY(add_part(t));
        }
        x->nparts = t->nparts - x->part;
    }
    return RSH_OK;
}

/* ---- files ---- */

typedef struct filing {
    rshi_target *t;
    uint64_t most;        /* most bytes of data in a file */
    int64_t most_tensors; /* most tensors in a file */
    int64_t *first; /* [nranks + 1]: index in `order` of each rank's first entry */
    int64_t *order; /* entries sorted by rank, then by tensor */
    bool parts;     /* true: a rank may have several files */
} filing;

static int64_t entry_rank(const rshi_target *t, const rshi_target_entry *e) {
    const rshi_target_tensor *x = &t->tensor[e->tensor];
    return x->layout ? rsh_layout_rank(x->layout, e->part - x->part) : 0;
}

static rsh_status sort_by_rank(filing *f) {
    rshi_target *t = f->t;
    int64_t n = rshi_max(1, t->nranks);
    f->first = rshi_calloc((size_t)n + 1, sizeof *f->first);
    f->order = rshi_alloc((size_t)t->nentries, sizeof *f->order);
    int64_t *next = rshi_alloc((size_t)n, sizeof *next);
    if (f->first && f->order && next) {
        for (int64_t i = 0; i < t->nentries; i++) f->first[entry_rank(t, &t->entry[i]) + 1]++;
        for (int64_t r = 0; r < n; r++) f->first[r + 1] += f->first[r];
        memcpy(next, f->first, (size_t)n * sizeof *next);
        for (int64_t i = 0; i < t->nentries; i++) f->order[next[entry_rank(t, &t->entry[i])]++] = i;
    }
    rsh_status st = f->first && f->order && next ? RSH_OK : rshi_nomem();
    rshi_free(next);
    return st;
}

static rsh_status add_file(rshi_target *t, int64_t rank, int64_t entry) {
    RSH_TRY(RSHI_GROW(t->file, t->nfiles + 1, &t->files_room));
    t->file[t->nfiles++] = (rshi_target_file){.rank = rank, .entry = entry};
    return RSH_OK;
}

/* Returns the bytes that a tensor takes in a file.  GGUF aligns every tensor. */
static uint64_t bytes_in_file(const rshi_target *t, uint64_t bytes) {
    uint64_t align = t->gguf ? t->gguf->align : 1;
    return (bytes + align - 1) / align * align;
}

/* Assigns the entries of one rank to one or more files, and appends them to `sorted`. */
static rsh_status file_rank(filing *f, int64_t rank, rshi_target_entry *sorted, int64_t *n) {
    rshi_target *t = f->t;
    uint64_t used = 0;
    RSH_TRY(add_file(t, t->by_rank ? rank : -1, *n));
    for (int64_t i = f->first[rank]; i < f->first[rank + 1]; i++) {
        const rshi_target_entry *e = &t->entry[f->order[i]];
        uint64_t bytes = bytes_in_file(t, e->end);
        bool full = (used && used + bytes > f->most) || t->file[t->nfiles - 1].nentries == f->most_tensors;
        if (f->parts && full) {
            RSH_TRY(add_file(t, t->by_rank ? rank : -1, *n));
            used = 0;
        }
        used += bytes;
        sorted[(*n)++] = *e;
        t->file[t->nfiles - 1].nentries++;
    }
    return RSH_OK;
}

static rsh_status assign_entries(filing *f) {
    rshi_target *t = f->t;
    int64_t n = 0;
    RSH_TRY(sort_by_rank(f));
    rshi_target_entry *sorted = rshi_alloc((size_t)t->nentries, sizeof *sorted);
    if (!sorted) return rshi_nomem();
    rsh_status st = RSH_OK;
    for (int64_t r = 0; r < rshi_max(1, t->nranks) && !st; r++) st = file_rank(f, r, sorted, &n);
    if (st) return rshi_free(sorted), st;
    rshi_free(t->entry);
    t->entry = sorted;
    t->entries_room = t->nentries;
    return RSH_OK;
}

/* ---- offsets in a file: larger elements first, so that all are aligned without padding ---- */

static int element_bits(const rshi_target *t, const rshi_target_entry *e) {
    return rsh_dtype_bits(t->tensor[e->tensor].dtype);
}

/* Sets the offsets of entries in the order of the source, each aligned. */
static rsh_status place_aligned(rshi_target *t, const rshi_target_file *f) {
    uint64_t at = 0;
    for (int64_t i = f->entry; i < f->entry + f->nentries; i++) {
        rshi_target_entry *e = &t->entry[i];
        uint64_t bytes = e->end;
        e->begin = at;
        e->end = at + bytes;
        at += bytes_in_file(t, bytes);
    }
    return RSH_OK;
}

/* Sorts entries by element size, without changing their order otherwise, and sets their offsets. */
static rsh_status place_entries(rshi_target *t, const rshi_target_file *f) {
    static const int bits[] = {128, 64, 32, 16, 8, 6, 4};
    rshi_target_entry *list = t->entry + f->entry, *sorted = rshi_alloc((size_t)f->nentries, sizeof *sorted);
    int64_t n = 0;
    uint64_t at = 0;
    if (!sorted) return rshi_nomem();
    for (size_t k = 0; k < sizeof bits / sizeof *bits; k++)
        for (int64_t i = 0; i < f->nentries; i++)
            if (element_bits(t, &list[i]) == bits[k]) sorted[n++] = list[i];
    for (int64_t i = 0; i < n; i++) {
        uint64_t bytes = sorted[i].end;
        list[i] = (rshi_target_entry){sorted[i].tensor, sorted[i].part, at, at + bytes};
        at += bytes;
    }
    rshi_free(sorted);
    return RSH_OK;
}

typedef struct measuring {
    uint64_t bytes, hash;
} measuring;

static int measure_header(void *ctx, const char *text, size_t length) {
    measuring *m = ctx;
    m->bytes += length;
    m->hash = rshi_hash(text, length, m->hash);
    return 0;
}

static rsh_status finish_file(rshi_target *t, int64_t i) {
    rshi_target_file *f = &t->file[i];
    measuring m = {0, t->hash};
    rsh_sink sink = {measure_header, &m};
    RSH_TRY(t->gguf ? place_aligned(t, f) : place_entries(t, f));
    RSH_TRY(rshi_target_header(t, i, NULL, &sink));
    RSH_REQUIRE(t->gguf || m.bytes - 8 <= RSHI_HEADER_MOST, RSH_EUNSUP,
                "%s: the header would have %" PRIu64
                " bytes, but safetensors allows %u; use a smaller --max-shard-size, so that there are fewer tensors "
                "per file",
                f->name, m.bytes - 8, RSHI_HEADER_MOST);
    f->header = f->size = m.bytes;
    for (int64_t k = f->entry; k < f->entry + f->nentries; k++) {
        t->parts[t->entry[k].part] = (rshi_ckpt_part){(int32_t)i, f->header + t->entry[k].begin};
        f->size = f->header + bytes_in_file(t, t->entry[k].end);
    }
    t->bytes += f->size;
    t->hash = rshi_hash(f->name, strlen(f->name), m.hash);
    return RSH_OK;
}

/* ---- names ---- */

static rsh_status keep_name(rshi_target_file *f, rshi_text *t) {
    if (t->failed) return rshi_text_free(t), rshi_nomem();
    f->name = t->data;
    return RSH_OK;
}

static rsh_status name_gguf(rshi_target *t, const char *single) {
    RSH_REQUIRE(t->nfiles <= 65535, RSH_EUNSUP, "GGUF models are split into at most 65535 files, got %" PRId64,
                t->nfiles);
    for (int64_t i = 0; i < t->nfiles; i++) {
        rshi_text name = {0};
        if (single)
            rshi_text_add(&name, "%s", single);
        else if (t->nfiles == 1)
            rshi_text_add(&name, "%s.gguf", t->gguf->stem);
        else
            rshi_text_add(&name, "%s-%05" PRId64 "-of-%05" PRId64 ".gguf", t->gguf->stem, i + 1, t->nfiles);
        RSH_TRY(keep_name(&t->file[i], &name));
    }
    return RSH_OK;
}

static rsh_status name_whole(rshi_target *t, const char *single) {
    for (int64_t i = 0; i < t->nfiles; i++) {
        rshi_text name = {0};
        if (single)
            rshi_text_add(&name, "%s", single);
        else if (t->nfiles == 1)
            rshi_text_add(&name, "model.safetensors");
        else
            rshi_text_add(&name, "model-%05" PRId64 "-of-%05" PRId64 ".safetensors", i + 1, t->nfiles);
        RSH_TRY(keep_name(&t->file[i], &name));
    }
    t->index = !single && t->nfiles > 1;
    return RSH_OK;
}

static rsh_status name_ranks(rshi_target *t) {
    for (int64_t i = 0, part = 0; i < t->nfiles; i++) {
        rshi_target_file *f = &t->file[i];
        rshi_text name = {0};
        part = i && f[-1].rank == f->rank ? part + 1 : 0;
        if (t->rules->files) {
            RSH_TRY(rshi_files_name(t->rules->files, f->rank, part, &f->name));
            continue;
        }
        rshi_text_add(&name, "rank-%05" PRId64 "-of-%05" PRId64 ".safetensors", f->rank, t->nranks);
        RSH_TRY(keep_name(f, &name));
    }
    return RSH_OK;
}

/* ---- all of it ---- */

static rsh_status make_files(rshi_target *t, const rsh_convert_opts *o, const char *single) {
    filing f = {.t = t, .most = o->max_shard ? o->max_shard : t->by_rank || t->gguf ? UINT64_MAX : WHOLE_SHARD};
    bool limited = o->max_shard || o->max_tensors;
    const char *limit = o->max_shard ? "--max-shard-size" : "--max-shard-tensors";
    f.most_tensors = o->max_tensors ? o->max_tensors : INT64_MAX;
    f.parts = t->by_rank ? t->rules->files && rshi_files_names(t->rules->files, "part") : !single;
    RSH_REQUIRE(!t->by_rank || !limited || f.parts, RSH_EVALUE,
                "%s: %s needs {part} in the files line, as in \"files rank-{rank}-part-{part}.safetensors\"",
                t->rules->name, limit);
    RSH_REQUIRE(!single || !limited, RSH_EVALUE,
                "%.300s: %s cannot split a single file; give a directory as the target%s", single, limit,
                t->gguf ? ", and --format gguf" : "");
    rsh_status st = assign_entries(&f);
    rshi_free(f.first);
    rshi_free(f.order);
    if (!st) st = t->by_rank ? name_ranks(t) : t->gguf ? name_gguf(t, single) : name_whole(t, single);
    for (int64_t i = 0; i < t->nfiles && !st; i++) st = finish_file(t, i);
    return st;
}

/* Returns whether the rules name ranks.  Rules without a mesh only select, rename and build whole tensors. */
static bool names_ranks(const rsh_ckpt_rules *r) {
    if (r->mesh || r->files) return true;
    for (int64_t i = 0; i < r->nrules; i++) {
        const rsh_layout_desc *form = r->rule[i].form ? rsh_form_describe(r->rule[i].form) : NULL;
        if (form && (form->naxes || form->is_boxes)) return true;
    }
    return false;
}

/* Rejects endings of other formats: the user expects a file of that format, not a directory. */
static rsh_status check_ending(const char *name, bool gguf) {
    static const char *const endings[] = {".bin", ".pt",  ".pth",  ".npz", ".npy",
                                          ".pkl", ".onnx", ".h5",   ".json", ".gguf"};
    RSH_REQUIRE(!gguf || !rshi_ckpt_ends(name, ".safetensors"), RSH_EVALUE,
                "%s: the target of --format gguf must be a file whose name ends in .gguf, or a directory", name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings - gguf; i++)
        RSH_REQUIRE(!rshi_ckpt_ends(name, endings[i]), RSH_EVALUE,
                    "%s: the result is safetensors, not %s; give a target that ends in .safetensors, or a directory",
                    name, endings[i]);
    const char *ending = strrchr(name, '.');
    bool upper = ending && !strcasecmp(ending, ".safetensors") && strcmp(ending, ".safetensors");
    RSH_REQUIRE(!upper, RSH_EVALUE, "%s: a target that ends in \"%s\" would be a directory; write .safetensors", name,
                ending);
    return RSH_OK;
}

bool rshi_target_is_file(const char *name) {
    return rshi_ckpt_ends(name, ".safetensors") || rshi_ckpt_ends(name, ".gguf");
}

rsh_status rshi_target_make(const rsh_ckpt *source, const rsh_convert_opts *opts, const char *name, rshi_target *out) {
    bool by_rank = opts->to && names_ranks(opts->to);
    *out = (rshi_target){
        .source = source, .rules = opts->to, .by_rank = by_rank, .digests = by_rank && !opts->no_digest};
    const char *slash = strrchr(name, '/');
    bool single = rshi_target_is_file(name), gguf = !strcmp(opts->format, "gguf");
    RSH_TRY(check_ending(name, gguf));
    if (gguf) out->gguf = source->gguf;
    RSH_REQUIRE(!single || !by_rank, RSH_EVALUE,
                "%s: rank files are written to a directory, whose name must not end in .safetensors", name);
    RSH_REQUIRE(!opts->to || !opts->to->files || rshi_ckpt_ends(opts->to->files, ".safetensors"), RSH_EVALUE,
                "%s: \"files %.200s\": names of rank files must end in .safetensors",
                opts->to->name, opts->to->files);
    rsh_status st = rshi_target_lay_out(out);
    if (!st && !out->ntensors)
        st = rshi_fail(RSH_EVALUE,
                       "%s: no tensor is left to convert; check --include, --exclude "
                       "and drop lines",
                       source->path);
    if (!st) st = list_parts(out, opts->dedup);
    if (!st) st = make_files(out, opts, !single ? NULL : slash ? slash + 1 : name);
    if (st) rshi_target_free(out);
    return st;
}

/* Ranks: reads rank files that reshard wrote: one or more files per rank, with the layout of every tensor in
 * __metadata__.  Files in subdirectories also state the pattern of their names, so that all can be found. */
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* State of reading the current file. */
typedef struct taking {
    rsh_ckpt *c;
    const rshi_ckpt_place *place;
    const rshi_header *h;
    int32_t file;
    int64_t rank;
    int64_t nfiles; /* number of files of the directory; every rank has at least one */
} taking;

#define REFUSE(t, e, ...) rshi_ckpt_refuse((t)->c, (t)->file, (e)->at, (e)->name, __VA_ARGS__)
#define REFUSE_UNLESS(t, e, condition, ...)                                                                            \
    do {                                                                                                               \
        if (!(condition)) return REFUSE(t, e, __VA_ARGS__);                                                            \
    } while (0)

/* Finds the first file that is missing among rank-00000-of-SIZE.safetensors and so on.  Returns false if none is
 * missing, or if the files have other names. */
static bool missing_file(const rshi_ckpt_place *place, int64_t *rank, int64_t *size) {
    int64_t known = 0, next = 0, r, n;
    for (int64_t i = 0; i < place->nnames; i++) { /* names are sorted, so ranks are ascending */
        if (!rshi_files_match("rank-{rank}-of-{part}.safetensors", place->name[i], &r, &n)) continue;
        if (known && n != known) return false;
        known = n;
        next += r == next;
    }
    *rank = next;
    *size = known;
    return next < known;
}

static rsh_status add_first_part(const taking *t, const rshi_header_tensor *e, const char *text, int64_t *tensor) {
    rsh_layout *l = NULL;
    rsh_ckpt *c = t->c;
    int64_t missing = 0, size = 0;
    rsh_status st = rsh_layout_parse(text, &l);
    if (st == RSH_EVALUE || st == RSH_ETYPE)
        return REFUSE(t, e, "its layout \"%.150s\" cannot be parsed: %.200s", text, rsh_error_detail());
    if (st) return st;
    int64_t n = rsh_layout_nranks(l);
    if (n > t->nfiles && missing_file(t->place, &missing, &size))
        st = rshi_fail(RSH_EVALUE, "%.200s: missing rank-%05" PRId64 "-of-%05" PRId64 ".safetensors: found %" PRId64
                       " of %" PRId64 " rank files", c->path, missing, size, t->nfiles, size);
    else if (n > t->nfiles)
        st = REFUSE(t, e, "its layout \"%.150s\" has %" PRId64 " ranks, but there %s only %" PRId64 " rank file%s",
                    text, n, t->nfiles == 1 ? "is" : "are", t->nfiles, t->nfiles == 1 ? "" : "s");
    rshi_ckpt_part *parts = st ? NULL : rshi_alloc((size_t)n, sizeof *parts);
    if (!st && !parts) st = rshi_nomem();
    if (!st)
        st = rshi_ckpt_add_tensor(c, e->name, strlen(e->name), rsh_layout_dtype(l), rsh_layout_ndim(l),
                                  rsh_layout_shape(l), t->file, e->at, tensor);
    for (int64_t i = 0; i < n && !st; i++) {
        parts[i] = (rshi_ckpt_part){-1, 0};
        if (rsh_layout_nparts(l, rsh_layout_rank(l, i)) != 1)
            st = REFUSE(t, e, "its layout \"%.150s\" gives a rank several parts, which rank files cannot have", text);
    }
    if (!st) st = rshi_ckpt_set_parts(c, *tensor, l, n, parts);
    rshi_free(parts);
    rsh_layout_free(l);
    return st;
}

void rshi_part_stored_shape(const rsh_layout *l, const rsh_part *p, int64_t *shape) {
    const rsh_layout_desc *d = rsh_layout_describe(l);
    for (int k = 0; k < p->ndim; k++) shape[k] = p->shape[d->has_order && p->ndim == d->ndim ? d->order[k] : k];
}

static rsh_status check_shape(const taking *t, const rshi_header_tensor *e, const rsh_layout *l) {
    rsh_part part;
    int64_t want[RSH_MAX_NDIM];
    REFUSE_UNLESS(t, e, rsh_layout_nparts(l, t->rank) == 1, "rank %" PRId64 " is not in its layout %.150s",
                  t->rank, rsh_layout_text(l));
    RSH_TRY(rsh_layout_part(l, t->rank, 0, &part));
    rshi_part_stored_shape(l, &part, want);
    REFUSE_UNLESS(t, e, (rsh_dtype)e->dtype == rsh_layout_dtype(l), "its dtype is %s, but its layout states %s",
                  rsh_dtype_name((rsh_dtype)e->dtype), rsh_dtype_name(rsh_layout_dtype(l)));
    REFUSE_UNLESS(t, e, e->ndim == part.ndim, "it has %d dims, but the part of rank %" PRId64 " in its layout has %d",
                  e->ndim, t->rank, part.ndim);
    for (int d = 0; d < part.ndim; d++)
        REFUSE_UNLESS(t, e, t->h->shapes[e->shape + (uint32_t)d] == want[d],
                      "size %" PRId64 " in dim %d, but the part of rank %" PRId64 " in its layout has %" PRId64,
                      t->h->shapes[e->shape + (uint32_t)d], d, t->rank, want[d]);
    return RSH_OK;
}

/* Checks that this file states the same layout as the first file.  Files of other tools may spell it differently. */
static rsh_status check_layout(const taking *t, const rshi_header_tensor *e, const char *text, const rsh_layout *l) {
    rsh_layout *own = NULL;
    if (!strcmp(text, rsh_layout_text(l))) return RSH_OK;
    rsh_status st = rsh_layout_parse(text, &own);
    bool equal = !st && rsh_layout_equal(own, l);
    rsh_layout_free(own);
    if (st == RSH_ENOMEM) return st;
    REFUSE_UNLESS(t, e, equal, "its layout is %.100s here, but %.100s in another file", text, rsh_layout_text(l));
    return RSH_OK;
}

/* Checks that all files state the same digest for a tensor. */
static rsh_status check_digest(const taking *t, const rshi_header_tensor *e, rshi_ckpt_tensor *tensor) {
    const char *text;
    RSH_TRY(rshi_ckpt_take_digest(t->c, t->h, e->name, &text));
    if (!tensor->digest) tensor->digest = text;
    REFUSE_UNLESS(t, e, !text || !strcmp(text, tensor->digest),
                  "its digest is %.60s here, but %.60s in another file", text, tensor->digest);
    return RSH_OK;
}

static rsh_status add_rank_tensor(const taking *t, const rshi_header_tensor *e) {
    rsh_ckpt *c = t->c;
    const char *text;
    int64_t i = rshi_ckpt_find(c, e->name, strlen(e->name));
    RSH_TRY(rshi_header_meta_of(t->h, "reshard.layout/", e->name, &text));
    REFUSE_UNLESS(t, e, text, "__metadata__ has no \"reshard.layout/%.150s\"", e->name);
    if (i < 0) RSH_TRY(add_first_part(t, e, text, &i));
    const rsh_layout *l = c->tensor[i].layout;
    RSH_TRY(check_layout(t, e, text, l));
    RSH_TRY(check_shape(t, e, l));
    RSH_TRY(check_digest(t, e, &c->tensor[i]));
    rshi_ckpt_part *p = &c->parts[c->tensor[i].part + rshi_layout_ordinal(l, t->rank)];
    REFUSE_UNLESS(t, e, p->file < 0, "the part of rank %" PRId64 " is also in %.150s", t->rank, c->file[p->file].name);
    *p = (rshi_ckpt_part){t->file, e->begin};
    return RSH_OK;
}

static rsh_status read_rank_number(taking *t) {
    const char *text = rshi_header_meta(t->h, "reshard.rank");
    char *end = NULL;
    t->rank = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    RSH_REQUIRE(t->rank >= 0 && !*end, RSH_EVALUE,
                "%s: __metadata__ has no number \"reshard.rank\", which every rank file must have; remove files that "
                "do not belong to the checkpoint",
                t->c->file[t->file].path);
    return RSH_OK;
}

static rsh_status add_header(taking *t) {
    RSH_TRY(read_rank_number(t));
    for (int64_t i = 0; i < t->h->ntensors; i++) RSH_TRY(add_rank_tensor(t, &t->h->tensor[i]));
    for (int64_t i = 0; i < t->h->nmeta; i++)
        if (strncmp(t->h->meta[i].key, "reshard.", 8))
            RSH_TRY(rshi_ckpt_add_meta(t->c, t->h->meta[i].key, t->h->meta[i].value));
    return RSH_OK;
}

static rsh_status read_rank_file(rsh_ckpt *c, const rshi_ckpt_place *place, const char *name, int64_t nfiles) {
    rshi_header h;
    taking t = {.c = c, .place = place, .h = &h, .nfiles = nfiles};
    RSH_TRY(rshi_ckpt_add_file(c, place->path, name, &t.file));
    RSH_TRY(rshi_header_read(c->file[t.file].path, c->file[t.file].path, &h));
    c->file[t.file].hash = h.hash;
    rsh_status st = add_header(&t);
    rshi_header_free(&h);
    return st;
}

/* Checks that everything a rank holds is in a file.  Copies may be missing, but the first holder's copy of each piece
 * must exist. */
static rsh_status check_rank(const rsh_ckpt *c, const rshi_ckpt_tensor *t, int64_t rank) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(t->layout, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++)
        if (rshi_piece_holder_index(t->layout, &list[i], rank) == 0)
            st = rshi_fail(RSH_EVALUE,
                           "%s: tensor \"%.200s\": the part of rank %" PRId64
                           " is in no file; a rank file is missing or incomplete (layout %.200s)",
                           c->path, t->name, rank, rsh_layout_text(t->layout));
    rshi_free(list);
    return st;
}

rsh_status rshi_ckpt_check_parts(const rsh_ckpt *c) {
    for (int64_t i = 0; i < c->ntensors; i++)
        for (int64_t k = 0; k < c->tensor[i].nparts; k++)
            if (c->parts[c->tensor[i].part + k].file < 0)
                RSH_TRY(check_rank(c, &c->tensor[i], rsh_layout_rank(c->tensor[i].layout, k)));
    return RSH_OK;
}

/* ---- files in subdirectories ---- */

enum { MOST_FOLDERS = 1000 }; /* of a search; other directories may have any contents */

typedef struct searching {
    const char *top;
    int left;      /* number of directories that may still be opened */
    char *pattern; /* owned; the result */
} searching;

/* Does the file state a pattern that matches its own name? */
static rsh_status look_into(searching *s, const rshi_ckpt_place *place, const char *below, const char *file) {
    char *path = NULL, *name = NULL;
    int64_t rank, part;
    rshi_header h;
    rsh_status st = rshi_ckpt_join(place->path, file, &path);
    if (!st) st = rshi_ckpt_join(below, file, &name);
    if (!st && !rshi_header_read(path, path, &h)) {
        const char *files = rshi_header_meta(&h, "reshard.rank") ? rshi_header_meta(&h, "reshard.files") : NULL;
        if (files && !rshi_files_check(files) && rshi_files_match(files, name, &rank, &part)) {
            s->pattern = rshi_ckpt_copy(files);
            if (!s->pattern) st = rshi_nomem();
        }
        rshi_header_free(&h);
    }
    rshi_free(path);
    rshi_free(name);
    return st;
}

static bool is_directory(const char *path) {
    struct stat s;
    return !lstat(path, &s) && S_ISDIR(s.st_mode);
}

/* Looks into the first safetensors file of the directory `below`, then into its subdirectories. */
static rsh_status search_folder(searching *s, const char *below, int levels) {
    rshi_ckpt_place place = {0};
    char *path = NULL;
    if (s->left-- <= 0) return RSH_OK;
    RSH_TRY(rshi_ckpt_join(below ? s->top : NULL, below ? below : s->top, &path));
    rsh_status st = rshi_ckpt_place_open(path, NULL, &place) == RSH_ENOMEM ? RSH_ENOMEM : RSH_OK;
    bool seen = false;
    for (int64_t i = 0; below && i < place.nnames && !st && !seen; i++)
        if ((seen = rshi_ckpt_ends(place.name[i], ".safetensors"))) st = look_into(s, &place, below, place.name[i]);
    for (int64_t k = 0; levels && k < 2 * place.nnames && !st && !s->pattern && s->left > 0; k++) {
        char *name = NULL, *full = NULL;
        int64_t i = k % place.nnames; /* hidden ones last, because some hold caches */
        if ((place.name[i][0] == '.') != (k >= place.nnames) || rshi_ckpt_ends(place.name[i], ".safetensors")) continue;
        st = rshi_ckpt_join(below, place.name[i], &name);
        if (!st) st = rshi_ckpt_join(path, place.name[i], &full);
        if (!st && is_directory(full)) st = search_folder(s, name, levels - 1);
        rshi_free(name);
        rshi_free(full);
    }
    rshi_ckpt_place_close(&place);
    rshi_free(path);
    return st;
}

/* Finds the pattern of the names of rank files in subdirectories; *out is NULL if there are none. */
static rsh_status find_pattern(const rshi_ckpt_place *place, char **out) {
    searching s = {.top = place->path, .left = MOST_FOLDERS};
    rsh_status st = search_folder(&s, NULL, RSHI_MOST_LEVELS);
    *out = s.pattern;
    return st;
}

typedef struct naming {
    char **name; /* owned */
    int64_t n, room;
} naming;

static rsh_status add_name(void *ctx, const char *name, int64_t rank) {
    naming *x = ctx;
    (void)rank;
    RSH_TRY(RSHI_GROW(x->name, x->n + 1, &x->room));
    x->name[x->n] = rshi_ckpt_copy(name);
    return x->name[x->n++] ? RSH_OK : rshi_nomem();
}

static rsh_status list_files(const rshi_ckpt_place *place, naming *x) {
    char *pattern = NULL;
    for (int64_t i = 0; i < place->nnames; i++) {
        if (!rshi_ckpt_ends(place->name[i], ".safetensors")) continue;
        RSH_TRY(rshi_ckpt_inside(place->path, place->name[i]));
        RSH_TRY(add_name(x, place->name[i], -1));
    }
    if (x->n) return RSH_OK;
    rsh_status st = find_pattern(place, &pattern);
    if (!st && pattern) st = rshi_files_each(pattern, place, add_name, x);
    rshi_free(pattern);
    return st;
}

/* ---- the format ---- */

/* Does the first safetensors file state a rank in its metadata? */
static bool detect_ranks(const rshi_ckpt_place *place) {
    rshi_header h;
    char *path = NULL, *pattern = NULL;
    bool ours = false, any = rshi_ckpt_place_has(place, "", ".safetensors");
    if (!place->is_directory || rshi_ckpt_place_has(place, "", ".safetensors.index.json")) return false;
    if (!any && !find_pattern(place, &pattern)) ours = pattern != NULL;
    rshi_free(pattern);
    for (int64_t i = 0; any && i < place->nnames; i++) {
        if (!rshi_ckpt_ends(place->name[i], ".safetensors")) continue;
        if (rshi_ckpt_join(place->path, place->name[i], &path)) return false;
        if (!rshi_header_read(path, path, &h)) {
            ours = rshi_header_meta(&h, "reshard.rank") != NULL;
            rshi_header_free(&h);
        }
        break;
    }
    rshi_free(path);
    return ours;
}

static rsh_status read_ranks(const rshi_ckpt_place *place, rsh_ckpt *c) {
    naming x = {0};
    int64_t missing, size;
    rsh_status st = list_files(place, &x);
    for (int64_t i = 0; i < x.n && !st; i++) st = read_rank_file(c, place, x.name[i], x.n);
    bool read = !st;
    if (read) st = rshi_ckpt_check_parts(c);
    if (read && st == RSH_EVALUE && missing_file(place, &missing, &size))
        st = rshi_fail(RSH_EVALUE, "%.200s: missing rank-%05" PRId64 "-of-%05" PRId64 ".safetensors: found %" PRId64
                       " of %" PRId64 " rank files", c->path, missing, size, x.n, size);
    for (int64_t i = 0; i < x.n; i++) rshi_free(x.name[i]);
    rshi_free(x.name);
    return st ? st : rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_ranks = {"sharded directory", detect_ranks, read_ranks, false};

/* Convert: rewrites a checkpoint with different layouts.  It plans the target, copies windows, and publishes the
 * result. */
#include "ckpt/impl.h"
#include "ckpt/map.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MEM (UINT64_C(256) << 20)
#define OVERHEAD    (UINT64_C(32) << 20) /* bytes of --mem that are reserved for headers, the plan and the program */

typedef struct converting {
    rsh_convert_opts opts;
    rsh_ckpt *base;           /* the source as it was opened */
    rsh_ckpt *source;         /* the base after mapping */
    rsh_ckpt_rules *reversed; /* with opts.reverse: the rules that undo opts.from */
    rshi_target target;
    rshi_ckpt_partial partial;
    bool has_partial, fresh; /* fresh: the working directory is new */
    bool damaged;            /* a digest that the source states is wrong */
    rshi_job job;
    bool *kept;         /* for each window: whether an earlier run wrote it correctly */
    rshi_moved *claims; /* for each window: its journal record; if its window is -1, there is none */
    rsh_digest *sums;   /* complete digests of all tensors */
    rsh_convert_report report;
} converting;

static void convert_free(converting *c) {
    rshi_job_free(&c->job);
    rshi_free(c->kept);
    rshi_free(c->claims);
    rshi_free(c->sums);
    if (c->has_partial) rshi_partial_close(&c->partial);
    rshi_target_free(&c->target);
    rsh_ckpt_free(c->source);
    rsh_ckpt_free(c->base);
    rsh_ckpt_rules_free(c->reversed);
}

/* ---- checks before anything is written ---- */

static rsh_status read_convert_opts(const rsh_convert_opts *opts, rsh_convert_opts *out) {
    *out = (rsh_convert_opts)RSH_CONVERT_OPTS_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(opts, RSH_CONVERT_OPTS_INIT, out));
    RSH_REQUIRE((!out->ninclude || out->include) && (!out->nexclude || out->exclude) && out->ninclude >= 0 &&
                    out->nexclude >= 0,
                RSH_EVALUE,
                "include and exclude must have ninclude and nexclude patterns, got %" PRId64 " and %" PRId64 "; a "
                "count is negative or a list is NULL",
                out->ninclude, out->nexclude);
    RSH_REQUIRE(out->threads >= 0 && out->threads <= 256, RSH_EVALUE, "threads must be from 0 to 256, got %d",
                out->threads);
    RSH_REQUIRE(out->max_tensors >= 0, RSH_EVALUE, "max_tensors must not be negative, got %" PRId64, out->max_tensors);
    RSH_REQUIRE(!out->mem || out->mem >= RSHI_LEAST_MEM, RSH_EVALUE, "--mem must be at least 1 MiB, got %" PRIu64 " B",
                out->mem);
    return RSH_OK;
}

/* Sets opts.format by the name of the target, unless the caller has set it, and checks that the source permits it. */
static rsh_status choose_format(converting *c, const char *target) {
    rsh_convert_opts *o = &c->opts;
    if (!o->format) o->format = rshi_ckpt_ends(target, ".gguf") ? "gguf" : "safetensors";
    bool gguf = !strcmp(o->format, "gguf");
    RSH_REQUIRE(gguf || !strcmp(o->format, "safetensors"), RSH_EVALUE,
                "format must be \"safetensors\" or \"gguf\", got \"%.100s\"", o->format);
    if (!gguf) return RSH_OK;
    RSH_REQUIRE(c->base->gguf, RSH_EUNSUP,
                "%.300s: GGUF files can be made only from GGUF files, but %.300s is a %s; name a target that ends in "
                ".safetensors, or a directory",
                target, c->base->path, c->base->kind->name);
    RSH_REQUIRE(!o->to, RSH_EUNSUP,
                "%.300s: tensors of GGUF files stay whole and keep their names; convert without rules (--to whole)",
                target);
    RSH_REQUIRE(!c->base->nothers, RSH_EUNSUP, "%.300s: tensor \"%.300s\" has an %.200s, whose size is unknown",
                c->base->path, c->base->nothers ? c->base->other->name : "",
                c->base->nothers ? c->base->other->what : "");
    return RSH_OK;
}

static rsh_status check_non_tensors(const converting *c) {
    if (!c->base->nothers || c->opts.drop) return RSH_OK;
    const rshi_ckpt_other *o = c->base->other;
    return rshi_fail(RSH_EUNSUP, "%s: \"%.300s\" is not a tensor (%.100s)%s; use --drop to omit such entries",
                     c->base->path, o->name, o->what, c->base->nothers > 1 ? ", and it is not the only one" : "");
}

static void describe_sides(void *ctx, int64_t tensor, rshi_file_tensor *from, rshi_file_tensor *to) {
    const converting *c = ctx;
    const rshi_target_tensor *t = &c->target.tensor[tensor];
    const rshi_ckpt_tensor *s = &c->source->tensor[t->source];
    *from = (rshi_file_tensor){s->name, s->dtype, s->ndim, s->shape, s->layout, c->source->parts + s->part, s->view};
    *to = (rshi_file_tensor){s->name, t->dtype, s->ndim, s->shape, t->layout, c->target.parts + t->part, NULL};
}

/* Checks that elements smaller than a byte are cut at byte boundaries, and that views do not have too many boxes. */
static rsh_status check_cuts(converting *c) {
    rshi_ckpt_end end = {0};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < c->target.ntensors && !st; i++) {
        rshi_file_tensor from, to;
        describe_sides(c, i, &from, &to);
        if (from.view) st = rshi_view_check(c->source, from.view, from.name);
        if (st || rsh_dtype_bits(from.dtype) % 8 == 0) continue;
        st = rshi_end_make(&from, true, &end);
        if (!st) st = rshi_end_make(&to, false, &end);
    }
    rshi_end_free(&end);
    return st;
}

/* Opens the source.  With opts.reverse it has the tensors that the rules `from` made. */
static rsh_status open_base(converting *c, const char *source) {
    const rsh_ckpt_rules *map = c->opts.from;
    rsh_ckpt_rules *from = NULL;
    if (!c->opts.reverse) return rsh_ckpt_open(source, map, &c->base);
    RSH_REQUIRE(map && !c->opts.to, RSH_EVALUE,
                "reverse: `from` must have rules and `to` must be NULL; the result has whole tensors");
    rsh_status st = rsh_ckpt_open(source, NULL, &c->base);
    if (map->files &&
        (st ||
         c->base->kind != &rshi_kind_ranks)) { /* rank files of other tools, which do not describe their layouts */
        rsh_ckpt_free(c->base);
        c->base = NULL;
        st = rshi_rules_as_from(map, &from);
        if (!st) st = rsh_ckpt_open(source, from, &c->base);
    }
    if (!st) st = rsh_ckpt_rules_reverse(map, c->base, &c->reversed);
    c->opts.to = c->reversed;
    rsh_ckpt_rules_free(from);
    return st;
}

static rsh_status plan_conversion(converting *c, const char *source, const char *target, const rsh_convert_opts *opts) {
    RSH_NEEDS(source);
    RSH_NEEDS(target);
    RSH_TRY(read_convert_opts(opts, &c->opts));
    RSH_TRY(open_base(c, source));
    if (!rshi_target_is_file(target)) RSH_TRY(rshi_ckpt_add_folders(c->base));
    RSH_TRY(rshi_check_apart(c->base, target));
    RSH_TRY(choose_format(c, target));
    RSH_TRY(check_non_tensors(c));
    RSH_TRY(rshi_map_apply(c->base, c->opts.to, &c->opts, &c->source));
    RSH_TRY(rshi_target_make(c->source, &c->opts, target, &c->target));
    RSH_TRY(check_cuts(c));
    c->report.tensors = c->target.ntensors;
    c->report.files = c->target.nfiles;
    c->report.target_bytes = c->target.bytes;
    if (!rshi_target_is_file(target)) RSH_TRY(rshi_beside_report(c->base, &c->target, &c->report));
    for (int64_t i = 0; i < c->target.ntensors; i++)
        c->report.converted += c->target.tensor[i].dtype != c->source->tensor[c->target.tensor[i].source].dtype;
    return RSH_OK;
}

/* ---- the job ---- */

static rsh_status keep_journal(void *ctx, const rshi_moved *list, int64_t n) {
    return rshi_journal_add(&((converting *)ctx)->partial, list, n);
}

static void set_up_job(converting *c) {
    uint64_t mem = c->opts.mem ? c->opts.mem : DEFAULT_MEM;
    c->job = (rshi_job){.source = c->source, .ntensors = c->target.ntensors, .describe = describe_sides, .ctx = c};
    c->job.mem = mem > 2 * OVERHEAD ? mem - OVERHEAD : mem / 2;
    c->job.threads = c->opts.threads;
    c->job.digest = !c->opts.no_digest;
    c->job.mode = c->opts.no_digest ? RSHI_WINDOW_COPY : RSHI_WINDOW_WRITE;
    c->job.progress = c->opts.progress;
    c->job.progress_ctx = c->opts.progress_ctx;
}

/* Hashes everything that identifies the job: the target, and the source files with their sizes, times and headers. */
static uint64_t fingerprint(const converting *c) {
    uint64_t h = c->opts.to ? rshi_hash(&c->opts.to->hash, sizeof c->opts.to->hash, c->target.hash) : c->target.hash;
    for (int64_t i = 0; i < c->source->nfiles; i++) {
        const rshi_ckpt_file *f = &c->source->file[i];
        uint64_t words[4] = {f->size, (uint64_t)f->mtime, f->hash, c->opts.no_digest};
        h = rshi_hash(words, sizeof words, rshi_hash(f->path, strlen(f->path), h));
    }
    return h;
}

/* ---- resuming an interrupted run ---- */

static void store_claim(void *ctx, const rshi_moved *m) {
    converting *c = ctx;
    if (m->window >= 0 && m->window < c->job.nwindows) c->claims[m->window] = *m;
}

static rsh_status keep_if_hash_matches(void *ctx, const rshi_moved *list, int64_t n) {
    converting *c = ctx;
    for (int64_t i = 0; i < n; i++) c->kept[list[i].window] = list[i].hash == c->claims[list[i].window].hash;
    return RSH_OK;
}

/* Reads back the windows that the journal lists.  Windows whose hash differs are written again. */
static rsh_status check_claims(converting *c, const rshi_files *files) {
    rshi_job check = c->job;
    bool *skip = rshi_alloc((size_t)c->job.nwindows, sizeof *skip);
    if (!skip) return rshi_nomem();
    for (int64_t i = 0; i < c->job.nwindows; i++) skip[i] = c->claims[i].window < 0;
    check.state = NULL;
    check.first = NULL;
    check.sum = check.source_sum = NULL;
    check.nwindows = 0;
    check.bytes = 0;
    check.mode = RSHI_WINDOW_CHECK;
    check.files = files;
    check.digest = false;
    check.done = keep_if_hash_matches;
    check.skip = skip;
    check.progress = NULL;
    rsh_status st = rshi_job_plan(&check);
    if (!st) st = rshi_job_run(&check);
    rshi_job_free(&check);
    rshi_free(skip);
    return st;
}

static rsh_status resume_from_journal(converting *c, const rshi_files *files) {
    c->kept = rshi_calloc((size_t)c->job.nwindows, sizeof *c->kept);
    c->claims = rshi_alloc((size_t)c->job.nwindows, sizeof *c->claims);
    if (!c->kept || !c->claims) return rshi_nomem();
    for (int64_t i = 0; i < c->job.nwindows; i++) c->claims[i].window = -1;
    RSH_TRY(rshi_journal_read(&c->partial, store_claim, c));
    if (c->opts.no_digest) return RSH_OK; /* the journal has no hashes */
    RSH_TRY(check_claims(c, files));
    for (int64_t i = 0; i < c->job.nwindows; i++)
        if (c->kept[i]) {
            int64_t tensor = rshi_job_tensor(&c->job, i);
            rsh_digest_merge(&c->job.sum[tensor], c->claims[i].sum);
            rsh_digest_merge(&c->job.source_sum[tensor], c->claims[i].source_sum);
        }
    c->job.skip = c->kept;
    return RSH_OK;
}

/* ---- after the last window ---- */

static rsh_status check_source_unchanged(const converting *c) {
    for (int64_t i = 0; i < c->source->nfiles; i++) RSH_TRY(rshi_ckpt_unchanged(&c->source->file[i], -1));
    return RSH_OK;
}

/* Returns whether the digest of the written elements equals that of the elements read. */
static bool is_unchanged(const converting *c, const rshi_target_tensor *t) {
    return t->dtype == c->source->tensor[t->source].dtype;
}

/* Adds dtype and shape to the digests of the result's tensors. */
static rsh_status complete_digests(converting *c) {
    c->sums = rshi_alloc((size_t)c->target.ntensors, sizeof *c->sums);
    if (!c->sums) return rshi_nomem();
    for (int64_t i = 0; i < c->target.ntensors; i++) {
        const rshi_target_tensor *t = &c->target.tensor[i];
        const rshi_ckpt_tensor *s = &c->source->tensor[t->source];
        RSH_TRY(rsh_digest_begin(rsh_dtype_name(t->dtype), s->ndim, s->shape, &c->sums[i]));
        rsh_digest_merge(&c->sums[i], c->job.sum[i]);
    }
    return RSH_OK;
}

/* Compares the digests that the source tensors of each rule state with the elements that all targets of the rule read
 * from them. */
static rsh_status check_instances(converting *c) {
    rsh_digest *sum = rshi_calloc((size_t)c->source->ninstances, sizeof *sum);
    if (!sum) return rshi_nomem();
    for (int64_t i = 0; i < c->source->ntensors; i++)
        if (c->source->tensor[i].instance >= 0)
            rsh_digest_merge(&sum[c->source->tensor[i].instance], c->job.source_sum[i]);
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < c->source->ninstances && !st; i++) {
        const rshi_map_instance *x = &c->source->instance[i];
        if (!x->nstated || !memcmp(&x->stated, &sum[i], sizeof *sum)) continue;
        c->damaged = true;
        st = rshi_fail(
            RSH_EIO,
            "%s: tensor \"%.300s\"%s is damaged: its elements do not match the digest in the file; restore the file "
            "from another copy",
            c->source->path, c->base->tensor[x->source].name, x->nstated > 1 ? ", or a tensor combined with it," : "");
    }
    rshi_free(sum);
    return st;
}

/* Checks the digests that the source states.  Reads tensors again if they were digested only after a conversion, or not
 * at all. */
static rsh_status check_stated(converting *c) {
    bool again = !c->opts.no_digest || c->opts.verify;
    int64_t n = 0, *list = rshi_alloc((size_t)c->target.ntensors, sizeof *list);
    rsh_status st = list ? RSH_OK : rshi_nomem();
    for (int64_t i = 0; i < c->target.ntensors && !st; i++) {
        const rshi_target_tensor *t = &c->target.tensor[i];
        if (!c->source->tensor[t->source].digest) continue;
        if (!rshi_stated_known(c->source, t->source) || !again)
            c->report.digests_unchecked++;
        else if (!c->opts.no_digest && is_unchanged(c, t))
            st = rshi_stated_compare(c->source, t->source, c->job.sum[i], &c->damaged);
        else
            list[n++] = t->source;
    }
    c->report.digests_unchecked += c->source->unchecked;
    for (int64_t i = 0; i < c->source->ninstances && c->opts.no_digest; i++)
        c->report.digests_unchecked += c->source->instance[i].nstated;
    if (!st) st = rshi_stated_check(c->source, n, list, c->job.mem, c->opts.threads, &c->damaged);
    if (!st && again)
        st = rshi_stated_check(c->base, c->source->napart, c->source->apart, c->job.mem, c->opts.threads, &c->damaged);
    if (!again) c->report.digests_unchecked += c->source->napart;
    rshi_free(list);
    return st;
}

static void fill_report(converting *c) {
    c->report.source_bytes = c->job.bytes;
    c->report.bytes_read = c->job.bytes_read;
    c->report.bytes_written = c->job.bytes_written;
    if (c->kept) c->report.bytes_kept = c->job.bytes - c->job.bytes_read;
    c->report.gap = c->partial.gap;
}

/* ---- after a failure ---- */

/* Returns whether a later run can resume from what was written. */
static bool is_useful(const converting *c) {
    bool idle = c->fresh && !c->job.bytes_written;
    char why[RSHI_DETAIL_BYTES];
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    bool changed = check_source_unchanged(c) != RSH_OK;
    rshi_set_detail(why);
    return !idle && !c->opts.no_digest && !c->damaged && !changed;
}

/* Removes the working directory, unless a later run can resume from it.  The error message says what is left. */
static void clean_up_after_error(converting *c) {
    if (!c->has_partial || c->partial.published) return;
    if (is_useful(c))
        rshi_partial_keep(&c->partial);
    else
        rshi_partial_abandon(&c->partial);
}

/* ---- all of it ---- */

static rsh_status move_all(converting *c, const char *target) {
    rshi_files files = rshi_partial_io;
    bool going;
    RSH_TRY(rshi_partial_open(target, &c->target, fingerprint(c), &c->opts, &c->partial, &going));
    c->has_partial = true;
    c->fresh = !going;
    if (c->partial.published) return RSH_OK;
    RSH_TRY(rshi_partial_files(&c->partial));
    files.ctx = &c->partial;
    c->job.files = &files;
    c->job.done = c->opts.no_digest ? NULL : keep_journal;
    if (going) RSH_TRY(resume_from_journal(c, &files));
    RSH_TRY(rshi_job_run(&c->job));
    RSH_TRY(check_source_unchanged(c));
    RSH_TRY(check_stated(c));
    if (!c->opts.no_digest) RSH_TRY(complete_digests(c));
    if (!c->opts.no_digest) RSH_TRY(check_instances(c));
    RSH_TRY(rshi_partial_finish(&c->partial, c->sums));
    return rshi_partial_flush(&c->partial);
}

static rsh_status convert(converting *c, const char *target) {
    if (c->base->kind == &rshi_kind_rank_files) RSH_TRY(rshi_ckpt_check_copies(c->base, &c->opts));
    set_up_job(c);
    RSH_TRY(rshi_job_plan(&c->job));
    RSH_TRY(move_all(c, target));
    RSH_TRY(rshi_partial_publish(&c->partial, c->opts.force));
    rshi_fds_free(&c->partial.fds);
    fill_report(c);
    return RSH_OK;
}

/* Opens and reads source and result again; digests of the conversion are not used. */
static rsh_status verify(converting *c, const char *target) {
    rsh_ckpt *result = NULL;
    rsh_ckpt_difference d = RSH_CKPT_DIFFERENCE_INIT;
    RSH_TRY(rsh_ckpt_open(target, NULL, &result));
    for (int64_t i = 0; i < result->nfiles; i++) { /* drop the page cache, so that data is read from the disk */
        int fd = open(result->file[i].path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        if (fd >= 0) close(fd);
    }
    rsh_compare_opts opts = RSH_COMPARE_OPTS_INIT;
    opts.converted = true;
    opts.mem = c->opts.mem;
    opts.threads = c->opts.threads;
    opts.progress = c->opts.progress;
    opts.progress_ctx = c->opts.progress_ctx;
    rsh_status st = rsh_ckpt_compare(c->source, result, &opts, &d);
    rsh_ckpt_free(result);
    if (st) return st;
    RSH_REQUIRE(!d.found, RSH_EIO, "%s: verification failed: %.800s", target, d.sentence);
    c->report.verified = true;
    return RSH_OK;
}

rsh_status rsh_ckpt_convert(const char *source, const char *target, const rsh_convert_opts *opts,
                            rsh_convert_report *report) {
    if (report) RSHI_CHECK_RESULT(report, RSH_CONVERT_REPORT_INIT);
    converting c = {.partial = {.journal = -1}};
    rsh_status st = plan_conversion(&c, source, target, opts);
    if (!st && (st = convert(&c, target))) clean_up_after_error(&c);
    if (!st && c.opts.verify) st = verify(&c, target);
    if (!st && report) rshi_result_write(&c.report, sizeof c.report, report);
    convert_free(&c);
    return st;
}

/* ---- preview ---- */

typedef struct naming {
    const rsh_ckpt *base;
    const char **list; /* owned: names of the sources; NULL: sources are only counted */
    int64_t n;
    uint64_t bytes;
} naming;

static void name_source(void *ctx, int64_t source) {
    naming *x = ctx;
    const rshi_ckpt_tensor *t = &x->base->tensor[source];
    if (!x->list)
        x->bytes += (uint64_t)rshi_ckpt_count(t) * (uint64_t)rsh_dtype_bits(t->dtype) / 8;
    else
        x->list[x->n] = t->name;
    x->n++;
}

static rsh_status name_sources(const rshi_ckpt_tensor *s, naming *x) {
    for (int pass = 0; pass < 2; pass++) {
        if (pass) x->list = rshi_alloc((size_t)x->n, sizeof *x->list);
        if (pass && !x->list) return rshi_nomem();
        x->n = 0;
        if (s->view)
            rshi_view_leaves(s->view, name_source, x);
        else
            name_source(x, s->source);
    }
    return RSH_OK;
}

static rsh_status preview_target(converting *c, int64_t i, rsh_convert_step_fn fn, void *ctx, bool *stop) {
    const rshi_target_tensor *t = &c->target.tensor[i];
    const rshi_ckpt_tensor *s = &c->source->tensor[i];
    const rshi_ckpt_rule *r = t->rule >= 0 ? &c->target.rules->rule[t->rule] : NULL;
    naming x = {.base = c->base};
    rsh_status st = name_sources(s, &x);
    rsh_convert_step step = {.name = s->name,
                             .from = s->layout,
                             .to = t->layout,
                             .from_dtype = s->dtype,
                             .to_dtype = t->dtype,
                             .rule = t->rule,
                             .bytes = x.bytes,
                             .ndim = s->ndim,
                             .shape = s->shape,
                             .nsources = x.n,
                             .sources = x.list};
    if (r) step.pattern = r->text, step.line = r->line;
    c->report.source_bytes += x.bytes;
    if (!st) *stop = fn(ctx, &step);
    rshi_free(x.list);
    return st;
}

static bool preview_dropped(const converting *c, int64_t i, rsh_convert_step_fn fn, void *ctx) {
    const rshi_ckpt_tensor *s = &c->base->tensor[c->source->dropped[i].source];
    const rshi_ckpt_rule *r = &c->target.rules->rule[c->source->dropped[i].rule];
    rsh_convert_step step = {.name = s->name,
                             .from = s->layout,
                             .from_dtype = s->dtype,
                             .to_dtype = s->dtype,
                             .rule = c->source->dropped[i].rule,
                             .pattern = r->text,
                             .line = r->line,
                             .ndim = s->ndim,
                             .shape = s->shape,
                             .nsources = 1,
                             .sources = &s->name,
                             .dropped = true};
    return fn(ctx, &step);
}

rsh_status rsh_convert_preview(const char *source, const char *target, const rsh_convert_opts *opts,
                               rsh_convert_step_fn fn, void *ctx, rsh_convert_report *report) {
    RSH_NEEDS(fn);
    if (report) RSHI_CHECK_RESULT(report, RSH_CONVERT_REPORT_INIT);
    converting c = {.partial = {.journal = -1}};
    rsh_status st = plan_conversion(&c, source, target, opts);
    bool stop = false;
    for (int64_t i = 0; i < c.target.ntensors && !st && !stop; i++) st = preview_target(&c, i, fn, ctx, &stop);
    for (int64_t i = 0; !st && !stop && i < c.source->ndropped; i++) stop = preview_dropped(&c, i, fn, ctx);
    if (!st && report) rshi_result_write(&c.report, sizeof c.report, report);
    convert_free(&c);
    return st;
}

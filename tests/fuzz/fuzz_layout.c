/* Fuzz layout: any bytes either parse or cause an error.  The canonical text of a layout must parse to an equal layout,
 * and all getters must work. */
#include <stdlib.h>
#include <string.h>

#include <reshard/alloc.h>
#include <reshard/layout.h>

/* Used instead of assert, because it must also work in builds with NDEBUG. */
static void must(bool condition) {
    if (!condition) abort();
}

static void check_element(const rsh_layout *l, int64_t rank, int64_t part, int64_t i) {
    int64_t index[RSH_MAX_NDIM], offset;
    must(!rsh_layout_global_index(l, rank, part, i, index));
    must(!rsh_layout_local_offset(l, rank, part, index, &offset) && offset == i);
}

static void check_part(const rsh_layout *l, int64_t rank, int64_t part) {
    rsh_part p;
    must(!rsh_layout_part(l, rank, part, &p));
    must(p.count >= 0 && p.count <= rsh_layout_count(l));
    if (!p.count) return;
    check_element(l, rank, part, 0);
    check_element(l, rank, part, p.count / 2);
    check_element(l, rank, part, p.count - 1);
}

static void check_queries(const rsh_layout *l) {
    int64_t nranks = rsh_layout_nranks(l);
    for (int64_t i = 0; i < nranks && i < 8; i++) {
        int64_t rank = rsh_layout_rank(l, i), nparts = rsh_layout_nparts(l, rank);
        must(nparts >= 1 && (!i || rank > rsh_layout_rank(l, i - 1)));
        for (int64_t part = 0; part < nparts && part < 8; part++) check_part(l, rank, part);
    }
    must(rsh_layout_nparts(l, -1) == 0);
}

static void check_round_trip(const rsh_layout *l) {
    rsh_layout *again;
    must(!rsh_layout_parse(rsh_layout_text(l), &again));
    must(!strcmp(rsh_layout_text(l), rsh_layout_text(again)));
    must(rsh_layout_equal(l, again) && rsh_layout_hash(l) == rsh_layout_hash(again));
    rsh_layout_free(again);
    must(!rsh_layout_new(rsh_layout_describe(l), &again));
    must(!strcmp(rsh_layout_text(l), rsh_layout_text(again)));
    rsh_layout_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t live = rsh_alloc_get_stats().live;
    char *text = malloc(size + 1);
    rsh_text_error error;
    rsh_layout *l;
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (!rsh_layout_parse_at(text, &error, &l)) {
        check_round_trip(l);
        check_queries(l);
        rsh_layout_free(l);
    } else {
        must(!strncmp(rsh_error_detail(), "layout:", 7));
        must(error.line >= 1 && error.column >= 1 && error.column <= (int)strlen(text) + 1);
    }
    free(text);
    must(rsh_alloc_get_stats().live == live);
    return 0;
}

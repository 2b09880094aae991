/* Explain text: prints a picture, the totals and, for up to 16 ranks, what each rank does. */
#include "explain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FEW_RANKS 16

static void print_row(const char *what, int64_t bytes, const char *remark) {
    char text[QUANTITY];
    printf("%-22s %16" PRId64 " B  %10s%s%s\n", what, bytes, human_bytes((double)bytes, text), *remark ? "   " : "",
           remark);
}

static void print_nodes(const explanation *e) {
    const rsh_plan_totals *t = &e->totals;
    if (!e->ranks_per_node) return;
    print_row("between nodes", t->bytes_between_nodes,
        t->bytes_between_nodes == t->lower_bound_between_nodes ? "the least possible" : "");
    /* The bound of most reductions is 0, which says nothing. */
    if (t->bytes_between_nodes != t->lower_bound_between_nodes && t->lower_bound_between_nodes)
        print_row("  least possible", t->lower_bound_between_nodes, "");
    if (e->has_other) print_row(e->by_node ? "  combined in order" : "  combined by node", e->other_between_nodes, "");
}

static void print_relabelling(const explanation *e) {
    if (!e->relabel) return;
    print_row("without relabelling", e->moved_before,
        e->relabel_exact ? "no relabelling moves less" : "relabelled approximately");
}

static int print_stage(void *ctx, int stage, const char *what, int64_t moved, int64_t between) {
    const explanation *e = ctx;
    char name[32];
    (void)between;
    snprintf(name, sizeof name, "  stage %d of %d", stage + 1, rsh_plan_nstages(e->plan));
    print_row(name, moved, what);
    return 0;
}

static rsh_status print_totals(const explanation *e) {
    rsh_status st = RSH_OK;
    const rsh_plan_totals *t = &e->totals;
    char text[QUANTITY];
    print_row("tensor", t->tensor_bytes, "");
    print_row("moves between ranks", t->bytes_moved, t->bytes_moved == t->lower_bound ? "the least possible" : "");
    if (t->bytes_moved != t->lower_bound) print_row("  least possible", t->lower_bound, "");
    print_relabelling(e);
    if (rsh_plan_nstages(e->plan) > 1) st = rsh_plan_each_stage(e->plan, print_stage, (void *)e);
    print_row("copied within a rank", t->bytes_local, "");
    print_nodes(e);
    print_row("most a rank sends", t->max_send, "");
    print_row("most a rank receives", t->max_recv, "");
    print_row("scratch of a rank", t->scratch_bytes, "");
    printf("%-22s %16" PRId64 "\n", "messages", t->messages);
    printf("%-22s %16" PRId64 "\n", "ranks", rsh_plan_nranks(e->plan));
    printf("%-22s %16s   fingerprint %016" PRIx64 "\n", "planned in", human_seconds(e->seconds, text),
           rsh_plan_fingerprint(e->plan));
    return st;
}

/* ---- ranks ---- */

typedef struct peers {
    int64_t rank;
    bool some;
} peers;

static int print_peer(void *ctx, int64_t peer, int64_t bytes) {
    peers *p = ctx;
    if (peer == p->rank || !bytes) return 0;
    printf("%s%" PRId64, p->some ? "," : "", peer);
    p->some = true;
    return 0;
}

static rsh_status print_rank(const explanation *e, int64_t rank) {
    rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
    char sent[QUANTITY], received[QUANTITY], local[QUANTITY];
    rsh_status st = rsh_plan_get_rank_totals(e->plan, rank, &v);
    if (st) return st;
    peers p = {rank, false};
    printf("%6" PRId64 "  %10s  %10s  %10s   ", rank, human_bytes((double)v.bytes_sent, sent),
           human_bytes((double)v.bytes_received, received), human_bytes((double)v.bytes_local, local));
    st = rsh_plan_each_source(e->plan, rank, print_peer, &p);
    puts(p.some ? "" : "-");
    return st;
}

/* Prints the ranks of both layouts in ascending order. */
static rsh_status print_ranks(const explanation *e) {
    const rsh_layout *a = e->pair.from, *b = e->pair.to;
    int64_t na = rsh_layout_nranks(a), nb = rsh_layout_nranks(b), i = 0, j = 0;
    rsh_status st = RSH_OK;
    printf("\n%6s  %10s  %10s  %10s   %s\n", "rank", "sends", "receives", "keeps", "receives from");
    while (!st && (i < na || j < nb)) {
        int64_t x = i < na ? rsh_layout_rank(a, i) : INT64_MAX, y = j < nb ? rsh_layout_rank(b, j) : INT64_MAX;
        st = print_rank(e, x < y ? x : y);
        i += x <= y;
        j += y <= x;
    }
    return st;
}

/* ---- matrix ---- */

static int print_entry(void *ctx, int64_t source, int64_t destination, int64_t bytes) {
    (void)ctx;
    printf("%8" PRId64 "  %11" PRId64 "  %16" PRId64 "\n", source, destination, bytes);
    return ferror(stdout);
}

static rsh_status print_matrix(const explanation *e) {
    printf("\n%8s  %11s  %16s\n", "source", "destination", "bytes");
    return rsh_plan_each_pair(e->plan, print_entry, NULL);
}

/* ---- the picture ---- */

/* Chooses colours for a terminal, unless NO_COLOR is set. */
static rsh_picture_format choose_form(void) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool colours = isatty(STDOUT_FILENO) && !(no && *no) && term && *term && strcmp(term, "dumb");
    if (colours) answer_in_colour();
    return colours ? RSH_PICTURE_ANSI : RSH_PICTURE_TEXT;
}

/* Returns the columns of the terminal; SIZE_MAX if stdout is not a terminal or its width is unknown. */
static size_t terminal_columns(void) {
    struct winsize w;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col ? SIZE_MAX : w.ws_col;
}

/* Returns the columns of the longest line.  A UTF-8 character is one column; colour escapes have none. */
static size_t text_columns(const char *text) {
    size_t most = 0, n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '\x1b') p += strcspn(p, "m");
        else if (*p == '\n') n = 0;
        else n += ((unsigned char)*p & 0xc0) != 0x80;
        if (n > most) most = n;
        if (!*p) break;
    }
    return most;
}

/* Draws the plan with both layouts side by side, or one layout; the caller frees the text.  If it returns NULL, *st is
 * the error. */
static char *draw_text(const explanation *e, const rsh_layout *one, rsh_picture_format form, rsh_status *st) {
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    rsh_sink sink = {to_stream, f};
    *st = !f ? RSH_ENOMEM : one ? rsh_draw_layout(one, form, &sink) : rsh_draw_plan(e->plan, 0, form, &sink);
    if (f && fclose(f) && !*st) *st = RSH_ENOMEM;
    if (!*st) return text;
    free(text);
    return NULL;
}

/* Prints one layout below the other.  If the terminal is too narrow even for that, prints none. */
static rsh_status print_narrow(const explanation *e, rsh_picture_format form) {
    rsh_status st, st2 = RSH_OK;
    char *from = draw_text(e, e->pair.from, form, &st), *to = st ? NULL : draw_text(e, e->pair.to, form, &st2),
         text[QUANTITY];
    if (from && to && (text_columns(from) > terminal_columns() || text_columns(to) > terminal_columns()))
        puts("  (the terminal is too narrow for a picture; use --svg or --html)");
    else if (from && to)
        printf("%s\n  %s moves\n\n%s", from, human_bytes((double)e->totals.bytes_moved, text), to);
    free(from);
    free(to);
    return st ? st : st2;
}

static rsh_status print_picture(const explanation *e) {
    rsh_picture_format form = choose_form();
    rsh_status st;
    char *both = draw_text(e, NULL, form, &st);
    if (both && text_columns(both) <= terminal_columns())
        fputs(both, stdout);
    else if (both)
        st = print_narrow(e, form);
    free(both);
    return st;
}

int explain_text(const explanation *e) {
    printf("from  %s\nto    %s\n\n", rsh_layout_text(e->pair.from), rsh_layout_text(e->pair.to));
    rsh_status st = print_picture(e);
    if (st) return fail_library(st);
    puts("");
    st = print_totals(e);
    if (!st && rsh_plan_nranks(e->plan) <= FEW_RANKS) st = print_ranks(e);
    if (!st && e->matrix) st = print_matrix(e);
    return st ? fail_library(st) : DONE;
}

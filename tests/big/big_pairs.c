/* Pairs: prints random pairs of layouts, for scripts.
 *
 *   big_pairs COUNT SEED [RANKS]      prints a line for each pair, separated by tabs: ranks of the group, bytes of all
 *                                     source parts, FROM, TO
 *   big_pairs parts FROM SEED         writes random parts of FROM in the format of `apply`; replicas are equal, because
 *                                     the plan chooses which of them is read */
#include <reshard.h>

#include "prop/gen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t bytes_of(const rsh_layout *l, int64_t *ranks) {
    int64_t count = 0;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        int64_t r = rsh_layout_rank(l, i);
        if (r >= *ranks) *ranks = r + 1;
        rsh_part part;
        for (int64_t k = 0; k < rsh_layout_nparts(l, r); k++)
            if (!rsh_layout_part(l, r, k, &part)) count += part.count;
    }
    return count * (int64_t)rsh_dtype_size(rsh_layout_dtype(l));
}

/* Returns false if the pair has no plan, or needs more ranks than allowed. */
static bool print_pair(const char *from_text, const char *to_text, int64_t most) {
    rsh_layout *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    int64_t ranks = 1;
    bool good =
        !rsh_layout_parse(from_text, &from) && !rsh_layout_parse(to_text, &to) && !rsh_plan_new(from, to, NULL, &plan);
    if (good) {
        int64_t bytes = bytes_of(from, &ranks);
        bytes_of(to, &ranks);
        good = ranks <= most;
        if (good)
            printf("%" PRId64 "\t%" PRId64 "\t%s\t%s\n", ranks, bytes, rsh_layout_text(from), rsh_layout_text(to));
    }
    rsh_plan_free(plan);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return good;
}

/* An element depends on its number and, in a partial layout, on the position along the partial axes. */
static void print_element(ora_dtype t, uint64_t seed, int64_t partial, int64_t element) {
    gen_rng g = {seed ^ ((uint64_t)partial << 48) ^ (uint64_t)element * 0x9e3779b97f4a7c15u};
    uint64_t bits[2] = {gen_next(&g), gen_next(&g)};
    if (t == ORA_BOOL) bits[0] &= 1;
    fwrite(bits, ora_size(t), 1, stdout);
}

static int print_parts(const char *text, uint64_t seed) {
    ora_layout *l = ora_parse(text);
    for (int64_t p = 0; p < l->nparts; p++)
        for (int64_t i = 0; i < l->part[p].count; i++)
            print_element(l->dtype, seed, l->part[p].partial, l->part[p].element[i]);
    ora_free(l);
    return fflush(stdout) != 0;
}

int main(int argc, char **argv) {
    if (argc > 3 && !strcmp(argv[1], "parts")) return print_parts(argv[2], strtoull(argv[3], NULL, 0));
    static char from[GEN_TEXT], to[GEN_TEXT];
    int64_t count = argc > 1 ? atoll(argv[1]) : 10, most = argc > 3 ? atoll(argv[3]) : 8;
    gen_rng g = {argc > 2 ? strtoull(argv[2], NULL, 0) : 1};
    for (int64_t i = 0; i < count;) {
        gen_pair_wish w = {.partials = 50,
                           .conversions = 30,
                           .replicas = true,
                           .max_ranks = (int)gen_between(&g, 1, most),
                           .large = gen_chance(&g, 30)};
        gen_pair(&g, &w, from, to);
        i += print_pair(from, to, most);
    }
    return 0;
}

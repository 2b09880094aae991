/* ZeRO names: finds the files of each rank in a ZeRO directory. */
#include "ckpt/zero_names.h"

#include <inttypes.h>
#include <string.h>

enum { DIGITS = 10 }; /* most digits of a rank */

/* Parses a decimal number at *at and advances *at; -1: there is no number. */
static int64_t parse_number(const char **at) {
    int64_t n = 0;
    const char *start = *at;
    while (**at >= '0' && **at <= '9' && *at - start < DIGITS) n = 10 * n + (*(*at)++ - '0');
    return *at > start ? n : -1;
}

/* Advances *at past `word`; returns false if the text does not begin with it. */
static bool skip_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n)) return false;
    *at += n;
    return true;
}

int64_t rshi_zero_rank(const char *name, const char *ending, int64_t *mp) {
    skip_word(&name, "bf16_");
    if (!skip_word(&name, "zero_pp_rank_")) return -1;
    int64_t rank = parse_number(&name);
    if (rank < 0 || !skip_word(&name, "_mp_rank_")) return -1;
    *mp = parse_number(&name);
    return *mp < 0 || strcmp(name, ending) ? -1 : rank;
}

/* Returns the number of the part, such as 0 for "mp_rank_00_model_states.pt"; -1: it is another name. */
static int64_t part_of(const char *name, const char *ending) {
    if (!skip_word(&name, "mp_rank_")) return -1;
    int64_t mp = parse_number(&name);
    return strcmp(name, ending) ? -1 : mp;
}

rsh_status rshi_zero_find(const rshi_ckpt_place *place, int64_t rank, int64_t mp, const char *ending,
                          const char **out) {
    *out = NULL;
    for (int64_t i = 0; i < place->nnames; i++) {
        const char *name = place->name[i];
        int64_t its = -1;
        if (rank < 0 ? part_of(name, ending) != mp : rshi_zero_rank(name, ending, &its) != rank || its != mp) continue;
        RSH_REQUIRE(!*out, RSH_EVALUE, "%s: found %s and %s, which are files of the same rank; remove one", place->path,
                    *out, name);
        *out = name;
    }
    return RSH_OK;
}

rsh_status rshi_zero_parts(const rshi_ckpt_place *place, int64_t *out) {
    int64_t n = 0;
    for (int64_t found = 0; found >= 0 && n < place->nnames; n += found >= 0) {
        found = -1;
        for (int64_t i = 0, mp = -1; i < place->nnames && found < 0; i++)
            if (rshi_zero_rank(place->name[i], RSHI_ZERO_OPTIMIZER, &mp) >= 0 && mp == n) found = i;
    }
    for (int64_t i = 0, mp = -1; i < place->nnames; i++)
        RSH_REQUIRE(rshi_zero_rank(place->name[i], RSHI_ZERO_OPTIMIZER, &mp) < 0 || mp < n, RSH_EVALUE,
                    "%s: found %s, but no file of mp_rank_%02" PRId64, place->path, place->name[i], n);
    *out = n;
    return RSH_OK;
}

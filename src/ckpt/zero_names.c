/* ZeRO names: which file of a ZeRO directory belongs to which rank. */
#include "ckpt/zero_names.h"

#include <inttypes.h>
#include <string.h>

enum { DIGITS = 10 }; /* of the number of a rank */

/* A decimal number at *at, which moves behind it; -1: there is none. */
static int64_t take_number(const char **at) {
    int64_t n = 0;
    const char *start = *at;
    while (**at >= '0' && **at <= '9' && *at - start < DIGITS) n = 10 * n + (*(*at)++ - '0');
    return *at > start ? n : -1;
}

static bool take_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n)) return false;
    *at += n;
    return true;
}

int64_t rshi_zero_rank(const char *name, const char *ending, int64_t *mp) {
    take_word(&name, "bf16_");
    if (!take_word(&name, "zero_pp_rank_")) return -1;
    int64_t rank = take_number(&name);
    if (rank < 0 || !take_word(&name, "_mp_rank_")) return -1;
    *mp = take_number(&name);
    return *mp < 0 || strcmp(name, ending) ? -1 : rank;
}

/* "mp_rank_00_model_states.pt": the 0; -1: another name. */
static int64_t part_of(const char *name, const char *ending) {
    if (!take_word(&name, "mp_rank_")) return -1;
    int64_t mp = take_number(&name);
    return strcmp(name, ending) ? -1 : mp;
}

rsh_status rshi_zero_find(const rshi_ckpt_place *place, int64_t rank, int64_t mp, const char *ending,
                          const char **out) {
    *out = NULL;
    for (int64_t i = 0; i < place->nnames; i++) {
        const char *name = place->name[i];
        int64_t its = -1;
        if (rank < 0 ? part_of(name, ending) != mp : rshi_zero_rank(name, ending, &its) != rank || its != mp) continue;
        RSH_REQUIRE(!*out, RSH_EVALUE, "%s: %s and %s are files of the same rank; remove one", place->path, *out, name);
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
                    "%s: there is %s, but no file of mp_rank_%02" PRId64, place->path, place->name[i], n);
    *out = n;
    return RSH_OK;
}

/* Rank files: a directory of files that other tools wrote for each rank, cut as rules say. */
#include "ckpt/ckpt.h"

static bool detect(const rshi_ckpt_place *place) {
    (void)place;
    return false;
}

static rsh_status read_all(const rshi_ckpt_place *place, rsh_ckpt *c) {
    (void)c;
    return rshi_fail(RSH_EUNSUP, "%s: rank files are not read", place->path);
}

const rshi_ckpt_kind rshi_kind_rank_files = {"rank files", detect, read_all};

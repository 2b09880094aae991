/* Megatron: a directory of iterations, of which latest_checkpointed_iteration.txt names the one to read. */
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char tracker[] = "latest_checkpointed_iteration.txt";

static bool detect(const rshi_ckpt_place *place) { return rshi_ckpt_place_has(place, tracker, tracker); }

/* "iter_0000100" for "100", or "release". */
static rsh_status find_iteration(const rshi_ckpt_place *place, char *out, size_t room) {
    char *path = NULL, word[32] = {0};
    RSH_TRY(rshi_ckpt_inside(place->path, tracker));
    RSH_TRY(rshi_ckpt_join(place->path, tracker, &path));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, word, sizeof word - 1, 0);
    rsh_status st = got < 0 ? rshi_io_fail(path) : RSH_OK;
    if (fd >= 0) close(fd);
    word[strcspn(word, " \r\n\t")] = 0;
    size_t digits = strspn(word, "0123456789");
    bool release = !strcmp(word, "release");
    if (!st && !release && (!digits || digits > 9 || word[digits]))
        st = rshi_fail(RSH_EVALUE, "%s: expected a number or \"release\", found \"%.20s\"", path, word);
    rshi_free(path);
    if (release)
        rshi_text_format(out, room, "release");
    else
        rshi_text_format(out, room, "iter_%07lld", strtoll(word, NULL, 10));
    return st;
}

static rsh_status read_all(const rshi_ckpt_place *place, rsh_ckpt *c) {
    rshi_ckpt_place below = {0};
    char name[32], *path = NULL;
    RSH_TRY(find_iteration(place, name, sizeof name));
    RSH_TRY(rshi_ckpt_inside(place->path, name));
    RSH_TRY(rshi_ckpt_join(place->path, name, &path));
    rsh_status st = rshi_ckpt_place_open(path, place->from, &below);
    if (!st && rshi_ckpt_place_has(&below, tracker, tracker))
        st = rshi_fail(RSH_EVALUE, "%s: a directory of iterations in another one", path);
    if (!st) st = rshi_ckpt_read_place(&below, c);
    rshi_ckpt_place_close(&below);
    rshi_free(path);
    return st;
}

const rshi_ckpt_kind rshi_kind_megatron = {"directory of iterations", detect, read_all, true};

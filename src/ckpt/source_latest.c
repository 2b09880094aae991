/* Latest: opens the latest checkpoint of a directory of checkpoints.  A small file names it: Megatron's
 * latest_checkpointed_iteration.txt, or DeepSpeed's `latest`. */
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORD = 200 }; /* most bytes of the name of a directory */

static const char megatron[] = "latest_checkpointed_iteration.txt", deepspeed[] = "latest";

static bool is_megatron(const rshi_ckpt_place *place) { return rshi_ckpt_place_has(place, megatron, megatron); }

/* Is there a small regular file `latest`?  A directory or a link of that name belongs to another tool. */
static bool is_deepspeed(const rshi_ckpt_place *place) {
    struct stat s;
    char *path = NULL;
    bool named = false;
    for (int64_t i = 0; i < place->nnames && !named; i++) named = !strcmp(place->name[i], deepspeed);
    if (!named || rshi_ckpt_join(place->path, deepspeed, &path)) return false;
    bool is = !stat(path, &s) && S_ISREG(s.st_mode) && s.st_size > 0 && s.st_size < WORD;
    rshi_free(path);
    return is;
}

/* Reads the first word of the file. */
static rsh_status read_word(const rshi_ckpt_place *place, const char *tracker, char *word, size_t room) {
    char *path = NULL;
    RSH_TRY(rshi_ckpt_inside(place->path, tracker));
    RSH_TRY(rshi_ckpt_join(place->path, tracker, &path));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, word, room - 1, 0);
    rsh_status st = got < 0 ? rshi_io_fail(path) : RSH_OK;
    if (fd >= 0) close(fd);
    rshi_free(path);
    word[got > 0 ? got : 0] = 0;
    word[strcspn(word, " \r\n\t")] = 0;
    return st;
}

/* Reads the checkpoint in the subdirectory. */
static rsh_status read_below(const rshi_ckpt_place *place, const char *name, rsh_ckpt *c) {
    rshi_ckpt_place below = {0};
    char *path = NULL;
    RSH_TRY(rshi_ckpt_inside(place->path, name));
    RSH_TRY(rshi_ckpt_join(place->path, name, &path));
    rsh_status st = rshi_ckpt_place_open(path, place->from, &below);
    if (!st && (is_megatron(&below) || is_deepspeed(&below)))
        st = rshi_fail(RSH_EVALUE, "%s: expected a checkpoint, got another directory of checkpoints", path);
    if (!st) st = rshi_ckpt_read_place(&below, c);
    rshi_ckpt_place_close(&below);
    rshi_free(path);
    return st;
}

/* Opens the subdirectory, which is "iter_0000100" for "100", or "release". */
static rsh_status read_megatron(const rshi_ckpt_place *place, rsh_ckpt *c) {
    char word[32], name[32];
    RSH_TRY(read_word(place, megatron, word, sizeof word));
    size_t digits = strspn(word, "0123456789");
    bool release = !strcmp(word, "release");
    RSH_REQUIRE(release || (digits && digits < 10 && !word[digits]), RSH_EVALUE,
                "%s/%s: expected a number or \"release\", got \"%.20s\"", place->path, megatron, word);
    rshi_text_format(name, sizeof name, "iter_%07lld", release ? 0 : strtoll(word, NULL, 10));
    return read_below(place, release ? word : name, c);
}

static rsh_status read_deepspeed(const rshi_ckpt_place *place, rsh_ckpt *c) {
    char word[WORD];
    RSH_TRY(read_word(place, deepspeed, word, sizeof word));
    RSH_REQUIRE(*word, RSH_EVALUE, "%s/%s: expected the name of a directory, but the file is empty", place->path,
                deepspeed);
    return read_below(place, word, c);
}

const rshi_ckpt_kind rshi_kind_megatron = {"directory of iterations", is_megatron, read_megatron, true};
const rshi_ckpt_kind rshi_kind_deepspeed = {"directory of DeepSpeed", is_deepspeed, read_deepspeed, true};

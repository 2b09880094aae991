/* cli: what the verbs of the command share.
 *
 * Answers go to stdout, diagnostics to stderr as "reshard: sentence".  A verb returns an exit
 * status. */
#ifndef RESHARD_CLI_CLI_H
#define RESHARD_CLI_CLI_H

#include <reshard.h>

#include <argp.h>
#include <jansson.h>
#include <stdio.h>

enum { DONE = 0, FAILED = 1, USAGE = 2 };

/* argv[0] is "reshard VERB", as argp names the program in its messages. */
int cmd_explain(int argc, char **argv);
int cmd_apply(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_simulate(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

/* ---- diagnostics and answers ---- */

int fail(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* FAILED, after "reshard: sentence" */
int fail_library(rsh_status status);       /* FAILED, after the library's own sentence */
void note(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* "reshard: sentence", about what is no failure */
/* Leaves a sentence as the library does, for the rank that may print. */
rsh_status sentence(rsh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* From now on another rank says what there is to say. */
void be_quiet(void);
bool is_quiet(void);
/* Before anything is said. */
void open_output(void);
/* What is answered from now on has colours for the terminal, and no words but our own. */
void answer_in_colour(void);
/* Text with what a terminal would obey spelled out, "\\x1b", in `room` bytes with the NUL; how many
 * bytes of the text are in it. */
size_t spell(const char *text, size_t length, char *out, size_t room);
/* Prints a name of a file or tensor on one line, with every control character spelled out, at most
 * `most` bytes of it, and blanks after it up to `width` bytes. */
void print_name(const char *name, size_t most, size_t width);
/* At exit: an answer that did not reach its reader makes the command fail. */
void close_stdout(void);
int to_stream(void *stream, const char *text, size_t length); /* a sink's write */

/* ---- arguments ---- */

/* The two layouts that most verbs begin with. */
typedef struct layout_pair {
    const char *from_text, *to_text;
    rsh_layout *from, *to;
} layout_pair;
extern const struct argp layout_pair_argp; /* a child parser: its input is a layout_pair */
/* False after a sentence that names FROM or TO and points at the column. */
bool layout_pair_parse(layout_pair *pair);
void layout_pair_free(layout_pair *pair);
/* The size of a group of ranks that both layouts fit in: 1 + the highest rank. */
int64_t layout_pair_group(const layout_pair *pair);

bool engine_known(const char *name);

bool parse_bytes(const char *text, uint64_t *out); /* "1048576", "1MiB", "1M" */
/* Usage, if a word that names a checkpoint cannot: "" or "-". */
void check_path(const char *word, struct argp_state *state);
bool parse_count(const char *text, int64_t least, int64_t *out);

/* ---- numbers as people read them ---- */

#define QUANTITY 32
const char *human_bytes(double bytes, char text[QUANTITY]);
const char *human_seconds(double seconds, char text[QUANTITY]);
const char *plural(int64_t n); /* "s", but for 1 "" */
double clock_seconds(void);    /* monotonic */

/* Writes the dtype and shape of a tensor: "f32[4096, 4096]", or "Q4_K[4096, 4096]" for quantised
 * elements.  Returns its layout instead if it is cut. */
const char *tensor_form(const rsh_ckpt_entry *t, char *text, size_t room);

/* ---- JSON ---- */

/* The members of `object`, one per line; takes the object.  `more` (may be NULL) prints further
 * members, each after ",\n  ". */
int print_json(json_t *object, int (*more)(void *ctx), void *ctx);

#endif

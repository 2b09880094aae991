/* cli: functions that the verbs of the command share.
 *
 * Answers go to stdout, diagnostics to stderr as "reshard: message".  A verb returns an exit
 * status. */
#ifndef RESHARD_CLI_CLI_H
#define RESHARD_CLI_CLI_H

#include <reshard.h>

#include <argp.h>
#include <jansson.h>
#include <stdio.h>

enum { DONE = 0, FAILED = 1, USAGE = 2 };

/* argv[0] is "reshard VERB", which argp prints in its messages. */
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
    __attribute__((format(printf, 1, 2))); /* prints "reshard: message" and returns FAILED */
int fail_library(rsh_status status);       /* prints the library's error and returns FAILED */
void note(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* prints "reshard: message", which is not an error */
/* Sets the library's error message, so that the rank which prints can print it. */
rsh_status sentence(rsh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Suppresses all messages of this process, because another rank prints them. */
void be_quiet(void);
bool is_quiet(void);
/* Has fail_library reported RSH_ETIMEOUT?  Then collective calls may block forever. */
bool rank_is_stuck(void);
/* Redirects stdout and stderr; call it before any output. */
void open_output(void);
/* Lets colour escapes of the following answer pass to the terminal. */
void answer_in_colour(void);
/* Copies text with control characters escaped as "\\x1b" into `room` bytes, including the NUL.
 * Returns the number of bytes of the text that were copied. */
size_t spell(const char *text, size_t length, char *out, size_t room);
/* Prints the name of a file or tensor on one line, with control characters escaped: at most `most`
 * bytes of it, padded with blanks to `width` bytes. */
void print_name(const char *name, size_t most, size_t width);
/* At exit: makes the command fail if stdout could not be written. */
void close_stdout(void);
int to_stream(void *stream, const char *text, size_t length); /* a sink's write */

/* ---- arguments ---- */

/* The two layouts that most verbs take. */
typedef struct layout_pair {
    const char *from_text, *to_text;
    rsh_layout *from, *to;
} layout_pair;
extern const struct argp layout_pair_argp; /* a child parser: its input is a layout_pair */
/* Parses both; false after an error that names FROM or TO and points at the column. */
bool layout_pair_parse(layout_pair *pair);
void layout_pair_free(layout_pair *pair);
/* Returns the size of the smallest group that has all ranks of both layouts: 1 + the highest
 * rank. */
int64_t layout_pair_group(const layout_pair *pair);

bool engine_known(const char *name);

bool parse_bytes(const char *text, uint64_t *out); /* "1048576", "1MiB", "1M" */
/* Exits with a usage error if the word cannot be the path of a checkpoint: "" or "-". */
void check_path(const char *word, struct argp_state *state);
bool parse_count(const char *text, int64_t least, int64_t *out);

/* ---- numbers for people ---- */

#define QUANTITY 32
const char *human_bytes(double bytes, char text[QUANTITY]);
const char *human_seconds(double seconds, char text[QUANTITY]);
const char *plural(int64_t n); /* "" for 1, otherwise "s" */
double clock_seconds(void);    /* monotonic */

/* Writes the dtype and shape of a tensor: "f32[4096, 4096]", or "Q4_K[4096, 4096]" for quantised
 * elements.  Returns its layout instead if it is cut. */
const char *tensor_form(const rsh_ckpt_entry *t, char *text, size_t room);

/* ---- JSON ---- */

/* Prints the members of `object`, one per line, and frees it.  `more` (may be NULL) prints further
 * members, each after ",\n  ". */
int print_json(json_t *object, int (*more)(void *ctx), void *ctx);

#endif

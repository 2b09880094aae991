/* golden: what the tests against PyTorch's recorded answers share.
 *
 * The files *.json of this folder are written by tools/golden/torch_golden.py;
 * tools/golden/torch_terms.py says how boxes, specs and tensors are written in them. JSON values
 * are read only and borrowed everywhere: rank threads share them.  Nothing here but golden_load and
 * golden_ranks uses cmocka: rank functions report by status. */
#ifndef RESHARD_TESTS_GOLDEN_H
#define RESHARD_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <reshard/torch.h>

#include "base/base.h"

/* Returns an error if the condition is false; its message ends with the library's last message. */
#define EXPECT(condition)                                                                          \
    RSH_REQUIRE(condition, RSH_ERUNTIME, "%s:%d: %s  [%.160s]", __FILE__, __LINE__, #condition,    \
                rsh_error_detail())
#define MOST_SHARDS 16

/* ---- files and fields ---- */

/* Returns the cases of tests/golden/NAME.json; fails the test if the file is missing. */
json_t *golden_load(const char *name);
const char *golden_text(const json_t *object, const char *key); /* "" if there is none */
int64_t golden_number(const json_t *object, const char *key, int64_t otherwise);
int golden_numbers(const json_t *list, int64_t *out); /* returns the count, at most RSH_MAX_NDIM */
int golden_ints(const json_t *list, int *out);        /* the same for ranks; at most MOST_SHARDS */
bool golden_is(const json_t *object, const char *key, const char *text);

/* Converts the kind of a PyTorch error, such as "VALUE", to the status of the library; "OK" and
 * NULL are RSH_OK. */
rsh_status golden_kind(const char *kind);
/* Returns the status that the library must return: "ours" of the case, or else the error in the
 * answer of `rank` (for collective calls: of any rank). */
rsh_status golden_expected(const json_t *the_case, int rank, bool collective);
/* Does PyTorch's answer contain a result to compare with? */
bool golden_answered(const json_t *the_case);

/* ---- boxes and specs ---- */

rsh_status golden_box(const json_t *box, rsh_shard_meta *out);
/* Reads at most MOST_SHARDS boxes. */
rsh_status golden_boxes(const json_t *list, int64_t *n, rsh_shard_meta *out);
rsh_status golden_spec(const json_t *spec, rsh_spec **out);
/* Removes empty boxes, sorts the rest by offsets, and returns their number. */
int64_t golden_settle(int64_t n, rsh_shard_meta *boxes);
/* Checks that the boxes have the same offsets, sizes and placements as the list, after
 * golden_settle. */
rsh_status golden_compare_boxes(const json_t *list, int64_t n, const rsh_shard_meta *boxes);
/* Computes the boxes of a spec from the definition of chunks, independently of the library. */
int64_t golden_model(const json_t *spec, int ndim, const int64_t *size, rsh_shard_meta *out);

/* ---- tensors ---- */

/* Writes an integer as one element of `dtype`. */
void golden_put(rsh_dtype dtype, int64_t value, void *out);
/* Creates the whole tensor of a case ("size", "dtype", "fill"), or zeros if `blank` is set. */
rsh_status golden_whole(const json_t *the_case, const char *dtype, bool blank, rsh_tensor **out);
rsh_status golden_tensor(const json_t *tensor, rsh_tensor **out);
/* Copies a box of a dense tensor to new memory, element by element. */
rsh_status golden_cut(const rsh_tensor *whole, const int64_t *offsets, const int64_t *sizes,
                      rsh_tensor **out);
/* Creates a tensor with the same values whose dims 0 and 1 are swapped in memory. */
rsh_status golden_turned(const rsh_tensor *t, rsh_tensor **out);
bool golden_equal(const rsh_tensor *a, const rsh_tensor *b); /* dtype, shape and bits; both dense */
rsh_status golden_compare(const json_t *tensor, const rsh_tensor *mine);

/* ---- ranks ---- */

/* One case on one rank of `world`; the default group is there. */
typedef rsh_status (*golden_fn)(const json_t *the_case, int rank);
/* Every case of the file that is `mine` (NULL: all) on every engine, in worlds of the size each
 * case wants.  Differences are printed; one fails the test, and so does a file of which nothing was
 * compared. */
void golden_ranks(const char *name, bool (*mine)(const json_t *the_case), golden_fn fn);
/* The case's "group" or another list of global ranks; NULL where there is none: the default group.
 * Collective over the world. */
rsh_status golden_group(const json_t *ranks, rsh_group **out);
bool golden_member(const json_t *ranks, int rank);

#endif

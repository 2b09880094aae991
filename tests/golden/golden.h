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

/* A failed expectation as a status, with the call's sentence behind it. */
#define EXPECT(condition)                                                                          \
    RSH_REQUIRE(condition, RSH_ERUNTIME, "%s:%d: %s  [%.160s]", __FILE__, __LINE__, #condition,    \
                rsh_error_detail())
#define MOST_SHARDS 16

/* ---- files and fields ---- */

/* The cases of tests/golden/NAME.json; a missing file fails the test. */
json_t *golden_load(const char *name);
const char *golden_text(const json_t *object, const char *key); /* "" if there is none */
int64_t golden_number(const json_t *object, const char *key, int64_t otherwise);
int golden_numbers(const json_t *list, int64_t *out); /* how many; at most RSH_MAX_NDIM */
int golden_ints(const json_t *list, int *out);        /* the same for ranks; at most MOST_SHARDS */
bool golden_is(const json_t *object, const char *key, const char *text);

/* "VALUE" and so on as the status that ours maps it to; "OK" and NULL are RSH_OK. */
rsh_status golden_kind(const char *kind);
/* What ours must return: "ours" of the case, else the error of its answer; of `rank`'s answer, or
 * for collective calls of any rank's. */
rsh_status golden_expected(const json_t *the_case, int rank, bool collective);
/* Has PyTorch's answer something to compare with? */
bool golden_answered(const json_t *the_case);

/* ---- boxes and specs ---- */

rsh_status golden_box(const json_t *box, rsh_shard_meta *out);
/* At most MOST_SHARDS. */
rsh_status golden_boxes(const json_t *list, int64_t *n, rsh_shard_meta *out);
rsh_status golden_spec(const json_t *spec, rsh_spec **out);
/* Drops empty boxes and sorts the rest by offsets; returns how many are left. */
int64_t golden_settle(int64_t n, rsh_shard_meta *boxes);
/* The same boxes, offsets, sizes and placements, settled. */
rsh_status golden_compare_boxes(const json_t *list, int64_t n, const rsh_shard_meta *boxes);
/* Boxes that a spec must give by the definition of chunks, clamped; written independently of the
 * library. */
int64_t golden_model(const json_t *spec, int ndim, const int64_t *size, rsh_shard_meta *out);

/* ---- tensors ---- */

/* One element of `dtype` with an integer value. */
void golden_put(rsh_dtype dtype, int64_t value, void *out);
/* The whole tensor of a case ("size", "dtype", "fill"); zeros instead where `blank`. */
rsh_status golden_whole(const json_t *the_case, const char *dtype, bool blank, rsh_tensor **out);
rsh_status golden_tensor(const json_t *tensor, rsh_tensor **out);
/* The box of a dense tensor, copied element by element into new memory. */
rsh_status golden_cut(const rsh_tensor *whole, const int64_t *offsets, const int64_t *sizes,
                      rsh_tensor **out);
/* The same values in memory where dims 0 and 1 are stored the other way round. */
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

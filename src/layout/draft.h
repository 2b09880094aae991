/* draft: a description as it is parsed from a text, with its holes and the position of every
 * item. */
#ifndef RESHARD_LAYOUT_DRAFT_H
#define RESHARD_LAYOUT_DRAFT_H

#include "layout/impl.h"

/* Owns all lists of `desc` and `origin`. */
typedef struct rshi_draft {
    rsh_layout_desc desc; /* sizes and ndim may be RSH_HOLE; while parsing, an axis that a cut or a
                             reduction names is the offset of its name in the text */
    rsh_segment *segment[RSH_MAX_NDIM]; /* desc.dim[].segment */
    rsh_ranked_box *box;                /* desc.boxes */
    bool has_dtype;
    rshi_text_origin origin;
} rshi_draft;

/* Parses the text into a draft and checks only its syntax; holes are errors unless `holes`.  `mesh`
 * as in rsh_form_parse.  Set origin.error before the call.  Release the draft even after a
 * failure. */
rsh_status rshi_draft_parse(rshi_draft *draft, const char *text, bool holes,
                            const rsh_layout_desc *mesh);
void rshi_draft_release(rshi_draft *draft);

/* Append a zeroed item whose position in the text is `at`. */
rsh_status rshi_draft_add_segment(rshi_draft *draft, int dim, int at);
rsh_status rshi_draft_add_box(rshi_draft *draft, int at);
rsh_status rshi_draft_add_number(const int64_t **list, int64_t *n, int64_t number);

/* Copies the mesh of another description. */
rsh_status rshi_draft_take_mesh(rshi_draft *draft, const rsh_layout_desc *mesh);
/* Converts axes from offsets in the text to indices into the mesh. */
rsh_status rshi_draft_find_axes(rshi_draft *draft);

/* Returns the length in bytes of the word (a letter, then letters, digits and _) that starts at
 * `at`; 0 if there is none. */
size_t rshi_word_length(const char *at);

#endif

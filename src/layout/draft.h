/* draft: a description as it is read from a text, with its holes and where everything stands. */
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

/* The text as a draft, and nothing checked but its spelling; holes are refused unless allowed.
 * `mesh` as in rsh_form_parse.  origin.error is set before.  Release the draft after a failure,
 * too. */
rsh_status rshi_draft_parse(rshi_draft *draft, const char *text, bool holes,
                            const rsh_layout_desc *mesh);
void rshi_draft_release(rshi_draft *draft);

/* Room for one more, zeroed, that stands at a place; the last of its list is then the new one. */
rsh_status rshi_draft_add_segment(rshi_draft *draft, int dim, int at);
rsh_status rshi_draft_add_box(rshi_draft *draft, int at);
rsh_status rshi_draft_add_number(const int64_t **list, int64_t *n, int64_t number);

/* The mesh of another description. */
rsh_status rshi_draft_take_mesh(rshi_draft *draft, const rsh_layout_desc *mesh);
/* Axes from offsets in the text to indices into the mesh. */
rsh_status rshi_draft_find_axes(rshi_draft *draft);

/* Bytes of the word (a letter, then letters, digits and _) that starts here; 0: none. */
size_t rshi_word_length(const char *at);

#endif

/* Draw: pictures of layouts and of the moves between them. */
#ifndef RESHARD_DRAW_H
#define RESHARD_DRAW_H

#include <reshard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rsh_picture {
    RSH_PICTURE_TEXT,
    RSH_PICTURE_SVG,
    RSH_PICTURE_HTML,
    RSH_PICTURE_ANSI /* text in the ranks' colours, for terminals with 256 of them */
} rsh_picture;

/* Draws one tensor of a plan: which rank holds what before and after, and what moves.  Text is at
 * most 100 columns wide; HTML is one self-contained page.  Pictures of large tensors and of many
 * ranks are coarse and say so.
 * RSH_EINDEX if the plan has no such tensor; RSH_EIO if the sink stops; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_draw_plan(const rsh_plan *p, int64_t tensor, rsh_picture form,
                                 const rsh_sink *sink);
/* Draws one layout.  RSH_EIO if the sink stops; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_draw_layout(const rsh_layout *l, rsh_picture form, const rsh_sink *sink);

#ifdef __cplusplus
}
#endif
#endif

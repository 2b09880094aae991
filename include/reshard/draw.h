/* Draw: pictures of layouts and of the moves between them; readers only, nothing flows back. */
#ifndef RESHARD_DRAW_H
#define RESHARD_DRAW_H

#include <reshard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rsh_picture { RSH_PICTURE_TEXT, RSH_PICTURE_SVG, RSH_PICTURE_HTML } rsh_picture;

/* Which rank holds what, before and after, and what moves between them, of one tensor of the plan.
 * Text is at most 100 columns wide. HTML is one self-contained page.  Large tensors and many ranks
 * are drawn coarsely and say so.  Local. */
RSH_API rsh_status rsh_draw_plan(const rsh_plan *p, int64_t tensor, rsh_picture form,
                                 const rsh_sink *sink);
/* One layout. */
RSH_API rsh_status rsh_draw_layout(const rsh_layout *l, rsh_picture form, const rsh_sink *sink);

#ifdef __cplusplus
}
#endif
#endif

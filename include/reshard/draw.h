/* Draw: pictures of layouts and of the moves between them. */
#ifndef RESHARD_DRAW_H
#define RESHARD_DRAW_H

#include <reshard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rsh_picture_format {
    RSH_PICTURE_TEXT, /* at most 100 columns wide */
    RSH_PICTURE_SVG,
    RSH_PICTURE_HTML, /* one page to look around in, of 2 MB at most; it loads nothing else */
    RSH_PICTURE_ANSI, /* text in the ranks' colours, for terminals with 256 of them */
    RSH_PICTURE_JSON  /* the scene of that page, as data; docs/draw.md lists its members */
} rsh_picture_format;

/* Draws one tensor of a plan: which rank holds what before and after, and what moves.  Where a dim
 * has too many parts, those between its first and its last are left out, and the picture says so.
 * RSH_EINDEX if the plan has no such tensor; RSH_EIO if the sink stops; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_draw_plan(const rsh_plan *p, int64_t tensor, rsh_picture_format form,
                                 const rsh_sink *sink);
/* Draws one layout.  RSH_EIO if the sink stops; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_draw_layout(const rsh_layout *l, rsh_picture_format form,
                                   const rsh_sink *sink);

/* The script and the style of the page, for pages of one's own: reshard.draw(element, scene) draws
 * a JSON scene into an element.  Constant text.  Pure. */
RSH_API const char *rsh_draw_script(void);
RSH_API const char *rsh_draw_style(void);

#ifdef __cplusplus
}
#endif
#endif

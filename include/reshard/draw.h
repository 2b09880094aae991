/* Draw: draws layouts and the moves between them. */
#ifndef RESHARD_DRAW_H
#define RESHARD_DRAW_H

#include <reshard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rsh_picture_format {
    RSH_PICTURE_TEXT, /* at most 100 columns wide */
    RSH_PICTURE_SVG,
    RSH_PICTURE_HTML, /* an interactive page of at most 2 MB, without external files */
    RSH_PICTURE_ANSI, /* text in the colours of the ranks, for terminals with 256 colours */
    RSH_PICTURE_JSON  /* the data of the HTML page; docs/draw.md lists its members */
} rsh_picture_format;

/* Draws one tensor of a plan: which rank holds what before and after, and what moves.  If a dim has
 * too many parts, only its first and last parts are drawn, and the picture says so.
 * RSH_EINDEX if the plan has no such tensor; RSH_EIO if the sink stops; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_draw_plan(const rsh_plan *p, int64_t tensor, rsh_picture_format form,
                                 const rsh_sink *sink);
/* Draws one layout.  RSH_EIO if the sink stops; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_draw_layout(const rsh_layout *l, rsh_picture_format form,
                                   const rsh_sink *sink);

/* Return the script and the style sheet of the HTML page, for use in other pages:
 * reshard.draw(element, scene) draws a JSON scene into an element.  The text is static.  Pure. */
RSH_API const char *rsh_draw_script(void);
RSH_API const char *rsh_draw_style(void);

#ifdef __cplusplus
}
#endif
#endif

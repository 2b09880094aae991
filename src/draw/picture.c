/* Picture: the public doors, and how coarse a picture gets. */
#include "draw/impl.h"

#include <stdio.h>

static const rshi_format *const formats[] = {[RSH_PICTURE_TEXT] = &rshi_format_text,
                                             [RSH_PICTURE_SVG] = &rshi_format_svg,
                                             [RSH_PICTURE_HTML] = &rshi_format_html,
                                             [RSH_PICTURE_ANSI] = &rshi_format_ansi};

#define COARSE 8 /* intervals where there are more ranks than can be told apart */

static rsh_status draw(const rsh_plan *plan, const rsh_layout *from, const rsh_layout *to, rsh_picture form,
                       const rsh_sink *sink) {
    RSH_REQUIRE((unsigned)form <= RSH_PICTURE_ANSI, RSH_EVALUE, "there is no picture form %d", (int)form);
    const rshi_format *f = formats[form];
    bool many = rsh_layout_nranks(from) > RSHI_DRAW_INTERVALS || (to && rsh_layout_nranks(to) > RSHI_DRAW_INTERVALS);
    rshi_scene scene;
    rshi_canvas canvas = {.format = f, .scene = &scene, .sink = sink};
    rsh_status st = rshi_scene_make(&scene, plan, from, to, many ? COARSE : f->intervals);
    if (!st) st = rshi_page_draw(&canvas);
    rshi_free(canvas.glyphs);
    rshi_scene_free(&scene);
    return st;
}

rsh_status rsh_draw_plan(const rsh_plan *p, int64_t tensor, rsh_picture form, const rsh_sink *sink) {
    RSH_REQUIRE(p && sink && sink->write, RSH_EVALUE, "a plan and a sink are needed to draw");
    int64_t n = rsh_plan_ntensors(p);
    RSH_REQUIRE(tensor >= 0 && tensor < n, RSH_EINDEX, "the plan has %lld tensors, there is no number %lld",
                (long long)n, (long long)tensor);
    return draw(p, rsh_plan_from(p, tensor), rsh_plan_to(p, tensor), form, sink);
}

rsh_status rsh_draw_layout(const rsh_layout *l, rsh_picture form, const rsh_sink *sink) {
    RSH_REQUIRE(l && sink && sink->write, RSH_EVALUE, "a layout and a sink are needed to draw");
    return draw(NULL, l, NULL, form, sink);
}

/* Picture: the public functions, and the level of detail of each format. */
#include "draw/impl.h"

typedef struct drawing {
    const rsh_plan *plan; /* NULL if there is only one layout */
    int64_t tensor;
    const rsh_layout *from, *to;
} drawing;

static const rshi_format *const formats[] = {[RSH_PICTURE_TEXT] = &rshi_format_text,
                                             [RSH_PICTURE_SVG] = &rshi_format_svg,
                                             [RSH_PICTURE_ANSI] = &rshi_format_ansi,
                                             [RSH_PICTURE_JSON] = NULL}; /* JSON and HTML are not drawn on a canvas */

static const rshi_detail page_detail = {RSHI_DRAW_INTERVALS, 6, 2, RSHI_DRAW_INTERVALS,
                                        RSHI_DRAW_INTERVALS *RSHI_DRAW_INTERVALS};

/* Chooses the level of detail.  If there is a gap, few parts are drawn around it, so that rank numbers fit into
 * them. */
static rshi_detail detail_of(const rshi_format *f, const drawing *d) {
    rshi_detail detail = f ? f->detail : page_detail;
    if (!f) f = &rshi_format_svg; /* the page has the panels of the SVG */
    int64_t bound = rshi_max(rshi_layout_rank_bound(d->from), d->to ? rshi_layout_rank_bound(d->to) : 0);
    int letters = 1;
    for (; bound > 10; bound /= 10) letters++;
    int n = (int)rshi_min(detail.head + detail.tail, (f->width - f->gap_width) / ((letters + 1) * f->letter));
    detail.tail = n > 3 ? 2 : 1;
    detail.head = (int)rshi_max(2, n - detail.tail);
    return detail;
}

static rsh_status draw_canvas(const rshi_scene *scene, const rshi_format *f, const rsh_sink *sink) {
    rshi_canvas canvas = {.format = f, .scene = scene, .sink = sink};
    rsh_status st = rshi_page_draw(&canvas);
    rshi_free(canvas.glyphs);
    return st;
}

static rsh_status draw_picture(const drawing *d, rsh_picture_format form, const rsh_sink *sink) {
    RSH_REQUIRE((unsigned)form <= RSH_PICTURE_JSON, RSH_EVALUE, "unknown picture format %d", (int)form);
    const rshi_format *f = formats[form];
    rshi_scene scene;
    rshi_detail detail = detail_of(f, d);
    rsh_status st = rshi_scene_make(&scene, d->plan, d->tensor, d->from, d->to, &detail);
    if (!st && f)
        st = draw_canvas(&scene, f, sink);
    else if (!st)
        st = form == RSH_PICTURE_HTML ? rshi_html_write(&scene, sink) : rshi_json_write(&scene, sink);
    rshi_scene_free(&scene);
    return st;
}

rsh_status rsh_draw_plan(const rsh_plan *p, int64_t tensor, rsh_picture_format form, const rsh_sink *sink) {
    RSH_REQUIRE(p && sink && sink->write, RSH_EVALUE, "draw: plan and sink must not be NULL");
    int64_t n = rsh_plan_ntensors(p);
    RSH_REQUIRE(tensor >= 0 && tensor < n, RSH_EINDEX, "draw: the plan has %lld tensors, got tensor index %lld",
                (long long)n, (long long)tensor);
    return draw_picture(&(drawing){p, tensor, rsh_plan_from(p, tensor), rsh_plan_to(p, tensor)}, form, sink);
}

rsh_status rsh_draw_layout(const rsh_layout *l, rsh_picture_format form, const rsh_sink *sink) {
    RSH_REQUIRE(l && sink && sink->write, RSH_EVALUE, "draw: layout and sink must not be NULL");
    return draw_picture(&(drawing){NULL, 0, l, NULL}, form, sink);
}

const char *rsh_draw_script(void) { return rshi_page_script; }
const char *rsh_draw_style(void) { return rshi_page_style; }

/* SVG: every element has an id and a class; ranks stand in data-rank and data-source for scripts. */
#include "draw/impl.h"

#include <inttypes.h>
#include <string.h>

static const char *const style =
    "<style>\n"
    "text{font-family:Helvetica,Arial,sans-serif;dominant-baseline:central}\n"
    ".title{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,monospace;fill:#222}\n"
    ".tick{font-size:10px;fill:#777}\n"
    ".note{font-size:12px;fill:#555}\n"
    ".moved{font-size:13px;fill:#222;font-weight:600}\n"
    ".label{font-size:13px;font-weight:600}\n"
    ".held{stroke:#fff;stroke-width:1.5}\n"
    ".stays,.moves,.reduced{stroke:#fff;stroke-width:.6}\n"
    ".outline{fill:none;stroke:#222;stroke-width:1.6;pointer-events:none}\n"
    ".badge{fill:#fff;fill-opacity:.9;pointer-events:none}\n"
    ".arrow{stroke:#222;stroke-width:1.8}\n"
    "</style>\n"
    "<defs>\n"
    "<marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"8\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" "
    "orient=\"auto\">"
    "<path d=\"M0 0 10 5 0 10 2.5 5z\" fill=\"#222\"/></marker>\n"
    "<pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<rect width=\"7\" height=\"7\" fill=\"#e9e9e9\"/><path d=\"M0 0V7\" stroke=\"#9a9a9a\" "
    "stroke-width=\"2\"/></pattern>\n"
    "</defs>\n";

rsh_status rshi_svg_begin(rshi_canvas *c, int width, int height) {
    const rshi_scene *s = c->scene;
    RSH_TRY(rshi_sink_format(
        c->sink,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"reshard\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" role=\"img\">\n<title>",
        width, height, width, height));
    RSH_TRY(rshi_sink_escaped(c->sink, rsh_layout_text(s->side[0].layout)));
    if (s->nsides == 2) {
        RSH_TRY(rshi_sink_text(c->sink, " to "));
        RSH_TRY(rshi_sink_escaped(c->sink, rsh_layout_text(s->side[1].layout)));
    }
    RSH_TRY(rshi_sink_text(c->sink, "</title>\n"));
    RSH_TRY(rshi_sink_text(c->sink, style));
    return rshi_sink_format(c->sink, "<rect class=\"paper\" width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width,
                            height);
}

static rsh_status put_id(rshi_canvas *c, const rshi_figure *m) {
    RSH_TRY(rshi_sink_format(c->sink, " id=\"%s%s%s-%" PRId64 "\"", m->side, *m->side ? "-" : "", m->kind, c->marks++));
    if (m->rank >= 0) RSH_TRY(rshi_sink_format(c->sink, " data-rank=\"%" PRId64 "\"", m->rank));
    if (m->source >= 0) RSH_TRY(rshi_sink_format(c->sink, " data-source=\"%" PRId64 "\"", m->source));
    return RSH_OK;
}

static rsh_status put_fill(rshi_canvas *c, const rshi_figure *m) {
    if (!strcmp(m->kind, "outline")) return rshi_sink_text(c->sink, " fill=\"none\"");
    if (!strcmp(m->kind, "reduced")) return rshi_sink_text(c->sink, " fill=\"url(#hatch)\"");
    rshi_colour k = rshi_figure_colour(c->scene, m);
    return rshi_sink_format(c->sink, " fill=\"#%02x%02x%02x\"", (unsigned)k.red, (unsigned)k.green, (unsigned)k.blue);
}

rsh_status rshi_svg_box(rshi_canvas *c, const rshi_figure *m) {
    RSH_TRY(rshi_sink_format(c->sink, "<rect class=\"%s\"", m->kind));
    RSH_TRY(put_id(c, m));
    RSH_TRY(rshi_sink_format(c->sink, " x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", m->x, m->y, m->w, m->h));
    RSH_TRY(put_fill(c, m));
    if (!m->tip) return rshi_sink_text(c->sink, "/>\n");
    RSH_TRY(rshi_sink_text(c->sink, "><title>"));
    RSH_TRY(rshi_sink_escaped(c->sink, m->tip));
    return rshi_sink_text(c->sink, "</title></rect>\n");
}

/* Labels on one colour are black or white; on several they get a badge to stand on. */
static bool on_badge(const rshi_figure *m) { return !strcmp(m->kind, "label") && m->source < 0; }

static rsh_status put_badge(rshi_canvas *c, const rshi_figure *m) {
    int width = 10 + (int)strlen(m->label) * c->format->letter, height = c->format->line - 2;
    return rshi_sink_format(c->sink, "<rect class=\"badge\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n",
                            m->x - width / 2, m->y - height / 2, width, height, height / 2);
}

static const char *label_colour(const rshi_canvas *c, const rshi_figure *m) {
    if (strcmp(m->kind, "label")) return "";
    bool white = !on_badge(m) && rshi_colour_dark(rshi_figure_colour(c->scene, m));
    return white ? " fill=\"#fff\"" : " fill=\"#222\"";
}

rsh_status rshi_svg_text(rshi_canvas *c, const rshi_figure *m) {
    const char *anchor = m->anchor == 'm' ? "middle" : m->anchor == 'e' ? "end" : "start";
    if (on_badge(m)) RSH_TRY(put_badge(c, m));
    RSH_TRY(rshi_sink_format(c->sink, "<text class=\"%s\"%s pointer-events=\"none\"", m->kind, label_colour(c, m)));
    RSH_TRY(put_id(c, m));
    RSH_TRY(rshi_sink_format(c->sink, " x=\"%d\" y=\"%d\" text-anchor=\"%s\">", m->x, m->y, anchor));
    RSH_TRY(rshi_sink_escaped(c->sink, m->label));
    return rshi_sink_text(c->sink, "</text>\n");
}

rsh_status rshi_svg_line(rshi_canvas *c, const rshi_figure *m) {
    RSH_TRY(rshi_sink_format(c->sink, "<path class=\"%s\"", m->kind));
    RSH_TRY(put_id(c, m));
    return rshi_sink_format(c->sink, " d=\"M%d %dl%d %d\" marker-end=\"url(#head)\"/>\n", m->x, m->y, m->w, m->h);
}

rsh_status rshi_svg_end(rshi_canvas *c) { return rshi_sink_text(c->sink, "</svg>\n"); }

const rshi_format rshi_format_svg = {RSHI_SVG_LOOK, .begin = rshi_svg_begin, .end = rshi_svg_end};

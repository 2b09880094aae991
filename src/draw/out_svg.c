/* SVG: every element has an id and a class; ranks stand in data-rank and data-source for scripts. */
#include "draw/impl.h"

#include <inttypes.h>
#include <string.h>

static const char *const style =
    "<style>\n"
    "text{font-family:Helvetica,Arial,sans-serif;dominant-baseline:central}\n"
    ".paper{fill:#fff}\n"
    ".title{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,monospace;fill:#222}\n"
    ".heading{font-size:16px;font-weight:600;fill:#222}\n"
    ".tick{font-size:10px;fill:#6a6a6a}\n"
    ".note{font-size:12px;fill:#555}\n"
    ".moved{font-size:13px;fill:#222;font-weight:600}\n"
    ".label,.times{font-size:13px;font-weight:600;fill:#222}\n"
    ".times{fill:#555}\n"
    ".light{fill:#fff}.dark{fill:#1b1b1b}\n"
    ".held{stroke:#fff;stroke-width:1.5}\n"
    ".none{fill:#eee}\n"
    ".stays,.moves,.reduced{stroke:#fff;stroke-width:.6}\n"
    ".stays,.pale{fill-opacity:.22}\n"
    ".outline{fill:none;stroke:#222;stroke-width:1.6;pointer-events:none}\n"
    ".gap,.skipped{fill:url(#dots);stroke:#ccc;stroke-dasharray:3 3}\n"
    ".combined{fill:url(#hatch);pointer-events:none}\n"
    ".badge{fill:#fff;fill-opacity:.9;pointer-events:none}\n"
    ".arrow{stroke:#222;stroke-width:1.8}.head{fill:#222}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".paper{fill:#15181c}.heading,.title,.moved,.label{fill:#e6e6e6}.tick,.note,.times{fill:#a9adb3}\n"
    ".label.light{fill:#fff}.label.dark{fill:#1b1b1b}\n"
    ".held,.stays,.moves,.reduced{stroke:#15181c}.outline{stroke:#e6e6e6}.badge{fill:#15181c}\n"
    ".none{fill:#23272d}.gap,.skipped{stroke:#4a4f57}.arrow{stroke:#e6e6e6}.head{fill:#e6e6e6}}\n"
    "</style>\n"
    "<defs>\n"
    "<marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"8\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" "
    "orient=\"auto\">"
    "<path class=\"head\" d=\"M0 0 10 5 0 10 2.5 5z\"/></marker>\n"
    "<pattern id=\"hatch\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<path d=\"M2 0V8\" stroke=\"#fff\" stroke-opacity=\".55\" stroke-width=\"3\"/></pattern>\n"
    "<pattern id=\"dots\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<circle cx=\"3\" cy=\"3\" r=\".8\" fill=\"#999\" fill-opacity=\".7\"/></pattern>\n"
    "</defs>\n";

static rsh_status begin(rshi_canvas *c, int width, int height) {
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
    return rshi_sink_format(c->sink, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height);
}

static rsh_status put_id(rshi_canvas *c, const rshi_figure *m) {
    RSH_TRY(rshi_sink_format(c->sink, " id=\"%s%s%s-%" PRId64 "\"", m->side, *m->side ? "-" : "", m->kind, c->marks++));
    if (m->rank >= 0) RSH_TRY(rshi_sink_format(c->sink, " data-rank=\"%" PRId64 "\"", m->rank));
    if (m->source >= 0) RSH_TRY(rshi_sink_format(c->sink, " data-source=\"%" PRId64 "\"", m->source));
    return RSH_OK;
}

static rshi_colour colour_of(const rshi_canvas *c, const rshi_figure *m) {
    return m->fill ? *m->fill : rshi_scene_colour(c->scene, m->source);
}

/* What has no colour of a rank gets one from the style. */
static rsh_status put_fill(rshi_canvas *c, const rshi_figure *m) {
    if (m->source < 0 && !m->fill) return RSH_OK;
    rshi_colour k = colour_of(c, m);
    return rshi_sink_format(c->sink, " fill=\"#%02x%02x%02x\"", (unsigned)k.red, (unsigned)k.green, (unsigned)k.blue);
}

static rsh_status put_place(rshi_canvas *c, const rshi_figure *m) {
    return rshi_sink_format(c->sink, " x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", m->x, m->y, m->w, m->h);
}

static rsh_status put_hatch(rshi_canvas *c, const rshi_figure *m) {
    if (!m->combined) return RSH_OK;
    RSH_TRY(rshi_sink_text(c->sink, "<rect class=\"combined\""));
    RSH_TRY(put_place(c, m));
    return rshi_sink_text(c->sink, "/>\n");
}

static rsh_status box(rshi_canvas *c, const rshi_figure *m) {
    bool empty = !strcmp(m->kind, "held") && m->source < 0;
    RSH_TRY(rshi_sink_format(c->sink, "<rect class=\"%s\"", empty ? "none" : m->kind));
    RSH_TRY(put_id(c, m));
    RSH_TRY(put_place(c, m));
    RSH_TRY(put_fill(c, m));
    if (!m->tip) return rshi_sink_text(c->sink, "/>\n");
    RSH_TRY(rshi_sink_text(c->sink, "><title>"));
    RSH_TRY(rshi_sink_escaped(c->sink, m->tip));
    RSH_TRY(rshi_sink_text(c->sink, "</title></rect>\n"));
    return put_hatch(c, m);
}

/* Labels on one colour are black or white; on several they get a badge to stand on. */
static bool on_badge(const rshi_figure *m) {
    return (!strcmp(m->kind, "label") || !strcmp(m->kind, "times")) && (m->source < 0 || m->combined);
}

static rsh_status put_badge(rshi_canvas *c, const rshi_figure *m) {
    int width = 8 + (int)strlen(m->label) * c->format->letter, height = c->format->line - 2;
    return rshi_sink_format(c->sink, "<rect class=\"badge\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n",
                            m->x - width / 2, m->y - height / 2, width, height, height / 2);
}

static const char *label_class(const rshi_canvas *c, const rshi_figure *m) {
    if (strcmp(m->kind, "label") || on_badge(m)) return "";
    return rshi_colour_dark(colour_of(c, m)) ? " light" : " dark";
}

static rsh_status text(rshi_canvas *c, const rshi_figure *m) {
    const char *anchor = m->anchor == 'm' ? "middle" : m->anchor == 'e' ? "end" : "start";
    if (on_badge(m)) RSH_TRY(put_badge(c, m));
    RSH_TRY(rshi_sink_format(c->sink, "<text class=\"%s%s\" pointer-events=\"none\"", m->kind, label_class(c, m)));
    RSH_TRY(put_id(c, m));
    RSH_TRY(rshi_sink_format(c->sink, " x=\"%d\" y=\"%d\" text-anchor=\"%s\">", m->x, m->y, anchor));
    RSH_TRY(rshi_sink_escaped(c->sink, m->label));
    return rshi_sink_text(c->sink, "</text>\n");
}

static rsh_status line_to(rshi_canvas *c, const rshi_figure *m) {
    RSH_TRY(rshi_sink_format(c->sink, "<path class=\"%s\"", m->kind));
    RSH_TRY(put_id(c, m));
    return rshi_sink_format(c->sink, " d=\"M%d %dl%d %d\" marker-end=\"url(#head)\"/>\n", m->x, m->y, m->w, m->h);
}

static rsh_status end(rshi_canvas *c) { return rshi_sink_text(c->sink, "</svg>\n"); }

const rshi_format rshi_format_svg = {.detail = {RSHI_DRAW_INTERVALS, 6, 2, 1, 1100},
                                     .width = 384,
                                     .height = 384,
                                     .strip = 64,
                                     .min_width = 6,
                                     .min_height = 6,
                                     .gap_width = 64,
                                     .gap_height = 30,
                                     .gap = 150,
                                     .margin = 20,
                                     .top = 16,
                                     .line = 18,
                                     .letter = 8,
                                     .tick_width = 44,
                                     .tick_height = 18,
                                     .begin = begin,
                                     .box = box,
                                     .text = text,
                                     .line_to = line_to,
                                     .end = end};

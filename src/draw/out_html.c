/* HTML: one page with the SVG drawing, tables, and a few lines of script to follow a rank. */
#include "draw/impl.h"

static const char *const head =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
    "content=\"width=device-width\">\n"
    "<title>reshard</title>\n<style>\n"
    "body{font:15px/1.5 Helvetica,Arial,sans-serif;color:#222;max-width:1060px;margin:2em auto;padding:0 1em}\n"
    "h1{font:600 17px/1.5 ui-monospace,'DejaVu Sans Mono',Menlo,monospace;margin:0}\n"
    "h2{font-size:16px;margin:1.6em 0 .4em}\n"
    "svg{max-width:100%;height:auto;display:block}\n"
    "svg.reshard{margin:1em 0 0 -20px}\n"
    "table{border-collapse:collapse}\n"
    "td{padding:.12em 1.2em .12em 0;border-bottom:1px solid #eee}\n"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".tables{display:flex;flex-wrap:wrap;gap:0 4em}\n"
    ".focus [data-rank]:not(.on),.focus [data-source]:not(.on){opacity:.18}\n"
    "</style>\n";

static const char *const script =
    "<script>\n"
    "// Hovering over a block lights up everything that the same rank holds before the move, or sends.\n"
    "const all = [...document.querySelectorAll('[data-rank],[data-source]')];\n"
    "const key = e => e.dataset.source ?? e.dataset.rank;\n"
    "document.addEventListener('mouseover', ({target}) => {\n"
    "  const hit = target.closest('[data-rank],[data-source]');\n"
    "  document.body.classList.toggle('focus', !!hit);\n"
    "  if (hit) all.forEach(e => e.classList.toggle('on', key(e) === key(hit)));\n"
    "});\n"
    "</script>\n</html>\n";

static rsh_status begin(rshi_canvas *c, int width, int height) {
    RSH_TRY(rshi_sink_text(c->sink, head));
    for (int i = 0; i < c->scene->nsides; i++) {
        RSH_TRY(rshi_sink_text(c->sink, i ? "<h1>&rarr; " : "<h1>"));
        RSH_TRY(rshi_sink_escaped(c->sink, rsh_layout_text(c->scene->side[i].layout)));
        RSH_TRY(rshi_sink_text(c->sink, "</h1>\n"));
    }
    return rshi_svg_begin(c, width, height);
}

static rsh_status end(rshi_canvas *c) {
    RSH_TRY(rshi_svg_end(c));
    if (c->scene->plan) RSH_TRY(rshi_html_tables(c->scene, c->sink));
    return rshi_sink_text(c->sink, script);
}

const rshi_format rshi_format_html = {RSHI_SVG_LOOK, .begin = begin, .end = end};

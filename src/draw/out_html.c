/* HTML: writes a page with the scene as JSON, the style sheet, and the script that draws it. */
#include "draw/impl.h"

static rsh_status put_title(const rshi_scene *s, const rsh_sink *sink) {
    char text[RSHI_LAYOUT_SHOWN];
    RSH_TRY(rshi_sink_text(sink, "<title>"));
    for (int i = 0; i < s->nsides; i++) {
        rshi_layout_shown(s->side[i].layout, text);
        if (i) RSH_TRY(rshi_sink_text(sink, " to "));
        RSH_TRY(rshi_sink_escaped(sink, text));
    }
    return rshi_sink_text(sink, "</title>\n");
}

rsh_status rshi_html_write(const rshi_scene *s, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_text(
        sink, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
              "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"));
    RSH_TRY(put_title(s, sink));
    RSH_TRY(rshi_sink_text(sink, "<style>\n"));
    RSH_TRY(rshi_sink_text(sink, rsh_draw_style()));
    RSH_TRY(rshi_sink_text(sink, "</style>\n<body>\n<noscript>This page is drawn by the script at its end.</noscript>\n"
                                 "<main id=\"reshard\"></main>\n<script type=\"application/json\" id=\"scene\">\n"));
    RSH_TRY(rshi_json_write(s, sink));
    RSH_TRY(rshi_sink_text(sink, "</script>\n<script>\n"));
    RSH_TRY(rshi_sink_text(sink, rsh_draw_script()));
    return rshi_sink_text(sink, "reshard.draw(document.getElementById('reshard'), "
                                "JSON.parse(document.getElementById('scene').textContent));\n</script>\n</html>\n");
}

/* Quantities: formats bytes and seconds for people, and prints JSON. */
#include "cli.h"

#include <stdlib.h>

const char *human_bytes(double bytes, char text[QUANTITY]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 6; u++) bytes /= 1024;
    snprintf(text, QUANTITY, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return text;
}

const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

const char *human_seconds(double seconds, char text[QUANTITY]) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int u = 0;
    for (; seconds < 1 && u < 3; u++) seconds *= 1000;
    snprintf(text, QUANTITY, "%.3g %s", seconds, units[u]);
    return text;
}

/* Prints an object member by member, because a matrix in jansson would take too much memory. */
int print_json(json_t *object, int (*more)(void *ctx), void *ctx) {
    const char *key, *lead = "{\n  ";
    json_t *value;
    int result = DONE;
    json_object_foreach(object, key, value) {
        printf("%s\"%s\": ", lead, key);
        json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
        lead = ",\n  ";
    }
    if (more) result = more(ctx);
    fputs("\n}\n", stdout);
    json_decref(object);
    return result;
}

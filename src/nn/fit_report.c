/* Fit report: one message that lists the tensors of a checkpoint that do not fit a model. */
#include "nn/fit_report.h"

#include <stdio.h>
#include <string.h>

#include "nn/impl.h"

/* Adds an item to a list while there is room; further items are only counted. */
static void append_item(rshn_names_text *l, const char *item) {
    size_t used = strlen(l->text);
    l->n++;
    if (l->shown + 1 < l->n || used + strlen(item) + 2 >= sizeof l->text) return;
    snprintf(l->text + used, sizeof l->text - used, "%s%s", used ? ", " : "", item);
    l->shown++;
}

static void add_name(rshn_names_text *l, const char *name) {
    char item[220];
    snprintf(item, sizeof item, "\"%.200s\"", name);
    append_item(l, item);
}

void rshn_fit_missing(rshn_fit_report *r, const char *name) { add_name(&r->missing, name); }
void rshn_fit_unexpected(rshn_fit_report *r, const char *name) { add_name(&r->unexpected, name); }

void rshn_fit_misfit(rshn_fit_report *r, const char *name, int ndim, const int64_t *shape, const rsh_value *value) {
    char item[220];
    snprintf(item, sizeof item, "\"%.100s\" must be %.50s, got %.50s", name,
             rshn_sizes_text(rsh_value_ndim(value), rsh_value_shape(value)), rshn_sizes_text(ndim, shape));
    append_item(&r->misfits, item);
}

/* Appends text such as "; missing 3: "a", "b" and 1 more". */
static void append_list(char *text, size_t room, const char *what, const rshn_names_text *l) {
    size_t used = strlen(text);
    if (!l->n) return;
    used += (size_t)snprintf(text + used, room - used, "; %lld %s: %s", (long long)l->n, what, l->text);
    if (l->n > l->shown && used < room)
        snprintf(text + used, room - used, "%s%lld more", l->shown ? " and " : "", (long long)(l->n - l->shown));
}

rsh_status rshn_fit_status(const rshn_fit_report *r, const char *path, bool nonstrict) {
    char text[900] = "";
    if (!nonstrict) append_list(text, sizeof text, "missing in the files", &r->missing);
    if (!nonstrict) append_list(text, sizeof text, "not in the model", &r->unexpected);
    append_list(text, sizeof text, "with the wrong shape", &r->misfits);
    if (!*text) return RSH_OK;
    char sentence[1000];
    snprintf(sentence, sizeof sentence, "%.80s does not fit the model%s", path, text);
    return rsh_fail(RSH_EVALUE, sentence);
}

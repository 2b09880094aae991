/* Ready rules: finds the built-in rule file that matches the tensor names of a checkpoint. */
#include "ready_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

bool is_mesh(const char *to) {
    size_t n = strspn(to, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n && to[n] == '=' && isdigit((unsigned char)to[n + 1]) && access(to, F_OK);
}

/* ---- attention heads, from config.json ---- */

typedef struct heads {
    long long size, width; /* sizes of one head, and of all heads together; 0: unknown */
} heads;

static long long number_of(const json_t *config, const char *key, const char *other) {
    const json_t *value = json_object_get(config, key);
    return json_integer_value(value ? value : json_object_get(config, other));
}

static heads read_heads(const char *source) {
    char path[4096];
    heads h = {0, 0};
    snprintf(path, sizeof path, "%s/config.json", source);
    json_t *config = json_load_file(path, 0, NULL);
    long long n = number_of(config, "num_attention_heads", "n_head");
    h.width = number_of(config, "hidden_size", "n_embd");
    h.size = json_integer_value(json_object_get(config, "head_dim"));
    if (!h.size && n > 0) h.size = h.width / n;
    json_decref(config);
    return h;
}

/* ---- text ---- */

/* Returns the text with every `from` replaced by "PREFIXn", and frees the old text. */
static char *replace_all(char *text, const char *from, const char *prefix, long long n) {
    char to[40], *out = NULL;
    size_t length = 0;
    if (!text || n <= 0) return text;
    snprintf(to, sizeof to, "%s%lld", prefix, n);
    FILE *f = open_memstream(&out, &length);
    if (!f) return free(text), NULL;
    for (const char *at = text, *next;; at = next + strlen(from)) {
        next = strstr(at, from);
        if (!next) {
            fputs(at, f);
            break;
        }
        fwrite(at, 1, (size_t)(next - at), f);
        fputs(to, f);
    }
    free(text);
    return fclose(f) ? NULL : out;
}

/* Returns the text of the rules for another mesh and other heads. */
static char *adapt_rules(const ready_rules *r, const char *mesh, const heads *h) {
    const char *old = strstr(r->text, "\nmesh "), *rest = old ? strchr(old + 1, '\n') : NULL;
    char *text = NULL;
    if (!rest) return NULL;
    if (asprintf(&text, "%.*s\nmesh %s%s", (int)(old - r->text), r->text, mesh, rest) < 0) return NULL;
    if (!strncmp(r->name, "hf-gpt2", 7)) {
        text = replace_all(text, "%64", "%", h->size);
        text = replace_all(text, "768", "", h->width);
    } else if (!strncmp(r->name, "hf-", 3)) {
        text = replace_all(text, "%128", "%", h->size);
    }
    return text;
}

/* ---- choosing ---- */

static rsh_status try_rules(const rsh_ckpt *c, const ready_rules *r, const char *mesh, const heads *h, bool *fits,
                            rsh_ckpt_rules **out) {
    rsh_ckpt *mapped = NULL;
    char *text = adapt_rules(r, mesh, h);
    if (!text) return RSH_ENOMEM;
    rsh_status st = rsh_ckpt_rules_parse(text, r->name, out);
    free(text);
    if (st) return st;
    *fits = !rsh_ckpt_map(c, *out, &mapped);
    rsh_ckpt_free(mapped);
    if (!*fits) rsh_ckpt_rules_free(*out);
    return RSH_OK;
}

static void report_choice(const ready_rules *r, const heads *h) {
    fprintf(stderr, "reshard: using the built-in rules %s", r->name);
    if (h->size)
        fprintf(stderr, ", heads of %lld\n", h->size);
    else if (!strncmp(r->name, "hf-", 3))
        fprintf(stderr, ", heads of %s (no config.json was found)\n",
                strncmp(r->name, "hf-gpt2", 7) ? "128" : "64");
    else
        fputc('\n', stderr);
}

/* Reports an invalid mesh here, because in the text of the rules the error would name a line that the user did not
 * write. */
static rsh_status check_mesh(const char *mesh) {
    rsh_layout *l = NULL;
    rsh_text_error error = {0};
    char *text = NULL, sentence[400];
    if (asprintf(&text, "u8[] on %s", mesh) < 0) return RSH_ENOMEM;
    rsh_status st = rsh_layout_parse_at(text, &error, &l);
    free(text);
    rsh_layout_free(l);
    snprintf(sentence, sizeof sentence, "--to %.100s: %.250s", mesh, error.sentence ? error.sentence : "not a mesh");
    return st && st != RSH_ENOMEM ? rsh_fail(RSH_EVALUE, sentence) : st;
}

rsh_status choose_ready_rules(const char *source, const char *mesh, rsh_ckpt_rules **out) {
    rsh_ckpt *c = NULL;
    bool fits = false;
    rsh_status st = check_mesh(mesh);
    if (!st) st = rsh_ckpt_open(source, NULL, &c);
    heads h = st ? (heads){0, 0} : read_heads(source);
    for (const ready_rules *r = ready_rules_list; r->name && !fits && !st; r++) {
        st = try_rules(c, r, mesh, &h, &fits, out);
        if (!st && fits) report_choice(r, &h);
    }
    rsh_ckpt_free(c);
    if (!st && !fits) {
        *out = NULL;
        return RSH_EKEY;
    }
    return st;
}

/* Remote device: parses and prints the owner of a shard: a rank or the name of a worker, and a device. */
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const device_name[] = {
#define NAME(name, text) text,
    RSH_DEVICE_MAP(NAME)
#undef NAME
};

/* ---- devices ---- */

/* Reads decimal digits; leading zeros are rejected unless `zeros` is set. */
static bool read_number(const char *text, size_t length, bool zeros, int *out) {
    int64_t value = 0;
    if (!length || (length > 1 && *text == '0' && !zeros)) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = rshi_min(value * 10 + (text[i] - '0'), (int64_t)INT_MAX + 1);
    }
    *out = (int)rshi_min(value, INT_MAX);
    return value <= INT_MAX;
}

static bool read_device(const char *text, rsh_device *out) {
    size_t length = strcspn(text, ":");
    rsh_device d = {RSH_DEVICE_CPU, -1};
    int type = 0;
    while (type < RSH_DEVICE_COUNT && (strlen(device_name[type]) != length || memcmp(device_name[type], text, length)))
        type++;
    if (type == RSH_DEVICE_COUNT) return false;
    d.type = (rsh_device_type)type;
    if (text[length] && !read_number(text + length + 1, strlen(text + length + 1), false, &d.index)) return false;
    *out = d;
    return true;
}

rsh_status rsh_device_parse(const char *text, rsh_device *out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "device: %s is NULL", text ? "out" : "text");
    RSH_REQUIRE(read_device(text, out), RSH_ERUNTIME, "\"%.100s\" is not a device; write \"cpu\" or \"cuda:1\"", text);
    return RSH_OK;
}

static bool same_device(rsh_device a, rsh_device b) { return a.type == b.type && a.index == b.index; }

/* ---- placements ---- */

static bool is_name_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

static bool is_worker_name(const char *name, size_t length) {
    if (!length || length >= RSH_WORKER_TEXT) return false;
    for (size_t i = 0; i < length; i++)
        if (!is_name_letter(name[i])) return false;
    return true;
}

/* Reads the text before the slash: "rank:N", or the name of a worker. */
static rsh_status read_owner(const char *text, size_t length, rsh_remote_device *p) {
    if (memchr(text, ':', length)) {
        bool ok = length > 5 && !memcmp(text, "rank:", 5) && read_number(text + 5, length - 5, true, &p->rank);
        RSH_REQUIRE(ok, RSH_EVALUE, "\"%.*s\" is not an owner; write \"rank:3\"", (int)rshi_min((int64_t)length, 100),
                    text);
        return RSH_OK;
    }
    RSH_REQUIRE(is_worker_name(text, length), RSH_EVALUE,
                "\"%.*s\" is not a worker name: expected at most %d letters, digits, \"_\", \"-\" and \".\"",
                (int)rshi_min((int64_t)length, 100), text, RSH_WORKER_TEXT - 1);
    memcpy(p->worker, text, length);
    return RSH_OK;
}

rsh_status rsh_remote_device_parse(const char *text, rsh_remote_device *out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "placement: %s is NULL", text ? "out" : "text");
    rsh_remote_device p = {.rank = -1, .device = {RSH_DEVICE_CPU, -1}};
    const char *slash = strchr(text, '/');
    RSH_REQUIRE(!slash || !strchr(slash + 1, '/'), RSH_EVALUE,
                "placement \"%.100s\" has more than one slash; write \"rank:3/cpu\"",
                text);
    if (slash || !read_device(text, &p.device))
        RSH_TRY(read_owner(text, slash ? (size_t)(slash - text) : strlen(text), &p));
    if (slash) RSH_TRY(rsh_device_parse(slash + 1, &p.device));
    *out = p;
    return RSH_OK;
}

void rsh_remote_device_print(const rsh_remote_device *p, char text[RSH_REMOTE_DEVICE_TEXT]) {
    char owner[RSH_WORKER_TEXT + 1] = "", device[32];
    if (!text) return;
    text[0] = '\0';
    if (!p) return;
    if (p->worker[0])
        snprintf(owner, sizeof owner, "%.*s/", RSH_WORKER_TEXT - 1, p->worker);
    else if (p->rank >= 0)
        snprintf(owner, sizeof owner, "rank:%d/", p->rank);
    const char *name = (unsigned)p->device.type < RSH_DEVICE_COUNT ? device_name[p->device.type] : "?";
    snprintf(device, sizeof device, p->device.index >= 0 ? "%s:%d" : "%s", name, p->device.index);
    snprintf(text, RSH_REMOTE_DEVICE_TEXT, "%s%s", owner, device);
}

bool rsh_remote_device_equal(const rsh_remote_device *a, const rsh_remote_device *b) {
    return a && b && a->rank == b->rank && same_device(a->device, b->device) &&
           !strncmp(a->worker, b->worker, RSH_WORKER_TEXT);
}

rsh_status rsh_remote_device_check(const rsh_remote_device *p, int size) {
    char text[RSH_REMOTE_DEVICE_TEXT];
    RSH_REQUIRE(p, RSH_EVALUE, "shard has no placement; a rank of the group is required");
    rsh_remote_device_print(p, text);
    RSH_REQUIRE(!p->worker[0], RSH_ERUNTIME,
                "placement \"%s\" names a worker; worker names cannot be resolved here, give its rank", text);
    RSH_REQUIRE(p->rank >= 0, RSH_EVALUE, "placement \"%s\" has no rank", text);
    RSH_REQUIRE(p->rank < size, RSH_EVALUE, "placement \"%s\" is outside of the group, which has %d ranks", text, size);
    return RSH_OK;
}

rsh_status rshi_remote_device_sound(const rsh_remote_device *p) {
    size_t length = strnlen(p->worker, RSH_WORKER_TEXT);
    RSH_REQUIRE(!length || is_worker_name(p->worker, length), RSH_EVALUE, "\"%.*s\" is not a worker name",
                RSH_WORKER_TEXT - 1, p->worker);
    RSH_REQUIRE(p->rank >= -1 && !(length && p->rank >= 0), RSH_EVALUE,
                length ? "placement has both rank %d and a worker name; give one" : "placement has an invalid rank %d",
                p->rank);
    RSH_REQUIRE((unsigned)p->device.type < RSH_DEVICE_COUNT && p->device.index >= -1, RSH_EVALUE,
                "placement has an invalid device: index %d, type %d", p->device.index, (int)p->device.type);
    return RSH_OK;
}

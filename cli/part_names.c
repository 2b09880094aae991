/* Part names: file names that contain the rank as %d or %03d. */
#include "part_files.h"

#include <string.h>

/* Parses %d or %03d at p: returns its length and the width of the number; 0: it is neither. */
static size_t number_at(const char *p, int *width) {
    size_t n = p[1] == '0' ? 2 : 1;
    *width = 0;
    while (n > 1 && p[n] >= '0' && p[n] <= '9' && *width < 100) *width = 10 * *width + p[n++] - '0';
    return p[n] == 'd' ? n + 1 : 0;
}

bool files_name_known(const char *name) {
    int width;
    for (const char *p = name; (p = strchr(p, '%'));) {
        size_t n = p[1] == '%' ? 2 : number_at(p, &width);
        if (!n || width > 18) return false;
        p += n;
    }
    return *name;
}

bool part_path(const char *name, int64_t rank, char path[PATH_MAX], bool *has) {
    size_t n = 0;
    int width;
    *has = false;
    while (*name && n < PATH_MAX - 20) {
        size_t number = *name == '%' && name[1] != '%' ? number_at(name, &width) : 0;
        if (number) n += (size_t)snprintf(path + n, 20, "%0*lld", width, (long long)rank), *has = true;
        else path[n++] = *name;
        name += number ? number : *name == '%' ? 2 : 1;
    }
    path[n] = '\0';
    return !*name;
}

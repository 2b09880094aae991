/* Replay: every file of the directories that it is given, once through a fuzz target, without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *f = fopen(path, "rb");
    static uint8_t bytes[1 << 20];
    if (!f) return perror(path), 1;
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    uint8_t *copy = malloc(n); /* has the exact size, so that a sanitizer detects reads beyond its end */
    if (n && !copy) return 1;
    for (size_t i = 0; i < n; i++) copy[i] = bytes[i];
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    return 0;
}

int main(int argc, char **argv) {
    int failed = 0, files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) return perror(argv[i]), 1;
        for (struct dirent *e; (e = readdir(d));) {
            char path[4096];
            if (*e->d_name == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            failed |= replay(path);
            files++;
        }
        closedir(d);
    }
    printf("%d files\n", files);
    return failed || !files;
}

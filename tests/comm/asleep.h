/* asleep: the state of a process according to the kernel. */
#ifndef RESHARD_TESTS_COMM_ASLEEP_H
#define RESHARD_TESTS_COMM_ASLEEP_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The letter of proc(5): R, S, T, Z and so on; 0 if there is no such process. */
static inline char state_of(pid_t pid) {
    char path[64], line[512], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f) && strrchr(line, ')'))
        sscanf(strrchr(line, ')') + 1, " %c", &state);
    if (f) fclose(f);
    return state;
}

/* Waits until a process is waiting, however long that takes: it was asleep, or had ended, in ten
 * consecutive checks. */
static inline void await_asleep(pid_t pid) {
    for (int looks = 0; looks < 10; usleep(3000)) {
        char state = state_of(pid);
        looks = state == 'S' || state == 'Z' || !state ? looks + 1 : 0;
    }
}

#endif

/* Prop: runs the loop over cases, and prints the case if one fails, crashes or hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine.h"
#include "prop.h"
#include "seed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUITE_CASES = 2000, SHOWN_FAILURES = 3, SECONDS_PER_CASE = 120 };

static struct {
    const char *property;
    uint64_t seed;
    int64_t number;
    const prop_case *c;
} running;

void *prop_alloc(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

bool prop_say(prop_case *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    return false;
}

static int64_t cases(int64_t share) {
    const char *text = getenv("RESHARD_CASES");
    int64_t all = text && *text ? strtoll(text, NULL, 0) : SUITE_CASES, n = share * all / SUITE_CASES;
    return n < 1 ? 1 : n;
}

static void show(const char *what) {
    if (!running.c) return;
    fprintf(stderr, "%s in %s: RESHARD_SEED=%llu RESHARD_ONLY=%lld\n", what, running.property,
            (unsigned long long)running.seed, (long long)running.number);
    if (running.c->from[0]) fprintf(stderr, "  from  %s\n", running.c->from);
    if (running.c->to[0]) fprintf(stderr, "  to    %s\n", running.c->to);
    if (running.c->note[0]) fprintf(stderr, "  with  %s\n", running.c->note);
    if (running.c->why[0]) fprintf(stderr, "  %s\n", running.c->why);
}

static void died(int number) {
    show(number == SIGALRM ? "no end" : "crash");
    signal(number, SIG_DFL);
    if (number == SIGALRM) _exit(1);
    raise(number);
}

static void watch(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], died);
}

static void start(prop_case *c, int64_t number) {
    memset(c, 0, sizeof *c);
    c->rng.state = running.seed;
    for (const char *p = running.property; *p; p++) c->rng.state = c->rng.state * 31 + (unsigned char)*p;
    c->rng.state = gen_next(&c->rng) + (uint64_t)number * 0x2545f4914f6cdd1du;
    running.number = number;
    engine_case(c->rng.state);
    alarm(SECONDS_PER_CASE);
}

/* Failures: the first few are printed as they occur, and the one with the shortest texts at the end. */
typedef struct record {
    int64_t failures, shortest_number;
    size_t length;
    prop_case shortest;
} record;

static void note(record *r, const prop_case *c) {
    size_t length = strlen(c->from) + strlen(c->to);
    if (r->failures++ < SHOWN_FAILURES) show("failure");
    if (r->failures > 1 && length >= r->length) return;
    r->length = length;
    r->shortest_number = running.number;
    r->shortest = *c;
}

static void show_shortest(const record *r) {
    if (r->failures <= SHOWN_FAILURES) return;
    running.c = &r->shortest;
    running.number = r->shortest_number;
    show("shortest failure");
}

void prop_run(const char *name, int64_t share, prop_fn fn) {
    prop_case *c = prop_alloc(sizeof *c);
    record *r = prop_alloc(sizeof *r);
    const char *only = getenv("RESHARD_ONLY");
    int64_t first = only && *only ? strtoll(only, NULL, 0) : 0, end = only && *only ? first + 1 : cases(share);
    running.property = name;
    running.seed = engine_seed(seed_of_tests());
    gen_most_ranks = engine_ranks(GEN_MAX_ROLES);
    running.c = c;
    watch();
    for (int64_t i = first; i < end; i++) {
        start(c, i);
        if (!fn(c)) note(r, c);
    }
    alarm(0);
    show_shortest(r);
    int64_t failures = r->failures;
    running.c = NULL;
    free(c);
    free(r);
    if (failures) fail_msg("%lld of %lld cases fail", (long long)failures, (long long)(end - first));
}

/* Doctor: checks the build and the machine, and says what to improve. */
#include "doctor.h"

#include <stdarg.h>

void advise(finding *f, const char *verdict, const char *format, ...) {
    va_list args;
    f->verdict = verdict;
    va_start(args, format);
    vsnprintf(f->advice, sizeof f->advice, format, args);
    va_end(args);
}

static const struct {
    const char *name, *key;
    void (*find)(finding *f);
} questions[] = {{"version", "version", find_version},
                 {"compiler", "compiler", find_compiler},
                 {"engines", "engines", find_engines},
                 {"MPI", "mpi", find_mpi},
                 {"BLAS", "blas", find_blas},
                 {"SIMD", "simd", find_simd},
                 {"settings", "settings", find_settings},
                 {"cores", "cores", find_cores},
                 {"memory", "memory", find_memory},
                 {"huge pages", "huge_pages", find_huge_pages},
                 {"shmem pages", "shared_huge_pages", find_shared_huge_pages},
                 {"/dev/shm", "shared_memory", find_shared_memory},
                 {"ptrace", "ptrace_scope", find_ptrace},
                 {"caches", "caches", find_caches}};
#define QUESTIONS ((int)(sizeof questions / sizeof *questions))

static int print_doctor_json(const finding *all) {
    json_t *o = json_object();
    for (int i = 0; i < QUESTIONS; i++)
        json_object_set_new(
            o, questions[i].key,
            json_pack("{s:s, s:s, s:s}", "value", all[i].value, "verdict", all[i].verdict, "advice", all[i].advice));
    return print_json(o, NULL, NULL);
}

static int print_doctor_text(const finding *all) {
    for (int i = 0; i < QUESTIONS; i++)
        printf("%-11s %-40s %s%s%s\n", all[i].name, all[i].value, all[i].verdict, *all[i].advice ? ": " : "",
               all[i].advice);
    return DONE;
}

enum { JSON = 256 };
static const struct argp_option options[] = {{.name = "json", .key = JSON, .doc = "answer in JSON"}, {0}};

static error_t parse(int key, char *word, struct argp_state *state) {
    bool *json = state->input;
    switch (key) {
    case JSON: *json = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "doctor takes no arguments, got '%s'", word); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp doctor_argp = {options, parse, NULL, 
                                        "Checks this build and this machine, and says what to improve.",
                                        NULL,    NULL,  NULL};

int cmd_doctor(int argc, char **argv) {
    finding all[QUESTIONS];
    bool json = false;
    argp_parse(&doctor_argp, argc, argv, 0, NULL, &json);
    for (int i = 0; i < QUESTIONS; i++) {
        all[i] = (finding){.name = questions[i].name, .verdict = "ok"};
        questions[i].find(&all[i]);
    }
    return json ? print_doctor_json(all) : print_doctor_text(all);
}

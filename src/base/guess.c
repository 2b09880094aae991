/* Guess: suggestions for words that name a dtype or a reduction in other libraries. */
#include "base/base.h"

#include <string.h>
#include <strings.h>

#define FAMILIAR 48 /* bytes; longer words match no name */

static const struct {
    const char *elsewhere, *here;
} dtypes[] = {{"boolean", "bool"},       {"byte", "u8"},          {"char", "i8"},         {"short", "i16"},
              {"int", "i32"},            {"long", "i64"},         {"half", "f16"},        {"float", "f32"},
              {"double", "f64"},         {"bfloat16", "bf16"},    {"bfloat", "bf16"},     {"single", "f32"},
              {"float8_e4m3fn", "f8e4m3"}, {"float8_e4m3", "f8e4m3"}, {"float8_e5m2", "f8e5m2"}, {"fp8", "f8e4m3"},
              {"f8_e4m3", "f8e4m3"},     {"f8_e5m2", "f8e5m2"},   {"cfloat", "c64"},      {"cdouble", "c128"},
              {"f8", "f8e4m3"},          {"complex", "c64"}};

static const struct {
    const char *elsewhere, *here;
} ops[] = {{"mean", "avg"},   {"average", "avg"}, {"add", "sum"},  {"total", "sum"}, {"plus", "sum"},
           {"product", "prod"}, {"mul", "prod"},  {"minimum", "min"}, {"maximum", "max"}, {"and", "band"},
           {"or", "bor"},     {"xor", "bxor"},    {"reduce", "sum"}};

/* Prefixes of names that end with the number of bits: "float32", "fp32", "uint8". */
static const struct {
    const char *elsewhere, *here;
} families[] = {{"float", "f"}, {"fp", "f"}, {"real", "f"}, {"uint", "u"}, {"int", "i"}, {"s", "i"}, {"complex", "c"}};

#define COUNT(list) (sizeof list / sizeof *list)

static const char *known_dtype(const char *name) {
    for (int i = 0; i < RSH_NDTYPES; i++)
        if (!strcasecmp(name, rsh_dtype_name((rsh_dtype)i))) return rsh_dtype_name((rsh_dtype)i);
    return NULL;
}

static const char *guess_dtype(const char *word) {
    char name[FAMILIAR + 8];
    for (size_t i = 0; i < COUNT(dtypes); i++)
        if (!strcasecmp(word, dtypes[i].elsewhere)) return dtypes[i].here;
    for (size_t i = 0; i < COUNT(families); i++) {
        size_t n = strlen(families[i].elsewhere);
        if (strncasecmp(word, families[i].elsewhere, n)) continue;
        rshi_text_format(name, sizeof name, "%s%s", families[i].here, word + n);
        if (known_dtype(name)) return known_dtype(name);
    }
    return known_dtype(word);
}

static const char *guess_op(const char *word) {
    for (size_t i = 0; i < COUNT(ops); i++)
        if (!strcasecmp(word, ops[i].elsewhere)) return ops[i].here;
    for (int i = 1; i < RSH_OP_COUNT; i++)
        if (!strcasecmp(word, rsh_op_name((rsh_op)i))) return rsh_op_name((rsh_op)i);
    return NULL;
}

#define ROW(name, number, text, bytes) " " text
static const char dtype_list[] = RSH_DTYPE_MAP(ROW);
#undef ROW
#define ROW(name, text) " " text
static const char op_list[] = RSH_OP_MAP(ROW);
#undef ROW

rsh_status rshi_name_fail(const char *noun, const char *text, size_t length) {
    char word[FAMILIAR] = "";
    bool dtype = !strcmp(noun, "dtype");
    int shown = (int)(length < 40 ? length : 40);
    if (length < sizeof word) memcpy(word, text, length);
    const char *dot = strchr(word, '.'); /* skips the name of a package: "torch.float32" */
    if (dot) memmove(word, dot + 1, strlen(dot));
    const char *guess = dtype ? guess_dtype(word) : guess_op(word);
    return rshi_fail(RSH_EVALUE, "\"%.*s\" is not a %s%s%s; expected one of%s", shown, text, noun,
                     guess ? ": use " : "", guess ? guess : "", dtype ? dtype_list : op_list);
}

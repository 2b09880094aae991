/* Rules layout: the public function that applies rules to one tensor. */
#include "ckpt/rules.h"

#include <stdio.h>

static rsh_status report_misfit(const rsh_ckpt_rules *r, const rshi_ckpt_rule *rule, const char *name,
                                rsh_status status, const rsh_text_error *error) {
    char why[600];
    snprintf(why, sizeof why, "%s", error->sentence ? error->sentence : rsh_error_detail());
    return rshi_fail(status, "%.150s:%d: tensor \"%.150s\": %s", r->name, rule->line, name, why);
}

rsh_status rsh_ckpt_rules_layout(const rsh_ckpt_rules *rules, const char *name, rsh_dtype dtype, int ndim,
                                 const int64_t *shape, rsh_layout **out) {
    rsh_text_error error = {0};
    RSH_NEEDS(rules);
    RSH_NEEDS(name);
    RSH_NEEDS(out);
    int64_t match = rshi_rules_match(rules, name);
    RSH_REQUIRE(match >= 0, RSH_EKEY,
                "%.200s: no rule matches tensor \"%.300s\"; add \"* [...]\" as the last line", rules->name,
                name);
    const rshi_ckpt_rule *rule = &rules->rule[match];
    rsh_status st = rsh_form_fill(rule->form, dtype, ndim, shape, &error, out);
    return st && st != RSH_ENOMEM ? report_misfit(rules, rule, name, st, &error) : st;
}

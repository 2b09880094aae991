/* fit_report: lists the tensors of a checkpoint that do not fit a model in one message. */
#ifndef RESHARD_NN_FIT_REPORT_H
#define RESHARD_NN_FIT_REPORT_H

#include <reshard/grad.h>

typedef struct rshn_names_text {
    char text[240];
    int shown;
    int64_t n;
} rshn_names_text;

typedef struct rshn_fit_report {
    rshn_names_text missing, unexpected, misfits;
} rshn_fit_report;

void rshn_fit_missing(rshn_fit_report *r, const char *name);
void rshn_fit_unexpected(rshn_fit_report *r, const char *name);
/* Notes a tensor of the files whose shape differs from the value's, or whose dtype cannot be
 * converted. */
void rshn_fit_misfit(rshn_fit_report *r, const char *name, int ndim, const int64_t *shape,
                     const rsh_value *value);
/* Returns RSH_EVALUE with all notes; missing and unexpected names are ignored if `nonstrict`. */
rsh_status rshn_fit_status(const rshn_fit_report *r, const char *path, bool nonstrict);

#endif

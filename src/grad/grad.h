/* grad: functions on transits, for DTensors that are redistributed in steps. */
#ifndef RESHARD_GRAD_GRAD_H
#define RESHARD_GRAD_GRAD_H

#include <reshard/grad.h>

/* Creates a transit that is already complete: wait returns the value itself, held, or NULL for
 * NULL.
 * RSH_ENOMEM. */
rsh_status rshi_value_transit_new_done(rsh_value *v, rsh_value_transit **out);
/* Sets the kind of the result, like rsh_value_set_kind. */
void rshi_value_transit_set_kind(rsh_value_transit *t, const rsh_value_kind *kind, void *kind_data);

#endif

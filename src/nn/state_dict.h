/* state_dict: copies values into existing values, for loading state. */
#ifndef RESHARD_NN_STATE_DICT_H
#define RESHARD_NN_STATE_DICT_H

#include <reshard/nn/state.h>

/* Checks that `from` can be copied into `to`, which has the name `name`.  RSH_ERUNTIME, RSH_ETYPE
 * as for rsh_module_load_state_dict. */
rsh_status rshn_check_copy(const char *name, const rsh_value *from, const rsh_value *to);
/* Copies the elements.  Collective over the comm of `to` if it is distributed and `from` is cut
 * differently. */
rsh_status rshn_copy_value(const rsh_value *from, const rsh_value *to);
/* rsh_module_load_state_dict with the comm (NULL: none) over which ranks agree before the first
 * copy. */
rsh_status rshn_module_load_state(rsh_module *m, rsh_state_dict *d, unsigned flags, rsh_comm *comm);
/* Creates a leaf on the same elements, without history. */
rsh_status rshn_share_value(const rsh_value *v, rsh_value **out);
/* Creates zeros with the same shape, dtype, layout and comm. */
rsh_status rshn_zeros_like(const rsh_value *v, rsh_value **out);

#endif

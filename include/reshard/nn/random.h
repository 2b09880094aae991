/* Random: the seed and the call counter of each thread.
 *
 * A random number depends only on the seed, the number of the call that draws it and the element's
 * global position.  Ranks that set the same seed and make the same calls in the same order get the
 * same random numbers, for any number of ranks. */
#ifndef RESHARD_NN_RANDOM_H
#define RESHARD_NN_RANDOM_H

#include <reshard/nn/state.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_random_state {
    uint64_t seed;
    uint64_t call; /* number of the next call that draws random numbers */
} rsh_random_state;

/* Return and set the state of the calling thread, initially {0, 0}.  Setting returns the old state.
 * Local. */
RSH_API rsh_random_state rsh_random_get_state(void);
RSH_API rsh_random_state rsh_random_set_state(rsh_random_state state);
/* Sets the state of the calling thread to {seed, 0}.  Local. */
RSH_API void rsh_random_seed(uint64_t seed);
/* Returns the current state and increments the call counter.  Local. */
RSH_API rsh_random_state rsh_random_next_state(void);

/* Returns the state of the calling thread as a state dict: "random", an i64 [2] of seed and call.
 * The caller frees *out.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_random_state_dict(rsh_state_dict **out);
/* Loads such a state; other entries are ignored.
 * RSH_ERUNTIME if "random" is missing or is not an i64 [2].  Local. */
RSH_API rsh_status rsh_random_load_state_dict(const rsh_state_dict *d);

/* Fill a value with uniform numbers from lo to hi, or with normal numbers; each counts as one call.
 * The numbers of a distributed value are those of its global positions.
 * RSH_ETYPE if the dtype is not a float; RSH_EUNSUP if the layout is partial; RSH_EVALUE if a bound
 * is not finite.  Local. */
RSH_API rsh_status rsh_random_uniform(rsh_value *v, double lo, double hi);
RSH_API rsh_status rsh_random_normal(rsh_value *v, double mean, double deviation);

#ifdef __cplusplus
}
#endif
#endif

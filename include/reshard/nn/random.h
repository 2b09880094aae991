/* Random: the seed and the number of the next random call, for each thread.
 *
 * A random number depends on the seed, the number of the call that draws it and the element's
 * global position alone.  Ranks that set the same seed and make the same calls in the same order
 * have the same random numbers, and these do not change with the number of ranks. */
#ifndef RESHARD_NN_RANDOM_H
#define RESHARD_NN_RANDOM_H

#include <reshard/nn/state.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_random_state {
    uint64_t seed;
    uint64_t call; /* of the next call that draws numbers */
} rsh_random_state;

/* The state of the calling thread; it starts as {0, 0}.  Setting returns what was there.  Local. */
RSH_API rsh_random_state rsh_random_get_state(void);
RSH_API rsh_random_state rsh_random_set_state(rsh_random_state state);
/* Sets the state of the calling thread to {seed, 0}.  Local. */
RSH_API void rsh_random_seed(uint64_t seed);
/* The state for one call; the next one gets the next number.  Local. */
RSH_API rsh_random_state rsh_random_next_state(void);

/* The state of the calling thread as a state dict: "random", an i64 [2] with the seed and the call.
 * The caller frees *out.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_random_state_dict(rsh_state_dict **out);
/* Takes such a state in; other entries are left alone.
 * RSH_ERUNTIME if there is no "random", or it is something else.  Local. */
RSH_API rsh_status rsh_random_load_state_dict(const rsh_state_dict *d);

/* Fill a value with numbers from lo to hi, or with a mean and a deviation; each is one call.  A
 * distributed value gets the numbers of its global positions.
 * RSH_ETYPE if the dtype is not a float; RSH_EUNSUP for a partial layout; RSH_EVALUE if a bound is
 * not finite.  Local. */
RSH_API rsh_status rsh_random_uniform(rsh_value *v, double lo, double hi);
RSH_API rsh_status rsh_random_normal(rsh_value *v, double mean, double deviation);

#ifdef __cplusplus
}
#endif
#endif

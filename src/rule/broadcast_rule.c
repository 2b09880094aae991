/* Broadcast rule: the dims of pointwise ops. */
#include "rule/rule.h"

static int most_dims(const rsh_rule_dims *io) {
    int most = 0;
    for (int i = 0; i < io->nin; i++)
        if (io->in[i].ndim > most) most = io->in[i].ndim;
    return most;
}

/* Computes the size of dim d of the result.  The dims of inputs are aligned at the last dim. */
static rsh_status size_of(const rsh_rule_dims *io, int ndim, int d, int64_t *out) {
    *out = 1;
    for (int i = 0; i < io->nin; i++) {
        int e = d - (ndim - io->in[i].ndim);
        if (io->in[i].ndim < 0 || e < 0 || io->in[i].shape[e] == 1) continue;
        RSH_REQUIRE(*out == 1 || *out == io->in[i].shape[e], RSH_EVALUE, "cannot broadcast sizes %lld and %lld",
                    (long long)*out, (long long)io->in[i].shape[e]);
        *out = io->in[i].shape[e];
    }
    return RSH_OK;
}

rsh_status rsh_rule_pointwise(rsh_rule_dims *io) {
    RSH_NEEDS(io);
    int ndim = most_dims(io);
    for (int d = 0; d < ndim; d++) {
        int64_t size;
        RSH_TRY(size_of(io, ndim, d, &size));
        for (int i = 0; i < io->nin; i++) {
            int e = d - (ndim - io->in[i].ndim);
            if (io->in[i].ndim >= 0 && e >= 0 && io->in[i].shape[e] == size) io->in[i].letter[e] = (signed char)d;
        }
        for (int i = 0; i < io->nout; i++) {
            io->out[i].ndim = ndim;
            io->out[i].shape[d] = size;
            io->out[i].letter[d] = (signed char)d;
        }
    }
    return RSH_OK;
}

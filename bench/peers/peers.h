/* peers: one move, with each library that can make it.
 *
 * An n x n matrix of 32-bit elements goes from rows (rank r of p has n/p whole rows) to columns
 * (n/p whole columns).  An element is its own global index, so that any result can be checked.
 * Every rank of MPI_COMM_WORLD calls everything here. */
#ifndef RESHARD_PEERS_H
#define RESHARD_PEERS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct move {
    int rank, ranks;
    int64_t n, share; /* share: n/ranks rows of a source, and columns of a destination */
    uint32_t *src;    /* [share][n]; used by contestants that allocate no memory of their own */
    uint32_t *dst;    /* [n][share] */
} move;

/* One contestant.  `open` prepares everything that can be prepared before the first move, including
 * `src` and `dst`; it returns false if the move is not possible here. */
typedef struct contestant {
    const char *name;
    bool ours;
    bool (*open)(struct contestant *c, const move *m);
    void (*run)(struct contestant *c);
    void (*close)(struct contestant *c);
    const move *move;
    uint32_t *src, *dst;
    void *state;
    double best; /* seconds of one move */
} contestant;

extern const contestant peer_alltoallw, peer_alltoallv;
#ifdef PEERS_SCALAPACK
extern const contestant peer_scalapack;
#endif
extern const contestant ours_shm, ours_shm_caller;
extern const contestant ours_mpi;

void *
peers_alloc(size_t bytes); /* zeroed, on huge pages if large; if memory is short, ends the job */
void peers_free(void *memory, size_t bytes);
void peers_end(const char *sentence) __attribute__((noreturn));

#endif

/* rendezvous: how the processes of a job find one another: messages and sockets.  Only used until
 * the comm is made. */
#ifndef RESHARD_NODE_RENDEZVOUS_H
#define RESHARD_NODE_RENDEZVOUS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "node/processes.h"

/* How long a rank that cannot take part tries to tell the others, in seconds. */
#define RSHI_RENDEZVOUS_GRACE 0.5

/* A message between ranks during the rendezvous; some carry two file descriptors. */
typedef struct rshi_word {
    uint64_t magic;
    int32_t rank, size, status;
    uint64_t reserve, board;
    char text[RSHI_DETAIL_BYTES]; /* error message if status is not RSH_OK; sent up to its NUL */
} rshi_word;

typedef struct rshi_rendezvous {
    rshi_process_world *w;
    const char *job;
    uint64_t board; /* offset of the first board in the arena of rank 0 */
    int life;       /* pidfd of this process */
    int *socket;    /* [size], owned: rank 0's by rank; others use socket[0] */
    double patience;
    double most;       /* seconds until it gives up, counted while this process is awake */
    rshi_watch waited; /* the part of them that has passed */
    bool begun; /* ranks that connect will be told of a failure */
} rshi_rendezvous;

/* Reads the watch; waiting code calls it at least every RSHI_WATCH_STEP seconds. */
double rshi_rendezvous_time_left(rshi_rendezvous *m);
/* Returns RSH_EPEER, because a process of another user uses the job's name. */
rsh_status rshi_rendezvous_report_foreign(const rshi_rendezvous *m, const struct ucred *who);

/* ---- messages on a socket; `who` is the rank at the other end, for error messages; -1: unknown
 * ---- */

/* Makes a message for this job.  It contains the thread's error message if the status is not
 * RSH_OK. */
rshi_word rshi_word_make(const rshi_rendezvous *m, int rank, rsh_status status);
/* Sends a message; fds NULL: without descriptors. */
rsh_status rshi_word_send(rshi_rendezvous *m, int who, int to, const rshi_word *w, const int *fds);
/* Reads a message that has arrived; `fds` are -1 if it has none.  RSH_EPEER: the other end is
 * closed; RSH_EVALUE: not from a rank; RSH_EMISMATCH: from another version of the library. */
rsh_status rshi_word_read(const rshi_rendezvous *m, int who, int from, rshi_word *w, int fds[2]);
/* Waits for the next message while there is time left. */
rsh_status rshi_word_await(rshi_rendezvous *m, int who, int from, rshi_word *w, int fds[2]);
void rshi_word_close(int fds[2]);

/* ---- sockets ---- */

rsh_status rshi_socket_open(int *fd);
socklen_t rshi_socket_address(const char *job, struct sockaddr_un *out);
/* Returns the process at the other end of a connection. */
struct ucred rshi_socket_peer(int fd);
bool rshi_socket_same_user(int fd);

/* ---- rank 0 ---- */

rsh_status rshi_rendezvous_listen(const rshi_rendezvous *m, int *fd);
/* Accepts the others, sends each the others' descriptors, and tells them the result. */
rsh_status rshi_rendezvous_host(rshi_rendezvous *m);
/* Called after a failure: waits for a moment and tells ranks that connect late. */
void rshi_rendezvous_turn_away(rshi_rendezvous *m, int listener, int missing,
                               const rshi_word *verdict);
/* Maps the arena of a peer; takes ownership of its descriptors. */
rsh_status rshi_rendezvous_admit(rshi_process_world *w, const rshi_word *who, int fds[2]);

#endif

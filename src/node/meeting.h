/* meeting: the processes of a job while they find one another: what they say and on which sockets.
 * Gone when the comm is there. */
#ifndef RESHARD_NODE_MEETING_H
#define RESHARD_NODE_MEETING_H

#include <sys/socket.h>
#include <sys/un.h>

#include "node/processes.h"

/* Seconds in which a rank that cannot take part tries to tell the others why. */
#define RSHI_MEETING_LINGER 0.5

/* What ranks say to each other; a hello and an introduction come with two descriptors. */
typedef struct rshi_word {
    uint64_t magic;
    int32_t rank, size, status;
    uint64_t reserve, board;
    char text[RSHI_DETAIL_BYTES]; /* travels up to its NUL: of a status that is not RSH_OK */
} rshi_word;

typedef struct rshi_meeting {
    rshi_process_world *w;
    const char *job;
    uint64_t board; /* offset of the first board in the arena of rank 0 */
    int life;       /* pidfd of this process */
    int *socket;    /* [size], owned: rank 0's by rank; others use socket[0] */
    double patience;
    double most;       /* seconds, counted while this process was awake, until it gives up */
    rshi_watch waited; /* of them */
    bool begun; /* who comes hears of a failure */
} rshi_meeting;

/* Looks at the watch: who waits asks at least every RSHI_WATCH_STEP seconds. */
double rshi_meeting_time_left(rshi_meeting *m);
/* RSH_EPEER: a process of another user has the job's name. */
rsh_status rshi_meeting_report_foreign(const rshi_meeting *m, const struct ucred *who);

/* ---- words on a socket; `who` is the rank at the other end, for sentences, -1: not known ---- */

/* With the thread's sentence where the status is not RSH_OK. */
rshi_word rshi_word_make(const rshi_meeting *m, int rank, rsh_status status);
/* fds NULL: without descriptors. */
rsh_status rshi_word_send(rshi_meeting *m, int who, int to, const rshi_word *w, const int *fds);
/* Reads a word that has arrived; `fds` are -1 if none came with it.  RSH_EPEER: the other end is
 * closed; RSH_EVALUE: not the word of a rank; RSH_EMISMATCH: of another version of the library. */
rsh_status rshi_word_read(const rshi_meeting *m, int who, int from, rshi_word *w, int fds[2]);
/* The next word, waited for while there is time left. */
rsh_status rshi_word_await(rshi_meeting *m, int who, int from, rshi_word *w, int fds[2]);
void rshi_word_close(int fds[2]);

/* ---- sockets ---- */

rsh_status rshi_socket_open(int *fd);
socklen_t rshi_socket_address(const char *job, struct sockaddr_un *out);
/* Who is at the other end: who connected, or, to one who did, who listens. */
struct ucred rshi_socket_peer(int fd);
bool rshi_socket_same_user(int fd);

/* ---- rank 0 ---- */

rsh_status rshi_meeting_listen(const rshi_meeting *m, int *fd);
/* Receive the others, introduce each to each, and tell them the outcome. */
rsh_status rshi_meeting_host(rshi_meeting *m);
/* A failed meeting: those who have not come yet are told when they do, for a moment. */
void rshi_meeting_turn_away(rshi_meeting *m, int listener, int missing, const rshi_word *verdict);
/* A peer's descriptors, which are taken, become its window. */
rsh_status rshi_meeting_admit(rshi_process_world *w, const rshi_word *who, int fds[2]);

#endif

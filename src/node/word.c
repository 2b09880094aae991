/* Word: the messages between processes during the rendezvous, on sockets that are restricted to one user. */
#include "node/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x3172647368736572u /* "reshsdr1" in memory: a name, with the version in the last byte */
#define NAME(magic) ((magic) & UINT64_C(0x00ffffffffffffff))

/* ---- sockets ---- */

/* Makes the socket's address.  A socket name has room for 107 bytes, so the job's name is hashed. */
socklen_t rshi_socket_address(const char *job, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "reshard-%u-%016llx", (unsigned)geteuid(),
                     (unsigned long long)rshi_hash(job, strlen(job), 0));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

struct ucred rshi_socket_peer(int fd) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes)) who = (struct ucred){0, (uid_t)-1, (gid_t)-1};
    return who;
}

bool rshi_socket_same_user(int fd) { return rshi_socket_peer(fd).uid == geteuid(); }

/* Opens a socket.  It is non-blocking, because the queue of a stopped rank 0 may be full. */
rsh_status rshi_socket_open(int *fd) {
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    RSH_REQUIRE(*fd >= 0, RSH_ERUNTIME, "cannot create a socket to reach the other ranks: %s", strerror(errno));
    return RSH_OK;
}

rsh_status rshi_rendezvous_report_foreign(const rshi_rendezvous *m, const struct ucred *who) {
    return rshi_fail(RSH_EPEER,
                     "job name \"%.100s\" is in use by process %ld of another user (uid %ld); choose a different name",
                     m->job, (long)who->pid, (long)who->uid);
}

/* ---- messages ---- */

rshi_word rshi_word_make(const rshi_rendezvous *m, int rank, rsh_status status) {
    rshi_word w = {.magic = MAGIC, .rank = rank, .size = m->w->base.size, .status = (int32_t)status};
    if (status) snprintf(w.text, sizeof w.text, "%s", rsh_error_detail());
    return w;
}

double rshi_rendezvous_time_left(rshi_rendezvous *m) {
    return m->most - rshi_watch_look(&m->waited, RSHI_WATCH_STEP);
}

typedef union control {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
} control;

/* Reports that the connection has ended, and names the rank at the other end; -1: unknown. */
static rsh_status report_ended(const rshi_rendezvous *m, int who) {
    char name[24] = "a rank";
    if (who >= 0) snprintf(name, sizeof name, "rank %d", who);
    return rshi_fail(RSH_EPEER, "%s of job \"%.100s\" ended while the comm was being created", name, m->job);
}

rsh_status rshi_word_send(rshi_rendezvous *m, int who, int to, const rshi_word *w, const int *fds) {
    struct iovec io = {(void *)w, offsetof(rshi_word, text) + strlen(w->text) + 1};
    control c = {0};
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1};
    if (fds) {
        h.msg_control = &c;
        h.msg_controllen = sizeof c.bytes;
        *CMSG_FIRSTHDR(&h) =
            (struct cmsghdr){.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), fds, 2 * sizeof(int));
    }
    for (;;) {
        struct pollfd p = {.fd = to, .events = POLLOUT};
        if (sendmsg(to, &h, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return RSH_OK;
        bool full = errno == EAGAIN || errno == ETOOMANYREFS || errno == EINTR;
        if (!full) return report_ended(m, who);
        RSH_REQUIRE(rshi_rendezvous_time_left(m) > 0, RSH_ETIMEOUT,
                    "rank %d of job \"%.100s\" does not accept messages", who, m->job);
        poll(&p, 1, 10);
    }
}

/* Takes up to two descriptors; a process at its limit of open files gets only one of them, or none. */
static void take_descriptors(struct msghdr *h, int *fds) {
    const struct cmsghdr *c = CMSG_FIRSTHDR(h);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(sizeof(int))) return;
    memcpy(fds, CMSG_DATA(c), (c->cmsg_len < CMSG_LEN(2 * sizeof(int)) ? 1 : 2) * sizeof(int));
}

/* Reads a message.  If a rank ends without reading all its messages, the connection is reset, but its own messages can
 * still be read. */
rsh_status rshi_word_read(const rshi_rendezvous *m, int who, int from, rshi_word *w, int fds[2]) {
    struct iovec io = {w, sizeof *w};
    control c = {0};
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c.bytes};
    *w = (rshi_word){0};
    fds[0] = fds[1] = -1;
    ssize_t n = recvmsg(from, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) n = recvmsg(from, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n > 0) take_descriptors(&h, fds);
    w->text[sizeof w->text - 1] = 0;
    if (n <= 0) return report_ended(m, who);
    long process = (long)rshi_socket_peer(from).pid;
    RSH_REQUIRE(n >= (ssize_t)sizeof w->magic && NAME(w->magic) == NAME(MAGIC), RSH_EVALUE,
                "process %ld sent the job \"%.100s\" data that are not from a rank", process, m->job);
    RSH_REQUIRE(n > (ssize_t)offsetof(rshi_word, text) && w->magic == MAGIC, RSH_EMISMATCH,
                "process %ld of job \"%.100s\" uses a different version of the library",
                process, m->job);
    return RSH_OK;
}

rsh_status rshi_word_await(rshi_rendezvous *m, int who, int from, rshi_word *w, int fds[2]) {
    struct pollfd p = {.fd = from, .events = POLLIN};
    while (poll(&p, 1, 100) <= 0) {
        RSH_TRY(rshi_interrupt_check(1));
        RSH_REQUIRE(rshi_rendezvous_time_left(m) > 0, RSH_ETIMEOUT,
                    "rank %d received nothing from rank %d of job \"%.100s\" for %g seconds (RESHARD_TIMEOUT)",
                    m->w->base.rank, who, m->job, m->patience);
    }
    return rshi_word_read(m, who, from, w, fds);
}

void rshi_word_close(int fds[2]) {
    if (fds[0] >= 0) close(fds[0]);
    if (fds[1] >= 0) close(fds[1]);
}

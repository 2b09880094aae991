/* Rendezvous: processes that know a job's name find one another and get one another's arenas.
 *
 * Rank 0 listens on a socket in the abstract namespace: it has no file, and it is gone with the process.  Every other
 * rank connects and hands over two descriptors, its arena and its pidfd.  When all have come, rank 0 sends everybody
 * everybody's, waits until all have mapped them, and tells the outcome.  Then the sockets are closed: they are for the
 * beginning only. */
#include "comm/shm.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x3172647368736572u /* "reshsdr1": the version of the words below is part of it */
#define LEAST_PAUSE 1000000L      /* nanoseconds between attempts to connect */
#define LINGER 0.5                /* seconds in which a rank that cannot take part tries to tell the others why */
#define GRACE       1.0 /* seconds, at most, by which the others wait longer than rank 0, which knows who is missing */

/* What ranks say to each other; a hello and an introduction come with two descriptors. */
typedef struct word {
    uint64_t magic;
    int32_t rank, size, status;
    uint64_t reserve, group;
    char text[RSHI_DETAIL_BYTES]; /* travels up to its NUL: of a status that is not RSH_OK */
} word;

typedef struct meeting {
    rshi_world *w;
    const char *job;
    uint64_t group; /* offset of the first group in the arena of rank 0 */
    int life;       /* pidfd of this process */
    int *socket;    /* [size], owned: rank 0's by rank; others use socket[0] */
    double patience, deadline;
    bool begun;     /* who comes hears of a failure */
} meeting;

static word say(const meeting *m, int rank, rsh_status status) {
    word w = {.magic = MAGIC, .rank = rank, .size = m->w->size, .status = (int32_t)status};
    if (status) snprintf(w.text, sizeof w.text, "%s", rsh_error_detail());
    return w;
}

static double time_left(const meeting *m) { return m->deadline - rshi_seconds(); }

static void pause_for(long nanoseconds) {
    const struct timespec t = {0, nanoseconds};
    nanosleep(&t, NULL);
}

/* ---- words on a socket ---- */

typedef union control {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
} control;

/* Sentences name the rank at the other end, -1: one that has not said who it is. */
static rsh_status report_ended(const meeting *m, int who) {
    char name[24] = "a rank";
    if (who >= 0) snprintf(name, sizeof name, "rank %d", who);
    return rshi_fail(RSH_EPEER, "%s of the job \"%.100s\" ended while the comm was made", name, m->job);
}

/* fds NULL: without descriptors. */
static rsh_status send_word(const meeting *m, int who, int to, const word *w, const int *fds) {
    struct iovec io = {(void *)w, offsetof(word, text) + strlen(w->text) + 1};
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
        RSH_REQUIRE(time_left(m) > 0, RSH_ETIMEOUT, "rank %d of the job \"%.100s\" does not listen", who, m->job);
        poll(&p, 1, 10);
    }
}

/* A process at its limit of open files gets one of two, or none. */
static void take_descriptors(struct msghdr *h, int *fds) {
    const struct cmsghdr *c = CMSG_FIRSTHDR(h);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(sizeof(int))) return;
    memcpy(fds, CMSG_DATA(c), (c->cmsg_len < CMSG_LEN(2 * sizeof(int)) ? 1 : 2) * sizeof(int));
}

/* A word that is there to be read; `fds` are -1 where none came.  A rank that ended without reading all it was sent
 * resets the connection, but what it said before is still there. */
static rsh_status read_word(const meeting *m, int who, int from, word *w, int fds[2]) {
    struct iovec io = {w, sizeof *w};
    control c = {0};
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c.bytes};
    *w = (word){0};
    fds[0] = fds[1] = -1;
    ssize_t n = recvmsg(from, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) n = recvmsg(from, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n > 0) take_descriptors(&h, fds);
    w->text[sizeof w->text - 1] = 0;
    if (n <= 0) return report_ended(m, who);
    RSH_REQUIRE(w->magic == MAGIC, RSH_EMISMATCH, "a rank of the job \"%.100s\" uses another version of the library",
                m->job);
    return RSH_OK;
}

static rsh_status await_word(const meeting *m, int who, int from, word *w, int fds[2]) {
    struct pollfd p = {.fd = from, .events = POLLIN};
    while (poll(&p, 1, 100) <= 0)
        RSH_REQUIRE(time_left(m) > 0, RSH_ETIMEOUT,
                    "rank %d heard nothing of the others of the job \"%.100s\" for %g seconds (RESHARD_TIMEOUT)",
                    m->w->rank, m->job, m->patience);
    return read_word(m, who, from, w, fds);
}

static void close_both(int fds[2]) {
    if (fds[0] >= 0) close(fds[0]);
    if (fds[1] >= 0) close(fds[1]);
}

/* ---- sockets ---- */

/* A name has room for 107 bytes, so the job's goes in as a hash. */
static socklen_t address_of(const char *job, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "reshard-%u-%016llx", (unsigned)geteuid(),
                     (unsigned long long)rshi_hash(job, strlen(job), 0));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool same_user(int fd) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) && who.uid == geteuid();
}

static rsh_status open_socket(int *fd) {
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    RSH_REQUIRE(*fd >= 0, RSH_ERUNTIME, "no socket to meet the other ranks: %s", strerror(errno));
    return RSH_OK;
}

static rsh_status listen_for(const meeting *m, int *fd) {
    struct sockaddr_un address;
    socklen_t bytes = address_of(m->job, &address);
    RSH_TRY(open_socket(fd));
    if (!bind(*fd, (struct sockaddr *)&address, bytes) && !listen(*fd, m->w->size)) return RSH_OK;
    int error = errno;
    close(*fd);
    return rshi_fail(error == EADDRINUSE ? RSH_EBUSY : RSH_ERUNTIME,
                     "rank 0 of the job \"%.100s\" cannot receive the others: %s", m->job,
                     error == EADDRINUSE ? "another rank 0 of a job of this name is waiting for its ranks"
                                         : strerror(error));
}

/* Rank 0 may come later than we do, and its time runs until then. */
static rsh_status connect_to(meeting *m, int fd) {
    struct sockaddr_un address;
    socklen_t bytes = address_of(m->job, &address);
    for (long pause = LEAST_PAUSE; connect(fd, (struct sockaddr *)&address, bytes);
         pause += pause < 16 * LEAST_PAUSE ? pause : 0) {
        bool early = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
        RSH_REQUIRE(early, RSH_ERUNTIME, "rank %d cannot reach rank 0 of the job \"%.100s\": %s", m->w->rank, m->job,
                    strerror(errno));
        RSH_REQUIRE(time_left(m) > 0, RSH_ETIMEOUT,
                    "rank 0 of the job \"%.100s\" did not come within %g seconds (RESHARD_TIMEOUT)", m->job,
                    m->patience);
        pause_for(pause);
    }
    RSH_REQUIRE(same_user(fd), RSH_EPEER, "the socket of the job \"%.100s\" belongs to another user", m->job);
    m->deadline = rshi_seconds() + m->patience + (m->patience / 2 < GRACE ? m->patience / 2 : GRACE);
    return RSH_OK;
}

/* ---- a peer's descriptors become its window ---- */

static rsh_status admit(rshi_world *w, const word *who, int fds[2]) {
    rsh_status st = RSH_OK;
    w->life[who->rank] = fds[1];
    w->reserve[who->rank] = who->reserve;
    w->window[who->rank] = rshi_window_map(fds[0], who->reserve);
    if (!w->window[who->rank]) st = rshi_nomem();
    close(fds[0]);
    return st;
}

/* ---- rank 0 ---- */

typedef struct host {
    meeting *m;
    int listener;
    word *hello;            /* [size], owned */
    int (*fds)[2];          /* [size], owned: arena and pidfd */
    struct pollfd *polled;  /* [size], owned: the listener, then the ranks that have come */
    int *rank_of;           /* [size], owned: whose socket polled[i] is */
    int come;
} host;

static rsh_status check_hello(const host *h, const word *w, const int fds[2]) {
    int size = h->m->w->size;
    if (w->status) return rshi_fail((rsh_status)w->status, "rank %d: %.900s", w->rank, w->text);
    RSH_REQUIRE(fds[0] >= 0 && fds[1] >= 0, RSH_ERUNTIME,
                "rank 0 has no file descriptor for the arena of rank %d (ulimit -n)", w->rank);
    RSH_REQUIRE(w->size == size, RSH_EMISMATCH, "rank 0 of the job \"%.100s\" knows of %d ranks, rank %d of %d",
                h->m->job, size, w->rank, w->size);
    RSH_REQUIRE(w->rank > 0 && w->rank < size && h->m->socket[w->rank] < 0, RSH_EMISMATCH,
                "rank %d of the job \"%.100s\" has come twice", w->rank, h->m->job);
    return RSH_OK;
}

/* A stranger is sent away; a rank of this job that is not as expected ends the meeting. */
static rsh_status receive_one(host *h) {
    int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC), fds[2] = {-1, -1};
    word w;
    if (fd < 0 && (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED)) return RSH_OK;
    RSH_REQUIRE(fd >= 0, RSH_ERUNTIME, "rank 0 of the job \"%.100s\" cannot receive the others: %s", h->m->job,
                strerror(errno));
    if (!same_user(fd)) return close(fd), RSH_OK;
    rsh_status st = await_word(h->m, -1, fd, &w, fds);
    if (!st) st = check_hello(h, &w, fds);
    if (st) {
        word no = say(h->m, 0, st);
        send_word(h->m, w.rank, fd, &no, NULL);
        rshi_set_detail(no.text);
        close_both(fds);
        close(fd);
        return st;
    }
    h->m->socket[w.rank] = fd;
    h->hello[w.rank] = w;
    memcpy(h->fds[w.rank], fds, sizeof fds);
    h->rank_of[++h->come] = w.rank;
    h->polled[h->come] = (struct pollfd){.fd = fd};
    return RSH_OK;
}

static rsh_status report_absent(const host *h) {
    int r = 1;
    while (h->m->socket[r] >= 0) r++;
    return rshi_fail(RSH_ETIMEOUT,
                     "%d of %d ranks of the job \"%.100s\" came within %g seconds (RESHARD_TIMEOUT); rank %d did not",
                     h->come + 1, h->m->w->size, h->m->job, h->m->patience, r);
}

static rsh_status receive_all(host *h) {
    h->polled[0] = (struct pollfd){.fd = h->listener, .events = POLLIN};
    while (h->come + 1 < h->m->w->size) {
        if (poll(h->polled, (nfds_t)h->come + 1, 100) > 0 && h->polled[0].revents) RSH_TRY(receive_one(h));
        for (int i = 1; i <= h->come; i++)
            RSH_REQUIRE(!h->polled[i].revents, RSH_EPEER, "rank %d ended while the others came", h->rank_of[i]);
        if (time_left(h->m) <= 0) return report_absent(h);
    }
    return RSH_OK;
}

/* Everybody learns of everybody. */
static rsh_status introduce(host *h) {
    meeting *m = h->m;
    for (int to = 1; to < m->w->size; to++)
        for (int r = 0; r < m->w->size; r++)
            if (r != to) RSH_TRY(send_word(m, to, m->socket[to], &h->hello[r], h->fds[r]));
    rsh_status st = RSH_OK;
    for (int r = 1; r < m->w->size; r++) {
        rsh_status admitted = admit(m->w, &h->hello[r], h->fds[r]);
        h->fds[r][0] = h->fds[r][1] = -1; /* taken */
        if (!st) st = admitted;
    }
    return st;
}

/* Every rank says whether it could map the others' arenas. */
static rsh_status hear_all(host *h) {
    meeting *m = h->m;
    for (int r = 1; r < m->w->size; r++) {
        word w;
        int fds[2];
        RSH_TRY(await_word(m, r, m->socket[r], &w, fds));
        close_both(fds);
        if (w.status) return rshi_fail((rsh_status)w.status, "rank %d: %.900s", r, w.text);
    }
    return RSH_OK;
}

static void tell_all(const meeting *m, const word *verdict) {
    for (int r = 1; r < m->w->size; r++)
        if (m->socket[r] >= 0) send_word(m, r, m->socket[r], verdict, NULL);
}

/* A failed meeting: those who have not come yet are told when they do, for a moment. */
static void turn_away(const meeting *m, int listener, int missing, const word *verdict) {
    for (double end = rshi_seconds() + LINGER; missing > 0 && rshi_seconds() < end;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0) continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) return;
        missing -= same_user(fd);
        send_word(m, -1, fd, verdict, NULL);
        close(fd);
    }
}

static rsh_status take_tables(host *h) {
    size_t n = (size_t)h->m->w->size;
    h->hello = rshi_calloc(n, sizeof *h->hello);
    h->fds = rshi_calloc(n, sizeof *h->fds);
    h->polled = rshi_calloc(n, sizeof *h->polled);
    h->rank_of = rshi_calloc(n, sizeof *h->rank_of);
    if (!h->hello || !h->fds || !h->polled || !h->rank_of) return rshi_nomem();
    memset(h->fds, -1, n * sizeof *h->fds);
    h->hello[0] = say(h->m, 0, RSH_OK);
    h->hello[0].reserve = h->m->w->arena->reserve;
    h->hello[0].group = h->m->group;
    h->fds[0][0] = h->m->w->arena->fd;
    h->fds[0][1] = h->m->life;
    return RSH_OK;
}

static void drop_tables(host *h) {
    for (int r = 1; h->fds && r < h->m->w->size; r++) close_both(h->fds[r]);
    rshi_free(h->hello);
    rshi_free(h->fds);
    rshi_free(h->polled);
    rshi_free(h->rank_of);
}

/* The listener is closed before anybody goes on, so that the job's name is free again for the next comm. */
static rsh_status be_host(meeting *m) {
    host h = {.m = m};
    RSH_TRY(listen_for(m, &h.listener));
    m->begun = true;
    rsh_status came = take_tables(&h), st;
    if (!came) came = receive_all(&h);
    if (!came) close(h.listener);
    st = came;
    if (!st) st = introduce(&h);
    if (!st) st = hear_all(&h);
    word verdict = say(m, 0, st);
    tell_all(m, &verdict);
    if (came) {
        close(m->life); /* one descriptor is needed, and there may be no other */
        m->life = -1;
        turn_away(m, h.listener, m->w->size - 1 - h.come, &verdict);
        close(h.listener);
    }
    drop_tables(&h);
    rshi_set_detail(verdict.text);
    return st;
}

/* ---- the others ---- */

static rsh_status refused(const word *w) { return rshi_fail((rsh_status)w->status, "%s", w->text); }

static rsh_status hear_verdict(const meeting *m) {
    word w;
    int fds[2];
    RSH_TRY(await_word(m, 0, m->socket[0], &w, fds));
    close_both(fds);
    return w.status ? refused(&w) : RSH_OK;
}

/* Rank 0 listens no more: it may have said why. */
static rsh_status hear_last_words(const meeting *m) {
    word w;
    int fds[2];
    do {
        RSH_TRY(await_word(m, 0, m->socket[0], &w, fds));
        close_both(fds);
    } while (!w.status);
    return refused(&w);
}

static rsh_status tell_host(const meeting *m, const word *w, const int *fds) {
    rsh_status st = send_word(m, 0, m->socket[0], w, fds);
    return st == RSH_EPEER ? hear_last_words(m) : st;
}

static rsh_status greet(meeting *m, const word *w, int fds[2]) {
    rsh_status st = RSH_OK;
    if (w->rank < 0 || w->rank >= m->w->size || m->w->window[w->rank])
        st = rshi_fail(RSH_ERUNTIME, "rank 0 introduced rank %d oddly", w->rank);
    else if (fds[0] < 0 || fds[1] < 0)
        st = rshi_fail(RSH_ERUNTIME, "no file descriptor for the arena of rank %d (ulimit -n)", w->rank);
    if (st) {
        close_both(fds);
        return st;
    }
    if (w->rank == 0) m->group = w->group;
    return admit(m->w, w, fds);
}

/* One introduction, or rank 0's refusal.  A rank in trouble hears them all the same: its own words come after the last.
 */
static rsh_status meet_one(meeting *m, rsh_status *trouble) {
    word w;
    int fds[2];
    RSH_TRY(await_word(m, 0, m->socket[0], &w, fds));
    if (w.status || *trouble) close_both(fds);
    if (w.status) return refused(&w);
    if (!*trouble) *trouble = greet(m, &w, fds);
    return RSH_OK;
}

static rsh_status call_host(meeting *m) {
    RSH_TRY(open_socket(&m->socket[0]));
    m->begun = true;
    return connect_to(m, m->socket[0]);
}

static rsh_status be_guest(meeting *m) {
    word hello = say(m, m->w->rank, RSH_OK);
    rsh_status trouble = RSH_OK;
    hello.reserve = m->w->arena->reserve;
    RSH_TRY(call_host(m));
    RSH_TRY(tell_host(m, &hello, (int[2]){m->w->arena->fd, m->life}));
    for (int i = 1; i < m->w->size; i++) RSH_TRY(meet_one(m, &trouble));
    word done = say(m, m->w->rank, trouble);
    RSH_TRY(tell_host(m, &done, NULL));
    return hear_verdict(m);
}

/* ---- a rank that cannot even begin ---- */

void rshi_world_excuse(const char *job, int rank, int size, rsh_status status) {
    int socket = -1, listener;
    if (size < 2) return;
    rshi_world w = {.rank = rank, .size = size};
    meeting m = {.w = &w, .job = job, .socket = &socket, .patience = LINGER, .deadline = rshi_seconds() + LINGER};
    word no = say(&m, rank, status), from_host = no;
    if (rank) {
        if (!call_host(&m) && !send_word(&m, 0, socket, &no, NULL))
            hear_verdict(&m); /* until then rank 0 may not have read it */
    } else if (!listen_for(&m, &listener)) {
        snprintf(from_host.text, sizeof from_host.text, "rank 0: %.900s", no.text);
        turn_away(&m, listener, size - 1, &from_host);
        close(listener);
    }
    if (socket >= 0) close(socket);
    rshi_set_detail(no.text);
}

static rsh_status open_life(int *fd) {
    *fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    RSH_REQUIRE(*fd >= 0, RSH_EUNSUP, "the engine shm needs pidfd_open (Linux 5.3): %s", strerror(errno));
    return RSH_OK;
}

/* Rank 0 makes the first group before anybody can ask for it. */
static rsh_status begin(meeting *m, rshi_shm_group **group) {
    m->socket = rshi_alloc((size_t)m->w->size, sizeof *m->socket);
    if (!m->socket) return rshi_nomem();
    for (int r = 0; r < m->w->size; r++) m->socket[r] = -1;
    if (m->w->rank) return RSH_OK;
    *group = rshi_shm_group_new(m->w, m->w->size);
    if (!*group) return rshi_nomem();
    m->group = rshi_arena_offset(m->w->arena, *group);
    return RSH_OK;
}

static void end(meeting *m) {
    for (int r = 0; m->socket && r < m->w->size; r++)
        if (m->socket[r] >= 0) close(m->socket[r]);
    rshi_free(m->socket);
    if (m->life >= 0) close(m->life);
}

rsh_status rshi_world_meet(const char *job, double patience, rshi_world *w, rshi_shm_group **group, bool *begun) {
    meeting m = {.w = w, .job = job, .life = -1, .patience = patience, .deadline = rshi_seconds() + patience};
    rsh_status st = begin(&m, group);
    if (!st && w->size > 1) {
        st = open_life(&m.life);
        if (!st) st = w->rank ? be_guest(&m) : be_host(&m);
        if (!st && w->rank) *group = rshi_world_at(w, 0, m.group);
    }
    *begun = m.begun;
    end(&m);
    return st;
}

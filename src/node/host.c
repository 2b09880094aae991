/* Host: rank 0 during the rendezvous.  It accepts the other ranks, sends the others' descriptors to each, and reports
 * the result. */
#include "node/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SILENT 32    /* connections that have not identified themselves, in addition to the ranks */
#define UNKNOWN (-1) /* rank of a connection that has not identified itself */

/* ---- the job's name ---- */

/* Reports that the job's name is taken, and by which process.  If that process belongs to the same user, it ignores
 * this short connection. */
static rsh_status report_taken(const rshi_rendezvous *m) {
    struct sockaddr_un address;
    socklen_t bytes = rshi_socket_address(m->job, &address);
    int fd;
    RSH_TRY(rshi_socket_open(&fd));
    bool answered = !connect(fd, (struct sockaddr *)&address, bytes);
    struct ucred who = answered ? rshi_socket_peer(fd) : (struct ucred){0};
    close(fd);
    if (answered && who.uid != geteuid()) return rshi_rendezvous_report_foreign(m, &who);
    RSH_REQUIRE(!answered, RSH_EBUSY,
                "process %ld is already rank 0 of a job named \"%.100s\"; choose a different job name",
                (long)who.pid, m->job);
    return rshi_fail(RSH_EBUSY,
                     "job name \"%.100s\" is in use by a process that does not answer; find it with \"ss -xap\" or "
                     "choose a different name",
                     m->job);
}

rsh_status rshi_rendezvous_listen(const rshi_rendezvous *m, int *fd) {
    struct sockaddr_un address;
    socklen_t bytes = rshi_socket_address(m->job, &address);
    RSH_TRY(rshi_socket_open(fd));
    if (!bind(*fd, (struct sockaddr *)&address, bytes) && !listen(*fd, m->w->base.size)) return RSH_OK;
    int error = errno;
    close(*fd);
    if (error == EADDRINUSE) return report_taken(m);
    return rshi_fail(RSH_ERUNTIME, "rank 0 of job \"%.100s\" cannot accept the other ranks: %s", m->job,
                     strerror(error));
}

/* ---- mapping a peer's arena ---- */

rsh_status rshi_rendezvous_admit(rshi_process_world *w, const rshi_word *who, int fds[2]) {
    rsh_status st = RSH_OK;
    w->life[who->rank] = fds[1];
    w->reserve[who->rank] = who->reserve;
    w->window[who->rank] = rshi_window_map(fds[0], who->reserve);
    if (!w->window[who->rank]) st = rshi_nomem();
    close(fds[0]);
    return st;
}

/* ---- connections ---- */

typedef struct host {
    rshi_rendezvous *m;
    int listener;
    rshi_word *hello;      /* [size], owned: the first message of each rank */
    int (*fds)[2];         /* [size], owned: arena and pidfd */
    struct pollfd *polled; /* [size + SILENT], owned: the listener, then the connections by time of arrival */
    int *rank_of;          /* [size + SILENT], owned: rank of polled[i], or UNKNOWN */
    int connected;
    int come;      /* number of ranks that have identified themselves, except rank 0 */
    long stranger; /* id of the last process that sent invalid data, or 0 */
} host;

static rsh_status check_hello(const host *h, const rshi_word *w, const int fds[2]) {
    int size = h->m->w->base.size;
    if (w->status) return rshi_fail((rsh_status)w->status, "rank %d: %.900s", w->rank, w->text);
    RSH_REQUIRE(fds[0] >= 0 && fds[1] >= 0, RSH_ERUNTIME,
                "rank 0 ran out of file descriptors for the arena of rank %d; raise \"ulimit -n\"", w->rank);
    RSH_REQUIRE(w->size == size, RSH_EMISMATCH,
                "ranks of job \"%.100s\" disagree on its size: rank 0 says %d, rank %d says %d",
                h->m->job, size, w->rank, w->size);
    RSH_REQUIRE(w->rank > 0 && w->rank < size && h->m->socket[w->rank] < 0, RSH_EMISMATCH,
                "rank %d of job \"%.100s\" was started twice", w->rank, h->m->job);
    return RSH_OK;
}

static void drop_caller(host *h, int i) {
    close(h->polled[i].fd);
    size_t behind = (size_t)(h->connected - i);
    memmove(&h->polled[i], &h->polled[i + 1], behind * sizeof *h->polled);
    memmove(&h->rank_of[i], &h->rank_of[i + 1], behind * sizeof *h->rank_of);
    h->connected--;
}

/* Makes room for another connection: if too many have not identified themselves, drops the oldest of them. */
static void make_room_for_caller(host *h) {
    int i = 1;
    if (h->connected + 1 < h->m->w->base.size + SILENT) return;
    while (h->rank_of[i] != UNKNOWN) i++;
    drop_caller(h, i);
}

static bool is_passing(int error) { return error == EINTR || error == EAGAIN || error == ECONNABORTED; }

/* Accepts a connection.  Processes of other users are rejected.  Any other process may be a rank of this job, so the
 * connection is kept until it sends something. */
static rsh_status accept_one(host *h) {
    int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && is_passing(errno)) return RSH_OK;
    RSH_REQUIRE(fd >= 0, RSH_ERUNTIME, "rank 0 of job \"%.100s\" cannot accept the other ranks: %s%s", h->m->job,
                strerror(errno), errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
    if (!rshi_socket_same_user(fd)) return close(fd), RSH_OK;
    make_room_for_caller(h);
    h->polled[++h->connected] = (struct pollfd){.fd = fd, .events = POLLIN};
    h->rank_of[h->connected] = UNKNOWN;
    return RSH_OK;
}

static void register_rank(host *h, int i, const rshi_word *w, const int fds[2]) {
    h->m->socket[w->rank] = h->polled[i].fd;
    h->hello[w->rank] = *w;
    memcpy(h->fds[w->rank], fds, 2 * sizeof *fds);
    h->rank_of[i] = w->rank;
    h->polled[i].events = 0; /* from now on only the end of the connection is reported */
    h->come++;
}

/* Reads a message of a connection.  A rank of this job with wrong data ends the rendezvous.  A process that closes its
 * socket without sending, or that sends invalid data, is dropped; if it was a rank after all, it will be reported as
 * missing. */
static rsh_status hear_caller(host *h, int i) {
    int fds[2];
    rshi_word w;
    rsh_status st = rshi_word_read(h->m, UNKNOWN, h->polled[i].fd, &w, fds);
    if (st == RSH_EVALUE) h->stranger = (long)rshi_socket_peer(h->polled[i].fd).pid;
    if (st == RSH_EPEER || st == RSH_EVALUE) return rshi_word_close(fds), drop_caller(h, i), RSH_OK;
    if (!st) st = check_hello(h, &w, fds);
    if (st)
        rshi_word_close(fds);
    else
        register_rank(h, i, &w, fds);
    return st;
}

/* Handles events from the last connection to the first, because dropping a connection moves those after it. */
static rsh_status handle_events(host *h) {
    for (int i = h->connected; i > 0; i--) {
        if (!h->polled[i].revents) continue;
        RSH_REQUIRE(h->rank_of[i] == UNKNOWN, RSH_EPEER, "rank %d ended while the job was starting", h->rank_of[i]);
        RSH_TRY(hear_caller(h, i));
    }
    return h->polled[0].revents ? accept_one(h) : RSH_OK;
}

/* Lists the first few connections that sent nothing, and the last one that sent invalid data: the missing rank may be
 * among them. */
static void list_others(const host *h, char *text, size_t bytes) {
    size_t at = 0;
    int n = 0;
    *text = 0;
    for (int i = 1; i <= h->connected && n < 4; i++)
        if (h->rank_of[i] == UNKNOWN)
            at += (size_t)snprintf(text + at, bytes - at, "%s%ld", n++ ? ", " : "; connected, but silent: process ",
                                   (long)rshi_socket_peer(h->polled[i].fd).pid);
    if (h->stranger) snprintf(text + at, bytes - at, "; process %ld sent data that are not from a rank", h->stranger);
}

static rsh_status report_absent(const host *h) {
    char others[200];
    int r = 1;
    while (h->m->socket[r] >= 0) r++;
    list_others(h, others, sizeof others);
    return rshi_fail(RSH_ETIMEOUT,
                     "only %d of %d ranks of job \"%.100s\" arrived within %g seconds (RESHARD_TIMEOUT); rank %d did "
                     "not%s",
                     h->come + 1, h->m->w->base.size, h->m->job, h->m->patience, r, others);
}

static rsh_status receive_all(host *h) {
    h->polled[0] = (struct pollfd){.fd = h->listener, .events = POLLIN};
    while (h->come + 1 < h->m->w->base.size) {
        if (poll(h->polled, (nfds_t)h->connected + 1, 100) > 0) RSH_TRY(handle_events(h));
        RSH_TRY(rshi_interrupt_check(1));
        if (rshi_rendezvous_time_left(h->m) <= 0) return report_absent(h);
    }
    return RSH_OK;
}

/* ---- introductions and result ---- */

/* Sends every rank the descriptors of all others. */
static rsh_status send_introductions(host *h) {
    rshi_rendezvous *m = h->m;
    for (int to = 1; to < m->w->base.size; to++)
        for (int r = 0; r < m->w->base.size; r++)
            if (r != to) RSH_TRY(rshi_word_send(m, to, m->socket[to], &h->hello[r], h->fds[r]));
    rsh_status st = RSH_OK;
    for (int r = 1; r < m->w->base.size; r++) {
        rsh_status admitted = rshi_rendezvous_admit(m->w, &h->hello[r], h->fds[r]);
        h->fds[r][0] = h->fds[r][1] = -1; /* the new owner closes them */
        if (!st) st = admitted;
    }
    return st;
}

/* Receives from every rank whether it could map the others' arenas. */
static rsh_status await_results(host *h) {
    rshi_rendezvous *m = h->m;
    for (int r = 1; r < m->w->base.size; r++) {
        rshi_word w;
        int fds[2];
        RSH_TRY(rshi_word_await(m, r, m->socket[r], &w, fds));
        rshi_word_close(fds);
        if (w.status) return rshi_fail((rsh_status)w.status, "rank %d: %.900s", r, w.text);
    }
    return RSH_OK;
}

/* Sends the result to all ranks, and to connections that have not identified themselves yet.  Those belong to the same
 * user. */
static void send_verdict(const host *h, const rshi_word *verdict) {
    for (int i = 1; i <= h->connected; i++) rshi_word_send(h->m, h->rank_of[i], h->polled[i].fd, verdict, NULL);
}

static void drop_silent(host *h) {
    for (int i = h->connected; i > 0; i--)
        if (h->rank_of[i] == UNKNOWN) drop_caller(h, i);
}

void rshi_rendezvous_turn_away(rshi_rendezvous *m, int listener, int missing, const rshi_word *verdict) {
    rshi_watch w = {0};
    while (missing > 0 && rshi_watch_look(&w, RSHI_WATCH_STEP) < RSHI_RENDEZVOUS_GRACE) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0) continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && is_passing(errno)) continue;
        if (fd < 0) return;
        if (rshi_socket_same_user(fd)) {
            missing--;
            rshi_word_send(m, -1, fd, verdict, NULL);
        }
        close(fd);
    }
}

static rsh_status alloc_tables(host *h) {
    size_t n = (size_t)h->m->w->base.size, most = n + SILENT;
    h->hello = rshi_calloc(n, sizeof *h->hello);
    h->fds = rshi_calloc(n, sizeof *h->fds);
    h->polled = rshi_calloc(most, sizeof *h->polled);
    h->rank_of = rshi_calloc(most, sizeof *h->rank_of);
    if (!h->hello || !h->fds || !h->polled || !h->rank_of) return rshi_nomem();
    memset(h->fds, -1, n * sizeof *h->fds);
    h->hello[0] = rshi_word_make(h->m, 0, RSH_OK);
    h->hello[0].reserve = h->m->w->arena->reserve;
    h->hello[0].board = h->m->board;
    h->fds[0][0] = h->m->w->arena->fd;
    h->fds[0][1] = h->m->life;
    return RSH_OK;
}

static void free_tables(host *h) {
    for (int r = 1; h->fds && r < h->m->w->base.size; r++) rshi_word_close(h->fds[r]);
    rshi_free(h->hello);
    rshi_free(h->fds);
    rshi_free(h->polled);
    rshi_free(h->rank_of);
}

/* Closes the listener before any rank continues, so that the job's name can be used for the next comm. */
rsh_status rshi_rendezvous_host(rshi_rendezvous *m) {
    host h = {.m = m};
    RSH_TRY(rshi_rendezvous_listen(m, &h.listener));
    m->begun = true;
    rsh_status came = alloc_tables(&h), st;
    if (!came) came = receive_all(&h);
    if (!came) close(h.listener);
    st = came;
    if (!st) st = send_introductions(&h);
    if (!st) st = await_results(&h);
    rshi_word verdict = rshi_word_make(m, 0, st);
    send_verdict(&h, &verdict);
    drop_silent(&h);
    if (came) {
        close(m->life); /* frees a descriptor, which accept needs and which may be the last one */
        m->life = -1;
        rshi_rendezvous_turn_away(m, h.listener, m->w->base.size - 1 - h.come, &verdict);
        close(h.listener);
    }
    free_tables(&h);
    rshi_set_detail(verdict.text);
    return st;
}


/* Host: rank 0 of a job that is about to meet, which receives the others, introduces each to each, and judges. */
#include "node/meeting.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SILENT 32    /* processes that may have connected without a word, beside the ranks */
#define UNKNOWN (-1) /* rank of one that has not said it */

/* ---- the job's name ---- */

/* The name is taken: by whom?  One of the same user hears us come and go, and does not mind. */
static rsh_status report_taken(const rshi_meeting *m) {
    struct sockaddr_un address;
    socklen_t bytes = rshi_socket_address(m->job, &address);
    int fd;
    RSH_TRY(rshi_socket_open(&fd));
    bool answered = !connect(fd, (struct sockaddr *)&address, bytes);
    struct ucred who = answered ? rshi_socket_peer(fd) : (struct ucred){0};
    close(fd);
    if (answered && who.uid != geteuid()) return rshi_meeting_report_foreign(m, &who);
    RSH_REQUIRE(!answered, RSH_EBUSY,
                "process %ld is already rank 0 of a job named \"%.100s\"; choose a different job name",
                (long)who.pid, m->job);
    return rshi_fail(RSH_EBUSY,
                     "job name \"%.100s\" is in use by a process that does not answer; find it with \"ss -xap\" or "
                     "choose a different name",
                     m->job);
}

rsh_status rshi_meeting_listen(const rshi_meeting *m, int *fd) {
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

/* ---- a peer's descriptors become its window ---- */

rsh_status rshi_meeting_admit(rshi_process_world *w, const rshi_word *who, int fds[2]) {
    rsh_status st = RSH_OK;
    w->life[who->rank] = fds[1];
    w->reserve[who->rank] = who->reserve;
    w->window[who->rank] = rshi_window_map(fds[0], who->reserve);
    if (!w->window[who->rank]) st = rshi_nomem();
    close(fds[0]);
    return st;
}

/* ---- who has come ---- */

typedef struct host {
    rshi_meeting *m;
    int listener;
    rshi_word *hello;      /* [size], owned */
    int (*fds)[2];         /* [size], owned: arena and pidfd */
    struct pollfd *polled; /* [size + SILENT], owned: the listener, then those who have connected, in that order */
    int *rank_of;          /* [size + SILENT], owned: whose socket polled[i] is, or UNKNOWN */
    int connected;
    int come;      /* ranks that have said who they are, but rank 0 */
    long stranger; /* the last process that sent something else, or 0 */
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

/* Room for one more: of too many silent callers the oldest goes. */
static void make_room(host *h) {
    int i = 1;
    if (h->connected + 1 < h->m->w->base.size + SILENT) return;
    while (h->rank_of[i] != UNKNOWN) i++;
    drop_caller(h, i);
}

static bool is_passing(int error) { return error == EINTR || error == EAGAIN || error == ECONNABORTED; }

/* A process of another user is sent away; any other may be a rank of this job, and is heard when it speaks. */
static rsh_status accept_one(host *h) {
    int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && is_passing(errno)) return RSH_OK;
    RSH_REQUIRE(fd >= 0, RSH_ERUNTIME, "rank 0 of job \"%.100s\" cannot accept the other ranks: %s", h->m->job,
                strerror(errno));
    if (!rshi_socket_same_user(fd)) return close(fd), RSH_OK;
    make_room(h);
    h->polled[++h->connected] = (struct pollfd){.fd = fd, .events = POLLIN};
    h->rank_of[h->connected] = UNKNOWN;
    return RSH_OK;
}

static void seat(host *h, int i, const rshi_word *w, const int fds[2]) {
    h->m->socket[w->rank] = h->polled[i].fd;
    h->hello[w->rank] = *w;
    memcpy(h->fds[w->rank], fds, 2 * sizeof *fds);
    h->rank_of[i] = w->rank;
    h->polled[i].events = 0; /* but for its end */
    h->come++;
}

/* A rank of this job that is not as expected ends the meeting.  A process that closes its socket without a word, or
 * that sends something no rank sends, is dropped: if it was a rank after all, it will be missed. */
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
        seat(h, i, &w, fds);
    return st;
}

/* From the last to the first, since those who go leave no gap. */
static rsh_status look_round(host *h) {
    for (int i = h->connected; i > 0; i--) {
        if (!h->polled[i].revents) continue;
        RSH_REQUIRE(h->rank_of[i] == UNKNOWN, RSH_EPEER, "rank %d ended while the job was starting", h->rank_of[i]);
        RSH_TRY(hear_caller(h, i));
    }
    return h->polled[0].revents ? accept_one(h) : RSH_OK;
}

/* The first few who have said nothing, and the last one who said something odd: one of them may be the rank that is
 * missing. */
static void list_others(const host *h, char *text, size_t bytes) {
    size_t at = 0;
    int n = 0;
    *text = 0;
    for (int i = 1; i <= h->connected && n < 4; i++)
        if (h->rank_of[i] == UNKNOWN)
            at += (size_t)snprintf(text + at, bytes - at, "%s%ld", n++ ? ", " : "; connected, but silent: process ",
                                   (long)rshi_socket_peer(h->polled[i].fd).pid);
    if (h->stranger) snprintf(text + at, bytes - at, "; process %ld sent something that no rank sends", h->stranger);
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
        if (poll(h->polled, (nfds_t)h->connected + 1, 100) > 0) RSH_TRY(look_round(h));
        RSH_TRY(rshi_interrupt_check(1));
        if (rshi_meeting_time_left(h->m) <= 0) return report_absent(h);
    }
    return RSH_OK;
}

/* ---- introductions and verdict ---- */

/* Everybody learns of everybody. */
static rsh_status introduce(host *h) {
    rshi_meeting *m = h->m;
    for (int to = 1; to < m->w->base.size; to++)
        for (int r = 0; r < m->w->base.size; r++)
            if (r != to) RSH_TRY(rshi_word_send(m, to, m->socket[to], &h->hello[r], h->fds[r]));
    rsh_status st = RSH_OK;
    for (int r = 1; r < m->w->base.size; r++) {
        rsh_status admitted = rshi_meeting_admit(m->w, &h->hello[r], h->fds[r]);
        h->fds[r][0] = h->fds[r][1] = -1; /* taken */
        if (!st) st = admitted;
    }
    return st;
}

/* Every rank says whether it could map the others' arenas. */
static rsh_status hear_all(host *h) {
    rshi_meeting *m = h->m;
    for (int r = 1; r < m->w->base.size; r++) {
        rshi_word w;
        int fds[2];
        RSH_TRY(rshi_word_await(m, r, m->socket[r], &w, fds));
        rshi_word_close(fds);
        if (w.status) return rshi_fail((rsh_status)w.status, "rank %d: %.900s", r, w.text);
    }
    return RSH_OK;
}

/* Also those who have not said who they are: they may be about to.  They belong to the same user. */
static void tell_all(const host *h, const rshi_word *verdict) {
    for (int i = 1; i <= h->connected; i++) rshi_word_send(h->m, h->rank_of[i], h->polled[i].fd, verdict, NULL);
}

static void drop_silent(host *h) {
    for (int i = h->connected; i > 0; i--)
        if (h->rank_of[i] == UNKNOWN) drop_caller(h, i);
}

void rshi_meeting_turn_away(rshi_meeting *m, int listener, int missing, const rshi_word *verdict) {
    rshi_watch w = {0};
    while (missing > 0 && rshi_watch_look(&w, RSHI_WATCH_STEP) < RSHI_MEETING_LINGER) {
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

static rsh_status take_tables(host *h) {
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

static void drop_tables(host *h) {
    for (int r = 1; h->fds && r < h->m->w->base.size; r++) rshi_word_close(h->fds[r]);
    rshi_free(h->hello);
    rshi_free(h->fds);
    rshi_free(h->polled);
    rshi_free(h->rank_of);
}

/* The listener is closed before anybody goes on, so that the job's name is free again for the next comm. */
rsh_status rshi_meeting_host(rshi_meeting *m) {
    host h = {.m = m};
    RSH_TRY(rshi_meeting_listen(m, &h.listener));
    m->begun = true;
    rsh_status came = take_tables(&h), st;
    if (!came) came = receive_all(&h);
    if (!came) close(h.listener);
    st = came;
    if (!st) st = introduce(&h);
    if (!st) st = hear_all(&h);
    rshi_word verdict = rshi_word_make(m, 0, st);
    tell_all(&h, &verdict);
    drop_silent(&h);
    if (came) {
        close(m->life); /* one descriptor is needed, and there may be no other */
        m->life = -1;
        rshi_meeting_turn_away(m, h.listener, m->w->base.size - 1 - h.come, &verdict);
        close(h.listener);
    }
    drop_tables(&h);
    rshi_set_detail(verdict.text);
    return st;
}


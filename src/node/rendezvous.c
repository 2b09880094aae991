/* Rendezvous: processes that know a job's name find one another and get one another's arenas.
 *
 * Rank 0 listens on a socket in the abstract namespace: it has no file, and it is gone with the process.  Every other
 * rank connects and hands over two descriptors, its arena and its pidfd.  When all have come, rank 0 sends everybody
 * everybody's, waits until all have mapped them, and tells the outcome.  Then the sockets are closed: they are for the
 * beginning only.
 *
 * Anybody on the machine can connect to such a socket, or take its name.  Nothing is read from a process of another
 * user or told to it.  A process of the same user that connects and says nothing keeps nobody waiting: rank 0 listens
 * to all callers at once, and names the silent ones when a rank has not come in time.  One that sends something else is
 * dropped, and named in the same place.
 *
 * The name is all that the processes of a job have in common before they meet.  Two jobs of one user that use one name
 * at the same time can therefore exchange ranks, and no word that is said here could tell: rsh_comm_join and
 * rsh_run_shm make names that are used once, and callers of rsh_comm_shm are told to. */
#include "node/meeting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LEAST_PAUSE 1000000L /* nanoseconds between attempts to connect */
#define GRACE 1.0 /* seconds, at most, by which the others wait longer than rank 0, which knows who is missing */

static void pause_for(long nanoseconds) {
    const struct timespec t = {0, nanoseconds};
    nanosleep(&t, NULL);
}

/* Rank 0 may come later than we do, and its time runs until then. */
static rsh_status connect_to(rshi_meeting *m, int fd) {
    struct sockaddr_un address;
    socklen_t bytes = rshi_socket_address(m->job, &address);
    for (long pause = LEAST_PAUSE; connect(fd, (struct sockaddr *)&address, bytes);
         pause += pause < 16 * LEAST_PAUSE ? pause : 0) {
        bool early = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
        RSH_REQUIRE(early, RSH_ERUNTIME, "rank %d cannot connect to rank 0 of job \"%.100s\": %s", m->w->base.rank,
                    m->job, strerror(errno));
        RSH_REQUIRE(rshi_meeting_time_left(m) > 0, RSH_ETIMEOUT,
                    "rank 0 of job \"%.100s\" did not arrive within %g seconds (RESHARD_TIMEOUT)", m->job,
                    m->patience);
        RSH_TRY(rshi_interrupt_check(1));
        pause_for(pause);
    }
    struct ucred who = rshi_socket_peer(fd);
    if (who.uid != geteuid()) return rshi_meeting_report_foreign(m, &who);
    m->most = m->patience + (m->patience / 2 < GRACE ? m->patience / 2 : GRACE);
    m->waited = (rshi_watch){0};
    return RSH_OK;
}

static rsh_status refused(const rshi_word *w) { return rshi_fail((rsh_status)w->status, "%s", w->text); }

static rsh_status hear_verdict(rshi_meeting *m) {
    rshi_word w;
    int fds[2];
    RSH_TRY(rshi_word_await(m, 0, m->socket[0], &w, fds));
    rshi_word_close(fds);
    return w.status ? refused(&w) : RSH_OK;
}

/* Rank 0 listens no more: it may have said why. */
static rsh_status hear_last_words(rshi_meeting *m) {
    rshi_word w;
    int fds[2];
    do {
        RSH_TRY(rshi_word_await(m, 0, m->socket[0], &w, fds));
        rshi_word_close(fds);
    } while (!w.status);
    return refused(&w);
}

static rsh_status tell_host(rshi_meeting *m, const rshi_word *w, const int *fds) {
    rsh_status st = rshi_word_send(m, 0, m->socket[0], w, fds);
    return st == RSH_EPEER ? hear_last_words(m) : st;
}

static rsh_status greet(rshi_meeting *m, const rshi_word *w, int fds[2]) {
    rsh_status st = RSH_OK;
    if (w->rank < 0 || w->rank >= m->w->base.size || m->w->window[w->rank])
        st = rshi_fail(RSH_ERUNTIME, "rank 0 sent invalid information about rank %d", w->rank);
    else if (fds[0] < 0 || fds[1] < 0)
        st = rshi_fail(RSH_ERUNTIME, "out of file descriptors for the arena of rank %d; raise \"ulimit -n\"", w->rank);
    if (st) {
        rshi_word_close(fds);
        return st;
    }
    if (w->rank == 0) m->board = w->board;
    return rshi_meeting_admit(m->w, w, fds);
}

/* One introduction, or rank 0's refusal.  A rank in trouble hears them all the same: its own words come after the last.
 */
static rsh_status meet_one(rshi_meeting *m, rsh_status *trouble) {
    rshi_word w;
    int fds[2];
    RSH_TRY(rshi_word_await(m, 0, m->socket[0], &w, fds));
    if (w.status || *trouble) rshi_word_close(fds);
    if (w.status) return refused(&w);
    if (!*trouble) *trouble = greet(m, &w, fds);
    return RSH_OK;
}

static rsh_status call_host(rshi_meeting *m) {
    RSH_TRY(rshi_socket_open(&m->socket[0]));
    m->begun = true;
    return connect_to(m, m->socket[0]);
}

static rsh_status be_guest(rshi_meeting *m) {
    rshi_word hello = rshi_word_make(m, m->w->base.rank, RSH_OK);
    rsh_status trouble = RSH_OK;
    hello.reserve = m->w->arena->reserve;
    RSH_TRY(call_host(m));
    RSH_TRY(tell_host(m, &hello, (int[2]){m->w->arena->fd, m->life}));
    for (int i = 1; i < m->w->base.size; i++) RSH_TRY(meet_one(m, &trouble));
    rshi_word done = rshi_word_make(m, m->w->base.rank, trouble);
    RSH_TRY(tell_host(m, &done, NULL));
    return hear_verdict(m);
}

/* ---- a rank that cannot even begin ---- */

void rshi_processes_excuse(const char *job, int rank, int size, rsh_status status) {
    int socket = -1, listener;
    if (size < 2) return;
    rshi_process_world w = {.base = {.rank = rank, .size = size}};
    rshi_meeting m = {.w = &w,
                      .job = job,
                      .socket = &socket,
                      .patience = RSHI_MEETING_LINGER,
                      .most = RSHI_MEETING_LINGER};
    rshi_word no = rshi_word_make(&m, rank, status), from_host = no;
    if (rank) {
        if (!call_host(&m) && !rshi_word_send(&m, 0, socket, &no, NULL))
            hear_verdict(&m); /* until then rank 0 may not have read it */
    } else if (!rshi_meeting_listen(&m, &listener)) {
        snprintf(from_host.text, sizeof from_host.text, "rank 0: %.900s", no.text);
        rshi_meeting_turn_away(&m, listener, size - 1, &from_host);
        close(listener);
    }
    if (socket >= 0) close(socket);
    rshi_set_detail(no.text);
}

static rsh_status open_life(int *fd) {
    *fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    RSH_REQUIRE(*fd >= 0, RSH_EUNSUP, "engine shm requires pidfd_open (Linux 5.3 or newer): %s", strerror(errno));
    return RSH_OK;
}

/* Rank 0 makes the first board before anybody can ask for it. */
static rsh_status begin(rshi_meeting *m, rshi_board **board) {
    m->socket = rshi_alloc((size_t)m->w->base.size, sizeof *m->socket);
    if (!m->socket) return rshi_nomem();
    for (int r = 0; r < m->w->base.size; r++) m->socket[r] = -1;
    if (m->w->base.rank) return RSH_OK;
    *board = rshi_board_new(&m->w->base, m->w->base.size);
    if (!*board) return rshi_nomem();
    m->board = rshi_arena_offset(m->w->arena, *board);
    return RSH_OK;
}

static void end(rshi_meeting *m) {
    for (int r = 0; m->socket && r < m->w->base.size; r++)
        if (m->socket[r] >= 0) close(m->socket[r]);
    rshi_free(m->socket);
    if (m->life >= 0) close(m->life);
}

rsh_status rshi_processes_meet(const char *job, double patience, rshi_process_world *w, rshi_board **board,
                               bool *begun) {
    rshi_meeting m = {.w = w, .job = job, .life = -1, .patience = patience, .most = patience};
    rsh_status st = begin(&m, board);
    if (!st && w->base.size > 1) {
        st = open_life(&m.life);
        if (!st) st = w->base.rank ? be_guest(&m) : rshi_meeting_host(&m);
        if (!st && w->base.rank) *board = rshi_window_at(w, 0, m.board);
    }
    *begun = m.begun;
    end(&m);
    return st;
}

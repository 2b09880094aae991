/* Rendezvous: processes that know a job's name find one another and map one another's arenas.
 *
 * Rank 0 listens on a socket in the abstract namespace, which has no file and disappears with the process.  Every other
 * rank connects and sends two descriptors, its arena and its pidfd.  When all have connected, rank 0 sends every rank
 * the descriptors of all others, waits until all have mapped them, and sends the result.  Then the sockets are closed.
 *
 * Any process on the machine can connect to such a socket, or take its name.  Nothing is read from or sent to a process
 * of another user.  A process of the same user that connects and sends nothing does not block the others: rank 0 polls
 * all connections, and names the silent ones if a rank is missing at the timeout.  A process that sends invalid data is
 * disconnected, and named in the same message.
 *
 * Before they connect, the processes of a job have only its name in common.  So two jobs of one user that use the same
 * name at the same time can exchange ranks, and nothing would reveal it. rsh_comm_join and rsh_run_shm make unique
 * names, and the documentation of rsh_comm_shm asks callers to do so. */
#include "node/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LEAST_PAUSE 1000000L /* nanoseconds between attempts to connect */
#define GRACE 1.0 /* seconds that the others wait longer than rank 0, which knows the missing rank */

static void pause_for(long nanoseconds) {
    const struct timespec t = {0, nanoseconds};
    nanosleep(&t, NULL);
}

/* Connects to rank 0.  Rank 0 may start later than this rank, and its timeout begins when it starts, so this rank
 * restarts its own watch once it is connected. */
static rsh_status connect_to(rshi_rendezvous *m, int fd) {
    struct sockaddr_un address;
    socklen_t bytes = rshi_socket_address(m->job, &address);
    for (long pause = LEAST_PAUSE; connect(fd, (struct sockaddr *)&address, bytes);
         pause += pause < 16 * LEAST_PAUSE ? pause : 0) {
        bool early = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
        RSH_REQUIRE(early, RSH_ERUNTIME, "rank %d cannot connect to rank 0 of job \"%.100s\": %s", m->w->base.rank,
                    m->job, strerror(errno));
        RSH_REQUIRE(rshi_rendezvous_time_left(m) > 0, RSH_ETIMEOUT,
                    "rank 0 of job \"%.100s\" did not arrive within %g seconds (RESHARD_TIMEOUT)", m->job,
                    m->patience);
        RSH_TRY(rshi_interrupt_check(1));
        pause_for(pause);
    }
    struct ucred who = rshi_socket_peer(fd);
    if (who.uid != geteuid()) return rshi_rendezvous_report_foreign(m, &who);
    m->most = m->patience + (m->patience / 2 < GRACE ? m->patience / 2 : GRACE);
    m->waited = (rshi_watch){0};
    return RSH_OK;
}

static rsh_status fail_as_host_says(const rshi_word *w) { return rshi_fail((rsh_status)w->status, "%s", w->text); }

static rsh_status hear_verdict(rshi_rendezvous *m) {
    rshi_word w;
    int fds[2];
    RSH_TRY(rshi_word_await(m, 0, m->socket[0], &w, fds));
    rshi_word_close(fds);
    return w.status ? fail_as_host_says(&w) : RSH_OK;
}

/* Reads the reason that rank 0 may have sent before it closed the connection. */
static rsh_status hear_last_words(rshi_rendezvous *m) {
    rshi_word w;
    int fds[2];
    do {
        RSH_TRY(rshi_word_await(m, 0, m->socket[0], &w, fds));
        rshi_word_close(fds);
    } while (!w.status);
    return fail_as_host_says(&w);
}

static rsh_status tell_host(rshi_rendezvous *m, const rshi_word *w, const int *fds) {
    rsh_status st = rshi_word_send(m, 0, m->socket[0], w, fds);
    return st == RSH_EPEER ? hear_last_words(m) : st;
}

static rsh_status admit_introduced(rshi_rendezvous *m, const rshi_word *w, int fds[2]) {
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
    return rshi_rendezvous_admit(m->w, w, fds);
}

/* Reads one introduction, or rank 0's error.  A rank that has failed still reads all introductions, because rank 0
 * reads its message only afterwards. */
static rsh_status read_introduction(rshi_rendezvous *m, rsh_status *trouble) {
    rshi_word w;
    int fds[2];
    RSH_TRY(rshi_word_await(m, 0, m->socket[0], &w, fds));
    if (w.status || *trouble) rshi_word_close(fds);
    if (w.status) return fail_as_host_says(&w);
    if (!*trouble) *trouble = admit_introduced(m, &w, fds);
    return RSH_OK;
}

static rsh_status call_host(rshi_rendezvous *m) {
    RSH_TRY(rshi_socket_open(&m->socket[0]));
    m->begun = true;
    return connect_to(m, m->socket[0]);
}

static rsh_status join_host(rshi_rendezvous *m) {
    rshi_word hello = rshi_word_make(m, m->w->base.rank, RSH_OK);
    rsh_status trouble = RSH_OK;
    hello.reserve = m->w->arena->reserve;
    RSH_TRY(call_host(m));
    RSH_TRY(tell_host(m, &hello, (int[2]){m->w->arena->fd, m->life}));
    for (int i = 1; i < m->w->base.size; i++) RSH_TRY(read_introduction(m, &trouble));
    rshi_word done = rshi_word_make(m, m->w->base.rank, trouble);
    RSH_TRY(tell_host(m, &done, NULL));
    return hear_verdict(m);
}

/* ---- a rank that cannot start ---- */

void rshi_processes_excuse(const char *job, int rank, int size, rsh_status status) {
    int socket = -1, listener;
    if (size < 2) return;
    rshi_process_world w = {.base = {.rank = rank, .size = size}};
    rshi_rendezvous m = {.w = &w,
                      .job = job,
                      .socket = &socket,
                      .patience = RSHI_RENDEZVOUS_GRACE,
                      .most = RSHI_RENDEZVOUS_GRACE};
    rshi_word no = rshi_word_make(&m, rank, status), from_host = no;
    if (rank) {
        if (!call_host(&m) && !rshi_word_send(&m, 0, socket, &no, NULL))
            hear_verdict(&m); /* keep the connection open until rank 0 has read it */
    } else if (!rshi_rendezvous_listen(&m, &listener)) {
        snprintf(from_host.text, sizeof from_host.text, "rank 0: %.900s", no.text);
        rshi_rendezvous_turn_away(&m, listener, size - 1, &from_host);
        close(listener);
    }
    if (socket >= 0) close(socket);
    rshi_set_detail(no.text);
}

static rsh_status open_pidfd(int *fd) {
    *fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    RSH_REQUIRE(*fd >= 0, RSH_EUNSUP, "engine shm requires pidfd_open (Linux 5.3 or newer): %s", strerror(errno));
    return RSH_OK;
}

/* Begins the rendezvous.  Rank 0 makes the first board before any rank can request it. */
static rsh_status begin_rendezvous(rshi_rendezvous *m, rshi_board **board) {
    m->socket = rshi_alloc((size_t)m->w->base.size, sizeof *m->socket);
    if (!m->socket) return rshi_nomem();
    for (int r = 0; r < m->w->base.size; r++) m->socket[r] = -1;
    if (m->w->base.rank) return RSH_OK;
    *board = rshi_board_new(&m->w->base, m->w->base.size);
    if (!*board) return rshi_nomem();
    m->board = rshi_arena_offset(m->w->arena, *board);
    return RSH_OK;
}

static void end_rendezvous(rshi_rendezvous *m) {
    for (int r = 0; m->socket && r < m->w->base.size; r++)
        if (m->socket[r] >= 0) close(m->socket[r]);
    rshi_free(m->socket);
    if (m->life >= 0) close(m->life);
}

rsh_status rshi_processes_meet(const char *job, double patience, rshi_process_world *w, rshi_board **board,
                               bool *begun) {
    rshi_rendezvous m = {.w = w, .job = job, .life = -1, .patience = patience, .most = patience};
    rsh_status st = begin_rendezvous(&m, board);
    if (!st && w->base.size > 1) {
        st = open_pidfd(&m.life);
        if (!st) st = w->base.rank ? join_host(&m) : rshi_rendezvous_host(&m);
        if (!st && w->base.rank) *board = rshi_window_at(w, 0, m.board);
    }
    *begun = m.begun;
    end_rendezvous(&m);
    return st;
}

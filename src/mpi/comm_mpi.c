/* Engine `mpi`: an MPI communicator as a wire.  This is the only file that uses MPI; it is compiled once for each
 * MPI.
 *
 * It only sends and receives; the library handles waiting, collectives, nodes and failures in the same way for all
 * wires.  Every function first checks whether MPI has been finalized, which is cheap; after that it only frees
 * memory. */
#include "mpi/mpi_engine.h"

#include <reshard/mpi.h>
#include <reshard/wire.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct duplicate {
    MPI_Comm comm; /* owned */
} duplicate;

/* State of a message, stored in the room of a request. */
typedef struct message {
    MPI_Request request;
    bool given_up; /* MPI_Cancel was called; it must be called only once */
} message;

_Static_assert(sizeof(message) <= sizeof(rsh_wire_request), "a request must have room for MPI's");

static message message_of(const rsh_wire_request *r) {
    message m;
    memcpy(&m, r->room, sizeof m);
    return m;
}

static void keep_message(message m, rsh_wire_request *out) { memcpy(out->room, &m, sizeof m); }

/* ---- errors ---- */

static rsh_status check_mpi(int error, const char *what) {
    char text[MPI_MAX_ERROR_STRING + 1] = "", sentence[MPI_MAX_ERROR_STRING + 64];
    int length = 0;
    if (error == MPI_SUCCESS) return RSH_OK;
    MPI_Error_string(error, text, &length);
    snprintf(sentence, sizeof sentence, "%s: %s", what, text);
    return rsh_fail(RSH_ERUNTIME, sentence);
}

static bool is_running(void) {
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    return begun && !ended;
}

static rsh_status require_running(void) {
    return is_running() ? RSH_OK : rsh_fail(RSH_ERUNTIME, "MPI is already finalized");
}

/* ---- messages ---- */

static rsh_status begin_send(void *ctx, int peer, int tag, const void *data, size_t bytes, rsh_wire_request *out) {
    const duplicate *d = ctx;
    MPI_Request request;
    rsh_status st = require_running();
    if (!st) st = check_mpi(MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, d->comm, &request), "MPI_Isend");
    if (!st) keep_message((message){request, false}, out);
    return st;
}

static rsh_status begin_receive(void *ctx, int peer, int tag, void *data, size_t bytes, rsh_wire_request *out) {
    const duplicate *d = ctx;
    MPI_Request request;
    rsh_status st = require_running();
    if (!st) st = check_mpi(MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, d->comm, &request), "MPI_Irecv");
    if (!st) keep_message((message){request, false}, out);
    return st;
}

static rsh_status test(void *ctx, rsh_wire_request *r, bool *done) {
    (void)ctx;
    message m = message_of(r);
    int flag = 0;
    rsh_status st = require_running();
    if (!st) st = check_mpi(MPI_Test(&m.request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    if (st) return st;
    keep_message(m, r);
    *done = flag;
    return RSH_OK;
}

/* A receive that has not matched a message stops at once.  A message that has begun, and with Open MPI any send,
 * continues until it is done, even if the communicator is no longer used. */
static bool cancel(void *ctx, rsh_wire_request *r) {
    bool done = false;
    message m = message_of(r);
    if (!is_running() || m.request == MPI_REQUEST_NULL) return true;
    if (!m.given_up) MPI_Cancel(&m.request);
    m.given_up = true;
    keep_message(m, r);
    return !test(ctx, r, &done) && done;
}

static rsh_status probe(void *ctx, int tag, int *peer) {
    const duplicate *d = ctx;
    MPI_Status status;
    int flag = 0;
    rsh_status st = require_running();
    if (!st) st = check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, d->comm, &flag, &status), "MPI_Iprobe");
    if (!st) *peer = flag ? status.MPI_SOURCE : -1;
    return st;
}

/* ---- construction ---- */

/* Closes the communicator.  Freeing it may wait for its other ranks, so if ranks are lost, it is kept until MPI is
 * finalized. */
static void close_communicator(void *ctx, bool orderly) {
    duplicate *d = ctx;
    if (orderly && is_running()) MPI_Comm_free(&d->comm);
    free(d);
}

static rsh_status split(void *ctx, int colour, int key, rsh_wire *out);

/* Makes a wire on a communicator and takes ownership of it, even if it fails. */
static rsh_status make_wire(MPI_Comm comm, uint64_t host, rsh_wire *out) {
    duplicate *d = malloc(sizeof *d);
    int rank = 0, size = 0;
    rsh_status st = d ? RSH_OK : rsh_fail(RSH_ENOMEM, "out of memory for a communicator");
    if (!st) st = check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (!st) st = check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    if (!st) st = check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    if (st) {
        free(d);
        return st;
    }
    *d = (duplicate){comm};
    *out = (rsh_wire){.name = "mpi",
                      .rank = rank,
                      .size = size,
                      .ctx = d,
                      .host = host,
                      .send = begin_send,
                      .recv = begin_receive,
                      .test = test,
                      .cancel = cancel,
                      .probe = probe,
                      .split = split,
                      .close = close_communicator};
    return RSH_OK;
}

static rsh_status split(void *ctx, int colour, int key, rsh_wire *out) {
    const duplicate *d = ctx;
    MPI_Comm part;
    rsh_status st = require_running();
    if (!st) st = check_mpi(MPI_Comm_split(d->comm, colour < 0 ? MPI_UNDEFINED : colour, key, &part), "MPI_Comm_split");
    return st || part == MPI_COMM_NULL ? st : make_wire(part, 0, out);
}

/* Finds the lowest rank with which this one can share memory according to MPI, counted from 1. */
static rsh_status find_host(MPI_Comm comm, uint64_t *host) {
    MPI_Comm shared;
    int lowest = 0;
    rsh_status st = check_mpi(MPI_Comm_rank(comm, &lowest), "MPI_Comm_rank");
    if (!st)
        st = check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared),
                       "MPI_Comm_split_type");
    if (st) return st;
    st = check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, shared), "MPI_Bcast");
    MPI_Comm_free(&shared);
    *host = (uint64_t)lowest + 1;
    return st;
}

static void get_version(char *text, int size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    snprintf(text, (size_t)size, "%s", version);
}

static rsh_status check_running(void) {
    return is_running() ? RSH_OK : rsh_fail(RSH_ERUNTIME, "MPI is not running: call MPI_Init first");
}

static rsh_status check_comm(MPI_Comm comm) {
    int between = 0;
    if (check_running()) return RSH_ERUNTIME;
    if (comm == MPI_COMM_NULL) return rsh_fail(RSH_EVALUE, "communicator is MPI_COMM_NULL");
    rsh_status st = check_mpi(MPI_Comm_test_inter(comm, &between), "MPI_Comm_test_inter");
    return st || !between
               ? st
               : rsh_fail(RSH_EUNSUP, "communicator must be an intracommunicator, got an intercommunicator");
}

static rsh_status make_comm(MPI_Comm comm, rsh_comm **out) {
    MPI_Comm own;
    rsh_wire wire;
    uint64_t host = 0;
    rsh_status st = check_comm(comm);
    if (!st) st = check_mpi(MPI_Comm_dup(comm, &own), "MPI_Comm_dup");
    if (!st) st = check_mpi(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (!st) st = find_host(own, &host);
    if (!st) st = make_wire(own, host, &wire);
    return st ? st : rsh_comm_wire(&wire, out);
}

/* Converts a Fortran handle.  Checks first that MPI is running, because otherwise MPI_Comm_f2c aborts the process. */
static rsh_status comm_from_fortran(int handle, rsh_comm **out) {
    rsh_status st = check_running();
    return st ? st : make_comm(MPI_Comm_f2c(handle), out);
}

/* ---- kept comms: one for each list of ranks ---- */

typedef struct kept_comm {
    int size;
    int *ranks; /* owned: ranks of the members in MPI_COMM_WORLD */
    rsh_comm *comm;
    struct kept_comm *next;
} kept_comm;

/* latest first; entries are never freed, because freeing a comm would wait for its other ranks */
static kept_comm *kept_comms;

/* Lists the ranks of a communicator in MPI_COMM_WORLD; the caller frees the list. */
static rsh_status list_ranks(MPI_Comm comm, int *size, int **out) {
    MPI_Group group, world;
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, size);
    int *own = malloc((size_t)*size * sizeof *own), *ranks = malloc((size_t)*size * sizeof *ranks);
    rsh_status st = own && ranks ? RSH_OK : rsh_fail(RSH_ENOMEM, "out of memory for the ranks of a communicator");
    for (int r = 0; r < *size && !st; r++) own[r] = r;
    if (!st) st = check_mpi(MPI_Group_translate_ranks(group, *size, own, world, ranks), "MPI_Group_translate_ranks");
    for (int r = 0; r < *size && !st; r++)
        if (ranks[r] == MPI_UNDEFINED)
            st = rsh_fail(RSH_EUNSUP, "communicator has ranks outside MPI_COMM_WORLD; use rsh_comm_mpi");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    free(own);
    *out = st ? NULL : ranks;
    if (st) free(ranks);
    return st;
}

static rsh_status keep_comm(MPI_Comm comm, int size, int *ranks, rsh_comm **out) {
    kept_comm *k = malloc(sizeof *k);
    rsh_status st = k ? make_comm(comm, out) : rsh_fail(RSH_ENOMEM, "out of memory for a kept comm");
    if (st) {
        free(k);
        free(ranks);
        return st;
    }
    *k = (kept_comm){size, ranks, *out, kept_comms};
    kept_comms = k;
    return RSH_OK;
}

static rsh_status find_or_make_comm(int handle, rsh_comm **out) {
    int size = 0, *ranks = NULL;
    rsh_status st = check_running();
    if (st) return st;
    MPI_Comm comm = MPI_Comm_f2c(handle);
    st = check_comm(comm);
    if (!st) st = list_ranks(comm, &size, &ranks);
    if (st) return st;
    for (const kept_comm *k = kept_comms; k; k = k->next)
        if (k->size == size && !memcmp(k->ranks, ranks, (size_t)size * sizeof *ranks)) {
            free(ranks);
            *out = k->comm;
            return RSH_OK;
        }
    return keep_comm(comm, size, ranks, out);
}

/* ---- MPI_COMM_WORLD ---- */

static rsh_status open_world(rsh_comm **out) {
    int begun = 0, level = 0;
    MPI_Initialized(&begun);
    if (begun)
        return rsh_fail(RSH_EBUSY, "MPI is already initialized; use rsh_comm_mpi with one of its communicators");
    rsh_status st = check_mpi(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    return st ? st : make_comm(MPI_COMM_WORLD, out);
}

static rsh_status close_world(rsh_comm *comm) {
    rsh_status st = rsh_comm_free(comm);
    if (st) return st;
    return is_running() ? check_mpi(MPI_Finalize(), "MPI_Finalize") : RSH_OK;
}

const rshi_mpi_engine *rsh_mpi_engine(void) {
    static const rshi_mpi_engine engine = {RSH_MPI_FAMILY,    open_world, close_world, comm_from_fortran,
                                           find_or_make_comm, get_version, check_running};
    return &engine;
}

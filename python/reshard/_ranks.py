"""Ranks: threads and processes that this program starts, or that a launcher has started."""
import io
import os
import pickle
import selectors
import signal
import sys
import threading
import time
import traceback
import uuid

from . import _reshard
from ._reshard import Comm, PeerError


def join():
    """Returns the comm of the ranks that reshard run, torchrun, mpirun or srun started on this machine.

    Without a launcher, the program is the only rank.  Collective over the processes.
    """
    return _reshard._join()


def run(n, fn, *args, processes=False, **kwargs):
    """Calls fn(comm, *args, **kwargs) on n ranks and returns the list of their results.

    Ranks are threads of this process or, with processes=True, forked children, whose results and exceptions must
    be picklable.  If a rank raises an exception, ranks that wait for it get PeerError, and the first exception is
    raised here.  Ctrl-C ends all ranks.
    """
    runner = _run_processes if processes else _run_threads
    return runner(n, lambda comm: fn(comm, *args, **kwargs))


class _Failures:
    """The first exception.  Any other one replaces a PeerError, which only reports another rank's failure."""

    def __init__(self):
        self.lock, self.first, self.rank = threading.Lock(), None, None

    def note(self, rank, error):
        with self.lock:
            if self.first is None or (isinstance(self.first, PeerError) and not isinstance(error, PeerError)):
                self.first, self.rank = error, rank


def _sentence(error):
    """Returns the message for the other ranks: the last line of the traceback, as text that C can hold."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()[:900]
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


# ---- threads ----


def _run_threads(n, fn):
    comms, results, failures = _reshard._comm_threads(n), [None] * n, _Failures()

    def work(rank):
        try:
            results[rank] = fn(comms[rank])
        except BaseException as error:  # even SystemExit must not leave the others waiting
            failures.note(rank, error)
            comms[rank]._fail(_sentence(error))
        finally:
            comms[rank].close()

    def be_rank(rank):
        try:
            work(rank)
        except KeyboardInterrupt as error:  # of _stop_threads, while work() was handling another one
            comms[rank]._fail(_sentence(error))
            comms[rank].close()

    threads = [threading.Thread(target=be_rank, args=(rank,), name=f"reshard rank {rank}") for rank in range(n)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        _stop_threads(comms, threads, error)
        raise
    if failures.first is not None:
        raise failures.first
    return results


def _stop_threads(comms, threads, error):
    """Interrupts the ranks, in waits of the library and in Python code, and waits for them to end.

    After Ctrl-C during the start of a thread it is unknown whether the thread runs, so it gets a moment to begin.
    """
    for comm in comms:
        comm._stop()
    for comm, thread in zip(comms, threads):
        if thread.ident is None:
            time.sleep(0.05)
        if thread.is_alive():
            _reshard._raise_in_thread(thread.ident, KeyboardInterrupt)
        elif thread.ident is None:
            comm._fail(_sentence(error))  # it never ran, so no rank should wait for it
    for thread in threads:
        if thread.is_alive():
            thread.join()


# ---- processes ----


class RemoteTraceback(Exception):
    """The traceback of an exception in another process as text; it is the cause of the exception that run() raises."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return "\n" + self.text


def _dump(rank, result, error):
    """Returns the data that a rank sends to its parent: the traceback, and the result with the exception."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__)) if error else None
    try:
        data = pickle.dumps((result, error))
    except Exception as problem:
        what = "exception" if error else "result"
        data = pickle.dumps((None, RuntimeError(f"rank {rank}: cannot pickle its {what}: {problem}")))
    return pickle.dumps(trace), data


def _load(rank, data):
    """Returns the result and the exception of a rank.  Many exceptions can be pickled but not unpickled."""
    trace = None
    try:
        stream = io.BytesIO(data)
        trace = pickle.load(stream)
        result, error = pickle.load(stream)
    except Exception as problem:
        what = "exception" if trace else "result"
        result, error = None, RuntimeError(f"rank {rank}: cannot unpickle its {what}: {problem}")
    if trace:
        error.__cause__ = RemoteTraceback(trace)
    return result, error


def _be_process(job, rank, n, fn, pipe):
    """Runs a child process; never returns."""
    result = error = comm = None
    code = 1
    try:
        try:
            comm = _reshard._join(job, rank, n)
            result = fn(comm)
        except BaseException as problem:
            error = problem
            if comm is not None:
                comm._fail(_sentence(problem))
        with os.fdopen(pipe, "wb") as out:
            out.writelines(_dump(rank, result, error))
        code = 0 if error is None else 1
        if comm is not None:
            comm.close()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _start_processes(n, fn, children):
    job = f"python {os.getpid()} {uuid.uuid4().hex}"
    sys.stdout.flush()
    sys.stderr.flush()
    for rank in range(n):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for other in children.values():
                os.close(other["pipe"])
            os.close(read)
            _be_process(job, rank, n, fn, write)
        os.close(write)
        children[rank] = {"pid": pid, "pipe": read, "bytes": bytearray()}


def _listen(children, heard):
    """Reads the results of the children, and calls heard(rank) when one has ended."""
    with selectors.DefaultSelector() as selector:
        for rank, child in children.items():
            selector.register(child["pipe"], selectors.EVENT_READ, rank)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                children[key.data]["bytes"] += data
                if not data:
                    selector.unregister(key.fd)
                    heard(key.data)


def _run_processes(n, fn):
    if n < 1:
        raise ValueError(f"number of ranks must be at least 1, got {n}")
    children, results, failures = {}, [None] * n, _Failures()

    def heard(rank):
        child = children[rank]
        if not child["bytes"]:
            return  # it died; the exit status tells how
        results[rank], error = _load(rank, child["bytes"])
        if error is not None:
            failures.note(rank, error)

    try:
        _start_processes(n, fn, children)
        _listen(children, heard)
    except BaseException:
        for child in children.values():
            os.kill(child["pid"], signal.SIGKILL)
        raise
    finally:
        _reap(children, failures)
    if failures.first is not None:
        raise failures.first
    return results


def _reap(children, failures):
    for rank, child in children.items():
        os.close(child["pipe"])
        _, status = os.waitpid(child["pid"], 0)
        if not child["bytes"]:
            code = os.waitstatus_to_exitcode(status)
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
            failures.note(rank, PeerError(f"rank {rank} {how}"))

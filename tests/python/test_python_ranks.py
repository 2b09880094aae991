"""Ranks: threads, processes, launchers, failures and interrupts."""
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import reshard

BUILD = os.environ.get("RESHARD_BUILD")
A, B = "f32[8/x, 8] on x=4", "f32[8, 8/x] on x=4"
WHOLE = np.arange(64, dtype=np.float32).reshape(8, 8)


def everything(comm):
    rank = comm.rank
    x = reshard.Sharded(comm, A, WHOLE[2 * rank:2 * rank + 2])
    y = x.reshard(B)
    exec = x.bind(B)
    moved = [y, exec(), exec.run(), x.begin(B).wait(), *reshard.reshard_many([x, y], [B, B])]
    exec.begin()
    moved.append(exec.wait())
    right = [np.array_equal(m.local.numpy(), WHOLE[:, 2 * rank:2 * rank + 2]) for m in moved]
    whole = y.gather(1)
    right.append(whole is None if rank != 1 else np.array_equal(whole.numpy(), WHOLE))
    right.append(x.digest() == y.digest() == reshard.digest("f32[8, 8]", [WHOLE]))
    scattered = reshard.scatter(comm, B, WHOLE if rank == 2 else None, root=2)
    right.append(scattered.digest() == x.digest())
    right.append(comm.allreduce(np.array([rank, 1.0])).tolist() == [6.0, 4.0])
    right.append(comm.allgather({"rank": rank}) == [{"rank": r} for r in range(4)])
    half = comm.split(rank % 2, key=-rank)
    right.append((half.size, half.rank) == (2, 1 if rank < 2 else 0))
    half.close()
    right.append(reshard.zeros(comm, A).fill_normal(3).digest() == reshard.zeros(comm, B).fill_normal(3).digest())
    right.append(exec.stats()["runs"] == 3 and comm.cache_stats()["hits"] >= 1)
    comm.barrier()
    return right


@pytest.mark.parametrize("processes", [False, True])
def test_what_ranks_do(processes):
    for right in reshard.run(4, everything, processes=processes):
        assert all(right), right


def test_results_and_arguments():
    assert reshard.run(3, lambda comm, a, b=0: (comm.rank, a, b), 7, b=8) == [(r, 7, 8) for r in range(3)]
    for wrong in (0, -1):
        for processes in (False, True):
            with pytest.raises(ValueError):
                reshard.run(wrong, everything, processes=processes)


class Odd(Exception):
    pass


@pytest.mark.parametrize("processes", [False, True])
def test_an_exception_in_one_rank_reaches_the_caller(processes):
    told = []

    def main(comm):
        if comm.rank == 2:
            raise Odd("rank two is odd")
        try:
            comm.barrier()
        except reshard.PeerError as error:
            told.append(str(error))
            raise

    with pytest.raises(Odd, match="rank two is odd") as caught:
        reshard.run(4, main, processes=processes)
    trace = str(caught.value.__cause__) if processes else "".join(str(entry) for entry in caught.traceback)
    assert "main" in trace
    assert processes or (told and all("rank two is odd" in text for text in told))


def test_a_rank_that_dies():
    def main(comm):
        if comm.rank == 1:
            os._exit(3)
        comm.barrier()

    with pytest.raises(reshard.PeerError, match="rank 1"):
        reshard.run(3, main, processes=True)


def test_ranks_that_disagree():
    def main(comm):
        x = reshard.zeros(comm, "f32[8/x] on x=2")
        return x.reshard("f32[8]") if comm.rank else x.digest()

    with pytest.raises(reshard.MismatchError):
        reshard.run(2, main)


def test_errors_are_those_of_python():
    def main(comm):
        with pytest.raises(ValueError):
            reshard.Sharded(comm, "f32[8/x] on x=4", np.zeros(2, np.float32))
        with pytest.raises(ValueError, match="shape"):
            reshard.Sharded(comm, "f32[8/x] on x=2", np.zeros(3, np.float32))
        with pytest.raises(TypeError, match="dtype"):
            reshard.Sharded(comm, "f32[8/x] on x=2", np.zeros(4))
        x = reshard.zeros(comm, "c64[8/x] on x=2")
        with pytest.raises(TypeError):
            x.reshard("f32[8]")
        with pytest.raises(NotImplementedError):
            reshard.zeros(comm, "f32[8] on x=2 sum(x)").digest()
        with pytest.raises(TypeError, match="unknown option"):
            x.reshard("c64[8]", speed=3)
        if comm.rank == 0:
            with pytest.raises(IndexError):
                comm.node(5)
        return True

    assert reshard.run(2, main) == [True, True]


def test_a_closed_comm_says_so():
    kept = []

    def main(comm):
        x = reshard.zeros(comm, "f32[8/x] on x=2")
        kept.append((comm, x, x.bind("f32[8]"), x.begin("f32[8]")))

    reshard.run(2, main)
    for comm, x, exec, transit in kept:
        assert comm.closed and x.local.shape == (4,)
        for call in (comm.barrier, x.digest, exec, transit.wait):
            with pytest.raises(ValueError, match="closed"):
                call()
    with reshard.join() as alone:
        assert (alone.rank, alone.size) == (0, 1)
        assert np.asarray(reshard.Sharded(alone, "f32[3]", np.ones(3, np.float32)).gather()).tolist() == [1, 1, 1]
    assert alone.closed


def test_one_thread_uses_a_comm():
    """Two threads of rank 0 enter a barrier; rank 1 enters it only after one of them got an error."""
    import threading

    refused, seen = threading.Event(), []

    def enter(comm):
        try:
            comm.barrier()
        except RuntimeError as error:
            seen.append(str(error))
            refused.set()

    def main(comm):
        if comm.rank == 0:
            thread = threading.Thread(target=enter, args=(comm,))
            thread.start()
            enter(comm)
            thread.join()
        else:
            assert refused.wait(60)
            comm.barrier()

    reshard.run(2, main)
    assert len(seen) == 1 and "another thread" in seen[0], seen


def python(text, *launcher, **more):
    """Runs Python.  What LD_PRELOAD loads before it, as the runtime of a sanitizer, is not for the launcher, which has its own."""
    environment = {**os.environ, "RESHARD_TIMEOUT": "60", **more}
    preload = [f"LD_PRELOAD={environment.pop('LD_PRELOAD')}"] if launcher and "LD_PRELOAD" in environment else []
    return subprocess.run([*launcher, "env", *preload, sys.executable, "-c", text], env=environment, capture_output=True,
                          text=True, timeout=120)


JOIN = """
import numpy as np, reshard
with reshard.join() as comm:
    x = reshard.Sharded(comm, "f32[6/x] on x=3", np.full(2, comm.rank, np.float32))
    whole = x.gather()
    if whole is not None: print(comm.size, comm.engine, whole.numpy().tolist())
"""


def test_join_under_reshard_run():
    found = python(JOIN, reshard.command(), "run", "-n", "3", "--")
    assert found.stdout.strip() == "3 shm [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]", found


def test_a_rank_that_does_not_come_times_out():
    found = python(f"import reshard\nreshard._reshard._join('job of nobody {os.getpid()}', 0, 2)", RESHARD_TIMEOUT="0.3")
    assert "TimeoutError" in found.stderr, found


WAIT = {
    "threads": "import reshard, time\n"
               "def main(comm):\n"
               "    if comm.rank == 0: print('ready', flush=True); time.sleep(0.3)\n"
               "    comm.barrier() if comm.rank else time.sleep(600)\n"
               "reshard.run(2, main)\n",
    "processes": "import reshard, time\n"
                 "def main(comm):\n"
                 "    if comm.rank == 0: print('ready', flush=True)\n"
                 "    comm.barrier() if comm.rank else time.sleep(600)\n"
                 "reshard.run(2, main, processes=True)\n",
    "join": "import reshard\nprint('ready', flush=True)\nreshard._reshard._join('nobody comes %d', 0, 2)\n" % os.getpid(),
}


@pytest.mark.parametrize("where", ["processes", "join"])
def test_ctrl_c_ends_waits(where):
    child = subprocess.Popen([sys.executable, "-c", WAIT[where]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env={**os.environ, "RESHARD_TIMEOUT": "100"}, start_new_session=True)
    assert child.stdout.readline().strip() == "ready"
    time.sleep(0.3)
    os.killpg(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode not in (0, None) and "KeyboardInterrupt" in errors, errors


def test_ctrl_c_ends_ranks_that_are_threads():
    text = ("import reshard\n"
            "def main(comm):\n"
            "    if comm.rank == 0: print('ready', flush=True)\n"
            "    if comm.rank: comm.barrier()\n"
            "    while True: pass\n"
            "reshard.run(3, main)\n")
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "ready"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and child.returncode != 0, errors


class TwoArguments(Exception):  # can be pickled, but not unpickled
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class NoNumber:  # as a result
    def __reduce__(self):
        return int, ("no number",)


def test_what_cannot_be_unpickled_is_told_with_its_rank_and_traceback():
    def fail(comm):
        if comm.rank == 1:
            raise TwoArguments("this", "that")
        comm.barrier()

    with pytest.raises(RuntimeError, match="rank 1: cannot unpickle its exception") as failure:
        reshard.run(2, fail, processes=True)
    assert "this and that" in str(failure.value.__cause__)
    with pytest.raises(RuntimeError, match="rank 0: cannot unpickle its result: invalid literal"):
        reshard.run(1, lambda comm: NoNumber(), processes=True)
    with pytest.raises(RuntimeError, match="rank 0: cannot pickle its result") as failure:
        reshard.run(1, lambda comm: lambda: 0, processes=True)
    assert failure.value.__cause__ is None


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_any_text_of_an_exception_reaches_the_other_ranks(text, processes):
    def fail(comm):
        if comm.rank == 0:
            raise ValueError(text)
        try:
            comm.barrier()
        except reshard.PeerError as error:
            return str(error)

    with pytest.raises(ValueError) as failure:
        reshard.run(2, fail, processes=processes)
    assert failure.value.args == (text,)


def test_an_interrupt_while_a_rank_reports_another_leaves_no_traceback():
    text = ("import os, reshard, signal, threading\n"
            "from reshard import _ranks\n"
            "def slowly(error, sentence=_ranks._sentence):\n"
            "    for _ in range(3000000): pass\n"
            "    return sentence(error)\n"
            "_ranks._sentence = slowly\n"
            "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "def main(comm):\n"
            "    if comm.rank == 0: threading.Event().wait(1)\n"
            "    comm.barrier()\n"
            "reshard.run(3, main)\n")
    child = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert child.returncode != 0 and "KeyboardInterrupt" in child.stderr, child.stderr
    assert "Exception in thread" not in child.stderr, child.stderr


def test_a_forked_child_is_not_a_rank():
    def main(comm):
        x = reshard.zeros(comm, "f32[4/x] on x=2")
        if comm.rank == 0:
            child = os.fork()
            if child == 0:
                try:
                    x.digest()
                except RuntimeError:
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        return x.digest()

    digests = reshard.run(2, main, processes=True)
    assert digests[0] == digests[1]


def test_a_root_that_gives_a_wrong_array_leaves_nobody_waiting():
    def main(comm):
        with pytest.raises(ValueError):
            reshard.scatter(comm, "f32[8/x, 8] on x=2", np.zeros((3, 3), np.float32) if comm.rank == 0 else None)
        x = reshard.zeros(comm, "f32[8/x, 8] on x=2")
        with pytest.raises(ValueError):
            x.gather(1, out=np.zeros((3, 3), np.float32) if comm.rank == 1 else None)
        return x.gather(0) is None

    assert reshard.run(2, main) == [False, True]

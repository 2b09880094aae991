"""Worlds of PyTorch processes: imports torch.distributed._shard, starts ranks over gloo and collects the results of each.

Debian's PyTorch 1.13 under Python 3.11 cannot import torch.distributed._shard: its dataclass TensorProperties stands as a default value, which must be hashable
there.  While it is imported, dataclasses.dataclass gives that one class a hash.
"""
import dataclasses
import datetime
import json
import os
import signal
import tempfile
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("OMP_NUM_THREADS", "1")

_dataclass = dataclasses.dataclass


def _hashable_dataclass(cls=None, **options):
    def wrap(c):
        if c.__name__ == "TensorProperties":
            options["unsafe_hash"] = True
        return _dataclass(c, **options)
    return wrap if cls is None else wrap(cls)


dataclasses.dataclass = _hashable_dataclass
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._shard.sharded_tensor  # noqa: E402,F401
dataclasses.dataclass = _dataclass

# The order matters: NotImplementedError is a RuntimeError.
KINDS = ((NotImplementedError, "NOTIMPL"), (AssertionError, "ASSERT"), (ValueError, "VALUE"), (TypeError, "TYPE"), (KeyError, "KEY"),
         (AttributeError, "ATTR"), (IndexError, "INDEX"), (ZeroDivisionError, "DIVISION"), (RuntimeError, "RUNTIME"))


def kind_of(error):
    return next((name for kind, name in KINDS if isinstance(error, kind)), "OTHER")


def attempt(function, *args):
    """Returns the result of the function, or {"error": kind}."""
    try:
        return function(*args)
    except Exception as error:  # every kind of error is a result here
        if os.environ.get("GOLDEN_VERBOSE"):
            print(f"rank {dist.get_rank() if dist.is_initialized() else '-'} {args and args[0]}: {error!r}", flush=True)
        return {"error": kind_of(error)}


def _be_rank(folder, rank, world, function, cases):
    """Runs in a child: computes every case, writes the results to a file, and waits for permission to exit, so that no rank loses a connection."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=600))
    answers = [attempt(function, case, rank) for case in cases]
    with open(f"{folder}/part{rank}", "w") as file:
        json.dump(answers, file)
    os.rename(f"{folder}/part{rank}", f"{folder}/answer{rank}")
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.002)


def _start(folder, rank, world, function, cases):
    pid = os.fork()
    if pid:
        return pid
    try:
        if not os.environ.get("GOLDEN_VERBOSE"):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hides the output of gloo when it aborts
        _be_rank(folder, rank, world, function, cases)
    finally:
        os._exit(0)


def _wait(folder, pids, seconds):
    """Returns for each rank "answered", "aborted" or "hung", when no more results are expected."""
    end, verdicts = time.time() + seconds, [None] * len(pids)
    while None in verdicts and time.time() < end:
        for rank, pid in enumerate(pids):
            if verdicts[rank]:
                continue
            if os.path.exists(f"{folder}/answer{rank}"):
                verdicts[rank] = "answered"
            elif os.waitpid(pid, os.WNOHANG)[0]:
                verdicts[rank] = "aborted"
        time.sleep(0.01)
    return [verdict or "hung" for verdict in verdicts]


def _finish(folder, pids, verdicts):
    open(f"{folder}/go", "w").close()
    for pid, verdict in zip(pids, verdicts):
        if verdict == "hung":
            os.kill(pid, signal.SIGKILL)
        if verdict != "aborted":
            os.waitpid(pid, 0)


def run_world(world, function, cases, seconds=600.0):
    """Calls function(case, rank) in each of `world` processes for every case.  Returns one list per case with one result per rank; a rank without a result has
    {"error": "ABORT"} or {"error": "HANG"}."""
    with tempfile.TemporaryDirectory(prefix="torch_golden.") as folder:
        pids = [_start(folder, rank, world, function, cases) for rank in range(world)]
        verdicts = _wait(folder, pids, seconds)
        _finish(folder, pids, verdicts)
        lost = {"aborted": "ABORT", "hung": "HANG"}
        answers = []
        for rank, verdict in enumerate(verdicts):
            if verdict == "answered":
                with open(f"{folder}/answer{rank}") as file:
                    answers.append(json.load(file))
            else:
                answers.append([{"error": lost[verdict]}] * len(cases))
    return [list(ranks) for ranks in zip(*answers)]

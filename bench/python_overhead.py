#!/usr/bin/env python3
"""What Python adds to the time of a move: calls a bound exec and a reshard from Python and from a loop in C, in the same
processes, and prints the best of many short samples.  Also measures mpi4py's Alltoallw and PyTorch's gloo if installed.

    PYTHONPATH=build/python /usr/bin/python3 bench/python_overhead.py [SMALL] [LARGE]
"""
import os
import subprocess
import sys
import time

import reshard

RANKS = 2


def compare(comm, n, runs, repeats):
    """Returns the shortest times, in seconds, of: exec from C, exec from Python, reshard from C, reshard from Python."""
    a, b = reshard.Layout(f"f32[{n}/x, {n}] on x={RANKS}"), reshard.Layout(f"f32[{n}, {n}/x] on x={RANKS}")
    x = reshard.zeros(comm, a).fill_normal(1)
    move = x.bind(b)
    times = [[], [], [], []]

    def timed(call):
        begin = time.perf_counter()
        for _ in range(runs):
            call()
        return time.perf_counter() - begin

    for _ in range(repeats):
        measures = (lambda: move._time_runs(runs), lambda: timed(move), lambda: x._time_reshards(b, runs),
                    lambda: timed(lambda: x.reshard(b)))
        for i, measure in enumerate(measures):
            comm.barrier()
            times[i].append(measure() / runs)
    return [min(t) for t in times]


MPI_PROGRAM = """
import sys, time
import numpy as np
from mpi4py import MPI
n, runs = int(sys.argv[1]), int(sys.argv[2])
world = MPI.COMM_WORLD
p, h = world.size, n // world.size
rows, columns = np.ones((h, n), np.float32), np.empty((n, h), np.float32)
send = [MPI.FLOAT.Create_subarray((h, n), (h, h), (0, r * h)).Commit() for r in range(p)]
take = [MPI.FLOAT.Create_subarray((n, h), (h, h), (r * h, 0)).Commit() for r in range(p)]
best = 1e9
for _ in range(100 if n < 1000 else 5):
    world.Barrier()
    begin = time.perf_counter()
    for _ in range(runs):
        world.Alltoallw([rows, ([1] * p, [0] * p), send], [columns, ([1] * p, [0] * p), take])
    best = min(best, (time.perf_counter() - begin) / runs)
if world.rank == 0: print(best)
"""

GLOO_PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist
n, runs, rank = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=2)
rows = torch.ones(n // 2, n)
def move():
    mine = [t.contiguous() for t in rows.chunk(2, dim=1)]
    other = torch.empty_like(mine[0])
    wait = dist.isend(mine[1 - rank], 1 - rank)
    dist.recv(other, 1 - rank)
    wait.wait()
    return torch.cat([mine[0], other] if rank == 0 else [other, mine[1]])
best = 1e9
for _ in range(100 if n < 1000 else 5):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(runs): move()
    best = min(best, (time.perf_counter() - begin) / runs)
if rank == 0: print(best)
"""


def by_mpi(n, runs):
    launcher = next((p for p in ("/usr/bin/mpirun.openmpi", "/usr/bin/mpirun") if os.path.exists(p)), None)
    if not launcher:
        return None
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = subprocess.run([launcher, "-n", str(RANKS), sys.executable, "-c", MPI_PROGRAM, str(n), str(runs)],
                          env=environment, capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def by_gloo(n, runs):
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000)}
    ranks = [subprocess.Popen([sys.executable, "-c", GLOO_PROGRAM, str(n), str(runs), str(rank)], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for rank in range(RANKS)]
    said = [rank.communicate()[0] for rank in ranks]
    return float(said[0]) if all(rank.returncode == 0 for rank in ranks) else None


def show(name, seconds):
    print(f"    {name:32} " + ("not installed" if seconds is None else f"{1e6 * seconds:12.2f} us"))


def main(small=64, large=8192):
    for n, runs, repeats in ((small, 100, 300), (large, 1, 15)):
        exec_c, exec_python, reshard_c, reshard_python = reshard.run(RANKS, compare, n, runs, repeats, processes=True)[0]
        print(f"f32[{n}, {n}], rows to columns on {RANKS} processes")
        show("exec, loop in C", exec_c)
        show("exec, called from Python", exec_python)
        show("reshard, loop in C", reshard_c)
        show("reshard, called from Python", reshard_python)
        show("mpi4py Alltoallw", by_mpi(n, runs))
        show("PyTorch gloo", by_gloo(n, runs))
        print(f"    Python adds {1e6 * (exec_python - exec_c):.2f} us to an exec and "
              f"{1e6 * (reshard_python - reshard_c):.2f} us to a reshard; speed {exec_c / exec_python:.3f} and "
              f"{reshard_c / reshard_python:.3f} of C")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

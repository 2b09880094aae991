#!/usr/bin/python3
"""PyTorch's reshard_local_shard over gloo: rows to columns on RANKS processes of this machine (environment variable; 2).

    gloo_reshard.py ROWS COLUMNS COUNT    one line of JSON with the best of COUNT runs, in seconds
    gloo_reshard.py                       the same for each line "ROWS COLUMNS COUNT" of the input, after a line that says it is ready

It needs Debian's python3-torch 1.13 under /usr/bin/python3.  A run starts with a barrier and ends when all processes have their result; its time is that of the slowest
one.  Each process has one thread, as PyTorch's launchers set it.  The result of the first run of a size is checked, and its time is not counted.
"""
import datetime
import json
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "golden"))

from torch_world import dist, torch  # noqa: E402; before anything of torch.distributed._shard
from torch.distributed._shard.sharded_tensor.reshard import reshard_local_shard  # noqa: E402
from torch.distributed._shard.sharding_spec import ChunkShardingSpec  # noqa: E402

RANKS = int(os.environ.get("RANKS", 2))


def value(rows, columns):
    """Element i, j: (31 i + 7 j) mod 65536, exact in f32."""
    return ((31 * rows[:, None] + 7 * columns[None, :]) % 65536).to(torch.float32)


def span(length, rank):
    step = -(-length // RANKS)
    return torch.arange(rank * step, min((rank + 1) * step, length))


def measure(rank, rows, columns, count):
    """Returns the shortest time of `count` runs, in seconds; all ranks call it."""
    specs = [ChunkShardingSpec(dim=dim, placements=[f"rank:{r}/cpu" for r in range(RANKS)]) for dim in (0, 1)]
    group, size = dist.distributed_c10d._get_default_group(), torch.Size([rows, columns])
    local = value(span(rows, rank), torch.arange(columns))
    times = []
    for i in range(count + 1):
        dist.barrier()
        start = time.perf_counter()
        shards, _ = reshard_local_shard(local, size, *specs, group)
        times.append(time.perf_counter() - start)
        if i == 0 and not torch.equal(shards[0].tensor, value(torch.arange(rows), span(columns, rank))):
            raise RuntimeError("PyTorch's result is wrong")
        del shards
    slowest = torch.tensor(times[1:], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.min().item()


def serve(rank, asked):
    """Rank 0 reads the jobs from `asked` and prints the results; the other ranks take part until a job has count 0."""
    while True:
        line = asked() if rank == 0 else None
        job = torch.tensor([int(word) for word in line.split()] if line else [0, 0, 0])
        dist.broadcast(job, 0)
        rows, columns, count = job.tolist()
        if count == 0:
            return
        best = measure(rank, rows, columns, count)
        if rank == 0:
            print(json.dumps({"torch": torch.__version__, "rows": rows, "columns": columns, "count": count, "best_seconds": best}), flush=True)


def be_rank(folder, rank, asked):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS, timeout=datetime.timedelta(hours=1))
    if rank == 0 and len(sys.argv) == 1:
        print(json.dumps({"torch": torch.__version__, "ready": True}), flush=True)
    serve(rank, asked)
    dist.destroy_process_group()


def main():
    given = [" ".join(sys.argv[1:])] if len(sys.argv) > 1 else None
    asked = (lambda: given.pop() if given else "") if given else sys.stdin.readline
    with tempfile.TemporaryDirectory(prefix="gloo_reshard.") as folder:
        others = []
        for rank in range(1, RANKS):
            others.append(os.fork())
            if others[-1] == 0:
                try:
                    be_rank(folder, rank, asked)
                finally:
                    os._exit(0)
        be_rank(folder, 0, asked)
        for other in others:
            os.waitpid(other, 0)


if __name__ == "__main__":
    main()

"""The first program: a plan, a move of all parts in one process, and the same move on ranks.

    PYTHONPATH=build/python python3 examples/python/first_move.py
"""
import os
import tempfile

import numpy as np

import reshard

a = reshard.Layout("f32[4096/tp, 1024] on dp=2,tp=4")
b = reshard.Layout("f32[4096, 1024/tp] on dp=2,tp=4")

plan = reshard.plan(a, b)
print(f"{plan.bytes_moved} bytes move, {plan.lower_bound} is the least that must")

# One process that has the parts of all eight ranks.
whole = np.arange(4096 * 1024, dtype=np.float32).reshape(4096, 1024)
rows = [whole[1024 * (rank % 4):][:1024] for rank in range(8)]
columns = reshard.move(a, b, rows)
assert all(np.array_equal(columns[rank], whole[:, 256 * (rank % 4):][:, :256]) for rank in range(8))


# Ranks are threads here; with processes=True they are processes; under torchrun, srun or mpirun use reshard.join().
def rank_main(comm):
    x = reshard.Sharded(comm, a, rows[comm.rank])  # no copy
    y = x.reshard(b)
    assert x.digest() == y.digest()
    return np.asarray(y.local)


for rank, local in enumerate(reshard.run(8, rank_main)):
    assert np.array_equal(local, whole[:, 256 * (rank % 4):][:, :256])

# A checkpoint that eight ranks save, that is converted for four ranks and read in slices.
with tempfile.TemporaryDirectory() as folder:
    model, four = os.path.join(folder, "model"), os.path.join(folder, "model-4")
    name = "layers.0.mlp.up_proj.weight"
    reshard.run(8, lambda comm: reshard.save(comm, model, {name: reshard.Sharded(comm, a, rows[comm.rank])}))
    rules = reshard.Rules("mesh tp=4\n*.weight [_, _/tp]\n")
    done = reshard.convert(model, four, to=rules, verify=True, progress=True)
    with reshard.open(four) as checkpoint:
        assert np.array_equal(checkpoint[name][0:128, :], whole[0:128])
    print(f"{done['tensors']} tensor in {done['files']} files, verified: {done['verified']}")

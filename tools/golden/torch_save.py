"""Files of torch.save written by a real PyTorch, for tests/ckpt/torch: python3 tools/golden/torch_save.py tests/ckpt/torch

plain.pt and older.pt are one state in both formats; conjugated.pt has a lazily conjugated tensor; tensor.pth is a tensor alone;
hf is a directory with an index; sharded has ShardedTensors of 4 ranks.  dtensor and dtensor_later have DTensors, which PyTorch
1.13 does not know: their classes are made here under the names that PyTorch 2 has, with the attributes that it pickles.  The
bytes of a tensor follow from its name as in torch_dcp.py: byte i of the row-major tensor is (37 i + 11 (i >> 8) + 13 len(name))
mod 256; bools keep its lowest bit.
"""
import collections
import json
import os
import shutil
import sys
import types

import torch_dcp
from torch_dcp import chunked, named, record, sharded, whole

import torch
import torch.distributed as dist
import torch_world as world


class Unknown:
    """A class that readers do not know."""

    def __init__(self):
        self.inside = [1, 2]


def flat(prefix, state):
    return {name: whole(prefix + name, *shape) for name, shape in state.items()}


def plain():
    """Nested dicts, parameters, views, transposed and shared storages, and non-tensor entries."""
    layers = collections.OrderedDict(
        (f"{i}", {"weight": torch.nn.Parameter(whole(f"model.layers.{i}.weight", torch.float32, 5, 3)),
                  "bias": whole(f"model.layers.{i}.bias", torch.bfloat16, 5)}) for i in range(2))
    turned = whole("model.turned", torch.float64, 3, 4).t().contiguous().t()
    cut = torch.cat([whole("model.cut", torch.int64, 4, 3), torch.zeros(4, 2, dtype=torch.int64)], 1)[:, :3]
    tied = whole("model.tied", torch.float16, 6, 2)
    model = {"layers": layers, "turned": turned, "cut": cut, "tied": tied, "head": tied,
             "mask": whole("model.mask", torch.bool, 9), "scalar": whole("model.scalar", torch.int64),
             "complex": whole("model.complex", torch.complex64, 2, 2), "empty": whole("model.empty", torch.float32, 0, 4),
             "bytes": whole("model.bytes", torch.uint8, 2, 3), "signed": whole("model.signed", torch.int8, 4),
             "short": whole("model.short", torch.int16, 3), "int": whole("model.int", torch.int32, 3)}
    moments = {i: {"exp_avg": whole(f"optimizer.state.{i}.exp_avg", torch.float32, 5, 3), "step": 7} for i in range(2)}
    optimizer = {"state": collections.defaultdict(dict, moments),
                 "param_groups": [{"lr": 0.1, "params": [0, 1], "betas": (0.9, 0.999)}]}
    return {"model": model, "optimizer": optimizer, "list": [whole("list.0", torch.float32, 2), whole("list.1", torch.uint8, 3)],
            "epoch": 3, "big": 1 << 100, "none": None, "name": "a run", "raw": b"\0\1", "set": {1, 2}, "frozen": frozenset([1.5]),
            "object": Unknown(), "sparse": torch.ones(2).to_sparse(), 0.5: True}


class Lazy:
    """A lazily conjugated tensor as PyTorch 2 pickles it; 1.13 loses the bit."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce_ex__(self, protocol):
        function, arguments = self.tensor.__reduce_ex__(protocol)
        return function, (*arguments, {"conj": True})


def conjugated():
    return {"fine": whole("fine", torch.complex64, 2), "lazy": Lazy(whole("lazy", torch.complex64, 2))}


def write_hf(folder):
    os.makedirs(folder)
    parts = [{"a.weight": whole("a.weight", torch.float32, 4, 3), "a.bias": whole("a.bias", torch.float32, 4)},
             {"b.weight": whole("b.weight", torch.bfloat16, 2, 8)}]
    where = {}
    for i, part in enumerate(parts):
        name = f"pytorch_model-{i + 1:05}-of-00002.bin"
        torch.save(collections.OrderedDict(part), f"{folder}/{name}")
        where.update({tensor: name for tensor in part})
    with open(f"{folder}/pytorch_model.bin.index.json", "w") as file:
        json.dump({"metadata": {"total_size": 1}, "weight_map": where}, file)
    with open(f"{folder}/config.json", "w") as file:
        file.write("{}\n")


# ---- ranks ----

def save_sharded(folder, rank):
    os.makedirs(folder, exist_ok=True)
    state = {"rows": chunked("rows", torch.float32, (10, 6), 0), "grid": sharded("grid", torch.float16, (7, 5), ([3], [2, 4])),
             "turned": sharded("turned", torch.int32, (6, 4), ([4], []), turned=True),
             "copied": whole("copied", torch.int64, 5), "own": torch.full((2,), float(rank)), "step": 9}
    torch.save(state, f"{folder}/model_world_size_{dist.get_world_size()}_rank_{rank}.pt")
    return True


# ---- DTensors, as PyTorch 2 pickles them ----

TENSOR = "torch.distributed.tensor"
PLACES = TENSOR + ".placement_types"
for module in (TENSOR, TENSOR + "._dtensor_spec", PLACES, "torch.distributed.device_mesh", "torch.distributed._mesh_layout"):
    sys.modules.setdefault(module, types.ModuleType(module))


def reduce_wrapped(self, protocol):
    return torch._tensor._rebuild_from_type_v2, (
        torch._utils._rebuild_wrapper_subclass, type(self),
        (type(self), self.local.dtype, self.shape, torch.empty(self.shape).stride(), 0, torch.strided, torch.device("cpu"), False),
        self.state)


def wrapped(shape, local, spec, slots):
    made = named("DTensor", TENSOR)()
    type(made).__reduce_ex__ = reduce_wrapped
    attributes = {"_local_tensor": local, "_spec": spec}
    made.shape, made.local, made.state = shape, local, ({}, attributes) if slots else attributes
    return made


def split(tensor, parts, at, dim):
    """Like torch.chunk, with empty tensors for missing chunks."""
    chunks = list(torch.chunk(tensor, parts, dim))
    while len(chunks) < parts:
        chunks.append(tensor.narrow(dim, 0, 0))
    return chunks[at].contiguous()


def place(kind, dim=None, factor=None):
    fields = {} if dim is None else {"dim": dim} if factor is None else {"dim": dim, "split_factor": factor}
    return record(named(kind, PLACES), **fields)


def mesh_of(ranks, later):
    mesh = named("DeviceMesh", "torch.distributed.device_mesh")
    ranks = torch.tensor(ranks, dtype=torch.int32)
    if not later:
        return record(mesh, device_type="cpu", mesh=ranks, mesh_dim_names=("dp", "tp"), _flatten_mesh_list=tuple(ranks.flatten().tolist()))
    layout = record(named("_MeshLayout", "torch.distributed._mesh_layout"), shape=tuple(ranks.shape), stride=ranks.stride())
    return record(mesh, _device_type="cpu", _rank_map=ranks.flatten(), _layout=layout, _mesh_dim_names=None, _root_mesh=None)


def dtensor(name, dtype, shape, mesh, ranks, rank, cuts, later):
    """cuts: for each dim of the mesh None (replicated), a dim, or (dim, split factor)."""
    at = (torch.tensor(ranks) == rank).nonzero()[0].tolist()
    local, places = whole(name, dtype, *shape), []
    order = [m for m, c in enumerate(cuts) if isinstance(c, int)] + [m for m in reversed(range(len(cuts))) if isinstance(cuts[m], tuple)]
    for m in order:
        dim = cuts[m] if isinstance(cuts[m], int) else cuts[m][0]
        local = split(local, len(ranks) if m == 0 else len(ranks[0]), at[m], dim)
    for c in cuts:
        places.append(place("Replicate") if c is None else place("Shard", c) if isinstance(c, int) else place("_StridedShard", *c))
    spec = record(named("DTensorSpec", TENSOR + "._dtensor_spec"), mesh=mesh, placements=tuple(places), tensor_meta=None)
    return wrapped(shape, local, spec, slots=not later)


def write_dtensors(folder, ranks, later):
    os.makedirs(folder)
    cuts = {"rows": ((10, 6), (0, None)), "nested": ((9, 2), (0, 0)), "both": ((5, 7), (0, 1)), "strided": ((8, 3), ((0, 2), 0)),
            "uneven": ((7, 3), ((0, 2), 0)), "replicated": ((4, 2), (None, None)), "tiny": ((1, 3), (0, 0))}
    for rank in sorted(r for row in ranks for r in row):
        mesh = mesh_of(ranks, later)
        model = {name: dtensor("model." + name if not later else name, torch.float32, shape, mesh, ranks, rank, c, later)
                 for name, (shape, c) in cuts.items()}
        torch.save(model, f"{folder}/model_{rank}.pt")
        if not later:
            name = "optim.state.0.exp_avg"
            state = {"state": {0: {"exp_avg": dtensor(name, torch.float64, (6, 4), mesh, ranks, rank, (1, 0), later), "step": torch.tensor(5)}}}
            torch.save(state, f"{folder}/optim_{rank}.pt")


def write_legacy(folder):
    """Megatron's older directories: one directory with a file for each tensor-parallel rank."""
    up, down, norm = whole("model.up", torch.float32, 6, 4), whole("model.down", torch.bfloat16, 4, 6), whole("model.norm", torch.float32, 4)
    for rank in range(2):
        os.makedirs(f"{folder}/iter_0000003/mp_rank_{rank:02}")
        model = {"up": split(up, 2, rank, 0), "down": split(down, 2, rank, 1), "norm": norm}
        torch.save({"model": model, "iteration": 3, "args": Unknown()}, f"{folder}/iter_0000003/mp_rank_{rank:02}/model_optim_rng.pt")
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
        file.write("3\n")


def main():
    folder = os.path.abspath(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    Unknown.__module__ = "somebody.elses"
    sys.modules["somebody"], sys.modules["somebody.elses"] = types.ModuleType("somebody"), types.ModuleType("somebody.elses")
    sys.modules["somebody.elses"].Unknown = Unknown
    torch.save(plain(), f"{folder}/plain.pt")
    torch.save(plain(), f"{folder}/older.pt", _use_new_zipfile_serialization=False)
    torch.save(conjugated(), f"{folder}/conjugated.pt")
    torch.save(whole("tensor", torch.float32, 3, 2), f"{folder}/tensor.pth")
    write_hf(f"{folder}/hf")
    write_legacy(f"{folder}/legacy")
    answers = world.run_world(4, save_sharded, [f"{folder}/sharded"])
    assert all(answer is True for answer in answers[0]), answers
    write_dtensors(f"{folder}/dtensor", [[0, 1], [2, 3]], later=False)
    write_dtensors(f"{folder}/dtensor_later", [[0, 1], [2, 3]], later=True)


if __name__ == "__main__":
    main()

"""DCP directories written by a real PyTorch, for tests/ckpt/dcp: python3 tools/golden/torch_dcp.py tests/ckpt/dcp

One directory per number of ranks; `mcore`, as Megatron-Core writes it; `apart`, with metadata of each rank; and `newer`: the files of 2 ranks with the .metadata that PyTorch 2 would write, of classes made here under its names.  The bytes of a tensor follow from its name, so the tests know them without a second file: byte i of the row-major
tensor is (37 i + 11 (i >> 8) + 13 len(name)) mod 256; bools keep its lowest bit.
"""
import dataclasses
import enum
import functools
import io
import os
import pickle
import pathlib
import shutil
import sys
import types

import torch_world as world

dataclasses.dataclass = world._hashable_dataclass
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._shard.checkpoint as checkpoint  # noqa: E402
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, TensorProperties  # noqa: E402
from torch.distributed._shard.sharding_spec import ChunkShardingSpec, EnumerableShardingSpec, ShardMetadata  # noqa: E402
dataclasses.dataclass = world._dataclass


def whole(name, dtype, *shape):
    count = 1
    for size in shape:
        count *= size
    mask = 1 if dtype == torch.bool else 255
    width = torch.empty((), dtype=dtype).element_size()
    raw = bytearray((37 * i + 11 * (i >> 8) + 13 * len(name)) & mask for i in range(count * width))
    return torch.frombuffer(raw, dtype=dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def boxes_of(shape, cuts, ranks):
    """Returns the boxes of a grid, assigned to ranks round-robin: [(rank, offsets, sizes)]."""
    boxes = [([], [])]
    for size, cut in zip(shape, cuts):
        edges = sorted({0, size, *cut})
        boxes = [(offsets + [a], sizes + [b - a]) for offsets, sizes in boxes for a, b in zip(edges, edges[1:])]
    return [(number % ranks, offsets, sizes) for number, (offsets, sizes) in enumerate(boxes)]


def sharded(name, dtype, shape, cuts, turned=False):
    """Returns a sharded tensor of the boxes between the cuts; `turned`: its shards are views with other strides."""
    full = whole(name, dtype, *shape)
    boxes = boxes_of(shape, cuts, dist.get_world_size())
    spec = EnumerableShardingSpec([ShardMetadata(shard_offsets=o, shard_sizes=s, placement=f"rank:{r}/cpu") for r, o, s in boxes])
    local = []
    for meta in spec.shards:
        if meta.placement.rank() != dist.get_rank():
            continue
        part = full[tuple(slice(o, o + s) for o, s in zip(meta.shard_offsets, meta.shard_sizes))]
        local.append(Shard(part.contiguous(), meta))
    tensor = ShardedTensor._init_from_local_shards(local, *shape)
    for shard in tensor.local_shards() if turned else ():  # bypasses the constructor, which requires row-major shards
        shard.tensor = shard.tensor.t().contiguous().t()
    return tensor


def chunked(name, dtype, shape, dim):
    ranks = dist.get_world_size()
    spec = ChunkShardingSpec(dim=dim, placements=[f"rank:{r}/cpu" for r in range(ranks)])
    full = whole(name, dtype, *shape)
    metas = spec.build_metadata(torch.Size(shape), TensorProperties(dtype=dtype)).shards_metadata
    local = [Shard(full[tuple(slice(o, o + s) for o, s in zip(m.shard_offsets, m.shard_sizes))].contiguous(), m)
             for m in metas if m.placement.rank() == dist.get_rank()]
    return ShardedTensor._init_from_local_shards(local, *shape)


def state():
    return {
        "rows": chunked("rows", torch.float32, (10, 6), 0),
        "uneven": chunked("uneven", torch.float32, (5, 3), 0),
        "columns": chunked("columns", torch.bfloat16, (6, 8), 1),
        "grid": sharded("grid", torch.float16, (7, 5), ([3], [2, 4])),
        "cube": sharded("cube", torch.int16, (4, 3, 5), ([1, 3], [], [2])),
        "turned": sharded("turned", torch.int32, (6, 4), ([4], []), turned=True),
        "plain": whole("plain", torch.float64, 5, 3),
        "transposed": whole("transposed", torch.float32, 3, 4).t().contiguous().t(),
        "view": torch.cat([whole("view", torch.int64, 4, 3), torch.zeros(4, 2, dtype=torch.int64)], 1)[:, :3],
        "step": whole("step", torch.int64),
        "mask": whole("mask", torch.bool, 9),
        "bytes": whole("bytes", torch.uint8, 2, 3),
        "signed": whole("signed", torch.int8, 4),
        "complex": whole("complex", torch.complex64, 2, 2),
        "empty": whole("empty", torch.float32, 0, 4),
        "epoch": 3,
        "betas": (0.9, 0.999),
    }


def save(folder, rank):
    checkpoint.save_state_dict(state(), checkpoint.FileSystemWriter(folder, single_file_per_rank=dist.get_world_size() > 1))
    return True


@functools.cache
def named(name, module):
    """A class under a name of another version, so that a pickle mentions it."""
    made = type(name, (), {"__module__": module})
    setattr(sys.modules[module], name, made)
    return made


def record(cls, **fields):
    made = cls()
    made.__dict__.update(fields)
    return made


METADATA = "torch.distributed.checkpoint.metadata"
for module in ("torch.distributed.checkpoint", METADATA, "torch.distributed.checkpoint.filesystem"):
    sys.modules.setdefault(module, types.ModuleType(module))
Encoding = enum.Enum("_MEM_FORMAT_ENCODING", {"TORCH_CONTIGUOUS_FORMAT": 0}, module=METADATA)
sys.modules[METADATA]._MEM_FORMAT_ENCODING = Encoding
Properties = named("TensorProperties", METADATA)
Properties.__getstate__ = lambda self: (self.dtype, torch.strided, False, Encoding.TORCH_CONTIGUOUS_FORMAT, False)


def newer_entry(entry):
    if not hasattr(entry, "chunks"):
        return record(named("BytesStorageMetadata", METADATA))
    chunk = named("ChunkStorageMetadata", METADATA)
    return record(named("TensorStorageMetadata", METADATA), properties=record(Properties, dtype=entry.properties.dtype), size=entry.size,
                  chunks=[record(chunk, offsets=c.offsets, sizes=c.sizes) for c in entry.chunks])


def write_newer(old, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(old, folder)
    with open(f"{old}/.metadata", "rb") as file:
        metadata = pickle.load(file)
    index, info = named("MetadataIndex", METADATA), named("_StorageInfo", "torch.distributed.checkpoint.filesystem")
    newer = record(
        named("Metadata", METADATA),
        state_dict_metadata={name: newer_entry(entry) for name, entry in metadata.state_dict_metadata.items()},
        planner_data={name: ("model", name, 0) for name in metadata.state_dict_metadata},
        storage_data={record(index, fqn=k.fqn, offset=k.offset, index=k.index):
                      record(info, relative_path=v.relative_path, offset=v.offset, length=v.length, transform_descriptors=[]) for k, v in metadata.storage_data.items()},
        storage_meta=record(named("StorageMeta", METADATA), checkpoint_id=pathlib.PosixPath("run/7"),
                            save_id="1", load_id=None, modules=[]),
        version="1.0.0")
    with open(f"{folder}/.metadata", "wb") as file:
        pickle.dump(newer, file, protocol=5)


# ---- Megatron-Core's torch_dist ----

FLAT = {"optimizer.state.exp_avg": ((2, 8, 6), (2, 2, 1), [5, 24]), "optimizer.state.exp_avg_sq": ((6, 4), (1, 2), [12])}


def flattened(name, shape, pieces):
    """Returns the tensor as a grid of flattened boxes: [*pieces, elements of a box]."""
    split = [x for size, n in zip(shape, pieces) for x in (n, size // n)]
    order = [*range(0, len(split), 2), *range(1, len(split), 2)]
    return whole(name, torch.float32, *shape).view(split).permute(order).reshape(*pieces, -1)


def flat_shards(name, shape, pieces, cuts):
    """Each box of the grid cut at the same elements, as ranks of a distributed optimizer do."""
    full = flattened(name, shape, pieces)
    size = full.shape[-1]
    boxes = boxes_of(full.shape, [list(range(n)) for n in pieces] + [[c for c in cuts if c < size]], dist.get_world_size())
    metas = [ShardMetadata(shard_offsets=o, shard_sizes=s, placement=f"rank:{r}/cpu") for r, o, s in boxes]
    local = [Shard(full[tuple(slice(o, o + s) for o, s in zip(m.shard_offsets, m.shard_sizes))].contiguous(), m)
             for m in metas if m.placement.rank() == dist.get_rank()]
    return ShardedTensor._init_from_local_shards(local, *full.shape)


def save_mcore(folder, rank):
    tensors = {"decoder.layers.weight": sharded("decoder.layers.weight", torch.bfloat16, (2, 6, 4), ([1], [3], []))}
    tensors.update({name: flat_shards(name, *facts) for name, facts in FLAT.items()})
    tensors["decoder.layers._extra_state/shard_0_1"] = io.BytesIO(b"packed")
    checkpoint.save_state_dict(tensors, checkpoint.FileSystemWriter(folder, single_file_per_rank=True))
    return True


def newer_metadata(old, cls, **more):
    """The metadata in PyTorch 2's classes."""
    with open(f"{old}/.metadata", "rb") as file:
        metadata = pickle.load(file)
    index, info = named("MetadataIndex", METADATA), named("_StorageInfo", "torch.distributed.checkpoint.filesystem")
    return record(cls, state_dict_metadata={name: newer_entry(entry) for name, entry in metadata.state_dict_metadata.items()},
                  planner_data={0.5: ("x",), frozenset([1]): 2}, storage_meta=None, version=None,
                  storage_data={record(index, fqn=k.fqn, offset=k.offset, index=k.index):
                                record(info, relative_path=v.relative_path, offset=v.offset, length=v.length)
                                for k, v in metadata.storage_data.items()}, **more)


def plans():
    """Objects that Megatron adds to reuse plans; they do not describe the files."""
    planner, files = "torch.distributed.checkpoint.planner", "torch.distributed.checkpoint.filesystem"
    for module in (planner, "megatron", "megatron.core", "megatron.core.dist_checkpointing"):
        sys.modules.setdefault(module, types.ModuleType(module))
    kinds = enum.Enum("WriteItemType", {"TENSOR": 1, "SHARD": 2, "BYTE_IO": 3}, module=planner)
    sys.modules[planner].WriteItemType = kinds
    item = record(named("WriteItem", planner), index=None, type=kinds.SHARD,
                  tensor_data=record(named("TensorWriteData", planner), chunk=None, size=torch.Size([2])), bytes_io_data=None)
    return [record(named("SavePlan", planner), items=[item], storage_data=record(named("_StoragePrefix", files), prefix="__0_"), planner_data=None)]


def write_mcore(folder):
    shutil.rmtree(folder, ignore_errors=True)
    target = f"{folder}/iter_0000100"
    os.makedirs(target)
    answers = world.run_world(2, save_mcore, [target])
    assert all(answer is True for answer in answers[0]), answers
    module = "megatron.core.dist_checkpointing"
    facts = {name: {"nd_reformulated_orig_global_shape": shape} for name, (shape, _, _) in FLAT.items()}
    local = plans()
    metadata = newer_metadata(target, named("MCoreMetadata", module), mcore_data={**facts, "decoder.layers.weight": {}}, all_local_plans=local)
    with open(f"{target}/.metadata", "wb") as file:
        pickle.dump(metadata, file, protocol=4)
    torch.save({"iteration": 100, "args": record(named("Namespace", module), lr=0.1)}, f"{target}/common.pt")
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
        file.write("100")


def write_apart(old, folder):
    """Metadata of each rank alone, as ranks write it without coordination."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(old, folder)
    os.remove(f"{folder}/.metadata")
    for rank in range(2):
        mine = newer_metadata(old, named("Metadata", METADATA))
        mine.storage_data = {k: v for k, v in mine.storage_data.items() if v.relative_path.startswith(f"__{rank}_")}
        for name, entry in list(mine.state_dict_metadata.items()):
            places = [k.offset for k in mine.storage_data if k.fqn == name]
            if not places:
                del mine.state_dict_metadata[name]
            elif hasattr(entry, "chunks") and len(entry.chunks) > 1:
                entry.chunks = [c for c in entry.chunks if c.offsets in places]
        with open(f"{folder}/__{rank}.metadata", "wb") as file:
            pickle.dump(mine, file, protocol=4)


def main():
    folder = os.path.abspath(sys.argv[1])
    for ranks in (1, 2, 4):
        target = f"{folder}/{ranks}"
        shutil.rmtree(target, ignore_errors=True)
        answers = world.run_world(ranks, save, [target])
        assert all(answer is True for answer in answers[0]), answers
    write_newer(f"{folder}/2", f"{folder}/newer")
    write_apart(f"{folder}/2", f"{folder}/apart")
    write_mcore(f"{folder}/mcore")


if __name__ == "__main__":
    main()

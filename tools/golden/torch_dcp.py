"""DCP directories written by a real PyTorch, for tests/ckpt/dcp: python3 tools/golden/torch_dcp.py tests/ckpt/dcp

One directory per number of ranks, and `newer`: the files of 2 ranks with the .metadata that PyTorch 2 would write, of classes made here under its names.  The bytes of a tensor follow from its name, so the tests know them without a second file: byte i of the row-major
tensor is (37 i + 11 (i >> 8) + 13 len(name)) mod 256; bools keep its lowest bit.
"""
import dataclasses
import enum
import functools
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
    """Boxes of a grid of cuts, dealt to the ranks in turn: [(rank, offsets, sizes)]."""
    boxes = [([], [])]
    for size, cut in zip(shape, cuts):
        edges = sorted({0, size, *cut})
        boxes = [(offsets + [a], sizes + [b - a]) for offsets, sizes in boxes for a, b in zip(edges, edges[1:])]
    return [(number % ranks, offsets, sizes) for number, (offsets, sizes) in enumerate(boxes)]


def sharded(name, dtype, shape, cuts, turned=False):
    """A sharded tensor of the boxes between the cuts; `turned`: its shards are views with other strides."""
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
    for shard in tensor.local_shards() if turned else ():  # not through the door, which wants row-major shards
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


def main():
    folder = os.path.abspath(sys.argv[1])
    for ranks in (1, 2, 4):
        target = f"{folder}/{ranks}"
        shutil.rmtree(target, ignore_errors=True)
        answers = world.run_world(ranks, save, [target])
        assert all(answer is True for answer in answers[0]), answers
    write_newer(f"{folder}/2", f"{folder}/newer")


if __name__ == "__main__":
    main()

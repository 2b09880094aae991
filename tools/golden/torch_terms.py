"""Terms: converts sizes, boxes, specs and tensors to and from the notation of the golden files.

A box is [offsets, sizes, placement]; a spec {"kind": "chunk", "dim", "placements"} or {"kind": "boxes", "shards"}; a tensor {"dtype", "shape"} with "values" (numbers
in row-major order) or "hex" (its bytes, little endian).  A whole tensor is not written but made: "arange" counts elements, "bytes" gives byte k of the
memory the value (7k*k + 13k + 5) mod 256, of which bool keeps the lowest bit.
"""
from torch_world import torch  # before anything of torch.distributed._shard
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharding_spec import ChunkShardingSpec, EnumerableShardingSpec

DTYPES = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
          "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c64": torch.complex64,
          "c128": torch.complex128}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def count(size):
    n = 1
    for length in size:
        n *= length
    return n


def whole(size, dtype="f32", fill="arange"):
    if fill == "arange":
        return torch.arange(count(size)).to(DTYPES[dtype]).reshape(size)
    wide = torch.empty(0, dtype=DTYPES[dtype]).element_size()
    k = torch.arange(count(size) * wide)
    memory = (7 * k * k + 13 * k + 5) % 256
    if dtype == "bool":
        memory = memory % 2
    return memory.to(torch.uint8).view(DTYPES[dtype]).reshape(size).clone()


def cut(tensor, offsets, sizes):
    for d, (offset, size) in enumerate(zip(offsets, sizes)):
        tensor = tensor.narrow(d, offset, size)
    return tensor.clone().contiguous()


def tensor_json(tensor, fill="arange"):
    tensor = tensor.detach().contiguous()
    said = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape)}
    if fill == "bytes":
        said["hex"] = bytes(tensor.flatten().view(torch.uint8).tolist()).hex()
    else:
        said["values"] = [int(value) for value in tensor.flatten().tolist()]
    return said


def tensor_of(said):
    return torch.tensor(said["values"], dtype=DTYPES[said["dtype"]]).reshape(said["shape"])


def box_json(box):
    return [list(box.shard_offsets), list(box.shard_sizes), None if box.placement is None else str(box.placement)]


def box_of(said):
    return ShardMetadata(list(said[0]), list(said[1]), said[2])


def chunk(dim, ranks):
    """Returns the spec of chunks along a dim; owners are ranks or texts."""
    return {"kind": "chunk", "dim": dim, "placements": [r if isinstance(r, str) else f"rank:{r}/cpu" for r in ranks]}


def boxes(*list_of_boxes):
    return {"kind": "boxes", "shards": [[list(o), list(s), f"rank:{r}/cpu"] for o, s, r in list_of_boxes]}


def spec_of(said):
    if said["kind"] == "chunk":
        return ChunkShardingSpec(dim=said["dim"], placements=list(said["placements"]))
    return EnumerableShardingSpec([box_of(box) for box in said["shards"]])


def spec_json(spec):
    if isinstance(spec, ChunkShardingSpec):
        return {"kind": "chunk", "dim": spec.dim, "placements": [str(p) for p in spec.placements]}
    return {"kind": "boxes", "shards": [box_json(box) for box in spec.shards]}

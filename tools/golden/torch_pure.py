"""Pure cases: chunk arithmetic, remote devices, specs and metadata; no process group is needed."""
import itertools

import torch
from torch.distributed import _remote_device
from torch.distributed._shard.sharded_tensor.metadata import TensorProperties
from torch.distributed._shard.sharded_tensor.reshard import build_reshard_metadata, get_idx_from_placements
from torch.distributed._shard.sharding_spec import _infer_sharding_spec_from_shards_metadata as infer
from torch.distributed._shard.sharding_spec._internals import (check_tensor, get_chunk_sharding_params, get_chunked_dim_size, get_split_size,
                                                               validate_non_overlapping_shards_metadata)

from torch_terms import box_json, box_of, boxes, chunk, spec_json, spec_of
from torch_world import attempt


def settled(cases, function):
    for case in cases:
        case["answer"] = attempt(function, case)
    return cases


# ---- chunks -----------------------------------------------------------------------------------------------------------------------


def chunk_answer(case):
    if case["op"] == "chunks":
        s = get_split_size(case["n"], case["chunks"])
        return {"split": s, "sizes": [get_chunked_dim_size(case["n"], s, c) for c in range(case["chunks"])]}
    start, size = get_chunk_sharding_params(case["n"], case["world"], spec_of(case["spec"]), case["rank"])
    return {"start": start, "size": size}


def chunk_cases():
    lengths = [(n, k) for n in range(0, 36) for k in range(1, 10)]
    lengths += [(10**12 + 7, 3), (2**40, 16), (2**53 + 1, 7), (100, 64), (1, 33)]
    cases = [{"op": "chunks", "n": n, "chunks": k} for n, k in lengths] + [{"op": "chunks", "n": 5, "chunks": 0}]
    for n, owners in ((21, [0, 1, 2, 3]), (21, [3, 2, 1, 0]), (5, [2, 0, 3, 1]), (0, [1, 0]), (2, [1, 2, 0]), (13, [0, 1, 3, 2])):
        for rank in owners:
            cases.append({"op": "params", "n": n, "world": len(owners), "spec": chunk(0, owners), "rank": rank})
    # A rank without a chunk: PyTorch returns the size of the last chunk, reshard returns an error.
    cases.append({"op": "params", "n": 21, "world": 4, "spec": chunk(0, [0, 1, 2, 3]), "rank": 9, "ours": "VALUE"})
    return settled(cases, chunk_answer)


# ---- devices ----------------------------------------------------------------------------------------------------------------------

DEVICES = ("cpu cuda mkldnn opengl opencl ideep hip ve fpga ort xla lazy vulkan mps meta hpu xpu ipu").split()


def device_answer(case):
    p = _remote_device(case["text"])
    device = p.device()
    return {"worker": p.worker_name(), "rank": p.rank(), "device": device.type, "index": device.index, "print": str(p)}


def device_cases():
    texts = ["rank:3/cuda:1", "rank:3", "rank:0/cpu", "cuda:1", "cpu", "trainer0/cuda:0", "trainer0", "trainer0/cpu", "rank:12/cpu", "rank:007/cpu",
             "a/b/c", "/cpu", "/", "", "rank:0/", "random:0", "rank:foo", "rank:-1", "rank:-1/cpu", "rank:", "rank:/cpu", "cuda:foo", "cuda:", "rank:0:1",
             "a:b:c/cpu", "rank:0/foo", "rank:0/cuda:foo", "rank:0/cpu2", "rank:0/cuda:", "rank:0/cpu:0", "rank:0/cuda:01", "rank:0/cuda:-1", "rank:0/CPU",
             "rank:0/ cpu", "rank:0 /cpu", "cpu:0", "CPU", "cuda:01", "cuda:10", "cuda:1:2", "rank", "Rank:0/cpu", "rank:0//cpu", "worker:0/cpu", "ps0/cuda:3", "cpu/cpu"]
    texts += [f"rank:1/{name}" for name in DEVICES] + [f"{name}:1" for name in DEVICES]
    return settled([{"op": "device", "text": text} for text in texts], device_answer)


# ---- specs ------------------------------------------------------------------------------------------------------------------------


def spec_answer(case):
    op = case["op"]
    if op == "box":
        return {"box": box_json(box_of(case["box"]))}
    if op == "overlap":
        validate_non_overlapping_shards_metadata([box_of(box) for box in case["shards"]])
        return {}
    if op == "coverage":
        check_tensor([box_of(box) for box in case["shards"]], case["size"])
        return {}
    if op == "infer":
        return {"spec": spec_json(infer([box_of(box) for box in case["shards"]]))}
    spec = spec_of(case["spec"])
    if op == "build":
        meta = spec.build_metadata(torch.Size(case["size"]), TensorProperties())
        return {"meta": [box_json(box) for box in meta.shards_metadata]}
    if op == "index":
        return {"index": get_idx_from_placements(spec.placements, case["rank"])}
    by_rank, ranks = build_reshard_metadata(torch.Size(case["size"]), spec, case["world"])
    return {"by_rank": [box_json(box) for box in by_rank], "ranks": ranks}


def build_cases():
    shapes = [[10, 20], [10, 32], [5, 2], [2, 20], [0, 3], [7], [1], [13, 21], [4, 18, 15], [7, 12, 16, 37], [2, 3, 4, 5, 6], [0], [3, 0, 2]]
    owners = [[0], [0, 1], [1, 0, 2], [2, 0, 1], [0, 1, 2, 3], [3, 2, 1, 0], [2, 3], [0, 1, 2, 3, 0, 1, 2, 3], [0, 0, 1, 1, 2], [5, 4, 3, 2, 1, 0, 0]]
    cases = []
    for size in shapes:
        for dim in range(-len(size) - 1, len(size) + 1):
            some = owners if len(size) <= 2 else owners[3:6]
            some = some if -len(size) <= dim < len(size) else some[:1]
            cases += [{"op": "build", "size": size, "spec": chunk(dim, ranks)} for ranks in some]
    cases += [{"op": "build", "size": [10, 20], "spec": chunk(0, texts)} for texts in (["cpu", "cuda:1"], ["trainer0/cpu", "rank:1"], ["rank:0/cuda:0", "rank:1/cuda:1"])]
    return cases


UNEVEN = boxes(((0, 0), (2, 4), 0), ((0, 4), (4, 2), 1), ((2, 0), (4, 4), 2), ((4, 4), (2, 2), 3))["shards"]
GRID = boxes(((0, 0), (5, 5), 0), ((0, 5), (5, 5), 1), ((5, 0), (5, 5), 2), ((5, 5), (5, 5), 3))["shards"]


def pair(a, b):
    return boxes((*a, 0), (*b, 1))["shards"]


def box_lists():
    """Lists of boxes, and tensor sizes to test them with."""
    yield UNEVEN, [[6, 6], [6, 7], [6, 6, 1], [5, 6]]
    yield GRID, [[10, 10], [10, 11], [9, 10]]
    yield GRID[:3], [[10, 10]]
    yield pair(((0, 0), (5, 5)), ((5, 0), (5, 5))), [[10, 5], [10, 3], [10, 5, 5], [5, 10]]
    yield pair(((0, 0), (5, 5)), ((5, 5), (5, 5))), [[10, 10]]
    yield pair(((0, 0), (5, 5)), ((4, 0), (5, 5))), [[9, 5], [10, 5]]
    yield pair(((0, 0), (5, 5)), ((0, 4), (5, 5))), [[5, 9]]
    yield pair(((5, 0, 5), (5, 5, 5)), ((5, 5, 5), (5, 5, 5))), [[10, 10, 10]]
    yield pair(((5, 0, 5), (5, 5, 5)), ((5, 4, 5), (5, 5, 5))), [[10, 9, 10]]
    yield pair(((5, 0, 5), (5, 5, 5)), ((5, 4, 9), (5, 5, 5))), [[10, 9, 14]]
    yield pair(((0,), (5,)), ((5,), (0,))), [[5], [6], [4]]
    yield pair(((0,), (0,)), ((0,), (0,))), [[0], [1]]
    yield pair(((0, 0), (2, 0)), ((0, 0), (0, 2))), [[0, 0], [2, 2]]
    yield boxes(((0, 0), (3, 4), 0))["shards"], [[3, 4], [4, 3], [3]]


def verdict_cases():
    cases = []
    for shards, sizes in box_lists():
        cases.append({"op": "overlap", "shards": shards})
        for size in sizes:
            cases.append({"op": "coverage", "shards": shards, "size": size})
            cases.append({"op": "build", "size": size, "spec": {"kind": "boxes", "shards": shards}})
    # For reshard, an empty box inside another box is not an overlap.
    cases.append({"op": "overlap", "shards": pair(((0,), (5,)), ((3,), (0,))), "ours": "OK"})
    cases.append({"op": "overlap", "shards": []})
    cases.append({"op": "build", "size": [3], "spec": {"kind": "boxes", "shards": []}})
    cases.append({"op": "build", "size": [3], "spec": {"kind": "boxes", "shards": [[[0], [3], "rank:0/cpu"], [[0, 0], [1, 1], "rank:1/cpu"]]}})
    some = [[[0], [1, 2], "rank:0"], [[-1], [1], "rank:0"], [[0], [-1], "rank:0"], [[0], [0], None], [[1, 2], [3, 4], "rank:1/cuda:0"], [[0], [1], "rank:x"],
            [[0], [1], "rank:0/nowhere"], [[], [], "cpu"]]
    return cases + [{"op": "box", "box": box} for box in some]


def chunk_boxes(size, dim, owners):
    return spec_answer({"op": "build", "size": size, "spec": chunk(dim, owners)})["meta"]


def infer_cases():
    lists = [UNEVEN, GRID, GRID[:1]]
    lists += [boxes(((0, 0), (5, 5), 0), ((5, 0), (10, 5), 1))["shards"], boxes(((0, 0), (16, 5), 1), ((16, 0), (9, 5), 0))["shards"]]
    for size, dim in (([4, 16], 0), ([5, 15, 16], 0), ([12, 16], 1), ([4, 18, 15], 2), ([7, 12, 16, 37], 3), ([50, 4, 18, 15, 77], 4), ([13, 21], 1), ([7], 0)):
        for owners in ([0, 1, 2, 3], [2, 3, 1, 0], [3, 1, 0, 2]):
            shards = chunk_boxes(size, dim, owners)
            lists += [shards, shards[::-1], shards[1:] + shards[:1]]
    lists += [chunk_boxes([10, 4], 0, [0, 0, 1, 1, 2]), chunk_boxes([9, 4], 0, [1, 0])]
    cases = [{"op": "infer", "shards": shards} for shards in lists]
    # PyTorch considers these as chunks by their sorted sizes; reshard compares every offset and size.
    wrong = [boxes(((0, 0), (2, 2), 0), ((2, 0), (2, 2), 1), ((0, 2), (4, 2), 2)), boxes(((0, 0), (2, 3), 0), ((2, 0), (1, 3), 1), ((3, 0), (2, 3), 2))]
    return cases + [{"op": "infer", "shards": spec["shards"], "ours": "boxes"} for spec in wrong]


def rank_cases():
    cases = []
    for owners in itertools.permutations(range(3)):
        cases += [{"op": "by_rank", "size": size, "spec": chunk(dim, owners), "world": 3} for size, dim in (([5, 4], 1), ([7, 2], 0), ([1, 1, 8], -1), ([0, 2], 0))]
        cases += [{"op": "index", "spec": chunk(0, owners), "rank": rank} for rank in range(4)]
    for owners in ([0, 1, 3, 2], [2, 3, 1, 0]):
        cases.append({"op": "by_rank", "size": [13, 21], "spec": chunk(0, owners), "world": 4})
    return cases


def spec_cases():
    return settled(build_cases() + verdict_cases() + infer_cases() + rank_cases(), spec_answer)

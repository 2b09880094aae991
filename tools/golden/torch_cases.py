"""Cases that need ranks: which sharded tensors are made, moved, gathered, saved and refused, over how many ranks.

"ours" stands where this library decided otherwise than PyTorch: "OK" (it does what was asked), or the kind of its refusal.
"""
import itertools

from torch_terms import DTYPES, boxes, chunk

GLOO_DTYPES = ("u8", "i8", "i32", "i64", "f16", "f32", "f64", "c64", "c128")
R_SIZES = ([13, 21], [14, 23], [15, 26], [12, 24])


def permutations(n):
    return [list(p) for p in itertools.permutations(range(n))]


def swaps_back(a, b):
    """Is the map from the owner in a to the owner in b its own inverse?  PyTorch's same-dim reshard is right only then."""
    to = dict(zip(a, b))
    return all(to[to[r]] == r for r in to)


# ---- shard --------------------------------------------------------------------------------------------------------------------------


def shard_cases():
    cases = []
    for world, size, dim, owners in ((1, [3, 2], 0, [0]), (2, [4, 3], 0, [1, 0]), (2, [5, 3], 0, [0, 1]), (2, [3, 5], -1, [1, 0]), (3, [7, 2], 0, [2, 0, 1]),
                                     (3, [2, 3, 8], 2, [1, 2, 0]), (4, [12, 12], 0, [0, 1, 2, 3]), (4, [13, 3], 0, [3, 1, 0, 2]), (4, [2, 7, 3], 1, [0, 1, 3, 2]), (4, [4], 0, [2, 3, 1, 0])):
        cases += [{"op": "shard", "world": world, "size": size, "spec": chunk(dim, owners), "src": src} for src in sorted({0, world - 1})]
    for size in R_SIZES:
        cases += [{"op": "shard", "world": 4, "size": size, "dtype": "i32", "spec": chunk(dim, owners)} for dim, owners in ((0, [2, 3, 1, 0]), (1, [1, 0, 3, 2]))]
    for group in ([1, 2], [0, 2, 3], [3, 1]):
        n = len(group)
        cases += [{"op": "shard", "world": 4, "group": group, "size": [2 * n + 1, 2], "spec": chunk(0, range(n)[::-1]), "src": src} for src in range(n)]
    for dtype in GLOO_DTYPES:
        cases.append({"op": "shard", "world": 3, "size": [5, 3], "dtype": dtype, "fill": "bytes", "spec": chunk(0, [2, 0, 1])})
    return cases


# ---- reshard ------------------------------------------------------------------------------------------------------------------------


def move(world, size, p, a, q, b, **more):
    return {"op": "reshard", "world": world, "size": size, "from": chunk(p, a), "to": chunk(q, b), **more}


def reshuffle_cases():
    cases = []
    for world, size in ((2, [3, 2]), (3, [8, 1]), (4, [7, 2])):
        cases += [move(world, size, 0, a, 0, b) for a in permutations(world) for b in permutations(world) if swaps_back(a, b)]
    for b in permutations(4):
        if swaps_back([0, 1, 2, 3], b):
            cases.append(move(4, [2, 10], 1, [0, 1, 2, 3], 1, b, dtype="i64"))
    cases.append(move(3, [2, 2, 7], 2, [0, 1, 2], 2, [0, 2, 1]))
    cases += [move(4, [13, 2], 0, [0, 1], 0, [1, 0], group=group) for group in ([0, 1], [1, 3])]
    return cases


def cross_cases():
    cases = []
    for a, b in itertools.product(permutations(2), repeat=2):
        for size in ([4, 4], [3, 2], [5, 8]):
            cases.append(move(2, size, 0, a, 1, b))
        cases += [move(2, [2, 5], 1, a, 0, b), move(2, [4, 3, 2], 1, a, 2, b), move(2, [4, 3, 2], -2, a, 0, b), move(2, [4, 3, 2], 1, a, -1, b)]
    cases += [move(3, [5, 6], 0, a, 1, b) for a, b in itertools.product(permutations(3), repeat=2)]
    for a in ([0, 1, 2, 3], [2, 3, 0, 1], [1, 2, 3, 0], [3, 0, 2, 1]):
        for b in ([0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0], [1, 2, 3, 0], [2, 0, 3, 1], [3, 0, 1, 2]):
            cases.append(move(4, [7, 4], 0, a, 1, b, dtype="i32"))
    cases += [move(4, [8, 4], 0, [0, 1, 2, 3], 1, [0, 1, 2, 3]), move(4, [4, 2, 10], 2, [3, 1, 0, 2], 0, [1, 3, 2, 0]), move(1, [3, 4], 0, [0], 1, [0])]
    for dtype in GLOO_DTYPES:
        cases.append(move(2, [3, 4], 0, [1, 0], 1, [0, 1], dtype=dtype, fill="bytes"))
    return cases


def reshard_cases():
    cases = []
    for size in R_SIZES:
        cases += [move(4, size, 0, [0, 1, 3, 2], 0, [2, 3, 1, 0]), move(4, size, 1, [3, 2, 1, 0], 1, [0, 1, 2, 3])]
        if size[1] % 4 == 0:
            cases.append(move(4, size, 0, [2, 3, 0, 1], 1, [1, 0, 3, 2]))
        if size[0] % 4 == 0:
            cases.append(move(4, size, 1, [1, 0, 2, 3], 0, [3, 2, 0, 1]))
    return cases + reshuffle_cases() + cross_cases()


# ---- init ---------------------------------------------------------------------------------------------------------------------------


def factory_cases():
    cases = []
    for which, value in (("zeros", 0), ("ones", 1), ("full", 7), ("empty", 0)):
        for spec, size in ((chunk(0, [0, 1, 2, 3]), [10, 5]), (chunk(-2, [3, 2, 1, 0]), [10, 5]), (chunk(1, [0, 1, 2, 3]), [3, 8]), (chunk(0, [2, 3]), [10, 5]),
                           (chunk(0, [0, 1, 2, 3, 0, 1, 2, 3]), [16, 2]), (chunk(0, [0, 1, 2, 3]), [2, 5]), (chunk(0, [0, 1, 2, 3]), [5, 2]), (UNEVEN, [6, 6]), (GRID, [10, 10])):
            cases.append({"op": "factory", "world": 4, "which": which, "value": value, "dtype": "i64" if which == "full" else "f32", "size": size, "spec": spec})
        cases.append({"op": "factory", "world": 4, "which": which, "value": value, "dtype": "f64", "size": [9, 2], "spec": chunk(0, [2, 1]), "group": [1, 2, 3]})
    refused = {"op": "factory", "world": 4, "which": "ones", "value": 1, "dtype": "f32", "size": [10, 5]}
    cases += [{**refused, "spec": chunk(dim, [0, 1, 2, 3])} for dim in (2, 3, -3, -4)]
    cases += [{**refused, "spec": chunk(0, [0, 5])}, {**refused, "spec": GRID}, {**refused, "spec": chunk(0, ["trainer0/cpu", "rank:1/cpu"])}]
    cases += [{**refused, "spec": chunk(0, [0, 1, 2, 3]), "sparse": True}, {**refused, "spec": chunk(0, [0, 1]), "channels_last": True}]
    return cases


UNEVEN = boxes(((0, 0), (2, 4), 0), ((0, 4), (4, 2), 1), ((2, 0), (4, 4), 2), ((4, 4), (2, 2), 3))
GRID = boxes(((0, 0), (5, 5), 0), ((0, 5), (5, 5), 1), ((5, 0), (5, 5), 2), ((5, 5), (5, 5), 3))
TWO_ON_ZERO = boxes(((0, 0), (5, 5), 0), ((0, 5), (5, 5), 0), ((5, 0), (5, 5), 1), ((5, 5), (5, 5), 2))


def gather_cases():
    cases = []
    for spec, size in ((chunk(0, [0, 1, 2, 3]), [10, 4]), (chunk(1, [3, 1, 0, 2]), [3, 10]), (chunk(0, [0, 0, 1, 1, 2]), [10, 4]), (GRID, [10, 10]), (TWO_ON_ZERO, [10, 10]),
                       (UNEVEN, [6, 6]), (chunk(0, [2, 3]), [5, 2]), (chunk(0, [0, 1, 2, 3]), [2, 5])):
        cases += [{"op": "gather", "world": 4, "size": size, "spec": spec, "dst": dst} for dst in (0, 1)]
    return cases + [{"op": "gather", "world": 4, "size": [10, 10], "spec": GRID, "dst": 3}]


def by_owner(list_of_boxes, world):
    return [[{"box": box} for box in list_of_boxes if box[2] == f"rank:{r}/cpu"] for r in range(world)]


def from_shards_cases():
    def case(size, shards, **more):
        return {"op": "from_shards", "world": len(shards), "size": size, "shards": shards, **more}
    cases = [case([10, 10], by_owner(GRID["shards"], 4)), case([6, 6], by_owner(UNEVEN["shards"], 4)), case([10, 10], by_owner(TWO_ON_ZERO["shards"], 4), dtype="i64")]
    rows = boxes(((0, 0), (3, 2), 1), ((3, 0), (3, 2), 0), ((6, 0), (2, 2), 2))["shards"]
    cases += [case([8, 2], by_owner(rows, 3)), case([8, 2], by_owner(rows, 4)), case([3, 2], by_owner(rows[:1], 2))]
    cases.append(case([15, 5], by_owner(boxes(((0, 0), (5, 5), 0), ((5, 0), (10, 5), 1))["shards"], 2)))
    # Refused: overlap, gap, no shard at all, and what differs between ranks or shards.
    whole6 = boxes(((0, 0), (6, 6), 0), ((0, 5), (5, 5), 1))["shards"]
    cases += [case([10, 10], by_owner(whole6, 2)), case([10, 10], by_owner(GRID["shards"][:3], 4)), case([4, 4], [[], []])]
    cases.append(case([8, 2], by_owner(rows, 3), sizes=[[8, 2], [8, 2], [8, 3]]))
    differ = by_owner(rows, 3)
    differ[1][0]["dtype"] = "f64"
    cases.append(case([8, 2], differ))
    differ = by_owner(rows, 3)
    differ[2][0]["grad"] = True
    cases.append(case([8, 2], differ))
    # On every rank: stored the other way round, another rank's placement, none.
    cases.append(case([8, 2], [[{**item, "transposed": True} for item in items] for items in by_owner(rows, 3)]))
    cases.append(case([8, 2], [by_owner(rows, 3)[r] for r in (1, 2, 0)]))
    cases.append(case([8, 2], [[{"box": [*item["box"][:2], None]} for item in items] for items in by_owner(rows, 3)]))
    return cases + [case([8, 2], by_owner(rows[1:2] + rows[:1], 2))]


def from_tensor_cases():
    cases = []
    for size, dim, owners in (([20, 10], 0, [2, 3, 1, 0]), ([21, 11], 1, [3, 1, 0, 2]), ([23, 16], 1, [2, 3, 0, 1]), ([11, 4, 2], 0, [3, 2, 1, 0])):
        step = -(-size[dim] // 4)
        places = [owners.index(r) for r in range(4)]
        pieces = [([c * step if d == dim else 0 for d in range(len(size))], [min(step, n - c * step) if d == dim else n for d, n in enumerate(size)]) for c in places]
        cases.append({"op": "from_tensor", "world": 4, "size": size, "spec": chunk(dim, owners), "locals": pieces, "dtype": "i32"})
    halves = [([0, 0], [4, 4]), ([4, 0], [4, 4])]
    cases.append({"op": "from_tensor", "world": 2, "size": [8, 4], "spec": chunk(0, [0, 1]), "locals": halves})
    cases.append({"op": "from_tensor", "world": 2, "size": [8, 4], "spec": chunk(0, [0, 1]), "locals": halves, "transposed": True})
    cases.append({"op": "from_tensor", "world": 2, "size": [8, 5], "spec": boxes(((0, 0), (4, 4), 0), ((4, 0), (4, 4), 1)), "locals": halves})
    cases.append({"op": "from_tensor", "world": 2, "size": [9, 4], "spec": boxes(((0, 0), (4, 4), 0), ((4, 0), (5, 4), 1)), "locals": [halves[0], ([4, 0], [5, 4])]})
    return cases


def from_meta_cases():
    grid = GRID["shards"]
    case = {"op": "from_meta", "world": 4, "size": [10, 10], "meta": grid, "shards": by_owner(grid, 4)}
    rows = boxes(((0, 0), (3, 2), 1), ((3, 0), (3, 2), 0), ((6, 0), (2, 2), 2))["shards"]
    cases = [case, {"op": "from_meta", "world": 3, "size": [8, 2], "meta": rows, "shards": by_owner(rows, 3), "dtype": "i64"}]
    cases.append({**case, "size": [10, 11]})
    cases.append({**case, "dtype": "f64", "shards": [[{**item, "dtype": "f32"} for item in items] for items in case["shards"]]})
    cases.append({**case, "shards": [[{**item, "transposed": True} for item in items] for items in case["shards"]]})
    cases.append({**case, "shards": [[{**item, "grad": True} for item in items] for items in case["shards"]]})
    cases.append({**case, "shards": [[]] * 4})
    empty = boxes(*(((0, 0), (0, 5), r) for r in range(4)))["shards"]
    cases.append({"op": "from_meta", "world": 4, "size": [0, 5], "meta": empty, "shards": by_owner(empty, 4)})
    cases.append({**case, "meta": [[*box[:2], "rank:4/cpu"] for box in grid]})
    overlap = boxes(((0, 0), (6, 5), 0), ((5, 0), (5, 5), 1))["shards"]
    cases.append({"op": "from_meta", "world": 2, "size": [10, 5], "meta": overlap, "shards": by_owner(overlap, 2)})
    return cases


def init_cases():
    return factory_cases() + gather_cases() + from_shards_cases() + from_tensor_cases() + from_meta_cases()


# ---- collectives --------------------------------------------------------------------------------------------------------------------


def values(dtype, shape, start, step=1):
    n = 1
    for length in shape:
        n *= length
    return {"dtype": dtype, "shape": list(shape), "values": [start + step * i for i in range(n)]}


def collective(world, which, tensors=None, **more):
    return {"op": "collective", "world": world, "which": which, **({"in": tensors} if tensors else {}), **more}


def exchange_cases():
    cases = []
    worked = [[1, 2, 1], [0, 1, 2], [3, 1, 2]]
    for group in (None, [0, 1, 3], [1, 2, 3]):
        more = {"group": group} if group else {}
        world = 4 if group else 3
        cases.append(collective(world, "all_to_all_single", [values("i64", [sum(s)], 10 * r) for r, s in enumerate(worked)], splits=worked, **more))
        cases.append(collective(world, "all_to_all_single", [values("f32", [sum(s), 2], 20 * r) for r, s in enumerate(worked)], splits=worked, **more))
        cases.append(collective(world, "all_to_all_single", [values("i32", [6, 2], 20 * r) for r in range(3)], **more))
        cases.append(collective(world, "all_to_all_single", [values("u8", [0], 0)] * 3, splits=[[0, 0, 0]] * 3, **more))
    cases.append(collective(4, "all_to_all_single", [values("f64", [r], 9 * r) for r in range(4)], splits=[[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 3, 0, 0]]))
    return cases


def rooted_cases():
    cases = []
    for group in (None, [1, 2, 3]):
        more = {"group": group} if group else {}
        for root in range(3):
            for which in ("broadcast", "scatter", "gather"):
                for dtype, shape in (("f32", [2, 3]), ("i64", [4]), ("u8", [1, 2, 1])):
                    cases.append(collective(4 if group else 3, which, [values(dtype, shape, 10 * r) for r in range(3)], root=root, **more))
        cases.append(collective(4 if group else 3, "all_gather_object", texts=["", "one", "a longer text"], **more))
        for dtype, shape in (("f32", [2, 2]), ("i32", [3]), ("i8", [1])):
            cases.append(collective(4 if group else 3, "all_gather", [values(dtype, shape, 7 * r) for r in range(3)], **more))
    return cases


def reduce_cases():
    cases = []
    for dtype, ops in (("f32", ("sum", "prod", "min", "max")), ("f64", ("sum", "prod", "min", "max")), ("i64", ("sum", "prod", "min", "max")),
                       ("i32", ("sum", "prod", "min", "max")), ("u8", ("sum", "min", "max")), ("i8", ("sum", "prod")), ("f16", ("sum", "max"))):
        for op in ops:
            for world, group in ((2, None), (3, None), (4, [0, 2, 3])):
                n = len(group) if group else world
                more = {"group": group} if group else {}
                tensors = [values(dtype, [5], 3 * r - (2 if dtype != "u8" else 0), 1 + r % 2) for r in range(n)]
                cases.append(collective(world, "all_reduce", tensors, reduce=op, **more))
    for dtype, op in itertools.product(("i64", "u8"), ("band", "bor", "bxor")):
        cases.append(collective(2, "all_reduce", [values(dtype, [3], 1), values(dtype, [3], 6)], reduce=op))
    cases += [collective(3, "reduce", [values("i64", [4], 5 * r) for r in range(3)], reduce="sum", root=root) for root in range(3)]
    return cases


def collective_cases():
    facts = [{"op": "group", "world": 4, **({"group": group} if group else {})} for group in (None, [0, 1, 2, 3], [1, 2], [3, 0], [2])]
    return facts + exchange_cases() + rooted_cases() + reduce_cases()


# ---- state --------------------------------------------------------------------------------------------------------------------------


def state_cases():
    cases = []
    for spec, size in ((chunk(0, [0, 1, 2, 3]), [7, 2]), (GRID, [10, 10])):
        for load in (None, [0, 1, 2, 3], [0, 2, 3], [1, 2], [0, 1, 2]):
            cases.append({"op": "state", "world": 4, "size": size, "spec": spec, "save": None, "load": load})
    for save, load in (([1, 2, 3], [1, 2, 3]), ([1, 2, 3], None), ([1, 2, 3], [0, 1, 2]), ([0, 1], [0, 1]), ([0, 1], [0, 1, 2])):
        cases.append({"op": "state", "world": 4, "size": [5, 3], "spec": chunk(0, range(len(save))), "save": save, "load": load})
    return cases


# ---- errors: each in a world of its own ---------------------------------------------------------------------------------------------


def unsupported_dtypes():
    rest = [dtype for dtype in DTYPES if dtype not in GLOO_DTYPES]
    cases = [{"op": "shard", "world": 2, "size": [5, 3], "dtype": d, "fill": "bytes", "spec": chunk(0, [1, 0]), "ours": "OK"} for d in rest]
    return cases + [move(2, [3, 4], 0, [1, 0], 1, [0, 1], dtype=d, fill="bytes", ours="OK") for d in rest]


def error_cases():
    ok = {"ours": "OK"}
    cases = unsupported_dtypes()
    # Rotations of owners, new dims that the ranks do not divide, empty chunks, one dim named in two ways.
    cases += [move(3, [7, 2], 0, [0, 1, 2], 0, [2, 0, 1], **ok), move(4, [7, 2], 0, [0, 1, 2, 3], 0, [1, 2, 3, 0], **ok), move(4, [8, 2], 0, [0, 1, 2, 3], 0, [3, 0, 1, 2], **ok)]
    cases += [move(2, [4, 3], 0, [0, 1], 1, [0, 1], **ok), move(3, [5, 4], 0, [1, 2, 0], 1, [2, 0, 1], **ok), move(4, [8, 6], 0, [0, 1, 2, 3], 1, [0, 1, 2, 3], **ok)]
    cases += [move(4, size, 0, [2, 3, 0, 1], 1, [1, 0, 3, 2], **ok) for size in R_SIZES if size[1] % 4]
    cases += [move(4, size, 1, [1, 0, 2, 3], 0, [3, 2, 0, 1], **ok) for size in R_SIZES if size[0] % 4]
    cases += [move(3, [4, 4], 0, [0, 1], 1, [0, 1], group=[1, 2], **ok), move(2, [4, 6], 1, [0, 1], -1, [1, 0], **ok), move(2, [4, 6], -1, [0, 1], 1, [0, 1], **ok)]
    cases += [move(2, [4, 4], 0, [0, 0], 1, [0, 1], **ok), move(2, [4, 4], 0, [0, 1], 1, [1], **ok), move(2, [4, 4], 0, [0, 1], 0, [1, 1], **ok)]
    cases += [{"op": "shard", "world": w, "size": size, "spec": chunk(0, owners), **ok} for w, size, owners in (
        (4, [9, 3], [0, 1, 2, 3]), (4, [5, 3], [0, 1, 2, 3]), (4, [2, 2], [3, 2, 1, 0]), (2, [0, 3], [0, 1]), (3, [6, 2], [0, 1]), (2, [8, 2], [0, 1, 1, 0]), (3, [1, 2], [2, 1, 0]))]
    # Refused by both.
    cases += [{"op": "shard", "world": 2, "size": [4, 4], "spec": boxes(((0, 0), (4, 2), 0), ((0, 2), (4, 2), 1))}]
    cases += [{"op": "shard", "world": 2, "size": [4, 4], "spec": chunk(dim, [0, 1])} for dim in (2, -3)]
    cases.append({"op": "shard", "world": 2, "size": [4, 4], "spec": chunk(0, [0, 7])})
    cases.append({"op": "shard", "world": 2, "size": [4, 4], "spec": chunk(0, [0, 1]), "srcs": [0, 1]})
    cases.append({"op": "shard", "world": 2, "size": [4, 4], "specs": [chunk(0, [0, 0]), chunk(0, [1, 1])]})
    cases.append({"op": "shard", "world": 2, "size": [4, 4], "specs": [chunk(0, [0, 1]), chunk(1, [0, 1])]})
    cases.append({"op": "shard", "world": 2, "size": [4, 4], "spec": chunk(0, [0, 1]), "transposed": True})
    # Boxes: PyTorch moves chunks only.
    cases.append({"op": "reshard", "world": 2, "size": [4, 4], "from": chunk(0, [0, 1]), "to": boxes(((0, 0), (4, 1), 0), ((0, 1), (4, 3), 1)), **ok})
    # Gather: integers go through floats; a second destination.
    cases.append({"op": "gather", "world": 2, "size": [4, 2], "dtype": "i64", "fill": "bytes", "spec": chunk(0, [0, 1]), "dst": 0, "lossy": True, **ok})
    cases.append({"op": "gather", "world": 2, "size": [4, 2], "spec": chunk(0, [0, 1]), "dst": 0, "out": [0, 1], "ours": "OK"})
    cases.append({"op": "gather", "world": 2, "size": [4, 2], "spec": chunk(0, [0, 1]), "dst": 0, "out": [], "ours": "VALUE"})
    # Nothing to gather, lists that belong to the root, and rows that the ranks do not divide.
    cases.append(collective(2, "all_gather", [values("f64", [0, 2], 0)] * 2, **ok))
    cases.append(collective(2, "scatter", [values("f32", [2], 0)] * 2, root=0, givers=[]))
    cases.append(collective(2, "scatter", [values("f32", [2], 0)] * 2, root=0, givers=[0, 1]))
    cases.append(collective(2, "all_to_all_single", [values("f32", [3], 0), values("f32", [3], 3)], ours="RUNTIME"))
    return cases

"""Ranked cases: computes the results of one rank of a gloo world.  RANKED maps the name of an operation to its function of (case, rank)."""
import io

import torch
import torch.distributed as dist
import torch.distributed._shard.sharded_tensor as sharded_tensor
from torch.distributed._shard import _shard_tensor, load_with_process_group
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties

from torch_terms import DTYPES, box_json, box_of, cut, spec_json, spec_of, tensor_json, tensor_of, whole
from torch_world import attempt


def with_group(case):
    """Returns the group of the case; None: all ranks."""
    return dist.new_group(case["group"]) if case.get("group") else None


def is_member(case, rank):
    return rank in case.get("group", [rank])


def said(st, fill="arange", data=True):
    """A sharded tensor as this rank sees it."""
    shards = [{"box": box_json(s.metadata), **({"data": tensor_json(s.tensor, fill)} if data else {})} for s in st.local_shards()]
    return {"meta": [box_json(box) for box in st.metadata().shards_metadata], "shards": shards, "spec": spec_json(st.sharding_spec())}


def turned(tensor):
    """Returns the same values in column-major order."""
    return tensor.t().contiguous().t()


def made(case, spec=None, group=None):
    """Calls shard_tensor; "srcs" and "specs" give each rank its own value, which is an error."""
    me = dist.get_rank(group)
    src = case["srcs"][me] if "srcs" in case else case.get("src", 0)
    spec = spec or (case["specs"][me] if "specs" in case else case["spec"])
    tensor = whole(case["size"], case.get("dtype", "f32"), case.get("fill", "arange"))
    if me != src:
        tensor = torch.zeros_like(tensor)  # only the source's values matter
    if case.get("transposed"):
        tensor = turned(tensor)
    return _shard_tensor(tensor, spec_of(spec), src, group)


def shard(case, rank):
    group = with_group(case)
    if not is_member(case, rank):
        return {}
    return said(made(case, group=group), case.get("fill", "arange"))


def reshard(case, rank):
    group = with_group(case)
    if not is_member(case, rank):
        return {}
    st = made(case, case["from"], group)
    return said(st.reshard(spec_of(case["to"])), case.get("fill", "arange"))


def filled(case, group=None):
    """Returns a sharded tensor of any spec whose shards have the values of the whole tensor."""
    st = sharded_tensor.empty(spec_of(case["spec"]), *case["size"], dtype=DTYPES[case.get("dtype", "f32")], process_group=group)
    full = whole(case["size"], case.get("dtype", "f32"), case.get("fill", "arange"))
    for s in st.local_shards():
        s.tensor.copy_(cut(full, s.metadata.shard_offsets, s.metadata.shard_sizes))
    return st


def gather(case, rank):
    st = filled(case)
    out = torch.zeros(case["size"], dtype=DTYPES[case.get("dtype", "f32")]) if rank in case.get("out", [case["dst"]]) else None
    st.gather(case["dst"], out)
    answer = said(st)
    if rank == case["dst"]:
        answer["whole"] = tensor_json(out)
    return answer


def factory(case, rank):
    make = getattr(sharded_tensor, case["which"])
    extra = (case["size"], case["value"]) if case["which"] == "full" else case["size"]
    group = with_group(case)
    if not is_member(case, rank):
        return {}
    options = {"layout": torch.sparse_coo} if case.get("sparse") else {}
    if case.get("channels_last"):
        options["memory_format"] = torch.channels_last
    st = make(spec_of(case["spec"]), *extra, dtype=DTYPES[case["dtype"]], process_group=group, **options)
    return said(st, data=case["which"] != "empty")


def own_shards(case, rank):
    """This rank's shards as the case lists them: {"box", and where they differ "dtype", "transposed", "grad"}."""
    shards = []
    for item in case["shards"][rank]:
        box = box_of(item["box"])
        tensor = cut(whole(case["size"], item.get("dtype", case.get("dtype", "f32"))), box.shard_offsets, item.get("sizes", box.shard_sizes))
        if item.get("transposed"):
            tensor = turned(tensor)
        if item.get("grad"):
            tensor.requires_grad_()
        shards.append(Shard(tensor, box))
    return shards


def from_shards(case, rank):
    group = with_group(case)
    if not is_member(case, rank):
        return {}
    sizes = case.get("sizes")
    return said(sharded_tensor.init_from_local_shards(own_shards(case, rank), *(sizes[rank] if sizes else case["size"]), process_group=group))


def from_meta(case, rank):
    properties = TensorProperties(dtype=DTYPES[case.get("dtype", "f32")])
    meta = ShardedTensorMetadata([box_of(box) for box in case["meta"]], torch.Size(case["size"]), properties)
    return said(ShardedTensor._init_from_local_shards_and_global_metadata(own_shards(case, rank), meta))


def from_tensor(case, rank):
    full = whole(case["size"], case.get("dtype", "f32"))
    offsets, sizes = case["locals"][rank]
    local = cut(full, offsets, sizes)
    if case.get("transposed"):
        local = turned(local)
    return said(ShardedTensor._init_from_local_tensor(local, spec_of(case["spec"]), case["size"]))


# ---- collectives --------------------------------------------------------------------------------------------------------------------

OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX, "band": dist.ReduceOp.BAND,
       "bor": dist.ReduceOp.BOR, "bxor": dist.ReduceOp.BXOR}


def blank(said_tensor):
    return torch.zeros_like(tensor_of(said_tensor))


def collective(case, rank):
    """case["in"]: a tensor per rank of the group, or a list of W; case["out"]: tensors that only give dtype and shape."""
    group = with_group(case)
    if not is_member(case, rank):
        return {}
    g = dist.get_rank(group)
    root = case.get("group", list(range(case["world"])))[case.get("root", 0)]  # gloo's roots are global ranks
    return COLLECTIVES[case["which"]](case, g, dist.get_world_size(group), root, group)


def all_to_all_single(case, g, n, root, group):
    mine = tensor_of(case["in"][g])
    splits = case.get("splits")
    back = [row[g] for row in splits] if splits else None
    rows = sum(back) if back else mine.shape[0]
    out = torch.zeros([rows, *mine.shape[1:]], dtype=mine.dtype)
    dist.all_to_all_single(out, mine, back, splits[g] if splits else None, group=group)
    return {"out": tensor_json(out)}


def all_gather(case, g, n, root, group):
    mine = tensor_of(case["in"][g])
    out = [torch.zeros_like(mine) for _ in range(n)]
    dist.all_gather(out, mine, group=group)
    return {"list": [tensor_json(t) for t in out]}


def all_reduce(case, g, n, root, group):
    mine = tensor_of(case["in"][g])
    dist.all_reduce(mine, OPS[case["reduce"]], group=group)
    return {"out": tensor_json(mine)}


def reduce(case, g, n, root, group):
    mine = tensor_of(case["in"][g])
    dist.reduce(mine, root, OPS[case["reduce"]], group=group)
    return {"out": tensor_json(mine)} if g == case["root"] else {}


def broadcast(case, g, n, root, group):
    mine = tensor_of(case["in"][g])
    dist.broadcast(mine, root, group=group)
    return {"out": tensor_json(mine)}


def scatter(case, g, n, root, group):
    pieces = [tensor_of(t) for t in case["in"]]
    out = torch.zeros_like(pieces[0])
    given = g == case["root"] if "givers" not in case else g in case["givers"]
    dist.scatter(out, pieces if given else None, root, group=group)
    return {"out": tensor_json(out)}


def gather_list(case, g, n, root, group):
    mine = tensor_of(case["in"][g])
    out = [torch.zeros_like(mine) for _ in range(n)] if g == case["root"] else None
    dist.gather(mine, out, root, group=group)
    return {"list": [tensor_json(t) for t in out]} if out else {}


def all_gather_object(case, g, n, root, group):
    out = [None] * n
    dist.all_gather_object(out, case["texts"][g], group=group)
    return {"texts": out}


COLLECTIVES = {"all_to_all_single": all_to_all_single, "all_gather": all_gather, "all_reduce": all_reduce, "reduce": reduce, "broadcast": broadcast,
               "scatter": scatter, "gather": gather_list, "all_gather_object": all_gather_object}


# ---- groups and state ---------------------------------------------------------------------------------------------------------------


def group_facts(case, rank):
    group = with_group(case)
    facts = {"rank": dist.get_rank(group), "size": dist.get_world_size(group)}
    if facts["rank"] >= 0:
        c10d = dist.distributed_c10d
        facts["to_global"] = [c10d.get_global_rank(group, r) if group else r for r in range(facts["size"])]
        facts["from_global"] = [attempt(c10d.get_group_rank, group, r) if group else r for r in range(case["world"])]
    return facts


WHICH = {"Local rank": "group rank", "Global rank": "global rank", "Local world": "group size", "Global world": "global size"}


def state(case, rank):
    """Saves in one group and loads in another: returns which of the four numbers is rejected, or the tensor."""
    groups = [dist.new_group(ranks) if ranks else None for ranks in (case["save"], case["load"])]
    if case["save"] and rank not in case["save"]:
        return {}
    file = io.BytesIO()
    torch.save(filled(case, groups[0]), file)
    file.seek(0)
    try:
        if groups[1] is None:
            return said(torch.load(file))
        with load_with_process_group(groups[1]):
            return said(torch.load(file))
    except RuntimeError as error:
        which = next((name for start, name in WHICH.items() if str(error).startswith(start)), None)
        return {"error": "RUNTIME", "which": which}


RANKED = {"shard": shard, "reshard": reshard, "gather": gather, "factory": factory, "from_shards": from_shards, "from_meta": from_meta, "from_tensor": from_tensor,
          "collective": collective, "group": group_facts, "state": state}


def answer(case, rank):
    return RANKED[case["op"]](case, rank)

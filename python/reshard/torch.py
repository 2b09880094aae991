"""reshard for PyTorch: a differentiable reshard, input_reshard, and state dicts that rules cut.

Tested with PyTorch 1.13 on the CPU.  DTensors are read through their public attributes (device_mesh, placements,
to_local), which PyTorch 2 has.
"""
import collections
import contextlib
import functools
import itertools
import weakref

import torch

from ._checkpoints import Checkpoint, load as _load, save as _save
from ._reshard import Layout, Plan, Rules, Sharded, Stash, _empty

__all__ = ["InputReshard", "input_reshard", "layout_of", "load_state_dict", "reshard", "save_state_dict"]


# ---- a differentiable reshard ----


def reshard(x, source=None, target=None, comm=None, *, exact=False):
    """Moves this rank's part of a tensor into another layout; gradients move back.  Collective.

    x is the local tensor and source its layout; x can also be a DTensor, which has a layout.  A rank that is not in
    the source passes a tensor without elements, and gets one if it is not in the target.

    In backward all ranks hold the gradient in the target layout: if the target is replicated, the gradient must be
    the same on every replica.  With exact=True the backward is the exact transpose: the gradients of replicas may
    then differ, and they are summed.
    """
    if source is None:
        source, x = layout_of(x), x.to_local()
    return _Move.apply(x, Plan(source, target), comm, exact)


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, plan, comm, exact):
        ctx.plan, ctx.comm, ctx.exact = plan, comm, exact
        return _run(x.detach(), plan, comm)

    @staticmethod
    def backward(ctx, grad):
        back = ctx.plan.adjoint() if ctx.exact else ctx.plan.backward()
        return _Move.apply(grad.contiguous(), back, ctx.comm, ctx.exact), None, None, None


def _run(x, plan, comm):
    source, target = plan.sources[0], plan.targets[0]
    _check_parts(source, comm), _check_parts(target, comm)
    from_ = Sharded(comm, source, x if source.nparts(comm.rank) else None)
    to = _empty(comm, target)
    plan.bind(from_, to)()
    if to.local is None:
        return torch.empty(0, dtype=x.dtype)
    return to.local.torch()


def _check_parts(layout, comm):
    if layout.nparts(comm.rank) > 1:
        raise NotImplementedError(f"rank {comm.rank} must have at most one part, but it has several in {layout.text!r}")


def layout_of(dtensor):
    """Returns the layout of a DTensor, from its public attributes."""
    mesh, placements = dtensor.device_mesh, dtensor.placements
    sizes = list(mesh.mesh.shape)
    names = list(getattr(mesh, "mesh_dim_names", None) or [f"m{i}" for i in range(len(sizes))])
    cuts, partial = collections.defaultdict(list), collections.defaultdict(list)
    for name, placement in zip(names, placements):
        if placement.is_shard():
            cuts[placement.dim % len(dtensor.shape)].append(name)
        elif placement.is_partial():
            partial[str(getattr(placement, "reduce_op", "sum"))].append(name)
    dims = [f"{n}/({','.join(cuts[d])})" if cuts[d] else str(n) for d, n in enumerate(dtensor.shape)]
    dtype = Layout.whole(dtensor.dtype, ()).dtype
    ranks = ",".join(str(int(r)) for r in mesh.mesh.flatten())
    on = ",".join(f"{name}={size}" for name, size in zip(names, sizes))
    ops = "".join(f" {op}({','.join(axes)})" for op, axes in partial.items())
    return Layout(f"{dtype}[{', '.join(dims)}] on {on}@[{ranks}]{ops}")


# ---- input_reshard: saved tensors as chunks ----


class _Kept:
    """The object that PyTorch keeps for backward instead of a tensor: a ticket of the stash."""

    __slots__ = ("ticket", "value", "__weakref__")

    def __init__(self, ticket):
        self.ticket, self.value = ticket, None


class InputReshard:
    """Keeps tensors that autograd saves as one chunk on each rank, and gathers them in backward.

    All ranks must run the same model on the same data, so that saved tensors are equal.  Gathers are collective, and
    PyTorch does not guarantee the order in which it unpacks.  So tickets are always gathered from the latest to the
    earliest, and tensors that are gathered early are kept until they are needed.
    """

    RECENT = 8  # a tensor that several successive ops save shares a ticket

    def __init__(self, module, comm, dim):
        self.comm, self.dim = comm, dim
        self.stash = Stash(comm)
        self.waiting = []  # (weak reference to _Kept, ticket), in the order of packing
        self.recent = collections.deque(maxlen=self.RECENT)
        self.bytes = self.bytes_kept = 0  # sizes of tensors that were cut since the start of the step
        self.module, self.own = module, set()
        self.depth = 0

    # ---- forward ----

    @contextlib.contextmanager
    def active(self):
        """Cuts the tensors that autograd saves while it is active.  A module that calls itself activates it once."""
        if self.depth:
            yield
            return
        self.begin()
        self.depth = 1
        try:
            with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
                yield
        finally:
            self.depth = 0
            self.recent.clear()

    def begin(self):
        """Drops tickets that can no longer be needed."""
        self.recent.clear()
        self.waiting = [(kept, ticket) for kept, ticket in self.waiting if kept() is not None]
        if not self.waiting:
            self.stash.restart()
            self.bytes = self.bytes_kept = 0
        self.own = {_memory_of(t) for t in itertools.chain(self.module.parameters(), self.module.buffers())}

    def pack(self, x):
        plain = x.detach()
        if not self.is_cut(plain):
            return plain
        key = (_memory_of(plain), plain.storage_offset(), plain.shape, plain.stride(), plain._version)
        for other, _, kept in self.recent:
            if other == key:
                return kept
        ticket = self.stash.pack(plain, self.dim)
        kept = _Kept(ticket)
        self.waiting.append((weakref.ref(kept), ticket))
        self.recent.append((key, plain, kept))  # holds the tensor too, so that its memory is not reused meanwhile
        self.bytes += ticket.bytes
        self.bytes_kept += ticket.bytes_kept
        return kept

    def is_cut(self, x):
        """Returns whether a tensor is cut.  Parameters and buffers are not, because the model keeps them anyway."""
        if x.device.type != "cpu" or x.layout != torch.strided or _memory_of(x) in self.own:
            return False
        if x.is_quantized or x.is_conj() or x.is_neg():  # their memory does not hold their values directly
            return False
        return self.stash.would_cut(x, self.dim)

    # ---- backward ----

    def unpack(self, kept):
        if not isinstance(kept, _Kept):
            return kept
        while kept.value is None:
            owner, ticket = self.waiting.pop()
            value = ticket.unpack().torch()
            if owner() is not None:
                owner().value = value
        return kept.value


def _memory_of(x):
    storage = x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()
    return storage.data_ptr()


def input_reshard(module, comm, dim=0):
    """Makes a module keep tensors for backward as chunks along `dim`, one on each rank of the comm.

    Every rank must run the module on the same input with the same parameters.  A tensor that cannot be cut (too
    few elements, no such dim) and the module's own parameters are kept whole.  Returns the InputReshard, whose
    bytes and bytes_kept count the tensors that were cut; remove() undoes it.
    """
    state = InputReshard(module, comm, dim)
    forward = module.forward

    @functools.wraps(forward)
    def cut_forward(*args, **kwargs):
        with state.active():
            return forward(*args, **kwargs)

    module.forward = cut_forward
    state.remove = lambda: setattr(module, "forward", forward)
    return state


# ---- state dicts ----


def _rules(rules):
    return rules if isinstance(rules, Rules) else Rules.read(rules)


def _tensors(model):
    """Returns names and tensors of a module or a state dict."""
    entries = model.state_dict() if isinstance(model, torch.nn.Module) else model
    for name, value in entries.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"state dict entry {name!r} must be a tensor, got {type(value).__name__}")
    return {name: value.detach() for name, value in entries.items()}


def load_state_dict(model, checkpoint, comm, rules, *, strict=True):
    """Loads a module's tensors, which are cut by the rules, from a checkpoint.  Collective.

    model is a module or a state dict; this rank's tensors must have the shapes of its parts.  Elements are read
    directly into their memory.  With strict, the names must be the same on both sides.  Returns (missing,
    unexpected).
    """
    rules, tensors = _rules(rules), _tensors(model)
    opened = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    try:
        missing, unexpected = sorted(set(tensors) - set(opened)), sorted(set(opened) - set(tensors))
        if strict and (missing or unexpected):
            raise KeyError(f"{opened.path}: missing {missing}, unexpected {unexpected}; pass strict=False to ignore them")
        targets = {}
        for name in sorted(set(tensors) & set(opened)):
            entry, local = opened[name], tensors[name]
            layout = rules.layout(name, local.dtype, entry.shape)
            targets[name] = _place(comm, layout, name, local)
        _load(comm, opened, targets)
        return missing, unexpected
    finally:
        if opened is not checkpoint:
            opened.close()


def _place(comm, layout, name, local):
    """Creates a sharded tensor on the memory of the local tensor."""
    if not layout.nparts(comm.rank):
        return Sharded(comm, layout, None)
    expected = layout.part_shape(comm.rank)
    if tuple(local.shape) != expected:
        raise ValueError(f"tensor {name!r} must have the shape of its part in {layout.text}, {expected}, got "
                         f"{tuple(local.shape)}")
    return Sharded(comm, layout, local)


def save_state_dict(model, path, comm, rules, *, force=False, digest=True, metadata=None):
    """Saves a module's tensors, which are cut by the rules, as one checkpoint.  Collective.

    The global shapes are inferred from the shapes of all ranks' parts.
    """
    rules, tensors = _rules(rules), _tensors(model)
    shapes = comm.allgather({name: tuple(value.shape) for name, value in tensors.items()})
    for rank, names in enumerate(shapes):
        if list(names) != list(tensors):
            raise ValueError(f"tensor names must be equal on all ranks, but ranks {comm.rank} and {rank} differ")
    sharded = {}
    for name, value in tensors.items():
        layout = _global_layout(rules, name, value.dtype, [s[name] for s in shapes])
        sharded[name] = Sharded(comm, layout, value if layout.nparts(comm.rank) else None)
    _save(comm, path, sharded, force=force, digest=digest, metadata=metadata)


def _global_layout(rules, name, dtype, parts):
    """Returns the layout whose parts have these shapes.

    Along each dim the sizes of all ranks add up to the global size times the number of ranks that hold the same
    range, which divides the number of ranks.
    """
    n = len(parts)
    candidates = []
    for sizes in zip(*parts):
        total = sum(sizes)
        candidates.append([total // q for q in range(n, 0, -1) if n % q == 0 and total % q == 0])
    for shape in itertools.product(*candidates):
        with contextlib.suppress(ValueError):
            layout = rules.layout(name, dtype, shape)
            if all(not layout.nparts(r) or layout.part_shape(r) == parts[r] for r in range(n)):
                return layout
    raise ValueError(f"tensor {name!r}: no global shape matches the rules and the parts' shapes {parts}")

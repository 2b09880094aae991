"""reshard.torch: gradients, saved tensors as chunks, state dicts, DTensors by their attributes."""
import os

import pytest

if os.environ.get("RESHARD_REQUIRE_TORCH"):
    import torch
else:
    torch = pytest.importorskip("torch")

import reshard
import reshard.torch


def value_and_gradient(comm, source, target, exact):
    x = torch.arange(1.0, 1.0 + torch.Size(reshard.Layout(source).part_shape(comm.rank)).numel(), requires_grad=True)
    y = reshard.torch.reshard(x.view(reshard.Layout(source).part_shape(comm.rank)), source, target, comm, exact=exact)
    (y * (comm.rank + 1)).sum().backward()
    return y.detach().tolist(), x.grad.tolist()


def test_gradients_move_back():
    rows, columns = "f32[4/x, 2] on x=2", "f32[4, 2/x] on x=2"
    found = reshard.run(2, value_and_gradient, rows, columns, False)
    assert found[0] == ([[1.0], [3.0], [1.0], [3.0]], [1.0, 2.0, 1.0, 2.0])
    assert found[1][1] == [1.0, 2.0, 1.0, 2.0]


def test_gradients_of_replicas():
    part, whole = "f32[4/x] on x=2", "f32[4] on x=2"
    by_layout = reshard.run(2, value_and_gradient, part, whole, False)
    assert [g for _, g in by_layout] == [[1.0, 1.0], [2.0, 2.0]]  # each takes its slice of the gradient it has
    exact = reshard.run(2, value_and_gradient, part, whole, True)
    assert [g for _, g in exact] == [[3.0, 3.0], [3.0, 3.0]]  # replicas' gradients are added


def test_gradients_of_partial_values():
    partial, whole = "f32[2] on x=2 avg(x)", "f32[2] on x=2"
    by_layout = reshard.run(2, value_and_gradient, partial, whole, False)
    assert by_layout == [([1.0, 2.0], [1.0, 1.0]), ([1.0, 2.0], [2.0, 2.0])]  # the gradient of the value
    exact = reshard.run(2, value_and_gradient, partial, whole, True)
    assert [g for _, g in exact] == [[1.5, 1.5], [1.5, 1.5]]  # of each contribution, for all replicas


def test_second_derivatives():
    def main(comm):
        x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = reshard.torch.reshard(x, "f64[4/x] on x=2", "f64[4/x:1] on x=2", comm,
                                  exact=True)
        first, = torch.autograd.grad((y ** 3).sum(), x, create_graph=True)
        second, = torch.autograd.grad(first.sum(), x)
        return first.tolist(), second.tolist()

    for first, second in reshard.run(2, main):
        assert first == [3.0, 12.0] and second == [6.0, 12.0]


class Shuffled(torch.autograd.Function):
    """Saves three tensors and unpacks them in an order that depends on the rank, one of them twice."""

    @staticmethod
    def forward(ctx, x, order):
        ctx.order = order
        ctx.save_for_backward(x, x * 2, x * 3)
        return x * 14

    @staticmethod
    def backward(ctx, grad):
        seen = {}
        for i in ctx.order:
            seen[i] = ctx.saved_tensors[i]
        assert torch.equal(seen[0] * 3, seen[2]) and torch.equal(seen[0] * 2, seen[1])
        return grad * 14, None


class Model(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.a, self.b, self.rank = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8), rank

    def forward(self, x):
        x = torch.tanh(self.a(x))
        return self.b(Shuffled.apply(x, [0, 1, 2] if self.rank % 2 else [2, 0, 1, 0]))


def train(comm, cut):
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = Model(comm.rank)
    state = reshard.torch.input_reshard(model, comm, 0) if cut else None
    losses = []
    for step in range(3):
        x = torch.randn(12, 8)
        loss = model(x).square().mean()
        loss.backward(retain_graph=step == 1)
        if step == 1:
            loss.backward()  # unpacks everything again
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        losses.append(loss.item())
    if cut:
        assert 0 < state.bytes_kept <= 0.27 * state.bytes, (state.bytes_kept, state.bytes)
        model(torch.randn(12, 8))  # a graph that is never used
        state.remove()
        assert "forward" not in vars(model) or model.forward.__self__ is model
        model(torch.randn(12, 8)).sum().backward()
    return losses


def test_saved_tensors_are_cut_and_losses_stay_the_same():
    plain = reshard.run(4, train, False, processes=True)
    cut = reshard.run(4, train, True, processes=True)
    assert plain == cut and all(losses == cut[0] for losses in cut)


def test_hooks_end_with_an_exception_in_forward():
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    def main(comm):
        model = Broken()
        state = reshard.torch.input_reshard(model, comm)
        with pytest.raises(KeyError):
            model(torch.ones(8, 8, requires_grad=True))
        x = torch.ones(8, 8, requires_grad=True)
        (x * x).sum().backward()
        return state.bytes

    assert reshard.run(2, main) == [0, 0]


RULES = reshard.Rules("mesh dp=2,tp=2\n*.weight [_/tp, _]\n*.bias [_/tp~]\n* [...]\n")


def test_state_dicts_are_cut_by_rules(tmp_path):
    def model(fill):
        made = torch.nn.ModuleDict({"l": torch.nn.Linear(6, 3)})
        made.register_buffer("steps", torch.tensor([fill]))
        with torch.no_grad():
            made["l"].weight.copy_(torch.arange(18.0).reshape(3, 6) + fill)
            made["l"].bias.fill_(fill)
        return made

    def main(comm):
        first = model(100 * (comm.rank % 2))
        reshard.torch.save_state_dict(first, tmp_path / "s", comm, RULES)
        second = model(-1)
        address = second["l"].weight.data_ptr()
        assert reshard.torch.load_state_dict(second, tmp_path / "s", comm, RULES) == ([], [])
        assert second["l"].weight.data_ptr() == address
        state = {"l.weight": torch.zeros(3, 6)}
        with pytest.raises(KeyError, match="unexpected"):
            reshard.torch.load_state_dict(state, tmp_path / "s", comm, RULES)
        assert reshard.torch.load_state_dict(state, tmp_path / "s", comm, RULES, strict=False)[1] == ["l.bias", "steps"]
        with pytest.raises(ValueError, match="shape of its part"):
            reshard.torch.load_state_dict({"l.weight": torch.zeros(6, 6)}, tmp_path / "s", comm, RULES, strict=False)
        return all(torch.equal(a, b) for a, b in zip(first["l"].parameters(), second["l"].parameters()))

    assert all(reshard.run(4, main))
    found = reshard.inspect(tmp_path / "s")["tensors"]
    assert found["l.weight"]["shape"] == (6, 6) and found["l.bias"]["shape"] == (6,)


class Placement:
    def __init__(self, kind, dim=None, reduce_op="sum"):
        self.kind, self.dim, self.reduce_op = kind, dim, reduce_op

    def is_shard(self):
        return self.kind == "shard"

    def is_partial(self):
        return self.kind == "partial"


class Mesh:
    mesh, mesh_dim_names = torch.tensor([[0, 1], [2, 3]]), ("dp", "tp")


class FakeDTensor:
    """What reshard.torch reads of a DTensor of PyTorch 2."""

    def __init__(self, local, shape, *placements):
        self.local, self.shape, self.dtype, self.device_mesh, self.placements = local, shape, local.dtype, Mesh, placements

    def to_local(self):
        return self.local


def test_layouts_of_dtensors():
    local = torch.zeros(4, 6)
    shard, copy, partial = Placement("shard", 0), Placement("replicate"), Placement("partial")
    assert reshard.torch.layout_of(FakeDTensor(local, (8, 6), copy, shard)).text == "f32[8/tp, 6] on dp=2,tp=2"
    assert reshard.torch.layout_of(FakeDTensor(local, (8, 6), shard, shard)).text == "f32[8/(dp,tp), 6] on dp=2,tp=2"
    assert reshard.torch.layout_of(FakeDTensor(local, (8, 6), partial, Placement("shard", -1))).text == \
        "f32[8, 6/tp] on dp=2,tp=2 sum(dp)"

    def main(comm):
        mine = torch.full((4, 6), float(comm.rank % 2))
        return reshard.torch.reshard(FakeDTensor(mine, (8, 6), copy, shard), None, "f32[8, 6]", comm).tolist()

    assert reshard.run(4, main)[0] == [[0.0] * 6] * 4 + [[1.0] * 6] * 4

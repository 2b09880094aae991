#!/usr/bin/python3
"""Golden ops: values and gradients of PyTorch's operators, for tests/nn/test_nn_golden.c.

    torch_ops.py > tests/nn/golden_ops.txt

Needs Debian's python3-torch (1.13).  Inputs follow a formula that the test knows too, so only answers are recorded.  Of a
float input k, element i is ((7919 * i + 104729 * (k + 1)) % 2003) / 1000 - 1; kind p has 0.1 more than its magnitude.  Of
integers below n it is (7 * i + 3 * k + 1) % n, of booleans whether (5 * i + k) % 3 is 0.  The gradient that enters output j
is a float input with k = 10 + j.

    case OP DTYPE [name=value ...]
    in KIND SIZES           one per input, in order; SIZES as 3,5 and - for none
    out SIZES VALUES        one per output
    grad K VALUES           one per input that has a gradient
"""
import math

import torch
import torch.nn.functional as F

CASES = []


def numbers(k, shape, dtype):
    count = math.prod(shape)
    flat = [((7919 * i + 104729 * (k + 1)) % 2003) / 1000 - 1 for i in range(count)]
    return torch.tensor(flat, dtype=torch.float64).to(dtype).reshape(shape)


def make(kind, k, shape, dtype):
    count = math.prod(shape)
    if kind == "f":
        return numbers(k, shape, dtype).requires_grad_()
    if kind == "p":
        return (numbers(k, shape, torch.float64).abs() + 0.1).to(dtype).requires_grad_()
    if kind == "b":
        return torch.tensor([(5 * i + k) % 3 == 0 for i in range(count)], dtype=torch.bool).reshape(shape)
    if kind[0] == "i":
        return torch.tensor([(7 * i + 3 * k + 1) % int(kind[1:]) for i in range(count)], dtype=torch.int64).reshape(shape)
    raise ValueError(kind)


def case(op, fn, *inputs, **attributes):
    """inputs: a list of "KIND SIZES", as in the file."""
    CASES.append((op, fn, inputs, attributes))


def sizes(text):
    return () if text == "-" else tuple(int(n) for n in text.split(","))


def show(values, dtype):
    digits = "%.9g" if dtype == torch.float32 else "%.17g"
    return " ".join(digits % v for v in values.detach().double().flatten().tolist())


def run(op, fn, inputs, attributes, dtype):
    name = {torch.float32: "f32", torch.float64: "f64"}[dtype]
    print("case", op, name, *(f"{k}={v}" for k, v in attributes.items()))
    tensors = []
    for k, text in enumerate(inputs):
        kind, shape = text.split()
        print("in", kind, shape)
        tensors.append(make(kind, k, sizes(shape), dtype))
    out = fn(*tensors)
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    for t in out:
        print("out", ",".join(map(str, t.shape)) or "-", show(t, dtype))
    sum((t * numbers(10 + j, tuple(t.shape), dtype)).sum() for j, t in enumerate(out)).backward()
    for k, t in enumerate(tensors):
        if t.requires_grad:
            grad = t.grad if t.grad is not None else torch.zeros_like(t)
            print("grad", k, show(grad, dtype))


def arithmetic():
    pairs = [("3,5", "3,5"), ("3,5", "5"), ("3,5", "3,1"), ("-", "2,3"), ("2,1,4", "3,1"), ("-", "-"), ("7", "7"), ("1,17", "5,1"), ("0,3", "3")]
    for a, b in pairs:
        case("add", torch.add, f"f {a}", f"f {b}")
        case("sub", torch.sub, f"f {a}", f"f {b}")
        case("mul", torch.mul, f"f {a}", f"f {b}")
        case("div", torch.div, f"f {a}", f"p {b}")
    case("pow", torch.pow, "p 3,5", "f 3,5")
    case("pow", torch.pow, "p 3,5", "f 5")
    for a, b in pairs[:5]:
        case("where", torch.where, "b 3,5", "f 3,5", "f 5")
        case("where", torch.where, "b 3,1", "f -", "f 3,5")
        break
    for e in (2.0, 3.0, 0.5, -1.0, 0.0, 1.5):
        case("pow_scalar", lambda x, e=e: torch.pow(x, e), "p 4,3", exponent=e)
    case("pow_scalar", lambda x: torch.pow(x, 2.0), "f 4,3", exponent=2.0)
    case("clamp", lambda x: torch.clamp(x, -0.5, 0.25), "f 5,7", lo=-0.5, hi=0.25)
    case("clamp", lambda x: torch.clamp(x, min=0.125), "f 11", lo=0.125, hi="inf")
    case("masked_fill", lambda x, m: torch.masked_fill(x, m, -3.5), "f 4,6", "b 4,6", value=-3.5)
    case("masked_fill", lambda x, m: torch.masked_fill(x, m, 2.0), "f 2,4,6", "b 4,1", value=2.0)
    for fill in ("nan", "inf", "-inf"):
        case("nan_to_num", lambda x, m, f=float(fill): torch.nan_to_num(torch.masked_fill(x, m, f), nan=0.5, neginf=-2.0), "f 4,6", "b 4,6", fill=fill)


def unary():
    for shape in ("-", "19", "3,5", "2,37"):
        for name in ("neg", "exp", "relu", "tanh", "sigmoid"):
            case(name, getattr(torch, name), f"f {shape}")
        case("log", torch.log, f"p {shape}")
        case("sqrt", torch.sqrt, f"p {shape}")
        case("silu", F.silu, f"f {shape}")
        case("gelu", lambda x: F.gelu(x), f"f {shape}", tanh=0)
        case("gelu", lambda x: F.gelu(x, approximate="tanh"), f"f {shape}", tanh=1)
    for name, fn in (("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("gelu", F.gelu), ("exp", torch.exp), ("silu", F.silu)):
        scale = 6.0
        case(name + "_wide", lambda x, fn=fn: fn(x * scale), "f 61", scale=scale)


def reductions():
    for op, fn in (("sum", torch.sum), ("mean", torch.mean)):
        case(op, fn, "f 3,5", dims="all", keep=0)
        case(op, fn, "f -", dims="all", keep=0)
        for dims, shape in (((0,), "3,5"), ((1,), "3,5"), ((-1,), "2,3,33"), ((0, 2), "2,3,4"), ((1,), "2,3,4"), ((0, 1, 2), "2,3,4")):
            for keep in (0, 1):
                case(op, lambda x, fn=fn, dims=dims, keep=keep: fn(x, dims, keepdim=bool(keep)), f"f {shape}",
                     dims=",".join(map(str, dims)), keep=keep)
    case("max", torch.max, "f 3,5", dims="all", keep=0)
    for dim, shape in ((0, "3,5"), (1, "3,5"), (-1, "2,3,33"), (1, "2,3,4")):
        for keep in (0, 1):
            case("max", lambda x, dim=dim, keep=keep: torch.max(x, dim, keepdim=bool(keep))[0], f"f {shape}", dims=dim, keep=keep)


def shapes():
    case("reshape", lambda x: x.reshape(5, 6), "f 2,3,5", sizes="5,6")
    case("reshape", lambda x: x.reshape(-1), "f 2,3", sizes="-1")
    case("reshape", lambda x: x.t().reshape(2, -1), "f 3,4", sizes="2,-1", transposed=1)
    case("transpose", lambda x: x.transpose(0, -1), "f 2,3,4", a=0, b=-1)
    case("permute", lambda x: x.permute(2, 0, 1), "f 2,3,4", dims="2,0,1")
    case("contiguous", lambda x: x.transpose(0, 1).contiguous(), "f 3,4")
    case("cat", lambda *x: torch.cat(x, 0), "f 2,3", "f 1,3", "f 4,3", dim=0)
    case("cat", lambda *x: torch.cat(x, -1), "f 2,3", "f 2,5", dim=-1)
    case("stack", lambda *x: torch.stack(x, 1), "f 2,3", "f 2,3", "f 2,3", dim=1)
    case("stack", lambda *x: torch.stack(x, -1), "f 2,3", "f 2,3", dim=-1)
    case("stack", lambda *x: torch.stack(x, 0), "f -", "f -", dim=0)
    case("split", lambda x: torch.split(x, 2, 1), "f 3,5", size=2, dim=1)
    case("split", lambda x: torch.split(x, 3, 0), "f 7", size=3, dim=0)
    case("chunk", lambda x: torch.chunk(x, 4, 0), "f 5,2", n=4, dim=0)
    case("chunk", lambda x: torch.chunk(x, 3, -1), "f 2,7", n=3, dim=-1)
    case("narrow", lambda x: x.narrow(1, 1, 3), "f 2,5", dim=1, start=1, length=3)
    case("index_select", lambda x, i: torch.index_select(x, 0, i), "f 6,3", "i6 9", dim=0)
    case("index_select", lambda x, i: torch.index_select(x, -1, i), "f 2,3,5", "i5 4", dim=-1)
    case("squeeze", lambda x: x.squeeze(1), "f 3,1,4", dim=1)
    case("squeeze", lambda x: x.squeeze(0), "f 3,1,4", dim=0)
    case("squeeze_all", lambda x: x.squeeze(), "f 1,3,1,4,1")
    case("unsqueeze", lambda x: x.unsqueeze(-1), "f 3,4", dim=-1)
    case("unsqueeze", lambda x: x.unsqueeze(0), "f -", dim=0)
    case("expand", lambda x: x.expand(2, 3, 4), "f 3,1", sizes="2,3,4")
    case("expand", lambda x: x.expand(5, -1), "f 1,3", sizes="5,-1")


def products():
    for a, b in (("5", "5"), ("3,5", "5"), ("5", "5,4"), ("3,5", "5,4"), ("2,3,5", "5,4"), ("2,3,5", "2,5,4"), ("5", "2,5,4"), ("2,3,5", "5"),
                 ("2,1,3,5", "4,5,2"), ("2,2,1,3,5", "2,3,5,4"), ("17,33", "33,9"), ("1,1", "1,1"), ("0,3", "3,2"), ("2,0", "0,3")):
        case("matmul", torch.matmul, f"f {a}", f"f {b}")
    case("matmul_t", lambda a, b: torch.matmul(a.transpose(-1, -2), b.transpose(-1, -2)), "f 5,3", "f 4,5")
    case("matmul_t", lambda a, b: torch.matmul(a.transpose(-1, -2), b.transpose(-1, -2)), "f 2,5,3", "f 2,4,5")
    case("bmm", torch.bmm, "f 3,2,5", "f 3,5,4")
    for x in ("5", "3,5", "2,3,5", "2,2,3,5", "2,1,2,3,5"):
        case("linear", F.linear, f"f {x}", "f 4,5", "f 4", bias=1)
        case("linear", F.linear, f"f {x}", "f 4,5", bias=0)


def rms_norm(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def attention(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return torch.softmax(scores, -1) @ v


def masked_attention(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v


def layers():
    for dim, shape in ((-1, "3,5"), (0, "3,5"), (1, "2,3,4"), (-1, "4,67"), (0, "-")):
        case("softmax", lambda x, dim=dim: torch.softmax(x, dim), f"f {shape}", dim=dim)
        case("log_softmax", lambda x, dim=dim: torch.log_softmax(x, dim), f"f {shape}", dim=dim)
    for shape, n in (("3,5", "5"), ("2,3,35", "35"), ("2,3,4", "3,4")):
        normalized = sizes(n)
        case("layer_norm", lambda x, w, b, n=normalized: F.layer_norm(x, n, w, b, 1e-5), f"f {shape}", f"p {n}", f"f {n}", affine=1, dims=len(normalized))
        case("layer_norm", lambda x, n=normalized: F.layer_norm(x, n, None, None, 1e-5), f"f {shape}", affine=0, dims=len(normalized))
    for shape, n in (("3,5", "5"), ("2,3,35", "35")):
        case("rms_norm", lambda x, w: rms_norm(x, w, 1e-6), f"f {shape}", f"p {n}", affine=1)
        case("rms_norm", lambda x: rms_norm(x, 1, 1e-6), f"f {shape}", affine=0)
    case("embedding", lambda i, w: F.embedding(i, w), "i7 3,4", "f 7,5", padding=-1)
    case("embedding", lambda i, w: F.embedding(i, w, padding_idx=2), "i7 11", "f 7,5", padding=2)
    for shape, target, classes in (("4,5", "4", 5), ("5", "-", 5), ("2,5,3", "2,3", 5), ("9,37", "9", 37)):
        for reduction in ("mean", "sum", "none"):
            for smoothing, ignore in ((0.0, -100), (0.1, -100), (0.0, 2), (0.2, 3)):
                case("cross_entropy", lambda x, t, r=reduction, s=smoothing, g=ignore: F.cross_entropy(x, t, reduction=r, label_smoothing=s, ignore_index=g),
                     f"f {shape}", f"i{classes} {target}", reduction=reduction, smoothing=smoothing, ignore=ignore)
    for reduction in ("mean", "sum", "none"):
        case("mse", lambda a, b, r=reduction: F.mse_loss(a, b, reduction=r), "f 3,5", "f 3,5", reduction=reduction)
    for q, k, v in (("4,3", "4,3", "4,3"), ("2,4,3", "2,4,3", "2,4,5"), ("2,2,5,4", "2,2,7,4", "2,2,7,3")):
        for causal in (0, 1):
            case("attention", lambda q, k, v, c=causal: attention(q, k, v, c), f"f {q}", f"f {k}", f"f {v}", causal=causal)
    case("attention_mask", masked_attention, "f 2,4,3", "f 2,4,3", "f 2,4,5", "f 4,4")


def main():
    torch.set_num_threads(1)
    for section in (arithmetic, unary, reductions, shapes, products, layers):
        section()
    print("# Written by tools/golden/torch_ops.py with PyTorch 1.13.")
    for dtype in (torch.float32, torch.float64):
        for op, fn, inputs, attributes in CASES:
            run(op, fn, inputs, attributes, dtype)


main()

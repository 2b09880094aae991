"""arrays: whole tensors as lists of elements, each a few bytes; the oracle of the tests on maps."""
import itertools
import math
import struct

import safetensors as st

PACK = {"F32": "<f", "F64": "<d"}


def indices(shape):
    return itertools.product(*map(range, shape))


class Array:
    """Elements in row-major order."""

    def __init__(self, dtype, shape, elements):
        self.dtype, self.shape, self.elements = dtype, tuple(shape), elements
        assert len(elements) == st.count(self.shape)

    def at(self, index):
        place = 0
        for i, n in zip(index, self.shape):
            assert 0 <= i < n
            place = place * n + i
        return self.elements[place]

    def entry(self):
        return self.dtype, self.shape, b"".join(self.elements)


def make(dtype, shape, f):
    """The array whose element at an index is f(index)."""
    return Array(dtype, shape, [f(i) for i in indices(shape)])


def draw(rng, dtype, shape):
    size = st.BITS[dtype] // 8
    elements = []
    for _ in range(st.count(shape)):
        e = rng.randbytes(size)
        if dtype in PACK and not math.isfinite(struct.unpack(PACK[dtype], e)[0]):
            e = struct.pack(PACK[dtype], 1.5)
        elements.append(e)
    return Array(dtype, shape, elements)


def cat(dim, parts):
    owner = [(p, i) for p in parts for i in range(p.shape[dim])]
    first = parts[0]
    shape = first.shape[:dim] + (len(owner),) + first.shape[dim + 1:]
    return make(first.dtype, shape, lambda i: owner[i[dim]][0].at(i[:dim] + (owner[i[dim]][1],) + i[dim + 1:]))


def stack(dim, parts):
    shape = parts[0].shape[:dim] + (len(parts),) + parts[0].shape[dim:]
    return make(parts[0].dtype, shape, lambda i: parts[i[dim]].at(i[:dim] + i[dim + 1:]))


def take(a, dim, chosen):
    """These indices of one dim, in this order."""
    shape = a.shape[:dim] + (len(chosen),) + a.shape[dim + 1:]
    return make(a.dtype, shape, lambda i: a.at(i[:dim] + (chosen[i[dim]],) + i[dim + 1:]))


def select(a, dim, k):
    return make(a.dtype, a.shape[:dim] + a.shape[dim + 1:], lambda i: a.at(i[:dim] + (k,) + i[dim:]))


def interleave(dim, groups, parts):
    blocks = [a.shape[dim] // groups for a in parts]
    return cat(dim, [take(a, dim, range(g * b, (g + 1) * b)) for g in range(groups) for a, b in zip(parts, blocks)])


def permute(a, order):
    def at(i):
        back = [0] * len(order)
        for d, o in enumerate(order):
            back[o] = i[d]
        return a.at(tuple(back))
    return make(a.dtype, [a.shape[o] for o in order], at)


def transpose(a):
    n = len(a.shape)
    return permute(a, list(range(n - 2)) + [n - 1, n - 2])


def reshape(a, shape):
    return Array(a.dtype, shape, a.elements)


def to_f32(x):
    try:
        return struct.pack("<f", x)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, x))


def dequantise(a, scale, block):
    """The product of two f32 is exact in f64, so it is rounded once."""
    def at(i):
        s = scale.at(tuple(k // b for k, b in zip(i, block)))
        return to_f32(struct.unpack("<f", a.at(i))[0] * struct.unpack("<f", s)[0])
    return make("F32", a.shape, at)


def convert(a, dtype):
    if a.dtype == dtype:
        return a
    return Array(dtype, a.shape, [to_f32(struct.unpack(PACK[a.dtype], e)[0]) for e in a.elements])

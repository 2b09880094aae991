"""A model of the notation in a few lines of Python: which rank holds which global indices, and random layouts."""
import numpy as np

DTYPES = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "u32": np.uint32,
          "i32": np.int32, "u64": np.uint64, "i64": np.int64, "f16": np.float16, "bf16": np.uint16, "f32": np.float32,
          "f64": np.float64, "f8e4m3": np.uint8, "f8e5m2": np.uint8, "c64": np.complex64, "c128": np.complex128}


def chunk(n, p, k):
    size = -(-n // p)
    return np.arange(min(n, k * size), min(n, (k + 1) * size))


def balanced(n, p, k):
    less, more = divmod(n, p)
    begin = k * less + min(k, more)
    return np.arange(begin, begin + less + (k < more))


def cyclic(n, p, k, block):
    return np.array([i for i in range(n) if i // block % p == k], dtype=np.int64)


def units(n, p, k, unit):
    return np.array([i for i in range(n) if i // unit in set(chunk(-(-n // unit), p, k))], dtype=np.int64)


def sizes(n, p, k, list_of_sizes):
    begin = sum(list_of_sizes[:k])
    return np.arange(begin, begin + list_of_sizes[k])


def random_cut(rng, n, axis, p):
    """(text, function of the position that gives the indices)."""
    kind = rng.integers(5)
    if kind == 0:
        return f"/{axis}", lambda k: chunk(n, p, k)
    if kind == 1:
        return f"/{axis}~", lambda k: balanced(n, p, k)
    if kind == 2:
        block = int(rng.integers(1, 4))
        return f"/{axis}:{block}", lambda k: cyclic(n, p, k, block)
    if kind == 3:
        unit = int(rng.integers(1, 4))
        return f"/{axis}%{unit}", lambda k: units(n, p, k, unit)
    cuts = sorted(int(c) for c in rng.integers(0, n + 1, p - 1))
    parts = [b - a for a, b in zip([0] + cuts, cuts + [n])]
    return f"/{axis}{{{','.join(map(str, parts))}}}", lambda k: sizes(n, p, k, parts)


def mesh_of(rng, nranks):
    """Axes whose sizes multiply to nranks."""
    choices = {1: [[1]], 2: [[2], [1, 2]], 3: [[3]], 4: [[4], [2, 2]], 6: [[6], [2, 3], [3, 2]]}[nranks]
    return choices[rng.integers(len(choices))]


class RandomLayout:
    """text, and for each rank the global indices that it holds along each dim (or along the flat tensor)."""

    def __init__(self, rng, dtype, shape, nranks):
        mesh = mesh_of(rng, nranks)
        axes = [chr(ord("p") + i) for i in range(len(mesh))]
        self.dtype, self.shape, self.nranks = dtype, shape, nranks
        self.flat = None
        if shape and rng.random() < 0.15:
            self.make_flat(rng, mesh, axes)
        else:
            self.make_dims(rng, mesh, axes)

    def positions(self, mesh):
        return [np.unravel_index(r, mesh) for r in range(self.nranks)]

    def make_flat(self, rng, mesh, axes):
        n = int(np.prod(self.shape))
        a = int(rng.integers(len(mesh)))
        text, parts = random_cut(rng, n, axes[a], mesh[a])
        if ":" in text:
            text, parts = f"/{axes[a]}", lambda k: chunk(n, mesh[a], k)
        dims = ", ".join(map(str, self.shape))
        on = ",".join(f"{x}={s}" for x, s in zip(axes, mesh))
        self.text = f"{self.dtype}[{dims}]{text} on {on}"
        self.flat = [parts(position[a]) for position in self.positions(mesh)]

    def make_dims(self, rng, mesh, axes):
        free = [a for a in range(len(mesh)) if rng.random() < 0.8]
        dims, along = [], []
        for n in self.shape:
            a = free.pop() if free and rng.random() < 0.7 else None
            text, parts = random_cut(rng, n, axes[a], mesh[a]) if a is not None else ("", lambda k, n=n: np.arange(n))
            dims.append(f"{n}{text}")
            along.append((a, parts))
        order = list(rng.permutation(len(self.shape))) if len(self.shape) > 1 and rng.random() < 0.4 else None
        on = ",".join(f"{x}={s}" for x, s in zip(axes, mesh))
        self.text = f"{self.dtype}[{', '.join(dims)}] on {on}"
        if order is not None:
            self.text += f" order({','.join(map(str, order))})"
        self.indices = [[parts(position[a] if a is not None else 0) for a, parts in along]
                        for position in self.positions(mesh)]

    def part(self, whole, rank):
        """What the rank holds of the whole array, by NumPy indexing alone."""
        if self.flat is not None:
            return whole.reshape(-1)[self.flat[rank]]
        return whole[np.ix_(*self.indices[rank])] if self.shape else whole


def random_shape(rng):
    return tuple(int(n) for n in rng.integers(0, 9, rng.integers(1, 5)))


def random_whole(rng, dtype, shape):
    """Returns an array of random bits that are valid in every dtype."""
    numbers = rng.integers(0, 120, shape)
    return (numbers % 2 == 0) if dtype == "bool" else numbers.astype(DTYPES[dtype])


def random_strides(rng, array):
    """The same elements on memory with gaps, reversed or permuted dims."""
    order = rng.permutation(array.ndim)
    steps = [int(rng.choice([1, 1, 2, -1])) for _ in order]
    room = np.zeros([array.shape[d] * abs(s) + 1 for d, s in zip(order, steps)], array.dtype)
    view = room[tuple(slice(1, None, abs(s)) if abs(s) > 1 else slice(0, array.shape[d])
                      for d, s in zip(order, steps))]
    view = view[tuple(slice(0, array.shape[d]) for d in order)]
    view = view[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in steps)]
    view = view.transpose(np.argsort(order))
    view[...] = array
    assert np.array_equal(view, array)
    return view

#!/usr/bin/env python3
"""Maps: random expressions of rule files, with random cuts of source and target, against NumPy on whole tensors.

    check_maps.py COMMAND [CASES]

The oracle evaluates the expression on whole arrays and cuts the result by index lists of its own.
"""
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import safetensors as st

command = os.path.abspath(sys.argv[1])
cases = int(sys.argv[2]) if len(sys.argv) > 2 else 250
seed = int(os.environ.get("RESHARD_SEED", "1"))
NUMPY = {"U8": "u1", "F32": "<f4", "I16": "<i2", "F64": "<f8"}
NAME = {"U8": "u8", "F32": "f32", "I16": "i16", "F64": "f64"}


def run(*words):
    return subprocess.run([command, *words], capture_output=True, text=True)


def stored(dtype, array):
    return dtype, array.shape, np.ascontiguousarray(array).tobytes()


def loaded(entry):
    dtype, shape, data = entry
    return np.frombuffer(data, NUMPY[dtype]).reshape(shape)


# ---- sources ----

class Case:
    def __init__(self, number):
        self.rng = random.Random(seed * 1000003 + number)
        self.np = np.random.default_rng(seed * 1000003 + number)
        self.dtype = self.rng.choice(list(NUMPY))
        self.sources = {}

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def array(self, shape, dtype=None):
        kind = np.dtype(NUMPY[dtype or self.dtype])
        raw = self.np.integers(0, 256, int(np.prod(shape, dtype=int)) * kind.itemsize, dtype=np.uint8).tobytes()
        value = np.frombuffer(raw, kind).reshape(shape)
        if kind.kind == "f":
            value = np.where(np.isfinite(value), value, 1).astype(kind)
        return value

    def name(self, stem="t"):
        return f"{stem}{len(self.sources)}"

    def leaf(self, shape):
        name = self.name()
        if self.chance(10):
            name = self.rng.choice(["a b", "h#", "f(x)", "drop", "{q}", "*", "quo\"te"]) + name
        self.sources[name] = (self.dtype, self.array(shape))
        if all(c.isalnum() for c in name):
            return name, self.sources[name][1]
        return '"' + name.replace('"', '\\"') + '"', self.sources[name][1]

    # ---- expressions: each returns text and value, of the wanted shape ----

    def expr(self, shape, depth):
        """A random expression whose value has this shape."""
        ways = [self.plain]
        if depth > 0:
            ways += [self.cat, self.permute, self.slice, self.reshape, self.interleave, self.lists]
            if shape:
                ways += [self.stack]
            if self.dtype == "F32" and shape:
                ways += [self.dequantise]
        for _ in range(8):
            made = self.rng.choice(ways)(shape, depth)
            if made:
                return made
        return self.plain(shape, depth)

    def plain(self, shape, depth):
        return self.leaf(shape)

    def dim(self, d, ndim):
        return -1 if d == ndim - 1 and self.chance(40) else d

    def pieces(self, n, parts):
        cuts = sorted(self.rng.randrange(n + 1) for _ in range(parts - 1))
        return [b - a for a, b in zip([0] + cuts, cuts + [n])]

    def cat(self, shape, depth):
        if not shape:
            return None
        d = self.rng.randrange(len(shape))
        sizes = self.pieces(shape[d], self.rng.randint(1, 3))
        made = [self.expr(shape[:d] + (n,) + shape[d + 1:], depth - 1) for n in sizes]
        more = "".join(f", {n}" for n in sizes) if self.chance(20) else ""
        return f"cat({self.dim(d, len(shape))}, {', '.join(t for t, _ in made)}{more})", np.concatenate([v for _, v in made], d)

    def lists(self, shape, depth):
        """A list of words counts as several operands."""
        if not shape or shape[0] % 2:
            return None
        stem = self.name("l")
        values = []
        for word in ("x", "y"):
            values.append(self.array((shape[0] // 2,) + shape[1:]))
            self.sources[f"{stem}.{word}.w"] = (self.dtype, values[-1])
        return f"cat(0, {stem}.{{x,y}}.w)", np.concatenate(values, 0)

    def stack(self, shape, depth):
        d = self.rng.randrange(len(shape))
        if not shape[d]:
            return None
        stem, values = self.name("s"), []
        rest = shape[:d] + shape[d + 1:]
        turned = len(rest) >= 2 and self.chance(40)
        for i in range(shape[d]):
            v = self.array(rest[:-2] + (rest[-1], rest[-2]) if turned else rest)
            self.sources[f"{stem}.{i}"] = (self.dtype, v)
            values.append(np.swapaxes(v, -1, -2) if turned else v)
        inside = f"transpose({stem}.{{e}})" if turned else f"{stem}.{{e}}"
        return f"stack({self.dim(d, len(shape))}, {inside})", np.stack(values, d)

    def interleave(self, shape, depth):
        if not shape:
            return None
        d = self.rng.randrange(len(shape))
        groups = self.rng.choice([g for g in range(1, shape[d] + 1) if shape[d] % g == 0] or [1])
        sizes = self.pieces(shape[d] // groups, self.rng.randint(1, 3))
        made = [self.expr(shape[:d] + (n * groups,) + shape[d + 1:], depth - 1) for n in sizes]
        blocks = [np.split(v, groups, d) for _, v in made]
        value = np.concatenate([blocks[j][g] for g in range(groups) for j in range(len(made))], d)
        more = "".join(f", {n}" for n in sizes) if self.chance(20) else ""
        return f"interleave({self.dim(d, len(shape))}, {groups}, {', '.join(t for t, _ in made)}{more})", value

    def permute(self, shape, depth):
        if len(shape) < 2:
            return None
        if self.chance(30):
            text, value = self.expr(shape[:-2] + (shape[-1], shape[-2]), depth - 1)
            return f"transpose({text})", np.swapaxes(value, -1, -2)
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        inside = [0] * len(shape)
        for d, o in enumerate(order):
            inside[o] = shape[d]
        text, value = self.expr(tuple(inside), depth - 1)
        return f"permute({text}, {', '.join(map(str, order))})", np.transpose(value, order)

    def slice(self, shape, depth):
        if not shape:
            return None
        d = self.rng.randrange(len(shape))
        lo, more = self.rng.randrange(4), self.rng.randrange(4)
        text, value = self.expr(shape[:d] + (lo + shape[d] + more,) + shape[d + 1:], depth - 1)
        index = [slice(None)] * len(shape)
        index[d] = slice(lo, lo + shape[d])
        return f"slice({text}, {self.dim(d, len(shape))}, {lo}, {lo + shape[d]})", value[tuple(index)]

    def reshape(self, shape, depth):
        count = int(np.prod(shape, dtype=int))
        if not count:
            return None
        inside, left = [], count
        while left > 1 and len(inside) < 4 and self.chance(70):
            n = self.rng.choice([k for k in range(1, left + 1) if left % k == 0])
            inside.append(n)
            left //= n
        inside.append(left)
        text, value = self.expr(tuple(inside), depth - 1)
        sizes = [str(n) for n in shape] or ["1"]
        if not shape:
            return None
        if self.chance(40):
            sizes[self.rng.randrange(len(sizes))] = "_"
        return f"reshape({text}, {', '.join(sizes)})", value.reshape(shape)

    def dequantise(self, shape, depth):
        block = [self.rng.randint(1, 5) for _ in shape]
        grid = tuple(-(-n // b) for n, b in zip(shape, block))
        text, value = self.expr(shape, depth - 1) if not self.chance(60) else self.leaf(shape)
        if "dequantise" in text:
            return None
        name = self.name("k")
        scale = (self.np.integers(-8, 9, grid) / 4).astype("<f4")
        self.sources[name] = ("F32", scale)
        full = scale
        for d, b in enumerate(block):
            full = np.repeat(full, b, d)
        full = full[tuple(slice(0, n) for n in shape)]
        with np.errstate(over="ignore"):
            return f"dequantise({text}, {name}, {', '.join(map(str, block))})", (value * full).astype("<f4")

    # ---- cuts ----

    def cut(self, n, parts):
        """A rule of the notation and the indices of each part."""
        kind = self.rng.choice(["", "~", ":", "%", "{}"])
        if kind == "":
            size = -(-n // parts) if n else 0
            return "", [list(range(min(n, i * size), min(n, (i + 1) * size))) for i in range(parts)]
        if kind == "~":
            sizes = [n // parts + (i < n % parts) for i in range(parts)]
        elif kind == "{}":
            sizes = self.pieces(n, parts)
            kind = "{" + ",".join(map(str, sizes)) + "}"
        else:
            unit = self.rng.randint(1, 3)
            if kind == ":":
                return f":{unit}", [[i for i in range(n) if i // unit % parts == p] for p in range(parts)]
            each = -(-(-(-n // unit)) // parts) * unit
            return f"%{unit}", [list(range(min(n, i * each), min(n, (i + 1) * each))) for i in range(parts)]
        ends = np.cumsum([0] + sizes)
        return kind, [list(range(ends[i], ends[i + 1])) for i in range(parts)]

    def layout(self, shape):
        """A form, and for each of 4 ranks (mesh x=2,y=2) the index lists of its part."""
        axes, dims = ["x", "y"], [None] * len(shape)
        self.rng.shuffle(axes)
        texts, held = [], [[list(range(n)) for n in shape] for _ in range(4)]
        for d, n in enumerate(shape):
            if not axes or self.chance(40):
                texts.append("_")
                continue
            axis = axes.pop()
            rule, parts = self.cut(n, 2)
            texts.append(f"_/{axis}{rule}")
            for r in range(4):
                held[r][d] = parts[r // 2 if axis == "x" else r % 2]
        return "[" + ", ".join(texts) + "]", held


def write_sources(case):
    """Whole in one file, or cut by rules of its own into rank files that state digests."""
    st.write("whole.safetensors", {n: stored(d, v) for n, (d, v) in case.sources.items()})
    if case.chance(50):
        return "whole.safetensors"
    with open("source.rules", "w") as f:
        f.write("mesh x=2,y=2\n")
        for name, (_, v) in case.sources.items():
            quoted = name.replace("\\", "\\\\").replace('"', '\\"')
            f.write(f'"{quoted}" {case.layout(v.shape)[0]} uneven\n')
    r = run("convert", "whole.safetensors", "source", "--to", "source.rules")
    assert r.returncode == 0, r.stderr
    return "source"


# ---- lines that make several targets ----

def several(case, shape):
    """split, unstack and deinterleave, nested up to two deep; text of the line and its targets."""
    text, value = case.expr(shape, case.rng.randint(0, 2))
    parts = [("", value)]
    name = "out"
    for _ in range(case.rng.randint(1, 2)):
        d = case.rng.randrange(len(shape))
        n = parts[0][1].shape
        if not n:
            break
        d = case.rng.randrange(len(n))
        way = case.rng.choice(["split", "equal", "unstack", "deinterleave"])
        words = case.rng.randint(1, 3)
        if way == "unstack":
            if "{u" in name:
                break
            text = f"unstack({case.dim(d, len(n))}, {text})"
            name += ".{u}"
            parts = [(a + f".{i}", np.take(v, i, d)) for a, v in parts for i in range(n[d])]
        elif way == "equal" and n[d] % words == 0:
            text = f"split({case.dim(d, len(n))}, {text})"
            name += ".{" + ",".join("abc"[:words]) + "}" if words > 1 else ".{a,b}"
            words = max(2, words)
            if n[d] % words:
                return None
            parts = [(a + f".{'abc'[i]}", p) for a, v in parts for i, p in enumerate(np.split(v, words, d))]
        else:
            words = max(2, words)
            groups = case.rng.choice([g for g in range(1, n[d] + 1) if n[d] % g == 0] or [1]) if way == "deinterleave" else 1
            sizes = case.pieces(n[d] // groups, words)
            numbers = ", ".join(map(str, sizes))
            text = f"deinterleave({d}, {groups}, {text}, {numbers})" if way == "deinterleave" else f"split({d}, {text}, {numbers})"
            name += ".{" + ",".join("abc"[:words]) + "}"
            ends = np.cumsum([0] + sizes)
            made = []
            for a, v in parts:
                for i in range(words):
                    index = [g * ends[-1] + k for g in range(groups) for k in range(ends[i], ends[i + 1])]
                    made.append((a + f".{'abc'[i]}", np.take(v, np.array(index, dtype=int), d)))
            parts = made
    if not parts:
        return None
    return name, text, {"out" + a: v for a, v in parts}


def one_case(number):
    case = Case(number)
    shape = tuple(case.rng.randint(0 if case.chance(5) else 1, 7) for _ in range(case.rng.randint(0, 4)))
    depth = case.rng.randint(1, 3)
    made = several(case, shape) if shape and case.chance(35) else None
    if made:
        name, text, targets = made
    else:
        case.sources = {}
        text, value = case.expr(shape, depth)
        name, targets = "out", {"out": value}
    to = "F32" if "dequantise" in text or (case.dtype == "F64" and case.chance(30)) else case.dtype
    source = write_sources(case)
    first = next(iter(targets.values()))
    form, held = case.layout(first.shape)
    with open("map.rules", "w") as f:
        f.write(f"mesh x=2,y=2\n{name} = {text}  {NAME[to] if to != case.dtype or 'dequantise' in text else ''}{form} uneven\n")
        f.write("optional drop *\n" if case.chance(50) else "")
    if "{" in form and len(targets) > 1 and len({v.shape for v in targets.values()}) > 1:
        form, held = "[...]", None
        with open("map.rules", "w") as f:
            f.write(f"mesh x=2,y=2\n{name} = {text}  {NAME[to] if to != case.dtype or 'dequantise' in text else ''}{form}\n")
    words = ["convert", source, "out", "--to", "map.rules", "--verify", "--threads", "2"]
    words += ["--mem", str(case.rng.choice([1 << 20, 256 << 20]))]
    words += ["--no-digest"] if case.chance(15) else []
    r = run(*words)
    assert r.returncode == 0, (number, text, r.stderr)
    check(case, number, text, targets, to, form, len(targets) == 1)


def check(case, number, text, targets, to, form, cuts):
    """The result, put together by verify's reader, and each rank's part where the cut is simple."""
    r = run("convert", "out", "back.safetensors", "--to", "whole")
    assert r.returncode == 0, (number, text, r.stderr)
    got, _ = st.read("back.safetensors")
    assert set(got) == set(targets), (number, text, sorted(got), sorted(targets))
    for name, value in targets.items():
        with np.errstate(over="ignore"):
            want = value.astype(NUMPY[to])
        assert got[name][0] == to and got[name][1] == want.shape and got[name][2] == want.tobytes(), (number, name, text)


def main():
    with tempfile.TemporaryDirectory() as home:
        for number in range(cases):
            folder = os.path.join(home, str(number))
            os.mkdir(folder)
            os.chdir(folder)
            try:
                one_case(number)
            except BaseException:
                print(f"case {number}, RESHARD_SEED={seed}", open("map.rules").read() if os.path.exists("map.rules") else "")
                raise
            os.chdir("/")
            subprocess.run(["rm", "-r", folder], check=True)
    print(f"{cases} maps as meant")


main()

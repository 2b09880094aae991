#!/usr/bin/env python3
"""Maps: random expressions of rule files, with random cuts of source and target, against an oracle on whole tensors.

    check_maps.py COMMAND [CASES]
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import arrays as ar
import safetensors as st

command = os.path.abspath(sys.argv[1])
cases = int(sys.argv[2]) if len(sys.argv) > 2 else 250
seed = int(os.environ.get("RESHARD_SEED", "1"))
NAME = {"U8": "u8", "F32": "f32", "I16": "i16", "F64": "f64"}
ODD = ("a b", "h#", "f(x)", "drop", "{q}", "*", 'quo"te', "->", "=")


def run(*words):
    return subprocess.run([command, *words], capture_output=True, text=True)


def divisors(n):
    return [k for k in range(1, n + 1) if n % k == 0] or [1]


class Case:
    """One source, and expressions over it; each method returns text and value, of the wanted shape, or None."""

    def __init__(self, number):
        self.rng = random.Random(seed * 1000003 + number)
        self.dtype = self.rng.choice(list(NAME))
        self.sources = {}

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def add(self, name, shape):
        self.sources[name] = ar.draw(self.rng, self.dtype, shape)
        return self.sources[name]

    def name(self, stem):
        return f"{stem}{len(self.sources)}"

    def leaf(self, shape, depth=0):
        name = (self.rng.choice(ODD) if self.chance(10) else "") + self.name("t")
        plain = all(c.isalnum() for c in name)
        return name if plain else '"' + name.replace('"', '\\"') + '"', self.add(name, shape)

    def expr(self, shape, depth):
        ways = [self.leaf]
        if depth > 0:
            ways += [self.cat, self.permute, self.slice, self.reshape, self.interleave, self.lists, self.stack]
            ways += [self.dequantise] if self.dtype == "F32" else []
        for _ in range(8):
            made = self.rng.choice(ways)(shape, depth)
            if made:
                return made
        return self.leaf(shape)

    def dim(self, d, ndim):
        return -1 if d == ndim - 1 and self.chance(40) else d

    def pieces(self, n, parts):
        cuts = sorted(self.rng.randrange(n + 1) for _ in range(parts - 1))
        return [b - a for a, b in zip([0] + cuts, cuts + [n])]

    def sized(self, shape, d, sizes, depth):
        made = [self.expr(shape[:d] + (n,) + shape[d + 1:], depth - 1) for n in sizes]
        return ", ".join(t for t, _ in made), [v for _, v in made]

    def sizes(self, list_of):
        return "".join(f", {n}" for n in list_of) if self.chance(20) else ""

    def cat(self, shape, depth):
        if not shape:
            return None
        d = self.rng.randrange(len(shape))
        sizes = self.pieces(shape[d], self.rng.randint(1, 3))
        text, values = self.sized(shape, d, sizes, depth)
        return f"cat({self.dim(d, len(shape))}, {text}{self.sizes(sizes)})", ar.cat(d, values)

    def lists(self, shape, depth):
        """A list of words counts as several operands."""
        if not shape or shape[0] % 2:
            return None
        stem = self.name("l")
        values = [self.add(f"{stem}.{word}.w", (shape[0] // 2,) + shape[1:]) for word in "xy"]
        return f"cat(0, {stem}.{{x,y}}.w)", ar.cat(0, values)

    def stack(self, shape, depth):
        if not shape:
            return None
        d = self.rng.randrange(len(shape))
        if not shape[d]:
            return None
        rest, stem = shape[:d] + shape[d + 1:], self.name("s")
        turned = len(rest) >= 2 and self.chance(40)
        stored = rest[:-2] + (rest[-1], rest[-2]) if turned else rest
        values = [self.add(f"{stem}.{i}", stored) for i in range(shape[d])]
        inside = f"transpose({stem}.{{e}})" if turned else f"{stem}.{{e}}"
        return f"stack({self.dim(d, len(shape))}, {inside})", ar.stack(d, [ar.transpose(v) if turned else v for v in values])

    def interleave(self, shape, depth):
        if not shape:
            return None
        d = self.rng.randrange(len(shape))
        groups = self.rng.choice(divisors(shape[d]))
        sizes = self.pieces(shape[d] // groups, self.rng.randint(1, 3))
        text, values = self.sized(shape, d, [n * groups for n in sizes], depth)
        return f"interleave({self.dim(d, len(shape))}, {groups}, {text}{self.sizes(sizes)})", ar.interleave(d, groups, values)

    def permute(self, shape, depth):
        if len(shape) < 2:
            return None
        if self.chance(30):
            text, value = self.expr(shape[:-2] + (shape[-1], shape[-2]), depth - 1)
            return f"transpose({text})", ar.transpose(value)
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        inside = [0] * len(shape)
        for d, o in enumerate(order):
            inside[o] = shape[d]
        text, value = self.expr(tuple(inside), depth - 1)
        return f"permute({text}, {', '.join(map(str, order))})", ar.permute(value, order)

    def slice(self, shape, depth):
        if not shape:
            return None
        d, lo, more = self.rng.randrange(len(shape)), self.rng.randrange(4), self.rng.randrange(4)
        text, value = self.expr(shape[:d] + (lo + shape[d] + more,) + shape[d + 1:], depth - 1)
        hi = lo + shape[d]
        return f"slice({text}, {self.dim(d, len(shape))}, {lo}, {hi})", ar.take(value, d, range(lo, hi))

    def reshape(self, shape, depth):
        left, inside = st.count(shape), []
        if not left or not shape:
            return None
        while left > 1 and len(inside) < 4 and self.chance(70):
            inside.append(self.rng.choice(divisors(left)))
            left //= inside[-1]
        text, value = self.expr(tuple(inside + [left]), depth - 1)
        sizes = [str(n) for n in shape]
        if self.chance(40):
            sizes[self.rng.randrange(len(sizes))] = "_"
        return f"reshape({text}, {', '.join(sizes)})", ar.reshape(value, shape)

    def dequantise(self, shape, depth):
        if not shape:
            return None
        block = [self.rng.randint(1, 5) for _ in shape]
        text, value = self.expr(shape, depth - 1)
        if "dequantise" in text:
            return None
        name, grid = self.name("k"), tuple(-(-n // b) for n, b in zip(shape, block))
        scale = ar.Array("F32", grid, [struct.pack("<f", self.rng.randint(-8, 8) / 4) for _ in range(st.count(grid))])
        self.sources[name] = scale
        return f"dequantise({text}, {name}, {', '.join(map(str, block))})", ar.dequantise(value, scale, block)

    # ---- cuts: a rule of the notation, and which indices each of two parts has ----

    def cut(self, n):
        kind, unit = self.rng.choice(["", "~", ":", "%", "{}"]), self.rng.randint(1, 3)
        if kind == ":":
            return f":{unit}", [[i for i in range(n) if i // unit % 2 == p] for p in range(2)]
        if kind == "%" or not kind:
            unit = unit if kind else 1
            first = min(n, -(-(-(-n // unit)) // 2) * unit)
            kind = f"%{unit}" if kind else ""
        else:
            first = -(-n // 2) if kind == "~" else self.rng.randrange(n + 1)
            kind = "~" if kind == "~" else f"{{{first},{n - first}}}"
        return kind, [list(range(first)), list(range(first, n))]

    def layout(self, shape):
        """A form on the mesh x=2,y=2, and the index lists of each rank."""
        axes, texts = ["x", "y"], []
        held = [[list(range(n)) for n in shape] for _ in range(4)]
        self.rng.shuffle(axes)
        for d, n in enumerate(shape):
            if not axes or self.chance(40):
                texts.append("_")
                continue
            axis = axes.pop()
            rule, parts = self.cut(n)
            texts.append(f"_/{axis}{rule}")
            for r in range(4):
                held[r][d] = parts[r // 2 if axis == "x" else r % 2]
        return "[" + ", ".join(texts) + "]", held


def write_sources(case):
    """Whole in one file, or cut by rules into rank files, which state digests."""
    st.write("whole.safetensors", {n: v.entry() for n, v in case.sources.items()})
    if case.chance(50):
        return "whole.safetensors"
    with open("source.rules", "w") as f:
        f.write("mesh x=2,y=2\n")
        for name, v in case.sources.items():
            quoted = name.replace('"', '\\"')
            f.write(f'"{quoted}" {case.layout(v.shape)[0]} uneven\n')
    r = run("convert", "whole.safetensors", "source", "--to", "source.rules")
    assert r.returncode == 0, r.stderr
    return "source"


# ---- lines that make several targets: split, unstack and deinterleave, nested up to two deep ----

def several(case, shape):
    text, value = case.expr(shape, case.rng.randint(0, 2))
    name, parts = "out", [("out", value)]
    for _ in range(case.rng.randint(1, 2)):
        n = parts[0][1].shape
        if not n or len({v.shape for _, v in parts}) > 1:
            break
        d, words = case.rng.randrange(len(n)), case.rng.randint(2, 3)
        way = case.rng.choice(["split", "equal", "unstack", "deinterleave"])
        if way == "unstack" and "{u}" not in name:
            text, name = f"unstack({case.dim(d, len(n))}, {text})", name + ".{u}"
            parts = [(f"{a}.{i}", ar.select(v, d, i)) for a, v in parts for i in range(n[d])]
            continue
        groups = case.rng.choice(divisors(n[d])) if way == "deinterleave" else 1
        sizes = case.pieces(n[d] // groups, words)
        if way == "equal" and n[d] % words == 0:
            sizes, numbers = [n[d] // words] * words, ""
        else:
            numbers = "".join(f", {k}" for k in sizes)
        text = f"deinterleave({d}, {groups}, {text}{numbers})" if way == "deinterleave" else f"split({d}, {text}{numbers})"
        name += ".{" + ",".join("abc"[:words]) + "}"
        starts = [sum(sizes[:i]) for i in range(words + 1)]
        chosen = [[g * starts[-1] + k for g in range(groups) for k in range(starts[i], starts[i + 1])] for i in range(words)]
        parts = [(f"{a}.{'abc'[i]}", ar.take(v, d, chosen[i])) for a, v in parts for i in range(words)]
    return (name, text, dict(parts)) if parts else None


def one_case(number):
    case = Case(number)
    shape = tuple(case.rng.randint(0 if case.chance(5) else 1, 7) for _ in range(case.rng.randint(0, 4)))
    made = several(case, shape) if shape and case.chance(35) else None
    if not made:
        case.sources = {}
        text, value = case.expr(shape, case.rng.randint(1, 3))
        made = "out", text, {"out": value}
    name, text, targets = made
    scaled = "dequantise" in text
    to = "F32" if scaled or (case.dtype == "F64" and case.chance(30)) else case.dtype
    source = write_sources(case)
    form, held = case.layout(next(iter(targets.values())).shape)
    if len({v.shape for v in targets.values()}) > 1:
        form, held = "[...]", None
    with open("map.rules", "w") as f:
        f.write(f"mesh x=2,y=2\n{name} = {text}  {NAME[to] if scaled or to != case.dtype else ''}{form} uneven\noptional drop *\n")
    more = ["--mem", str(case.rng.choice([1 << 20, 256 << 20]))] + (["--no-digest"] if case.chance(15) else [])
    r = run("convert", source, "out", "--to", "map.rules", "--verify", "--threads", "2", *more)
    assert r.returncode == 0, (text, r.stderr)
    check({n: ar.convert(v, to) for n, v in targets.items()}, held)
    if to == case.dtype and "dequantise" not in text:
        undo(case, text)


undone = [0]


def undo(case, text):
    """--reverse restores the sources, or the error says why it cannot."""
    r = run("convert", "out", "back.safetensors", "--from", "map.rules", "--reverse")
    if r.returncode:
        assert "cannot reverse" in r.stderr, (text, r.stderr)
        return
    undone[0] += 1
    got, _ = st.read("back.safetensors")
    assert got and all(got[n] == case.sources[n].entry() for n in got), text
    assert all(n in got for n in case.sources if n.startswith("t") and n + "," in text.replace(")", ",") + ","), (text, sorted(got))


def check(targets, held):
    """Checks that every rank has its indices of every target."""
    for rank in range(4):
        got, _ = st.read(f"out/rank-{rank:05}-of-00004.safetensors")
        assert set(got) == set(targets), (sorted(got), sorted(targets))
        for name, value in targets.items():
            want = value
            for d, chosen in enumerate(held[rank] if held else []):
                want = ar.take(want, d, chosen)
            assert got[name] == want.entry(), (rank, name)


def main():
    home = tempfile.mkdtemp()
    for number in range(cases):
        folder = os.path.join(home, str(number))
        os.mkdir(folder)
        os.chdir(folder)
        try:
            one_case(number)
        except BaseException:
            print(f"case {number}, RESHARD_SEED={seed}, in {folder}")
            raise
        os.chdir("/")
        shutil.rmtree(folder)
    os.rmdir(home)
    print(f"{cases} maps as meant, {undone[0]} undone, RESHARD_SEED={seed}")


main()

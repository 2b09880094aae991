#!/usr/bin/env python3
"""Map lines: which line matches which tensor, which errors are found before data is written, and how maps treat digests.

    check_map_lines.py COMMAND
"""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import safetensors as st

command = os.path.abspath(sys.argv[1])
rng = random.Random(1)


def run(*words):
    return subprocess.run([command, *words], capture_output=True, text=True)


def tensor(*shape, dtype="F32"):
    return dtype, shape, rng.randbytes(st.count(shape) * st.BITS[dtype] // 8)


def write_rules(text, name="x.rules"):
    with open(name, "w") as f:
        f.write(text)


def converted(text, source, *more):
    """Returns the tensors of a result with whole tensors."""
    write_rules(text)
    if os.path.exists("out.safetensors"):
        os.remove("out.safetensors")
    r = run("convert", source, "out.safetensors", "--to", "x.rules", "--verify", *more)
    assert r.returncode == 0, (text, r.stderr)
    return st.read("out.safetensors")[0]


def refused(text, source, *wants, more=()):
    write_rules(text)
    r = run("convert", source, "no", "--to", "x.rules", *more)
    assert r.returncode == 1 and all(w in r.stderr for w in wants), (text, wants, r.stderr)
    assert not os.path.exists("no") and not os.path.exists("no.reshard-partial")


def names(model):
    a = model["a"]
    assert converted("{n*} -> m.{n*}\n", "a.safetensors") == {"m." + n: t for n, t in model.items()}
    got = converted("l.{i}.{q,k} -> n.{i+4}.{k,q}\n* \n", "a.safetensors")
    assert got["n.4.k"] == model["l.0.q"] and got["n.5.q"] == model["l.1.k"] and got["a"] == a and "l.0.q" not in got
    # The first matching line is used.  A plain A = B hides nothing; other = lines hide their operands from wildcards only.
    got = converted("tied = a\na -> b\n* \n", "a.safetensors")
    assert got["tied"] == a and got["b"] == a and "a" not in got
    got = converted("t = cat(0, a, a)\n* \n", "a.safetensors")
    assert got["t"] == ("F32", (8, 6), a[2] + a[2]) and "a" not in got
    got = converted("t = cat(0, a, a)\na [...]\n* \n", "a.safetensors")
    assert got["a"] == a
    got = converted("drop l.*\n\"x y\" -> \"y x\"\n*\n", "a.safetensors")
    assert "y x" in got and not any(n.startswith("l.") for n in got)
    # Targets are written in the order of their first operands.
    write_rules("z = cat(0, a, l.1.q)\nl.{i}.q -> {i}\n*\n")
    r = run("convert", "a.safetensors", "no", "--to", "x.rules", "--dry-run", "--json")
    steps = json.loads(r.stdout)["steps"]
    assert {s["name"]: s["sources"] for s in steps}["z"] == ["a", "l.1.q"], steps
    assert {s["name"]: s["shape"] for s in steps}["z"] == [8, 6]
    listed = run("convert", "a.safetensors", "no", "--to", "x.rules", "--dry-run").stdout
    assert "x.rules:1: z = cat(0, a, l.1.q)" in listed and "from a" in listed and "and l.1.q" in listed, listed


def errors():
    source = "a.safetensors"
    refused("a -> b\n", source, 'no rule matches tensors "l.0.q"', "x y")
    refused("a -> b\nl.0.q -> b\n*\n", source, 'x.rules:2: target "b"', "is also made by line 1")
    refused("l.{i}.q -> b\n*\n", source, 'target "b"')
    refused("t = cat(0, a, nothing)\n*\n", source, 'x.rules:1: tensor "t": source tensor "nothing" is not in the checkpoint')
    refused("t = cat(0, zz, yy)\n*\n", source, "matches no tensor")
    refused("optional t = cat(0, a, nothing)\n*\n", source, "is not in the checkpoint")
    refused("qq -> b\n*\n", source, '"qq -> b" matches no tensor')
    refused("drop qq\n*\n", source, '"drop qq" matches no tensor')
    refused("t.{i} = cat(0, l.{i}.q, m.{i})\n*\n", source, 'tensor "t.0": source tensor "m.0" is not in the checkpoint')
    refused("t = stack(0, l.{i}.q)\nl.{i}.k -> {i-1}\n*\n", source, "is negative")
    refused("t = stack(0, g.{i})\n*\n", source, 'tensor "g.1" is not in the checkpoint')
    refused("t = cat(1, a, s)\n*\n", source, "cat: operands must have equal dtypes and shapes except along DIM, got f32[4, 6]")
    refused("t = cat(0, a, l.0.q, 3, 5)\n*\n", source, "operand 0 must have size 3")
    refused("t = interleave(0, 3, a, l.0.q)\n*\n", source, "must be a multiple of the 3 groups, got 4")
    refused("t.{x,y} = split(1, a, 1, 2)\n*\n", source, "split: sizes add up to 3")
    refused("t.{x,y} = split(1, a, 1, 2, 3)\n*\n", source, "expected 2 sizes, one per target, got 3")
    refused("t.{w,x,y,z} = split(1, a)\n*\n", source, "cannot be split into 4 equal parts")
    refused("t.{x,y} = deinterleave(1, 2, a, 1, 1)\n*\n", source, "do not match dim 1")
    refused("t = slice(a, 0, 2, 5)\n*\n", source, "slice: the range must be inside dim 0")
    refused("t = reshape(a, 5, _)\n*\n", source, "reshape: the sizes have a product of 5, which does not match f32[4, 6]")
    refused("t = permute(a, 0, 0)\n*\n", source, "permute: expected each")
    refused("t = dequantise(a, s, 2, 2)\n*\n", source, "dequantise needs the dtype")
    refused("t = dequantise(a, s, 1, 2) f32[...]\n*\n", source, "one scale for each block")
    refused("a -> \"\\u0000\"\n*\n", source, "NUL")
    refused("a -> \"\"\n*\n", source, 'the new name of tensor "a" is empty')
    refused("mesh x=2\nt = cat(0, a, l.0.q) [(_|_|_)/x, _]\n*\n", source, "dim 0 has 3 segments of size _")
    refused("t = reshape(transpose(wide), 140000)\n*\n", "wide.safetensors", "more than 65536 boxes")
    write_rules("a -> b\n", "from.rules")
    r = run("convert", source, "no", "--from", "from.rules", "--to", "whole")
    assert r.returncode == 1 and "from.rules:1:" in r.stderr, r.stderr


def back():
    """Maps of several lines are undone, or the error names the line that cannot be undone."""
    lines = ("t.{e}.{x,y} = split(1, unstack(0, cube))\n{u,v}.{e} = unstack(0, {p,q})\n{n*}.w -> m.{n*}.w\n"
             "l.{i}.b -> r.{i+3}.b\ntied = plain\nw = interleave(0, 2, {c,d}, 2, 1)\n*\n")
    model = {"cube": tensor(2, 3, 4), "p": tensor(2, 3), "q": tensor(2, 3), "a.w": tensor(2), "l.0.b": tensor(1), "l.1.b": tensor(1),
             "plain": tensor(3), "c": tensor(4, 2), "d": tensor(2, 2)}
    st.write("back.safetensors", model)
    write_rules(lines)
    assert run("convert", "back.safetensors", "mapped.safetensors", "--to", "x.rules").returncode == 0
    got, _ = st.read("mapped.safetensors")
    assert {"t.0.x", "t.1.y", "u.0", "v.1", "m.a.w", "r.3.b", "r.4.b", "tied", "plain", "w"} <= set(got), sorted(got)
    r = run("convert", "mapped.safetensors", "again.safetensors", "--from", "x.rules", "--reverse", "--verify")
    assert r.returncode == 0, r.stderr
    assert st.read("again.safetensors")[0] == model
    for text, why in (("w = interleave(0, 2, {c,d})\n*\n", "sizes of the operands are unknown"), ("t = slice(a, 0, 0, 1)\n*\n", "slice"),
                      ("drop a\n*\n", "dropped tensors cannot be restored"), ("*.w -> w\n*\n", "cannot be derived")):
        write_rules(text)
        r = run("convert", "mapped.safetensors", "no", "--from", "x.rules", "--reverse")
        assert r.returncode == 1 and "x.rules:1:" in r.stderr and "cannot reverse" in r.stderr, (text, r.stderr)
        assert why in r.stderr or "no tensor of this name" in r.stderr, (text, r.stderr)


def segments(model):
    """`_` segments take the sizes of the operands, or of the source's own layout."""
    write_rules("mesh x=2\nt = cat(0, a, slice(l.0.q, 0, 0, 2)) [(_|_)/x, _]\n*\n")
    assert run("convert", "a.safetensors", "cut", "--to", "x.rules").returncode == 0
    got, meta = st.read("cut/rank-00001-of-00002.safetensors")
    assert meta["reshard.layout/t"] == "f32[(4|2)/x, 6] on x=2", meta
    a, q = model["a"], model["l.0.q"]
    assert got["t"] == ("F32", (3, 6), a[2][48:] + q[2][24:48])
    write_rules("mesh x=1\nt [(_|_)/x, _]\n*\n")
    assert run("convert", "cut", "cut1", "--to", "x.rules").returncode == 0
    assert st.read("cut1/rank-00000-of-00001.safetensors")[1]["reshard.layout/t"] == "f32[(4|2)/x, 6] on x=1"


def scales():
    w, s = tensor(8, 10, dtype="U8"), tensor(4, 3)
    st.write("w.safetensors", {"m.weight": w, "m.weight_s": s})
    write_rules("mesh x=2\n{n*}_s scales {n*} by 2,4\n*.weight [_/x, _]\n")
    assert run("convert", "w.safetensors", "scaled", "--to", "x.rules", "--verify").returncode == 0
    got, _ = st.read("scaled/rank-00001-of-00002.safetensors")
    assert got["m.weight_s"] == ("F32", (2, 3), s[2][24:]) and got["m.weight"][2] == w[2][40:]
    refused("mesh x=2\n{n*}_s scales {n*} by 3,4\n*.weight [_/x, _]\n", "w.safetensors", "one scale for each block")
    st.write("w.safetensors", {"m.weight": w, "m.weight_s": tensor(3, 3)})
    refused("mesh x=2\n{n*}_s scales {n*} by 3,4\n*.weight [_/x, _]\n", "w.safetensors", 'tensor "m.weight_s"',
            "rank 0", "index 4 of dim 0", "inside a block; cuts must be multiples of 3")


def digests(model):
    """Damage is detected in sources that are read completely; partly read sources are reported."""
    write_rules("mesh x=2\n* [...]\n\n", "cut.rules")
    for text, found in (("t.{x,y} = split(1, a, 2, 4)\n*\n", True), ("t = interleave(0, 2, a, l.0.q)\n*\n", True),
                        ("a -> b f64[...]\n*\n", True), ("t = transpose(a)\n*\n", True),
                        ("t = reshape(permute(a, 1, 0), 3, 8)\n*\n", True),
                        ("t = dequantise(l.0.q, a, 1, 1) f32[...]\n*\n", True), ("t = slice(a, 1, 0, 3)\n*\n", False)):
        subprocess.run(["rm", "-rf", "damaged"], check=True)
        assert run("convert", "a.safetensors", "damaged", "--to", "cut.rules", "--dedup").returncode == 0
        at = open("damaged/rank-00000-of-00002.safetensors", "rb").read().index(model["a"][2])
        with open("damaged/rank-00000-of-00002.safetensors", "r+b") as f:
            f.seek(at + 95)
            f.write(bytes([model["a"][2][95] ^ 1]))
        if found:
            refused(text, "damaged", "damaged", more=())
        else:
            write_rules(text)
            r = run("convert", "damaged", "part", "--to", "x.rules")
            assert r.returncode == 0 and "not checked: the digests of 1 tensor" in r.stdout, r


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        model = {n: tensor(4, 6) for n in ("a", "l.0.q", "l.0.k", "l.1.q", "l.1.k")}
        model |= {"g.0": tensor(2), "g.2": tensor(2), "x y": tensor(1), "s": tensor(2, 3)}
        st.write("a.safetensors", model)
        st.write("wide.safetensors", {"wide": tensor(2, 70000, dtype="U8")})
        names(model)
        errors()
        back()
        segments(model)
        scales()
        digests(model)
        os.chdir("/")
    print("lines as meant")


main()

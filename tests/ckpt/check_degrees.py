#!/usr/bin/env python3
"""Degrees: a model cut for a ranks becomes the same model cut for b ranks, for all pairs of degrees, bit by bit.

    check_degrees.py COMMAND

The oracle works on whole tensors and computes the indices of each rank independently of the library.
"""
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import safetensors as st
import seeds

DEGREES = (1, 2, 3, 4, 8, 16)
HEAD, HEADS, KV = 2, 48, 4  # elements of a head, heads of q, heads of k and v
EXPERTS = 16
command = os.path.abspath(sys.argv[1])


def seed():
    value = seeds.seed_of_tests()
    print("seed", value)
    return value


rng = random.Random(seed())


def tensor(dtype, *shape):
    return dtype, shape, rng.randbytes(st.count(shape) * st.BITS[dtype] // 8)


def model():
    q, kv = HEADS * HEAD, KV * HEAD
    m = {"l.0.q.weight": tensor("BF16", q, 6), "l.0.k.weight": tensor("BF16", kv, 6), "l.0.v.weight": tensor("BF16", kv, 6),
         "l.0.q.bias": tensor("F32", q), "l.0.o.weight": tensor("BF16", 6, q), "l.1.qkv.weight": tensor("F16", q + 2 * kv, 5),
         "l.1.qkv_even.weight": tensor("F32", 3 * q, 3), "l.0.gate_up.weight": tensor("BF16", 2 * 96, 7),
         "l.0.down.weight": tensor("F64", 7, 96), "l.0.blocks.weight": tensor("U8", 130, 3), "norm.weight": tensor("F32", 37),
         "odd.weight": tensor("I16", 7, 13, 5), "step": tensor("I64"), "empty": tensor("F32", 0, 4),
         "scale": tensor("F8_E8M0", 48, 2), "packed": tensor("F4", 48, 4)}
    for e in range(EXPERTS):
        m[f"experts.{e}.w"] = tensor("BF16", 5, 3)
    return m


def mesh(tp):
    """Returns the number of parts of k and v, and how many ranks share each part."""
    kv = max(k for k in (1, 2, 4) if tp % k == 0)
    return kv, tp // kv


def rules(tp):
    kv, rep = mesh(tp)
    each = EXPERTS // tp if EXPERTS % tp == 0 else 6
    lines = [f"mesh kv={kv},rep={rep}"]
    lines += ["*.q.weight  [_/(kv,rep), _]", "*.q.bias [_/(kv,rep)]  # a comment", "*.k.weight [_/kv, _]", "*.v.weight [_/kv, _]",
              "*.o.weight [_, _/(kv,rep)]",
              f"*.qkv.weight [({HEADS * HEAD}/(kv,rep)|{KV * HEAD}/kv|{KV * HEAD}/kv), _]",
              "*.qkv_even.weight [(96|96|_)/(kv,rep), _]", "*.gate_up.weight [(_|96)/(kv,rep), _]", "*.down.weight [_, 96/(kv,rep)]",
              "*.blocks.weight [_/(kv,rep)%8, _] uneven", "odd.weight [_, _/(kv,rep)~, 5]", "scale [_/(kv,rep), _]",
              "packed [_, _] uneven" if tp == 3 else "packed [_/(kv,rep), _]"]
    lines += [f"experts.<{r * each}-{r * each + each - 1}>.w [...] on one=1@{r}-{r}" for r in range(tp) if r * each < EXPERTS]
    lines += ["norm.weight [...]", "*  [...]"]
    return "\n".join(lines) + "\n"


# ---- the oracle ----

def even(n, p, r):
    assert n % p == 0
    return range(r * n // p, (r + 1) * n // p)


def balanced(n, p, r):
    sizes = [n // p + (i < n % p) for i in range(p)]
    return range(sum(sizes[:r]), sum(sizes[:r + 1]))


def nested(cut, n, kv, rep, r):
    outer = cut(n, kv, r // rep)
    return [outer[0] + i for i in cut(len(outer), rep, r % rep)] if len(outer) else []


def units(n, p, r, unit):
    per = -(-(-(-n // unit)) // p) * unit
    return range(min(n, r * per), min(n, (r + 1) * per))


def fused(parts):
    out, start = [], 0
    for size, indices in parts:
        out += [start + i for i in indices]
        start += size
    return out


def held(name, whole, tp, r):
    """Returns the part of the tensor that rank r of tp holds, or None."""
    kv, rep = mesh(tp)
    shape, rest = whole[1], [None] * (len(whole[1]) - 1)
    q, k = HEADS * HEAD, KV * HEAD
    if name.startswith("experts."):
        each = EXPERTS // tp if EXPERTS % tp == 0 else 6
        return st.take(whole, [None, None]) if int(name.split(".")[1]) // each == r else None
    if name.endswith((".q.weight", ".q.bias")) or name == "scale":
        return st.take(whole, [even(shape[0], tp, r)] + rest)
    if name.endswith((".k.weight", ".v.weight")):
        return st.take(whole, [even(shape[0], kv, r // rep)] + rest)
    if name.endswith((".o.weight", ".down.weight")):
        return st.take(whole, [None, even(shape[1], tp, r)])
    if name.endswith(".qkv.weight"):
        return st.take(whole, [fused([(q, even(q, tp, r)), (k, even(k, kv, r // rep)), (k, even(k, kv, r // rep))]), None])
    if name.endswith((".qkv_even.weight", ".gate_up.weight")):
        n = shape[0] // 96
        return st.take(whole, [fused([(96, even(96, tp, r))] * n), None])
    if name.endswith(".blocks.weight"):
        outer = units(130, kv, r // rep, 8)
        inner = units(len(outer), rep, r % rep, 8)
        return st.take(whole, [[outer.start + i for i in inner], None])
    if name == "odd.weight":
        return st.take(whole, [None, nested(balanced, 13, kv, rep, r), None])
    if name == "packed":
        if tp == 3:
            return whole
        rows = even(48, tp, r)
        return whole[0], (len(rows), 4), whole[2][rows.start * 2:rows.stop * 2]
    return whole


def check(path, whole, tp):
    for r in range(tp):
        got, meta = st.read(os.path.join(path, f"rank-{r:05}-of-{tp:05}.safetensors"))
        want = {n: h for n, h in ((n, held(n, t, tp, r)) for n, t in whole.items()) if h}
        assert meta["format"] == "pt" and meta["author"] == 'me "and" you' and meta["reshard.rank"] == str(r), meta
        assert set(got) == set(want), (path, r, set(got) ^ set(want))
        for name in want:
            assert got[name] == want[name], f"{path}: rank {r}: {name}: {got[name][:2]} is not {want[name][:2]}"


def convert(*words):
    run = subprocess.run([command, "convert", *words], capture_output=True, text=True)
    assert run.returncode == 0, (words, run.stderr)


def named_files(whole):
    """File names by pattern, several files per rank, and selected tensors can be written and read back."""
    with open("named.rules", "w") as f:
        f.write("files part-{part}-of-rank-{rank:03}.safetensors\n" + rules(4))
    convert("whole.safetensors", "named", "--to", "named.rules", "--max-shard-size", "700")
    names = os.listdir("named")
    assert len(names) > 8 and "part-0-of-rank-003.safetensors" in names and "part-1-of-rank-000.safetensors" in names, names
    convert("named", "named-back", "--to", "4.rules")
    check("named-back", whole, 4)
    convert("named", "some.safetensors", "--to", "whole", "--include", "l.*", "--include", "experts.<3-4>.w", "--exclude", "*.bias")
    got, _ = st.read("some.safetensors")
    assert set(got) == {n for n in whole if n.startswith("l.") and not n.endswith(".bias")} | {"experts.3.w", "experts.4.w"}
    convert("named", "hf", "--to", "whole", "--max-shard-size", "2000", "--verify")
    convert("hf", "hf-back", "--to", "4.rules")
    check("hf-back", whole, 4)


def main():
    whole = model()
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        st.write("whole.safetensors", whole, {"author": 'me "and" you'}, pad=3)
        for tp in DEGREES:
            with open(f"{tp}.rules", "w") as f:
                f.write(rules(tp))
            convert("whole.safetensors", f"from-whole-{tp}", "--to", f"{tp}.rules")
            check(f"from-whole-{tp}", whole, tp)
        for a in DEGREES:
            for b in DEGREES:
                extra = rng.choice([[], ["--verify"], ["--mem", "1M"], ["--threads", "1"], ["--no-digest"]])
                convert(f"from-whole-{a}", f"{a}-{b}", "--to", f"{b}.rules", *extra)
                check(f"{a}-{b}", whole, b)
        for a in DEGREES:
            convert(f"{a}-{rng.choice(DEGREES)}", f"{a}.safetensors", "--to", "whole", "--verify")
            got, meta = st.read(f"{a}.safetensors")
            assert got == {n: (d, tuple(s), b) for n, (d, s, b) in whole.items()} and meta["author"] == 'me "and" you'
            convert(f"from-whole-{a}", f"dedup-{a}", "--to", f"{a}.rules", "--dedup")
            convert(f"dedup-{a}", f"back-{a}", "--to", f"{a}.rules")
            check(f"back-{a}", whole, a)
        named_files(whole)
    print("all degrees agree with the oracle")


main()

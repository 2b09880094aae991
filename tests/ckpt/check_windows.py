#!/usr/bin/env python3
"""Windows: tensors of many windows, cut in every way of the notation, give the same bytes as `reshard apply`.

    check_windows.py COMMAND [PAIRS]      PAIRS: 6

Rank files of one layout become rank files of another; both are compared with the results of `apply` on the whole tensor.
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

command = os.path.abspath(sys.argv[1])
pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 6
seed = seeds.seed_of_tests()
print("seed", seed)
rng = random.Random(seed)

DTYPES = {"u8": ("U8", 1), "bf16": ("BF16", 2), "f32": ("F32", 4), "f64": ("F64", 8)}
LAYOUTS = ["[{a}/x, {b}] on x=4", "[{a}, {b}/x] on x=4", "[{a}/x~, {b}] on x=3", "[{a}, {b}/x~] on x=5", "[{a}/x:64, {b}/y:96] on x=2,y=2",
           "[{a}/x:7, {b}] on x=3", "[{a}, {b}]/x on x=5", "[{a}/y, {b}]/x on x=3,y=2", "[{a}/x, {b}] on x=4 order(1,0)",
           "[{a}, {b}/x] on x=2 order(1,0)", "[({p}|{q})/x, {b}] on x=4", "[{a}, ({r}|{s})/x] on x=3", "[({p}/(x,y)|{q}/x), {b}] on x=2,y=2",
           "[{a}, ({r}/(x,y)|{s}/y)] on x=3,y=2", "[{a}/x, {b}] on y=2,x=2", "[{a}, {b}] on x=2", "[{a}/(x,y), {b}] on y=2,x=2@[3,1,0,2]",
           "[{a}/x%100, {b}] on x=4", "[{a}, {b}] boxes 0:[0:{p},0:{b}] 1,3:[{p}:{a},0:{r}] 2:[{p}:{a},{r}:{b}]"]


def layout(dtype, a, b):
    p, r = rng.randrange(1, a), rng.randrange(1, b)
    return dtype + rng.choice(LAYOUTS).format(a=a, b=b, p=p, q=a - p, r=r, s=b - r)


def applied(dtype, a, b, to, data):
    return subprocess.run([command, "apply", f"{dtype}[{a}, {b}]", to], input=data, capture_output=True, check=True).stdout


def stored(path):
    """The bytes of all rank files, in the order of ranks; of a file without the tensor, none."""
    out = b""
    for name in sorted(os.listdir(path)):
        tensors, _ = st.read(os.path.join(path, name))
        out += tensors["x"][2] if "x" in tensors else b""
    return out


def convert(*words):
    run = subprocess.run([command, "convert", *words], capture_output=True, text=True)
    assert run.returncode == 0, (words, run.stderr)


def rules(text):
    with open("x.rules", "w") as f:
        f.write(f"x {text} uneven\n")
    return "x.rules"


def one(i):
    dtype = rng.choice(list(DTYPES))
    name, size = DTYPES[dtype]
    a, b = rng.randrange(700, 1900), rng.randrange(700, 1900)
    if rng.randrange(2):
        a, b = (a * 6, b // 6) if rng.randrange(2) else (a // 6, b * 6)
    first, second = layout(dtype, a, b), layout(dtype, a, b)
    data = rng.randbytes(a * b * size)
    st.write("whole.safetensors", {"x": (name, (a, b), data)})
    extra = ["--mem", rng.choice(["1M", "3M", "20M", "256M"]), "--threads", rng.choice("123"), *rng.choice([[], [], ["--no-digest"]])]
    convert("whole.safetensors", f"{i}a", "--to", rules(first), *extra)
    assert stored(f"{i}a") == applied(dtype, a, b, first, data), f"whole to {first} {extra}"
    convert(f"{i}a", f"{i}b", "--to", rules(second), *extra)
    assert stored(f"{i}b") == applied(dtype, a, b, second, data), f"{first} to {second} {extra}"
    convert(f"{i}b", f"{i}.safetensors", "--to", "whole", "--verify", *extra)
    assert st.read(f"{i}.safetensors")[0]["x"][2] == data, f"{second} to whole {extra}"
    other = "f32" if dtype != "f32" else "f16"
    third = other + second[len(dtype):]
    with open("y.rules", "w") as f:
        f.write(f"x {third} uneven\n")
    convert(f"{i}a", f"{i}c", "--to", "y.rules", "--verify", *extra)
    assert stored(f"{i}c") == applied(dtype, a, b, third, data), f"{first} to {third} {extra}"
    subprocess.run(["rm", "-r", f"{i}a", f"{i}b", f"{i}c", f"{i}.safetensors"], check=True)


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        for i in range(pairs):
            one(i)
        os.chdir("/")
    print(f"{pairs} pairs agree with apply")


main()

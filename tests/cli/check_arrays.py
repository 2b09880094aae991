"""Arrays: apply reads and writes .npy files, and one file per rank, checked by an independent reader and writer.

    check_arrays.py COMMAND

Random moves between two meshes, on every engine, of arrays in both orders; the seed is printed, RESHARD_SEED sets it.
If NumPy is installed, it must agree with that reader.
"""
import ast
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import seeds

try:
    import numpy
except ImportError:
    numpy = None

COMMAND = os.path.abspath(sys.argv[1])
SEED = seeds.seed_of_tests()
CASES = int(os.environ.get("RESHARD_CASES", 40))
KINDS = {"bool": ("|b1", "?"), "u8": ("|u1", "B"), "i8": ("|i1", "b"), "u16": ("<u2", "H"), "i16": ("<i2", "h"),
         "u32": ("<u4", "I"), "i32": ("<i4", "i"), "u64": ("<u8", "Q"), "i64": ("<i8", "q"), "f16": ("<f2", "e"),
         "f32": ("<f4", "f"), "f64": ("<f8", "d")}
failures = []


def check(what, ok, found=""):
    if not ok:
        failures.append(what)
        print(f"FAILED: {what}\n  found: {found}")


# ---- arrays as a dict from index to value ----

def indices(shape):
    if not shape:
        yield ()
        return
    for i in range(shape[0]):
        for rest in indices(shape[1:]):
            yield (i, *rest)


def in_order(shape, fortran):
    return [i[::-1] for i in indices(shape[::-1])] if fortran else list(indices(shape))


def write_array(path, dtype, shape, values, fortran, version=1):
    descr, letter = KINDS[dtype]
    text = str({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode()
    size = 10 if version == 1 else 12
    text += b" " * (-(size + len(text) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    data = struct.pack(f"<{len(values)}{letter}", *[values[i] for i in in_order(shape, fortran)])
    open(path, "wb").write(b"\x93NUMPY" + bytes([version, 0]) + length + text + data)


def read_array(path):
    raw = open(path, "rb").read()
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:8]
    end = 10 + struct.unpack("<H", raw[8:10])[0]
    assert end % 64 == 0 and raw[end - 1:end] == b"\n"
    header = ast.literal_eval(raw[10:end].decode())
    dtype = next(k for k, v in KINDS.items() if v[0] == header["descr"])
    shape = header["shape"]
    count = 1
    for n in shape:
        count *= n
    values = struct.unpack(f"<{count}{KINDS[dtype][1]}", raw[end:])
    answer = dict(zip(in_order(shape, header["fortran_order"]), values))
    if numpy:
        theirs = numpy.load(path)
        assert theirs.shape == shape and all(theirs[i] == v for i, v in answer.items()), path
    return dtype, shape, answer


# ---- a layout of two dims on a mesh, and what its ranks hold ----

class Layout:
    def __init__(self, dtype, shape, rng):
        self.dtype, self.shape, self.parts = dtype, shape, [rng.randint(1, 3), rng.randint(1, 3)]
        self.turned = rng.random() < 0.3  # stored column by column

    def text(self):
        order = " order(1,0)" if self.turned else ""
        return (f"{self.dtype}[{self.shape[0]}/a, {self.shape[1]}/b] on a={self.parts[0]},b={self.parts[1]}" + order)

    def range(self, d, k):
        chunk = -(-self.shape[d] // self.parts[d])
        return min(k * chunk, self.shape[d]), min((k + 1) * chunk, self.shape[d])

    def ranks(self):
        for a in range(self.parts[0]):
            for b in range(self.parts[1]):
                yield a * self.parts[1] + b, self.range(0, a), self.range(1, b)


def one_case(folder, rng, number):
    dtype = rng.choice(list(KINDS))
    shape = [rng.randint(0, 6), rng.randint(1, 6)]
    whole = {i: (n % 2 == 1 if dtype == "bool" else n) for n, i in enumerate(indices(shape))}
    source, result = Layout(dtype, shape, rng), Layout(dtype, shape, rng)
    fortran, version = rng.random() < 0.5, rng.choice((1, 2))
    for rank, rows, columns in source.ranks():
        part = {(i, j): whole[i + rows[0], j + columns[0]] for i in range(rows[1] - rows[0])
                for j in range(columns[1] - columns[0])}
        write_array(f"{folder}/rank{rank}.npy", dtype, (rows[1] - rows[0], columns[1] - columns[0]), part, fortran, version)
    engine = rng.choice(("local", "threads", "shm"))
    words = ("apply", "--engine", engine, source.text(), result.text(), "--in", f"{folder}/rank%d.npy", "--out",
             f"{folder}/part%02d.npy")
    said = subprocess.run([COMMAND, *words], capture_output=True, text=True)
    check(f"case {number}: {' '.join(words)}", said.returncode == 0 and not said.stderr, said)
    for rank, rows, columns in result.ranks():
        got = read_array(f"{folder}/part{rank:02d}.npy")
        wanted = (dtype, (rows[1] - rows[0], columns[1] - columns[0]),
                  {(i, j): whole[i + rows[0], j + columns[0]] for i in range(rows[1] - rows[0])
                   for j in range(columns[1] - columns[0])})
        check(f"case {number}: rank {rank} of {result.text()} from {source.text()} on {engine}", got == wanted, got)


# ---- errors ----

def refused(folder, words, sentence):
    said = subprocess.run([COMMAND, "apply", *words], capture_output=True, text=True, cwd=folder)
    check(f"{' '.join(words)}: {sentence}", said.returncode == 1 and said.stderr == f"reshard: {sentence}\n", said.stderr)


def refusals(folder):
    values = {i: 1 for i in indices((2, 3))}
    write_array(f"{folder}/a.npy", "f32", (2, 3), values, False)
    write_array(f"{folder}/r0.npy", "f32", (2, 3), values, False)
    write_array(f"{folder}/r1.npy", "f32", (2, 3), values, True)
    open(f"{folder}/text.npy", "w").write("not an array, but long enough")
    raw = open(f"{folder}/a.npy", "rb").read()
    open(f"{folder}/short.npy", "wb").write(raw[:-4])
    open(f"{folder}/long.npy", "wb").write(raw + b"1234")
    open(f"{folder}/big.npy", "wb").write(raw.replace(b"<f4", b">f4"))
    open(f"{folder}/cut.npy", "wb").write(raw[:40])
    to = ["f32[2, 3]", "--out", "b.npy"]
    refused(folder, ["f64[2, 3]", "f64[2, 3]", "--in", "a.npy"], "a.npy: expected f64[2, 3], the part of rank 0 of FROM, got f32[2, 3]")
    refused(folder, ["f32[3, 2]", "f32[3, 2]", "--in", "a.npy"], "a.npy: expected f32[3, 2], the part of rank 0 of FROM, got f32[2, 3]")
    refused(folder, ["f32[2, 3]", *to, "--in", "text.npy"], "text.npy: not a .npy file: wrong magic number")
    refused(folder, ["f32[2, 3]", *to, "--in", "short.npy"], "short.npy: expected 24 bytes for FROM, got 20")
    refused(folder, ["f32[2, 3]", *to, "--in", "long.npy"], "long.npy: expected 24 bytes for FROM, got 28")
    refused(folder, ["f32[2, 3]", *to, "--in", "cut.npy"], "cut.npy: the .npy header of 118 bytes is truncated or too long")
    refused(folder, ["f32[2, 3]", *to, "--in", "nothere.npy"], "nothere.npy: No such file or directory")
    refused(folder, ["f32[2, 3]", "f32[2, 3]", "--in", "a.npy", "--out", "no/b.npy"], "no/b.npy: No such file or directory")
    refused(folder, ["bf16[6]", "bf16[6]", "--in", "a.npy"], "a.npy: .npy has no dtype for bf16; use another file ending to write raw elements")
    refused(folder, ["f32[4/x, 3] on x=2", "f32[4, 3]", "--in", "a.npy"],
            "a.npy: a .npy file holds one part, but FROM has 2; use %d in the name for one file per rank")
    refused(folder, ["f32[2, 3]", "f32[2, 3] boxes 0:[0:1,0:3] 0:[1:2,0:3]", "--in", "a.npy", "--out", "b%d.npy"],
            "b%d.npy: a .npy file holds one part, but rank 0 of TO has 2; write raw elements instead")
    refused(folder, ["f32[4/x, 3] on x=2", "f32[4, 3]", "--in", "r%d.npy"],
            "r1.npy: fortran_order differs from the files before it; all files must have the same order")
    refused(folder, ["f32[2, 3]", "f32[2, 3]", "--in", "big.npy"],
            "big.npy: dtype '>f4' is not supported; expected little-endian numbers")
    check("nothing was written", not os.path.exists(f"{folder}/b.npy"))


print(f"seed {SEED}" + ("" if numpy else ", without numpy"))
generator = random.Random(SEED)
for case in range(CASES):
    with tempfile.TemporaryDirectory() as scratch:
        one_case(scratch, generator, case)
with tempfile.TemporaryDirectory() as scratch:
    refusals(scratch)
print(f"{CASES} cases, {len(failures)} failures")
sys.exit(1 if failures else 0)

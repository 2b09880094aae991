#!/usr/bin/env python3
"""Bad: files that are not checkpoints are rejected quickly, the error names the position, and no files are left.

    check_bad.py COMMAND
"""
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import safetensors as st
import skips

command = os.path.abspath(sys.argv[1])
sanitized = skips.is_sanitized(command)


def raw(text, data=b"", length=None):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def header(**tensors):
    return json.dumps(tensors)


GOOD = header(a=entry())
CASES = {
    "empty": (b"", "at least 8"),
    "seven bytes": (b"1234567", "at least 8"),
    "2^63 bytes": (raw(GOOD, bytes(8), 1 << 63), "a header of at most 100000000 bytes"),
    "100 MB and one": (raw(GOOD, bytes(8), 100_000_001), "a header of at most 100000000 bytes"),
    "longer than the file": (raw(GOOD, b"", 4000), "the header should have 4000 bytes"),
    "no JSON": (raw("hello", b""), "byte 8: expected a value, got \"hello\""),
    "a list": (raw("[]"), "expected an object, got a list"),
    "cut off": (raw('{"a":{"dtype":"F32","sha'), "got the end of the JSON"),
    "trailing bytes": (raw(GOOD + "x", bytes(8)), "expected the end of the JSON, got 'x'"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 'run "git lfs pull"'),
    "backwards": (raw(header(a=entry(offsets=(8, 0))), bytes(8)), "before their start 8"),
    "beyond the end": (raw(header(a=entry(offsets=(0, 16))), bytes(8)), "the file has only 8 bytes of data"),
    "overlap": (raw(header(a=entry(), b=entry(offsets=(4, 12))), bytes(12)), "tensor \"b\": its data begins at byte"),
    "hole": (raw(header(a=entry(), b=entry(offsets=(12, 20))), bytes(20)), "belong to no tensor"),
    "bytes behind": (raw(GOOD, bytes(12)), "but the file ends at byte"),
    "wrong size": (raw(header(a=entry(shape=(3,))), bytes(8)), "need 12 bytes, but its data_offsets have 8"),
    "overflow": (raw(header(a=entry(shape=(1 << 40, 1 << 40))), bytes(8)), "exceeds 2^63 - 1"),
    "overflow of bits": (raw(header(a=entry(shape=(1 << 62,))), bytes(8)), "exceeds 2^63 - 1"),
    "negative": (raw(header(a=entry(shape=(-2,))), bytes(8)), "must be an integer from 0 to 2^63 - 1, got -2"),
    "half": (raw(GOOD.replace("[2]", "[2.5]"), bytes(8)), "must be an integer from 0 to 2^63 - 1, got 2.5"),
    "2^64": (raw(GOOD.replace("[2]", "[18446744073709551618]"), bytes(8)), "must be an integer from 0"),
    "nine dims": (raw(header(a=entry(shape=[1] * 8 + [2])), bytes(8)), "more than 8 dims"),
    "dtype": (raw(header(a=entry(dtype="F33")), bytes(8)), "unknown dtype \"F33\""),
    "C128": (raw(header(a=entry(dtype="C128", offsets=(0, 32))), bytes(32)), "unknown dtype \"C128\""),
    "no dtype": (raw('{"a":{"shape":[2],"data_offsets":[0,8]}}', bytes(8)), "missing key \"dtype\""),
    "unknown field": (raw('{"a":{"x":1}}'), "unknown key \"x\""),
    "field twice": (raw('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)), "duplicate key \"dtype\""),
    "name twice": (raw('{"a":%s,"a":%s}' % (json.dumps(entry()), json.dumps(entry(offsets=(8, 16)))), bytes(16)), "duplicate tensor"),
    "metadata twice": (raw('{"__metadata__":{},"__metadata__":{}}'), "duplicate key"),
    "metadata key twice": (raw('{"__metadata__":{"a":"1","a":"2"}}'), "duplicate key"),
    "metadata number": (raw('{"__metadata__":{"a":1}}'), "expected a string, got a number"),
    "deep": (raw('{"__metadata__":' + "[" * 5000 + "]" * 5000 + "}"), "expected an object, got a list"),
    "deep offsets": (raw('{"a":{"data_offsets":' + "[" * 5000), "data offset"),
    "one offset": (raw('{"a":{"data_offsets":[1]}}'), "data offset"),
    "NUL": (raw('{"a\\u0000b":{}}'), "NUL"),
    "half a pair": (raw('{"\\ud800x":{}}'), "pair"),
    "no UTF-8": (raw(b'{"\xff\xfe":{}}'), "UTF-8"),
    "control": (raw(b'{"a\nb":{}}'), "byte 0x0a"),
    "half a byte": (raw(header(a=entry(dtype="F4", shape=(3,), offsets=(0, 1))), b"\0"), "whole number of bytes"),
}


def run(*words, cpu=20, memory=1 << 30):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        if not sanitized:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return subprocess.run([command, *words], capture_output=True, text=True, preexec_fn=limit)


def broken_files():
    for name, (data, want) in CASES.items():
        with open("bad.safetensors", "wb") as f:
            f.write(data)
        for words in (["inspect", "bad.safetensors"], ["convert", "bad.safetensors", "out", "--to", "whole"]):
            r = run(*words)
            assert r.returncode == 1 and want in r.stderr and "bad.safetensors" in r.stderr, (name, r.returncode, r.stderr)
        assert sorted(os.listdir(".")) == ["bad.safetensors"], name
        with open("bad.safetensors", "rb") as f:
            assert f.read() == data
    os.remove("bad.safetensors")


def index(**weight_map):
    with open("hf/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": weight_map}, f)


def refused(want, *words):
    r = run(*(words or ("inspect", "hf")))
    assert r.returncode == 1 and want in r.stderr, (want, r.returncode, r.stderr)
    assert not os.path.exists("out")


def hf_directories():
    os.mkdir("hf")
    a, b = ("F32", (2,), bytes(8)), ("F32", (1,), b"abcd")
    st.write("hf/1.safetensors", {"a": a})
    st.write("hf/2.safetensors", {"b": b})
    st.write("outside.safetensors", {"c": b})
    index(a="1.safetensors", b="2.safetensors")
    assert run("inspect", "hf").returncode == 0
    index(a="1.safetensors")
    assert run("inspect", "hf").returncode == 0  # the index decides which files count
    index(a="1.safetensors", b="1.safetensors")
    refused("tensor \"b\" is in 1.safetensors, but that file does not have it")
    for name in ("../outside.safetensors", os.path.abspath("outside.safetensors"), ".."):
        index(a="1.safetensors", c=name)
        refused("file names must not have a path")
    os.symlink("../outside.safetensors", "hf/link.safetensors")
    index(a="1.safetensors", c="link.safetensors")
    refused("outside the directory")
    st.write("hf/2.safetensors", {"b": b, "a": a})
    index(a="1.safetensors", b="2.safetensors")
    refused("duplicate tensor \"a\"")
    st.write("hf/2.safetensors", {"b": b, "z": b})
    refused("\"z\" of 2.safetensors is not in the index")
    shutil.rmtree("hf")
    # A download cache: names in snapshots/REVISION are links to blobs.
    os.makedirs("cache/blobs")
    os.makedirs("cache/snapshots/1")
    st.write("cache/blobs/x", {"a": a})
    with open("cache/blobs/y", "w") as f:
        f.write("config")
    os.symlink("../../blobs/x", "cache/snapshots/1/model.safetensors")
    os.symlink("../../blobs/y", "cache/snapshots/1/config.json")
    r = run("convert", "cache/snapshots/1", "copy", "--to", "whole")
    assert r.returncode == 0, r.stderr
    with open("copy/config.json") as f:
        assert f.read() == "config" and not os.path.islink("copy/config.json")
    assert st.read("copy/model.safetensors")[0] == {"a": a}
    shutil.rmtree("copy")
    shutil.rmtree("cache")


def rules(text, want, *more):
    with open("x.rules", "w") as f:
        f.write(text)
    refused(want, "convert", "a.safetensors", "out", "--to", "x.rules", *more)


def rule_files():
    st.write("a.safetensors", {"q": ("F32", (28, 2), bytes(224)), "c": ("C64", (2,), bytes(16)), "p": ("F4", (4, 6), bytes(12)),
                               "e": ("F8_E8M0", (4,), bytes(4))})
    rules("mesh tp=4\nq [_/tp, _]\n", "no rule matches tensors \"c\", \"p\", \"e\"")
    rules("mesh tp=8\nq [_/tp, _]\n* [...]\n", "x.rules:2: tensor \"q\": f32[28/tp, 2] on tp=8 cuts a size of 28 into unequal parts")
    rules("mesh tp=8\nq [_/tp%4, _]\n* [...]\n", "x.rules:2: tensor \"q\": f32[28/tp%4, 2] on tp=8 cuts a size of 28 into unequal parts")
    rules("mesh tp=2\nq [(_|4)/tp%4, _]\n* [...]\n", "cuts a size of 4 into unequal parts")
    rules("mesh tp=2\nqq [...]\n* [...]\n", "x.rules:2: \"qq\" matches no tensor of a.safetensors")
    rules("mesh tp=2\n* [...]\nq [...]\n", "x.rules:3: \"q\" matches no tensor: line 2 already matches \"q\"")
    rules("mesh tp=2\nqq [...]\n* [...]\n", "matches no tensor", "--include", "q")
    rules("mesh x=1000000\n* [...]\n", "x.rules:1:6: the mesh has more than 65536 ranks")
    rules("mesh x=2\nq [...] on y=3@[0,1,65536]\n* [...]\n", "x.rules:2:3: the mesh of this line has more than 65536 ranks")
    rules("mesh tp=4\nq [_/tq, _]\n", "x.rules:2:6: axis \"tq\"")
    rules("mesh tp=4\nq tp\n", "x.rules:2:3: ")
    rules("mesh tp=4\nmesh tp=2\nq [...]\n", "x.rules:2:1: only one mesh line")
    rules("# nothing\n", "the file has no rules")
    rules("mesh tp=x\nq [...]\n", "x.rules:1:9:")
    rules("mesh tp=2\nfiles rank.safetensors\n* [...]\n", "must contain {rank}")
    rules("mesh tp=2\nfiles part{rank}.bin\n* [...]\n", "\"files part{rank}.bin\": names of rank files must end in .safetensors")
    rules("mesh tp=2\nc f32[...]\n* [...]\n", "tensor \"c\": cannot convert c64 to f32")
    rules("mesh tp=2\nc c128[...]\n* [...]\n", "safetensors has no dtype c128")
    rules("mesh tp=2\ne f32[...]\n* [...]\n", "cannot convert f8e8m0 to f32")
    rules("mesh tp=4\np [_, _/tp~]\n* [...]\n", "inside a byte")
    rules("mesh tp=2\nq [_, _, _]\n* [...]\n", "tensor \"q\"")
    rules("mesh tp=2\nq f32[_, _] sum(tp)\n* [...]\n", "partial")
    rules("mesh tp=2\n* [...]\n", "at least", "--mem", "10")
    refused("different path", "convert", "a.safetensors", "a.safetensors", "--to", "whole", "--force")
    with open("x.rules", "w") as f:
        f.write("mesh tp=2\np [_, _]\nq f16[_/tp, _]\n* [...]\n")
    for text, more in (("mesh tp=2\noptional qq [...]\n* [...]\n", ()), ("mesh tp=2\nq [...]\nc [...]\n", ("--include", "q")),
                       ("mesh tp=8\nq [_/tp%4, _] uneven\n* [...]\n* [...]\n", ())):
        with open("y.rules", "w") as f:
            f.write(text)
        r = run("convert", "a.safetensors", "out", "--to", "y.rules", "--dry-run", *more)
        assert r.returncode == 0, (text, r.stderr)
    r = run("convert", "a.safetensors", "good", "--to", "x.rules", "--verify")
    assert r.returncode == 0 and "(1 tensor converted" in r.stdout, r
    refused("already exists (use --force to replace it)", "convert", "a.safetensors", "good", "--to", "x.rules")
    # Damaged data of a source that states digests is detected by convert and by verify.
    with open("good/rank-00001-of-00002.safetensors", "r+b") as f:
        f.seek(-20, 2)
        f.write(b"\x55")
    r = run("verify", "a.safetensors", "good")
    assert r.returncode == 1 and "different" in r.stdout, r
    shutil.rmtree("good")


def rank_files():
    """A header may claim any number of ranks; the cost of rejecting it does not depend on that number."""
    os.mkdir("ranks")
    def write(rank, layout):
        text = json.dumps({"__metadata__": {"reshard.rank": rank, "reshard.layout/w": layout}, "w": entry("U8", (4,), (0, 4))})
        with open("ranks/rank-00000-of-00001.safetensors", "wb") as f:
            f.write(raw(text, b"abcd"))
    write("0", "u8[4] on x=1")
    assert run("inspect", "ranks").returncode == 0
    write("0", "u8[ 4 ] on x=1@[0]") # the same, not in its canonical form
    assert run("inspect", "ranks").returncode == 0
    write("0", "u8[4] on x=1000000000")
    refused("has 1000000000 ranks, but there is only 1 rank file", "inspect", "ranks")
    write("9223372036854775807", "u8[4] on x=1")
    refused("rank 9223372036854775807 is not in its layout", "inspect", "ranks")
    # A partial tensor would be the contribution of one rank, mistaken for the value.
    write("0", "u8[4] on x=1 sum(x)")
    refused("has a partial layout, which cannot be read from files", "inspect", "ranks")
    with open("x.rules", "w") as f:
        f.write("mesh x=1\nfiles rank-{rank:05}-of-00001.safetensors\n* [...] sum(x)\n")
    refused("has a partial layout, which cannot be read from files", "convert", "ranks", "out", "--from", "x.rules", "--to", "whole")
    shutil.rmtree("ranks")


def gguf():
    """A truncated file is distinguished from a complete one."""
    def text(x):
        return struct.pack("<Q", len(x)) + x
    file = b"GGUF" + struct.pack("<IQQ", 3, 2, 2) + text(b"name") + struct.pack("<I", 8) + text(b"llama")
    file += text(b"list") + struct.pack("<IIQIII", 9, 4, 3, 1, 2, 3)
    file += text(b"tok") + struct.pack("<IQQIQ", 2, 256, 7, 12, 0) + text(b"n") + struct.pack("<IQIQ", 1, 64, 0, 1024)
    header = len(file)
    file += bytes(-len(file) % 32 + 1024 + 256)
    with open("a.gguf", "wb") as f:
        f.write(file)
    r = run("inspect", "a.gguf")
    assert r.returncode == 0 and "Q4_K[7, 256]" in r.stdout and "f32[64]" in r.stdout, r
    refused("is quantised (Q4_K", "convert", "a.gguf", "out", "--to", "whole")
    for n in (*range(4, header), header, len(file) - 1):
        with open("a.gguf", "wb") as f:
            f.write(file[:n])
        assert run("inspect", "a.gguf").returncode == 1, n
    os.remove("a.gguf")


def processor_seconds():
    """CPU seconds of the commands that have ended so far, which do not depend on other load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def many_tensors():
    """Half a million tensors are read quickly and in bounded memory."""
    entries = ",".join(f'"model.layers.{i}.weight":{{"dtype":"U8","shape":[1,1],"data_offsets":[{i},{i + 1}]}}' for i in range(500_000))
    with open("many.safetensors", "wb") as f:
        f.write(raw("{" + entries + "}", bytes(500_000)))
    start = processor_seconds()
    r = run("inspect", "many.safetensors", memory=1 << 29)
    seconds = processor_seconds() - start
    assert r.returncode == 0 and r.stdout.count("\n") == 500_001, r.stderr
    print(f"500000 tensors inspected in {seconds:.2f} s")
    assert seconds < 20
    os.remove("many.safetensors")


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        broken_files()
        hf_directories()
        rule_files()
        rank_files()
        gguf()
        many_tensors()
        os.chdir("/")
    print("all refused")


main()

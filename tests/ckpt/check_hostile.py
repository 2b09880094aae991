"""Hostile: malicious files of torch.save are rejected, or listed as non-tensor entries, in bounded memory and time; no code
in them is run.

    check_hostile.py COMMAND

Pickles are written opcode by opcode here.  Every command has 600 MiB of address space and 20 seconds.
"""
import io
import os
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import skips

command = os.path.abspath(sys.argv[1])
sanitized = skips.is_sanitized(command)
MEMORY = 600 << 20


def limit():
    if not sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


def run(*words):
    return subprocess.run([command, *words], capture_output=True, text=True, preexec_fn=limit)


def refused(data, *wanted):
    with open("x.pt", "wb") as file:
        file.write(data)
    for words in (("inspect", "x.pt"), ("convert", "x.pt", "out.safetensors", "--to", "whole", "--drop")):
        r = run(*words)
        assert r.returncode == 1 and r.stderr.startswith("reshard: "), (wanted, r.returncode, r.stdout[:300], r.stderr[:300])
        assert any(word in r.stderr for word in wanted), (wanted, r.stderr)
    assert not os.path.exists("out.safetensors") and not os.path.exists("out.safetensors.reshard-partial")


def listed(data, *wanted):
    """The file is read, and its non-tensor entries are listed."""
    with open("x.pt", "wb") as file:
        file.write(data)
    r = run("inspect", "x.pt")
    assert r.returncode == 0 and all(word in r.stdout for word in wanted), (wanted, r)


# ---- writing ----

def archive(body, storages=None):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", body)
        for key, data in (storages or {}).items():
            z.writestr(f"archive/data/{key}", data)
        z.writestr("archive/version", b"3\n")
    return out.getvalue()


def text(x):
    return b"X" + struct.pack("<I", len(x)) + x.encode()


def number(x):
    if 0 <= x < 1 << 31:
        return b"J" + struct.pack("<i", x)
    raw = x.to_bytes((x.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def many(*items):
    return b"(" + b"".join(items) + b"t"


def storage(key="0", count=4, kind="FloatStorage"):
    return many(text("storage"), b"ctorch\n" + kind.encode() + b"\n", text(key), text("cpu"), number(count)) + b"Q"


def tensor(shape, strides, offset=0, **place):
    sizes = many(*map(number, shape)), many(*map(number, strides))
    rest = many(storage(**place), number(offset), *sizes, b"\x89", b"ccollections\nOrderedDict\n)R")
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + rest + b"R"


def saved(value, storages=None):
    return archive(b"\x80\x02}" + text("w") + value + b"s.", {"0": bytes(16)} if storages is None else storages)


def older(value, sizes=b""):
    """The stream before 1.6: magic, version, system, the object, keys of storages, and their elements."""
    head = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + b"\x80\x02M\xe9\x03." + b"\x80\x02}."
    return head + b"\x80\x02}" + text("w") + value + b"s." + b"\x80\x02]" + text("0") + b"a." + sizes


# ---- cases ----

def numbers():
    huge = (1 << 62, (1 << 63) - 1, 1 << 63, 1 << 200, -1, -(1 << 63))
    for x in huge:
        refused(saved(tensor([x], [1])), "x.pt")
        refused(saved(tensor([2, x], [2, 1])), "x.pt")
        refused(saved(tensor([2], [1], offset=x)), "x.pt")
        refused(saved(tensor([2, 2], [x, 1])), "x.pt")
        refused(saved(tensor([4], [1], count=x)), "x.pt")
        refused(older(many(text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), number(x), b"N") + b"Q"), "x.pt", "reshard")
    refused(saved(tensor([5], [1])), "beyond its storage")  # the storage has four
    refused(saved(tensor([1] * 40, [1] * 40)), "dims", "dim")
    refused(archive(b"\x80\x02\x8b" + struct.pack("<i", 0x7FFFFFFF) + b"\x01."), "x.pt")  # an integer of 2 GiB
    refused(archive(b"\x80\x02\x8b" + struct.pack("<i", -5) + b"\x01."), "x.pt")
    refused(archive(b"\x80\x02X" + struct.pack("<I", 0xFFFFFFF0) + b"a."), "x.pt")  # a text of 4 GiB
    refused(archive(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"a."), "x.pt")
    refused(archive(b"\x80\x02r" + struct.pack("<I", 0xFFFFFFFF) + b"."), "x.pt")  # a memo of 4 Gi entries
    refused(archive(b"\x80\x02]r" + struct.pack("<I", 0xFFFFFFFE) + b"."), "x.pt")


def memo_tricks():
    doubled = b"\x80\x02]q\x00"
    for i in range(60):  # a list of two lists of two lists ...
        doubled += b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
    refused(archive(doubled + b"."), "x.pt")
    keys = b"\x80\x02}q\x00" + b"".join(text(f"k{i}") + b"h\x00s" for i in range(3)) + b"."
    refused(archive(keys), "circle", "itself", "refer", "deep")  # a dict in itself
    refused(archive(b"\x80\x02]q\x00h\x00a."), "circle", "itself", "refer", "deep")
    refused(archive(b"\x80\x02h\x07."), "x.pt")  # this memo number was never set
    wide = b"\x80\x02" + tensor([4], [1]) + b"q\x000}" + b"(" + b"".join(text(f"n{i}") + b"h\x00" for i in range(50000)) + b"u."
    listed(archive(wide, {"0": bytes(16)}), "50000 tensors")  # one tensor, many names
    deep = b"\x80\x02}q\x00" + b"".join(text("k" * 200) + b"}q" + bytes([i % 250 + 1]) + b"sh" + bytes([i % 250 + 1]) for i in range(3000))
    refused(archive(deep + b"."), "x.pt")


def recursion():
    for opening, closing in ((b"(", b"t"), (b"]", b"a"), (b"(", b"l")):
        refused(archive(b"\x80\x02" + opening * 200000 + b"N" + closing * 200000 + b"."), "x.pt")
    nested = b"N"
    for _ in range(40000):
        nested = nested + b"\x85"  # tuples of one
    refused(archive(b"\x80\x02" + nested + b"."), "x.pt")
    refused(older(b"(" * 100000 + b"N" + b"t" * 100000), "x.pt")


def storages():
    """Rejects archive entries that overlap, end outside the archive, or state a wrong length."""
    good = saved(tensor([4], [1]), {"0": bytes(range(16)), "1": bytes(range(16))})
    at = good.rindex(b"PK\x01\x02" + good[good.rindex(b"archive/data/1") - 42:][:0])
    central = [i for i in range(len(good)) if good.startswith(b"PK\x01\x02", i)]
    assert len(central) == 4 and at in central
    place = lambda i: struct.unpack("<I", good[central[i] + 42:central[i] + 46])[0]
    both = bytearray(good)
    both[central[2] + 42:central[2] + 46] = struct.pack("<I", place(1))  # two entries at the same offset
    refused(bytes(both), "x.pt")
    for field, value in ((20, 0x7FFFFFFF), (24, 0x7FFFFFFF), (24, 3), (42, 0x7FFFFFF0), (42, len(good) - 3), (28, 0xFFFF)):
        bad = bytearray(good)
        width = 2 if field == 28 else 4
        bad[central[1] + field:central[1] + field + width] = struct.pack("<I" if width == 4 else "<H", value)
        refused(bytes(bad), "x.pt")
    end = good.rindex(b"PK\x05\x06")
    for entries, size in ((0xFFFE, None), (None, 0x7FFFFFF0)):
        bad = bytearray(good)
        if entries:
            bad[end + 8:end + 12] = struct.pack("<HH", entries, entries)
        if size:
            bad[end + 12:end + 16] = struct.pack("<I", size)
        refused(bytes(bad), "x.pt")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", bytes(1 << 28))
    refused(bomb.getvalue(), "x.pt")


def little_becomes_much():
    """A stride of 0 repeats an element; 4 bytes would become 16 TiB."""
    with open("x.pt", "wb") as file:
        file.write(saved(tensor([1 << 21, 1 << 21], [0, 0], count=1), {"0": bytes(4)}))
    r = run("convert", "x.pt", "out.safetensors", "--to", "whole")
    assert r.returncode == 1 and r.stderr.startswith("reshard: "), r
    assert not os.path.exists("out.safetensors"), r


def nothing_is_run():
    class Touch:
        def __reduce__(self):
            return os.system, ("touch was-run",)
    listed(archive(pickle.dumps({"w": Touch()}, protocol=2)), "w")
    listed(archive(b"\x80\x02}" + text("w") + b"cbuiltins\neval\n" + many(text("open('was-run','w')")) + b"R" + b"s."), "w")
    assert not os.path.exists("was-run")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for check in (numbers, memo_tricks, recursion, storages, little_becomes_much, nothing_is_run):
        check()
        print(check.__name__)

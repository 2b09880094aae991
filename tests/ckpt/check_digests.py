#!/usr/bin/env python3
"""Digests: a source whose elements do not match its stated digests is not converted; the output says what is not checked.

    check_digests.py COMMAND
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors as st

command = os.path.abspath(sys.argv[1])
RULES = "mesh tp=2\nw [_/tp, _]\nv [...]\n"
FILES = [f"good/rank-0000{r}-of-00002.safetensors" for r in range(2)]


def run(*words):
    return subprocess.run([command, "convert", *words], capture_output=True, text=True)


def refused(want, *words):
    r = run(*words)
    assert r.returncode == 1 and want in r.stderr, (words, want, r)
    assert not [name for name in os.listdir(".") if name.startswith("out")], (words, os.listdir("."))


def done(*words):
    r = run(*words)
    assert r.returncode == 0, (words, r)
    for name in os.listdir("."):
        if name.startswith("out"):
            (shutil.rmtree if os.path.isdir(name) else os.remove)(name)
    return r.stdout


def damage(path, last):
    """Changes one byte, `last` bytes before the end."""
    with open(path, "r+b") as f:
        f.seek(-last, 2)
        byte = f.read(1)
        f.seek(-last, 2)
        f.write(bytes([byte[0] ^ 0x10]))


def state(path, key, text):
    tensors, metadata = st.read(path)
    metadata[key] = text
    for pad in range(8):  # until the data is aligned
        st.write(path, tensors, metadata, pad)
        with open(path, "rb") as f:
            if int.from_bytes(f.read(8), "little") % 8 == 0:
                return


def damaged():
    """The elements that are read are checked, however the tensors are written."""
    with open("half.rules", "w") as f:
        f.write("mesh tp=4\nw f16[_, _/tp]\nv f64[...]\n")
    with open("same.rules", "w") as f:
        f.write("mesh tp=4\nw [_, _/tp]\nv [...]\n")
    wrong = "is damaged"
    for to in ("whole", "same.rules", "half.rules"):
        done("good", "out", "--to", to, "--verify")
        damage(FILES[1], 29)
        refused(wrong, "good", "out", "--to", to)
        refused(wrong, "good", "out", "--to", to, "--verify")
        refused(wrong, "good", "out", "--to", to, "--no-digest", "--verify")
        refused(wrong, "good", "out", "--to", to, "--mem", "1M", "--threads", "3")
        damage(FILES[1], 29)
        done("good", "out", "--to", to, "--no-digest", "--verify")


def not_checked():
    """Without digests nothing is checked, and the command says so."""
    damage(FILES[0], 29)
    words = ("good", "out", "--to", "whole", "--no-digest")
    assert "not checked: the digests of 2 tensors of the source (because of --no-digest" in done(*words)
    assert json.loads(done(*words, "--json"))["digests_unchecked"] == 2
    # digests of omitted tensors are not checked
    assert "of 1 tensor of" in done(*words, "--include", "w")
    damage(FILES[0], 29)
    assert "not checked" not in done("good", "out", "--to", "whole")
    assert json.loads(done("good", "out", "--to", "whole", "--json"))["digests_unchecked"] == 0


def other_texts():
    shutil.copytree("good", "kept")
    for text in ("d2:", "d2:xyz", "d2:" + "0" * 31 + "G", "d2:" + "0" * 33, "", "hello"):
        state(FILES[0], "reshard.digest/w", text)
        refused("digest", "good", "out", "--to", "whole")
        refused(f'"{text}"', "good", "out", "--to", "whole", "--no-digest")
    for file in FILES:  # the formula of a later version
        state(file, "reshard.digest/w", "d3:0123")
    assert "not checked: the digests of 1 tensor of the source (" in done("good", "out", "--to", "whole")
    assert json.loads(done("good", "out", "--to", "whole", "--json"))["digests_unchecked"] == 1
    shutil.rmtree("good")
    os.rename("kept", "good")


def files_that_disagree():
    shutil.copytree("good", "kept")
    text = st.read(FILES[0])[1]["reshard.digest/w"]
    state(FILES[1], "reshard.digest/w", text[:-1] + ("0" if text[-1] != "0" else "1"))
    refused("in another file", "good", "out", "--to", "whole")
    shutil.rmtree("good")
    os.rename("kept", "good")
    done("good", "out", "--to", "whole")


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        import struct
        w = struct.pack("<32f", *range(32))
        st.write("s.safetensors", {"w": ("F32", (8, 4), w), "v": ("F32", (6,), w[:24])})
        with open("two.rules", "w") as f:
            f.write(RULES)
        assert run("s.safetensors", "good", "--to", "two.rules").returncode == 0
        damaged()
        not_checked()
        other_texts()
        files_that_disagree()
        os.chdir("/")
    print("no damaged source was converted in silence")


main()

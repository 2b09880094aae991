#!/usr/bin/env python3
"""Mistakes: wrong arguments and wrong files give an error message, and no data is lost.

    check_mistakes.py COMMAND
"""
import fcntl
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors as st

command = os.path.abspath(sys.argv[1])
W = {"w": ("U8", (4,), b"abcd"), "v": ("U8", (4,), b"efgh")}


def refused(want, *words, **more):
    before = sorted(os.listdir("."))
    r = subprocess.run([command, *words], capture_output=True, text=True, **more)
    assert r.returncode == 1 and want in r.stderr, (want, r)
    assert sorted(os.listdir(".")) == before


def done(*words):
    r = subprocess.run([command, *words], capture_output=True, text=True)
    assert r.returncode == 0, r
    return r.stdout


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def rules():
    refused("--to 'Whole': no such rule file; give a rule file, a mesh such as tp=4, or 'whole'", "convert", "m.safetensors", "o", "--to", "Whole")
    refused("no such rule file", "convert", "m.safetensors", "o", "--to", "tp=-1")
    refused('--to tp=0: axis "tp" must have size 1 or more, got 0', "convert", "m.safetensors", "o", "--to", "tp=0")
    refused("--to tp=2,pp=: expected the size of an axis", "convert", "m.safetensors", "o", "--to", "tp=2,pp=")
    refused("not a rule file: byte", "convert", "m.safetensors", "o", "--to", "m.safetensors")
    write("utf16", "* [...]".encode("utf-16"))
    refused("utf16: not a rule file: byte 3 is 0; expected text in UTF-8", "convert", "m.safetensors", "o", "--to", "utf16")


def patterns_that_match_nothing():
    for option in ("--include", "--exclude"):
        refused(f'{option} "vv" matches no tensor of m.safetensors; correct the pattern',
                "convert", "m.safetensors", "o", "--to", "whole", option, "w", option, "vv")


def missing_files():
    os.mkdir("hf")
    for i in (1, 3):
        st.write(f"hf/model-0000{i}-of-00003.safetensors", {f"w{i}": W["w"]})
    refused("hf: missing model-00002-of-00003.safetensors: found 2 of 3 files", "convert", "hf", "o", "--to", "whole")
    st.write("hf/model-00002-of-00003.safetensors", {"w2": W["w"]})
    st.write("hf/other-00000-of-00002.safetensors", {"x0": W["w"]})
    refused("hf: missing other-00001-of-00002.safetensors: found 1 of 2 files", "inspect", "hf")
    st.write("hf/other-00001-of-00002.safetensors", {"x1": W["w"]})
    assert "5 tensors" in done("inspect", "hf")
    os.remove("hf/model-00003-of-00003.safetensors")
    refused("hf: missing model-00003-of-00003.safetensors", "inspect", "hf")
    os.remove("hf/model-00001-of-00003.safetensors")
    refused("hf: missing model-00001-of-00003.safetensors", "inspect", "hf")
    assert "1 tensor" in done("inspect", "hf/other-00000-of-00002.safetensors")
    write("page.safetensors", b"<!DOCTYPE html><html>404</html>")
    refused("page.safetensors: this is an HTML or XML page", "inspect", "page.safetensors")


def copies_that_differ():
    """A rule that lacks a cut would treat different parts as copies of one tensor."""
    os.mkdir("v")
    for r in range(2):
        st.write(f"v/v{r}.safetensors", {"w": ("U8", (2, 2), b"abc" + bytes([r])), "n": W["v"]})
    write("v.rules", b"mesh tp=2\nfiles v{rank}.safetensors\n* [...]\n")
    from_ranks = ["convert", "v", "o", "--to", "whole", "--from", "v.rules"]
    for more in ([], ["--verify"], ["--no-digest", "--verify"]):
        refused('v: tensor "w" is not the same on all ranks that should have copies, first at [1, 1]; if ranks have '
                "different parts of it, correct its rule in --from", *from_ranks, *more)
    write("v.rules", b"mesh tp=2\nfiles v{rank}.safetensors\nw [_, _/tp]\n* [...]\n")
    done(*from_ranks)
    assert st.read("o/model.safetensors")[0]["w"] == ("U8", (2, 4), b"ababc\0c\1")


def a_target_in_use():
    os.mkdir("busy.reshard-partial")
    with open("busy.reshard-partial/journal", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        for more in ([], ["--force"], ["--resume"]):
            refused("another process is converting to the same target", "convert", "m.safetensors", "busy", "--to", "whole", *more)
    refused("an interrupted run left its data there", "convert", "m.safetensors", "busy", "--to", "whole")
    done("convert", "m.safetensors", "busy", "--to", "whole", "--force")


def targets():
    refused("no/such/o: its parent directory does not exist; create it first", "convert", "m.safetensors", "no/such/o", "--to", "whole")
    refused("write .safetensors", "convert", "m.safetensors", "O.SAFETENSORS", "--to", "whole")
    convert = ["convert", os.path.abspath("m.safetensors")]
    os.mkdir("home")
    write("home/letter", b"dear")
    refused("home exists and holds no checkpoint, so it is not replaced", *convert, "home", "--to", "whole", "--force")
    assert os.listdir("home") == ["letter"]
    st.write("home/model.safetensors", W)
    os.mkdir("home/here")
    refused("holds the current directory", *convert, os.path.abspath("home"), "--to", "whole", "--force", cwd="home/here")
    assert sorted(os.listdir("home")) == ["here", "letter", "model.safetensors"]
    done(*convert, "home", "--to", "whole", "--force")
    assert os.listdir("home") == ["model.safetensors"]
    os.mkfifo("pipe")
    refused("pipe exists and is neither a file nor a directory", *convert, "pipe", "--to", "whole", "--force")
    for name in ("empty", "file", "link"):
        {"empty": os.mkdir, "file": lambda x: write(x, b"x"), "link": lambda x: os.symlink("nowhere", x)}[name](name)
        done(*convert, name, "--to", "whole", "--force")
        assert os.listdir(name) == ["model.safetensors"], name


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        st.write("m.safetensors", W)
        rules()
        patterns_that_match_nothing()
        missing_files()
        copies_that_differ()
        a_target_in_use()
        targets()
        os.chdir("/")
    print("as documented")


main()

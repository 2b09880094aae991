#!/usr/bin/env python3
"""Habits: what convert and inspect do with odd names, other files, rules that do not apply, and misleading targets.

    check_habits.py COMMAND
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
ODD = "a\x1b[31m\nb\x7f\x9b"


def run(*words):
    return subprocess.run([command, *words], capture_output=True)


def refused(want, *words):
    before = sorted(os.listdir("."))
    r = run(*words)
    assert r.returncode == 1 and want.encode() in r.stderr, (want, r)
    assert sorted(os.listdir(".")) == before
    return r.stderr.decode()


def control_characters():
    """Names are printed on one line without control characters, in full in JSON, and kept in files."""
    st.write("odd.safetensors", {ODD: ("U8", (2,), b"ab")}, {ODD: ODD, "plain": "caf\u00e9"})
    spelled = r"a\x1b[31m\x0ab\x7f\xc2\x9b"
    r = run("inspect", "odd.safetensors")
    lines = r.stdout.decode().splitlines()
    assert r.returncode == 0 and len(lines) == 4, lines
    assert f"  metadata {spelled}: {spelled}" in lines and "  metadata plain: caf\u00e9" in lines, lines
    assert lines[3].startswith(f"  {spelled:48} "), lines[3]
    for words in ([], ["--dry-run"]):
        r = run("convert", "odd.safetensors", "odd.copy.safetensors", "--to", "whole", *words)
        assert r.returncode == 0
        assert not set(r.stdout) & set(range(32)) - {10}, r.stdout
    assert r.stdout.count(b"\n") == 2 and spelled.encode() in r.stdout
    listed = json.loads(run("inspect", "--json", "odd.safetensors").stdout)["checkpoints"][0]
    assert listed["tensors"][0]["name"] == ODD
    assert list(st.read("odd.copy.safetensors")[0]) == [ODD]


def other_files():
    os.mkdir("hf")
    st.write("hf/model.safetensors", {"w": ("U8", (2,), b"ab")})
    for name in ("config.json", ".gitattributes"):
        with open("hf/" + name, "w") as f:
            f.write(name)
    r = run("convert", "hf", "copy", "--to", "whole")
    assert r.returncode == 0 and b"not copied" not in r.stdout
    assert sorted(os.listdir("copy")) == [".gitattributes", "config.json", "model.safetensors"]
    shutil.rmtree("copy")
    os.makedirs("hf/original/deep")
    r = run("convert", "hf", "copy", "--to", "whole")
    assert r.returncode == 0 and b"\ncopied: 2 other files, 25 B\n" in r.stdout and b"not copied" not in r.stdout, r
    assert sorted(os.listdir("copy")) == [".gitattributes", "config.json", "model.safetensors"]  # no empty directories
    r = run("convert", "hf", "copy.safetensors", "--to", "whole")
    assert r.returncode == 0 and b"not copied" not in r.stdout, r


def rules_that_do_not_apply():
    with open("cut.rules", "w") as f:
        f.write("mesh tp=2\n* [_/tp]\n")
    for words in (["inspect", "hf", "--from", "cut.rules"], ["convert", "hf", "out", "--to", "whole", "--from", "cut.rules"],
                  ["verify", "hf", "copy", "--from-a", "cut.rules"], ["verify", "hf", "copy", "--from-b", "cut.rules"]):
        refused("Hugging Face directory", *words)
    with open("cut.rules", "w") as f:
        f.write("mesh tp=1\nfiles model-{rank}.safetensors\n* [...]\n")
    refused("no file name matches", "inspect", "hf", "--from", "cut.rules")
    refused("safetensors file", "inspect", "odd.safetensors", "--from", "cut.rules")


def targets_that_mislead():
    for name in ("x.bin", "x.pt", "x.pth", "x.gguf", "dir/x.bin"):
        refused("ends in .safetensors, or a directory", "convert", "hf", name, "--to", "whole")
    r = run("convert", "hf", "llama-3.1", "--to", "whole")
    assert r.returncode == 0 and os.path.isdir("llama-3.1")


def wrong_things():
    """Errors name what is missing or wrong, and say what to do."""
    w = {"w": ("U8", (4,), b"abcd")}
    os.mkdir("holes")
    st.write("holes/model-00001-of-00002.safetensors", w)
    with open("holes/model.safetensors.index.json", "w") as f:
        json.dump({"weight_map": {"w": "model-00001-of-00002.safetensors", "v": "model-00002-of-00002.safetensors"}}, f)
    refused("holes/model.safetensors.index.json: the index names model-00002-of-00002.safetensors, which does not exist",
            "inspect", "holes")
    st.write("w.safetensors", w)
    with open("four.rules", "w") as f:
        f.write("mesh tp=4\n* [_/tp]\n")
    assert run("convert", "w.safetensors", "four", "--to", "four.rules").returncode == 0
    for rank in (2, 0):  # first one that others follow, then the first of all
        os.remove(f"four/rank-{rank:05}-of-00004.safetensors")
        refused(f"four: missing rank-{rank:05}-of-00004.safetensors: found {3 - (rank == 0)} of 4 rank files", "inspect", "four")
    os.mkdir("vllm")
    for rank in range(2):
        st.write(f"vllm/model-rank-{rank}-part-0.safetensors", w)
    refused('duplicate tensor "w", which is also in model-rank-0-part-0.safetensors; if these are rank files of another '
            "tool, such as vLLM, describe their layouts with --from RULES", "convert", "vllm", "out", "--to", "whole")
    os.mkdir("linked")
    os.symlink("../w.safetensors", "linked/model.safetensors")
    refused("outside the directory; to allow it, replace the link by the file", "inspect", "linked")
    for name, data in (("x.bin", b"\0" * 100), ("y.pt", b"hello, this is not a checkpoint")):
        with open(name, "wb") as f:
            f.write(data)
        assert "safetensors" in refused(name, "inspect", name)


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        os.mkdir("dir")
        control_characters()
        other_files()
        rules_that_do_not_apply()
        targets_that_mislead()
        wrong_things()
        os.chdir("/")
    print("as documented")


main()

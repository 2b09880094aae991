#!/usr/bin/env python3
"""Limits: long lists are read in linear time, and few descriptors and little memory are sufficient, or an error.

    check_limits.py COMMAND
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors as st

command = os.path.abspath(sys.argv[1])


def run(*words, files=1024, cpu=20):
    """Limits the CPU seconds; a quadratic reader would exceed them a hundredfold."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    return subprocess.run([command, *words], capture_output=True, text=True, preexec_fn=limit)


def many_keys():
    metadata = {f"key.{i}": str(i) for i in range(300_000)}
    st.write("keys.safetensors", {"a": ("U8", (2,), b"ab")}, metadata)
    r = run("convert", "keys.safetensors", "out.safetensors", "--to", "whole")
    assert r.returncode == 0, r.stderr
    assert st.read("out.safetensors")[1] == {**metadata, "format": "pt"}
    for name in ("keys.safetensors", "out.safetensors"):
        os.remove(name)


def many_names_in_an_index():
    os.mkdir("hf")
    with open("hf/model.safetensors.index.json", "w") as f:
        json.dump({"weight_map": {f"t{i}": f"{i}.safetensors" for i in range(300_000)}}, f)
    r = run("inspect", "hf")
    assert r.returncode == 1 and "which does not exist" in r.stderr, r
    shutil.rmtree("hf")


def few_descriptors():
    """Source and target have more files than a process may open."""
    os.mkdir("hf")
    tensors = {f"t{i:03}": ("U8", (5, 40), bytes((i + k) % 256 for k in range(200))) for i in range(100)}
    for name, tensor in tensors.items():
        st.write(f"hf/{name}.safetensors", {name: tensor})
    with open("rules", "w") as f:
        f.write("mesh x=40\n* [_, _/x]\n")
    for files in (64, 24):
        for more in ([], ["--no-digest"], ["--threads", "8"]):
            r = run("convert", "hf", "out", "--to", "whole", "--max-shard-size", "200", "--verify", *more, files=files)
            assert r.returncode == 0, (files, more, r.stderr)
            assert len(os.listdir("out")) == 101
            r = run("convert", "out", "ranks", "--to", "rules", "--verify", *more, files=files)
            assert r.returncode == 0, (files, more, r.stderr)
            assert len(os.listdir("ranks")) == 40
            assert run("verify", "hf", "ranks", files=files).stdout == "same: 100 tensors\n"
            shutil.rmtree("out")
            shutil.rmtree("ranks")
    # without any free descriptor the command fails with a message
    r = run("convert", "hf", "out", "--to", "whole", "--max-shard-size", "200", files=4)
    assert r.returncode == 1 and "Too many open files" in r.stderr, r
    assert os.path.exists("out.reshard-partial") == ("out.reshard-partial could not be removed" in r.stderr), r.stderr
    shutil.rmtree("out.reshard-partial", ignore_errors=True)


def little_memory():
    for words in (["verify", "hf", "hf"], ["convert", "hf", "out", "--to", "whole"]):
        r = run(*words, "--mem", "1")
        assert r.returncode == 1 and "--mem must be at least 1 MiB, got 1 B" in r.stderr, r
        assert run(*words, "--mem", "1M").returncode == 0


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        many_keys()
        many_names_in_an_index()
        few_descriptors()
        little_memory()
        os.chdir("/")
    print("all within their limits")


main()

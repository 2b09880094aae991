#!/usr/bin/env python3
"""Folders: rank files in subdirectories, and other files of a source that are in subdirectories.

    check_folders.py COMMAND
"""
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors as st

command = os.path.abspath(sys.argv[1])
NESTED = "mp_rank_{rank:02}/model_optim_rng.safetensors"
DEEP = "run/{part}/tp_{rank}/r{rank:03}-{part}.safetensors"
FORMS = "w [_/tp, _]\nv [_, _/tp]\n* [...]\n"
MODEL = {"w": ("U8", (4, 3), bytes(range(12))), "v": ("F32", (2, 4), bytes(range(32))), "n": ("BF16", (3,), b"abcdef")}


def run(*words, status=0, **more):
    r = subprocess.run([command, *words], capture_output=True, text=True, **more)
    assert r.returncode == status, (words, r.returncode, r.stdout, r.stderr)
    return r.stdout + r.stderr


def tree(path):
    if os.path.islink(path):
        return "-> " + os.readlink(path)
    if os.path.isfile(path):
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    return {name: tree(os.path.join(path, name)) for name in sorted(os.listdir(path))}


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def rules(files, tp=2, forms=FORMS):
    write("rules", f"mesh tp={tp}\nfiles {files}\n{forms}")
    return "rules"


def results_in_subdirectories():
    st.write("whole.safetensors", MODEL)
    for files in (NESTED, DEEP):
        limit = ["--max-shard-size", "1"] if "{part}" in files else []
        run("convert", "whole.safetensors", "out", "--to", rules(files), "--verify", *limit)
        want = [files.replace("{rank:02}", f"0{r}").replace("{rank:03}", f"00{r}").replace("{rank}", str(r)).replace("{part}", str(p))
                for r in range(2) for p in range(3 if limit else 1)]
        got = sorted(os.path.relpath(os.path.join(at, name), "out") for at, _, names in os.walk("out") for name in names)
        assert got == sorted(want), got
        first = {}
        for p in range(3 if limit else 1):
            first |= st.read("out/" + want[p])[0]
        assert first["w"] == st.take(MODEL["w"], [range(2), None]) and first["v"] == st.take(MODEL["v"], [None, range(2)])
        # reads it directly, with --from and with --reverse; the last two also without the layouts that the files state
        assert run("verify", "whole.safetensors", "out") == "same: 3 tensors\n"
        listed = json.loads(run("inspect", "--json", "out"))["checkpoints"][0]
        assert sorted(f["name"] for f in listed["files"]) == got and listed["metadata"] == {"format": "pt"}, listed
        assert run("verify", "whole.safetensors", "out", "--from-b", "rules") == "same: 3 tensors\n"
        run("convert", "out", "back.safetensors", "--from", "rules", "--to", "whole", "--verify", "--force")
        assert st.read("back.safetensors")[0] == MODEL
        run("convert", "out", "back.safetensors", "--from", "rules", "--reverse", "--force")
        assert st.read("back.safetensors")[0] == MODEL
        for name in want:
            st.write("out/" + name, st.read("out/" + name)[0])
        assert "no checkpoint" in run("inspect", "out", status=1)
        assert run("verify", "whole.safetensors", "out", "--from-b", "rules") == "same: 3 tensors\n"
        run("convert", "out", "back.safetensors", "--from", "rules", "--reverse", "--force")
        assert st.read("back.safetensors")[0] == MODEL
        shutil.rmtree("out")
    write("map", f"mesh tp=2\nfiles {NESTED}\nw -> renamed [_/tp, _]\njoined = cat(0, v, v) [_, _/tp]\n* [...]\n")
    run("convert", "whole.safetensors", "out", "--to", "map", "--verify")
    assert sorted(st.read("out/mp_rank_01/model_optim_rng.safetensors")[0]) == ["joined", "n", "renamed"]
    shutil.rmtree("out")


def damage():
    run("convert", "whole.safetensors", "out", "--to", rules(NESTED, 4, "w [_/tp, _]\n* [...]\n"))
    os.rename("out/mp_rank_02", "gone")
    said = run("inspect", "out", status=1)
    assert "4 ranks" in said and "3 rank files" in said, said
    os.rename("gone", "out/mp_rank_02")
    path = "out/mp_rank_02/model_optim_rng.safetensors"
    data = bytearray(open(path, "rb").read())
    data[-1] ^= 1
    with open(path, "wb") as f:
        f.write(data)
    said = run("convert", "out", "again", "--to", "whole", status=1)
    assert "damaged" in said and not os.path.exists("again"), said
    os.remove(path)
    os.symlink("../../whole.safetensors", path)
    assert "outside the directory" in run("inspect", "out", status=1)
    shutil.rmtree("out")


def names_that_are_refused():
    for files, want in (("../{rank}.safetensors", "must be relative"), ("/tmp/{rank}.safetensors", "must be relative"),
                        ("a/../{rank}.safetensors", "must be relative"), ("a//{rank}.safetensors", "must be relative"),
                        ("./{rank}.safetensors", "must be relative"), ("{rank}/", "must be relative"),
                        ("{rank}/x.pt", "must end in .safetensors"), ("x/y.safetensors", "must contain {rank}"),
                        ("{rank}{part}.safetensors", "separate them"), ("{rank}/{part}0.safetensors", "separate them"),
                        ("{rank}-{prt}.safetensors", "braces"), ("{rank:x}.safetensors", "braces"),
                        ("{rank}\x01.safetensors", "control characters"), ("d/" * 33 + "{rank}.safetensors", "at most 32"), ("x" * 256 + "/{rank}.safetensors", "at most 255")):
        said = run("convert", "whole.safetensors", "out", "--to", rules(files), status=1)
        assert want in said and "rules:2:7" in said + "rules:2:7" * (want == "must end in .safetensors"), (files, said)
    run("convert", "whole.safetensors", "deep", "--to", rules("d/" * 32 + "{rank}.safetensors"), "--verify")
    shutil.rmtree("deep")
    said = run("convert", "whole.safetensors", "out", "--to", "rules", "--max-shard-tensors", "1", status=1)
    assert "--max-shard-tensors needs {part}" in said, said
    run("convert", "whole.safetensors", "out", "--to", rules("..a/b../{rank}.safetensors"), "--verify")
    assert sorted(os.listdir("out/..a/b..")) == ["0.safetensors", "1.safetensors"]
    shutil.rmtree("out")
    assert not os.path.exists("out.reshard-partial")


def kills_and_resume():
    """A run that is stopped as soon as it has written something can be resumed or replaced, and otherwise is an error."""
    big = {"w": ("U8", (4096, 4096), os.urandom(1 << 24)), "v": ("U8", (1024, 4096), os.urandom(1 << 22))}
    st.write("big.safetensors", big)
    run("convert", "big.safetensors", "want", "--to", rules(NESTED, 4))
    child = subprocess.Popen([command, "convert", "big.safetensors", "out", "--to", "rules", "--threads", "1"])
    while child.poll() is None and not (os.path.exists("out.reshard-partial/journal") and os.path.getsize("out.reshard-partial/journal") > 100):
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if os.path.exists("out.reshard-partial"):
        assert not os.path.exists("out")
        run("convert", "big.safetensors", "out", "--to", "rules", "--resume", "--verify")
    assert tree("out") == tree("want") and not os.path.exists("out.reshard-partial")
    assert "already exists" in run("convert", "whole.safetensors", "out", "--to", rules(DEEP), status=1)
    run("convert", "whole.safetensors", "out", "--to", "rules", "--force", "--verify")
    assert os.listdir("out") == ["run"] and not os.path.exists("out.reshard-partial")
    for name in ("out", "want"):
        shutil.rmtree(name)


def other_files():
    os.mkdir("hf")
    st.write("hf/model.safetensors", MODEL)
    for name in ("config.json", ".gitattributes", "1_Pooling/config.json", "original/tokenizer/tokenizer.model", "original/.hidden",
                 "mp_rank_00", "pytorch_model.bin", "original/consolidated.00.pth", "q4.gguf", ".git/objects/big"):
        write("hf/" + name, name)
    st.write("hf/original/adapter.safetensors", MODEL)
    os.makedirs("hf/empty/deeper")
    os.symlink("../config.json", "hf/original/params.json")
    os.symlink("../../whole.safetensors", "hf/original/out_of_it")
    os.symlink(".", "hf/original/loop")
    os.symlink("original", "hf/latest")
    os.symlink("nowhere", "hf/broken")
    os.mkfifo("hf/original/pipe")
    copied = {"1_Pooling", "config.json", ".gitattributes", "original", "mp_rank_00"}
    said = run("convert", "hf", "copy", "--to", "whole", "--verify")
    assert "copied: 7 other files, " in said and "not copied: broken (broken link)" in said and " more\n" in said, said
    assert set(os.listdir("copy")) == copied | {"model.safetensors"}
    assert sorted(os.listdir("copy/original")) == [".hidden", "params.json", "tokenizer"]
    assert open("copy/original/tokenizer/tokenizer.model").read() == "original/tokenizer/tokenizer.model"
    assert not os.path.islink("copy/original/params.json") and open("copy/original/params.json").read() == "config.json"
    report = json.loads(run("convert", "hf", "copy", "--to", "whole", "--force", "--json"))
    assert (report["copied_files"], report["left_files"]) == (7, 9), report
    assert "to be copied: 7 other files" in run("convert", "hf", "other", "--to", "whole", "--dry-run")
    assert "copied" not in run("convert", "hf", "copy.safetensors", "--to", "whole")
    # names that the result needs are not overwritten
    run("convert", "hf", "ranks", "--to", rules(NESTED), "--verify")
    assert set(os.listdir("ranks")) == (copied - {"mp_rank_00"}) | {"mp_rank_00", "mp_rank_01"}
    assert os.listdir("ranks/mp_rank_00") == ["model_optim_rng.safetensors"]
    # from nested rank files to other nested rank files: other files are copied, files in the directory of a rank are not
    write("ranks/mp_rank_01/distrib_optim.pt", "of rank 1")
    said = run("convert", "ranks", "one", "--to", rules(NESTED, 1))
    assert "not copied: mp_rank_01/distrib_optim.pt (file of a rank)\n" in said, said
    assert os.listdir("one/mp_rank_00") == ["model_optim_rng.safetensors"] and not os.path.exists("one/mp_rank_01")
    assert os.path.exists("one/original/tokenizer/tokenizer.model")
    if os.getuid():
        os.chmod("hf/original/.hidden", 0)
        assert "hf/original/.hidden: Permission denied" in run("convert", "hf", "x", "--to", "whole", status=1)
        assert not os.path.exists("x.reshard-partial")


def other_files_of_an_interrupted_run():
    """A copy that was interrupted, of a file that the source no longer has, is not part of the result."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    os.mkdir("src")
    st.write("src/model.safetensors", MODEL)
    write("src/a/kept", "kept")
    write("src/b/large", "x" * 200_000)
    said = run("convert", "src", "res", "--to", rules(NESTED), status=1, preexec_fn=limit)
    assert "res.reshard-partial/data/b/large" in said and "--resume" in said, said
    assert os.path.getsize("res.reshard-partial/data/b/large") == 100_000
    shutil.rmtree("src/b")
    shutil.rmtree("res.reshard-partial/data/mp_rank_01")  # links are not followed, so their targets are not removed
    write("precious/letter", "dear")
    os.symlink(os.path.abspath("precious"), "res.reshard-partial/data/mp_rank_01")
    os.symlink(os.path.abspath("precious"), "res.reshard-partial/data/link")
    run("convert", "src", "res", "--to", "rules", "--resume", "--verify")
    assert sorted(os.listdir("res")) == ["a", "mp_rank_00", "mp_rank_01"] and os.listdir("res/a") == ["kept"]
    assert os.listdir("precious") == ["letter"] and not os.path.islink("res/mp_rank_01")


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        results_in_subdirectories()
        damage()
        names_that_are_refused()
        kills_and_resume()
        other_files()
        other_files_of_an_interrupted_run()
        os.chdir("/")
    print("as documented")


main()

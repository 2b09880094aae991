#!/usr/bin/env python3
"""Kill: a conversion that is killed at a random moment leaves no partial result, and --resume gives the same result as an
undisturbed run.

    check_kill.py COMMAND [TIMES]       TIMES: 10

Half of the runs replace an older target (--force).  At any time the target is either unchanged or
complete.  If a file system can be mounted, the same is tested on one that fills up.
"""
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import safetensors as st
import seeds
import skips

command = os.path.abspath(sys.argv[1])
times = int(sys.argv[2]) if len(sys.argv) > 2 else 10
seed = seeds.seed_of_tests()
print("seed", seed)
rng = random.Random(seed)

RULES = {4: "mesh tp=4\n*.q [_/tp, _]\n*.o [_, _/tp]\n* [...]\n", 3: "mesh tp=3\n*.q [_/tp~, _]\n*.o [_, _/tp~]\n* [...]\n",
         "fused": "mesh tp=3\n{i}.turned = transpose({i}.o) [_, _/tp~]\nqq = interleave(0, 16, 0.q, 1.q, 2.q) [_/tp~, _]\n"
                  "join = stack(1, s.{i}) [_, _, _/tp~]\n* [...]\n"}


def tree(path):
    """Returns everything at the path as one value; None: it does not exist."""
    if not os.path.lexists(path):
        return None
    if os.path.isfile(path):
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    return {name: tree(os.path.join(path, name)) for name in sorted(os.listdir(path))}


def convert(words, **more):
    return subprocess.Popen([command, "convert", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)


def done(words):
    child = convert(words)
    _, error = child.communicate()
    return child.returncode, error


def answered(words):
    child = subprocess.run([command, "convert", *words], capture_output=True, text=True)
    return child.returncode, child.stderr, child.stdout


kept = []  # bytes that resumed runs did not have to move again


def one(source, target, words, before, want, most):
    """Kills a run, then resumes until it is complete."""
    child = convert([source, target, *words])
    time.sleep(rng.uniform(0, most))
    child.kill()
    child.communicate()
    seen = tree(target)
    assert seen in (before, want), "something half done is visible"
    for _ in range(rng.randrange(2)):  # sometimes the next run is killed, too
        child = convert([source, target, *words, "--resume"])
        time.sleep(rng.uniform(0, most))
        child.kill()
        child.communicate()
        seen = tree(target)
        assert seen in (before, want), "something half done is visible after a run that went on"
    left = os.path.exists(target + ".reshard-partial")
    if left or seen != want:
        status, error, answer = answered([source, target, *words, "--resume", "--json", "--mem", rng.choice(["256M", "64M"]), "--threads", rng.choice("123")])
        assert status == 0, error
        kept.append(json.loads(answer)["bytes_kept"])
    assert tree(target) == want
    assert not os.path.exists(target + ".reshard-partial")
    return left


def write_gguf(path, raw):
    """7 tensors Q8_0[n, 1024], each of which has as many whole rows as the bytes give."""
    rows = len(raw) // (32 * 34)
    raw = raw[:rows * 32 * 34]
    gap = -len(raw) % 32
    infos = b"".join(struct.pack("<Q1sIQQIQ", 1, b"abcdefg"[i:i + 1], 2, 1024, rows, 8, i * (len(raw) + gap)) for i in range(7))
    head = b"GGUF" + struct.pack("<IQQ", 3, 7, 0) + infos
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + (raw + bytes(gap)) * 7)


def kills(home):
    for tp in RULES:
        with open(f"{tp}.rules", "w") as f:
            f.write(RULES[tp])
    noise = rng.randbytes(1 << 22)
    tensors = {f"{i}.{k}": ("BF16", (2048, 1024), noise) for i in range(6) for k in "qo"}
    tensors |= {f"s.{i}": ("BF16", (2048, 1024), noise) for i in range(2)}
    tensors["norm"] = ("F32", (1024,), noise[:4096])
    tensors["last.o"] = ("F32", (1024, 3072), noise * 3)
    st.write("whole.safetensors", tensors)
    assert done(["whole.safetensors", "source", "--to", "4.rules"])[0] == 0
    with open("source/config.json", "w") as f:
        f.write("{}")
    start = time.monotonic()
    assert done(["source", "want", "--to", "3.rules"])[0] == 0
    most = 1.1 * (time.monotonic() - start)
    assert done(["source", "want.safetensors", "--to", "whole"])[0] == 0
    assert done(["source", "fused", "--to", "fused.rules"])[0] == 0
    write_gguf("model.gguf", noise)
    split = ["--format", "gguf", "--max-shard-tensors", "2"]
    assert done(["model.gguf", "parts", *split])[0] == 0
    ways = [("source", ["--to", "3.rules"], "want", "source"),
            ("source", ["--to", "whole"], "want.safetensors", "whole.safetensors"),
            ("source", ["--to", "fused.rules"], "fused", "source"), ("model.gguf", split, "parts", "source")]
    went_on = 0
    for i in range(times):
        source, words, name, old = ways[i // 2 % 4]
        target = "got.safetensors" if name.endswith("safetensors") else "got"
        if i % 2:
            words = [*words, "--force"]
            (shutil.copyfile if os.path.isfile(old) else shutil.copytree)(old, target)
        went_on += one(source, target, words, tree(target), tree(name), most)
        (os.remove if os.path.isfile(target) else shutil.rmtree)(target)
    print(f"{times} runs killed, {went_on} left work to go on with; the most that was kept: {max(kept, default=0)} bytes")
    assert times < 100 or max(kept) > 1 << 22


def other_arguments():
    """Data of another job is not used."""
    shutil.rmtree("got", ignore_errors=True)
    child = convert(["source", "got", "--to", "3.rules"])
    while not os.path.exists("got.reshard-partial/journal") or os.path.getsize("got.reshard-partial/journal") < 40:
        if child.poll() is not None:
            return
    child.kill()
    child.communicate()
    if os.path.exists("got"):
        return
    status, error = done(["source", "got", "--to", "4.rules", "--resume"])
    assert status == 1 and "other arguments" in error, error
    status, error = done(["source", "got", "--to", "3.rules"])
    assert status == 1 and "--resume" in error, error
    os.utime("source/rank-00000-of-00004.safetensors")
    status, error = done(["source", "got", "--to", "3.rules", "--resume"])
    assert status == 1 and "changed" in error, error
    assert not os.path.exists("got")


def full(home):
    """On a file system of 20 MB a result that cannot fit is rejected at once; if the disk fills up later, --resume continues."""
    disk = os.path.join(home, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
        return skips.skip("mount", "no file system can be mounted here, so none can be filled up")
    try:
        status, error = done(["source", f"{disk}/got", "--to", "3.rules"])
        assert status == 1 and "more bytes" in error, error
        assert not os.path.exists(f"{disk}/got")
        assert not os.path.exists(f"{disk}/got.reshard-partial")
        words = ["source", f"{disk}/got.safetensors", "--to", "whole", "--include", "?.q"]
        want = ["source", "few.safetensors", "--to", "whole", "--include", "?.q"]
        words[-1] = want[-1] = "<0-3>.q"
        assert done(want)[0] == 0
        failed = 0
        for _ in range(max(3, times // 10)):
            child = convert(words)
            time.sleep(rng.uniform(0, 0.02))
            try:
                with open(f"{disk}/balloon", "wb") as f:
                    f.write(b"x" * (18 << 20))
            except OSError:
                pass
            _, error = child.communicate()
            failed += child.returncode != 0
            seen = tree(f"{disk}/got.safetensors")
            assert seen == (tree("few.safetensors") if child.returncode == 0 else None), error
            os.remove(f"{disk}/balloon")
            if child.returncode:
                assert "No space" in error or "more bytes" in error, error
                assert done([*words, "--resume"]) == (0, "")
            assert tree(f"{disk}/got.safetensors") == tree("few.safetensors")
            os.remove(f"{disk}/got.safetensors")
        print(f"a disk that fills up: {failed} runs failed and went on")
    finally:
        subprocess.run(["umount", disk])


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        kills(home)
        other_arguments()
        full(home)
        os.chdir("/")
    return skips.exit_status(0)


sys.exit(main())

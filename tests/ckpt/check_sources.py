#!/usr/bin/env python3
"""Sources: checkpoints of other tools are converted bit for bit: PyTorch's DCP directories and sharded safetensors, rank files by rules, index.json.

    check_sources.py COMMAND
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import safetensors as st

command = os.path.abspath(sys.argv[1])
rng = random.Random(3)

# What tools/golden/torch_dcp.py saved.
SAVED = {"rows": ("F32", (10, 6)), "uneven": ("F32", (5, 3)), "columns": ("BF16", (6, 8)), "grid": ("F16", (7, 5)), "cube": ("I16", (4, 3, 5)),
         "turned": ("I32", (6, 4)), "plain": ("F64", (5, 3)), "transposed": ("F32", (3, 4)), "view": ("I64", (4, 3)), "step": ("I64", ()),
         "mask": ("BOOL", (9,)), "bytes": ("U8", (2, 3)), "signed": ("I8", (4,)), "complex": ("C64", (2, 2)), "empty": ("F32", (0, 4))}


def golden(name):
    dtype, shape = SAVED[name]
    n = st.count(shape) * st.BITS[dtype] // 8
    mask = 1 if dtype == "BOOL" else 255
    return dtype, shape, bytes((37 * i + 11 * (i >> 8) + 13 * len(name)) & mask for i in range(n))


def run(*arguments, status=0):
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout + done.stderr


def convert(source, *arguments):
    """The tensors of the source as one file."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/whole.safetensors"
        run("convert", source, target, "--to", "whole", "--verify", *arguments)
        return st.read(target)[0]


def dcp():
    want = {name: golden(name) for name in SAVED}
    for which in ("1", "2", "4", "newer"):
        source = f"{here}/dcp/{which}"
        assert convert(source, "--drop") == want, which
        with tempfile.TemporaryDirectory() as folder:
            said = run("convert", source, f"{folder}/x", "--to", "whole", status=1)
            assert '"epoch" is not a tensor' in said and not os.listdir(folder), said
            with open(f"{folder}/rules", "w") as file:
                file.write("mesh x=3\nrows [_, _/x]\ncube [_, _/x, _]\nturned [_, _/x~]\ntransposed [_/x, _]\n* [...]\n")
            run("convert", source, f"{folder}/three", "--to", f"{folder}/rules", "--drop", "--verify")
            assert convert(f"{folder}/three") == want, which


def cut(tensor, dim, lo, hi):
    """Indices lo to hi of one dim of (dtype, shape, bytes)."""
    dtype, shape, data = tensor
    width = st.BITS[dtype] // 8 * st.count(shape[dim + 1:])
    rows = st.count(shape[:dim])
    n = shape[dim] * width
    part = b"".join(data[r * n + lo * width:r * n + hi * width] for r in range(rows))
    return dtype, shape[:dim] + (hi - lo,) + shape[dim + 1:], part


def tensor(dtype, *shape):
    return dtype, shape, rng.randbytes(st.count(shape) * st.BITS[dtype] // 8)


def torch_shards():
    model = {"a": tensor("F32", 9, 4), "b": tensor("BF16", 5, 8), "c": tensor("I64")}
    with tempfile.TemporaryDirectory() as folder:
        for shard, (lo, hi) in enumerate(((0, 3), (3, 6), (6, 9))):
            parts = {"a": cut(model["a"], 0, lo, hi)}
            offsets = {"a": {"saved_offsets": [lo, 0]}}
            if shard < 2:
                parts["b"], offsets["b"] = cut(model["b"], 1, 4 * shard, 4 * shard + 4), {"saved_offsets": [0, 4 * shard]}
            if shard == 2:
                parts["c"], offsets["c"] = model["c"], {"saved_offsets": []}
            st.write(f"{folder}/shard-{shard + 1:05}-model-00001-of-00001.safetensors", parts,
                     {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(offsets)}, pad=shard)
        assert convert(folder) == model
        os.remove(f"{folder}/shard-00002-model-00001-of-00001.safetensors")
        assert "shard-00002" in run("inspect", folder, status=1)


def rank_files():
    model = {"l.0.q.weight": tensor("BF16", 12, 4), "l.0.o.weight": tensor("BF16", 4, 12), "l.0.norm": tensor("F32", 7)}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/in")
        for rank in range(3):
            q = cut(model["l.0.q.weight"], 0, 4 * rank, 4 * rank + 4)
            o = cut(model["l.0.o.weight"], 1, 4 * rank, 4 * rank + 4)
            st.write(f"{folder}/in/model-rank-{rank}-part-0.safetensors", {"l.0.q.weight": q})
            st.write(f"{folder}/in/model-rank-{rank}-part-1.safetensors", {"l.0.o.weight": o, "l.0.norm": model["l.0.norm"]})
        with open(f"{folder}/rules", "w") as file:
            file.write("mesh tp=3\nfiles model-rank-{rank}-part-{part}.safetensors\n*.q.weight [_/tp, _]\n*.o.weight [_, _/tp]\n* [...]\n")
        assert convert(f"{folder}/in", "--from", f"{folder}/rules") == model
        st.write(f"{folder}/in/model-rank-1-part-0.safetensors", {"l.0.q.weight": cut(model["l.0.q.weight"], 0, 0, 3)})
        said = run("inspect", f"{folder}/in", "--from", f"{folder}/rules", status=1)
        assert "l.0.q.weight" in said and "rank " in said, said


def index():
    model = {"w": tensor("F32", 6, 5), "v": tensor("U8", 10)}
    top, rest = cut(model["w"], 0, 0, 2)[2], model["w"][2][40:]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/a.bin", "wb") as file:
            file.write(b"head" + rest + b"gap" + top)
        with open(f"{folder}/b.bin", "wb") as file:
            file.write(model["v"][2])
        at = 4 + len(rest) + 3
        tensors = {"w": {"dtype": "f32", "shape": [6, 5], "parts": [{"file": "a.bin", "offset": 4, "range": [10, 30]},
                                                                   {"file": "a.bin", "offset": at, "box": [[0, 2], [0, 5]]}]},
                   "v": {"dtype": "u8", "shape": [10], "parts": [{"file": "b.bin", "offset": 0}]}}
        with open(f"{folder}/index.json", "w") as file:
            json.dump({"reshard.index": 1, "tensors": tensors}, file)
        assert convert(folder) == model


def torch_save():
    """Files that PyTorch 1.13 wrote, by tools/golden/torch_save.py, with bytes that follow from names."""
    def made(name, size):
        return bytes((37 * i + 11 * (i >> 8) + 13 * len(name)) & 255 for i in range(size))
    for source in ("dtensor", "dtensor_later", "sharded", "hf"):
        got = convert(os.path.join(here, "torch", source), *(["--drop"] if source == "sharded" else []))
        assert len(got) == {"dtensor": 9, "dtensor_later": 7, "sharded": 4, "hf": 3}[source], got.keys()
        for name, (_, _, data) in got.items():
            assert data == made(name, len(data)) or name == "optim.state.0.step", (source, name)
    for name in ("plain.pt", "older.pt"):
        got = convert(os.path.join(here, "torch", name), "--drop", "--exclude", "model.head", "--exclude", "model.mask")
        assert len(got) == 18 and all(data == made(name, len(data)) for name, (_, _, data) in got.items())
    with tempfile.TemporaryDirectory() as folder:
        said = run("convert", os.path.join(here, "torch", "plain.pt"), f"{folder}/x", "--to", "whole", status=1)
        assert "--drop" in said and not os.listdir(folder), said


def megatron():
    """Rank files of torch.save in directories of their own, cut as rules say."""
    made = lambda name, size: bytes((37 * i + 11 * (i >> 8) + 13 * len(name)) & 255 for i in range(size))
    with tempfile.TemporaryDirectory() as folder:
        def rules(files, text="model.up [_/tp, _]\nmodel.down [_, _/tp]\n* [...]\n"):
            with open(f"{folder}/rules", "w") as file:
                file.write(f"mesh tp=2\nfiles {files}\n{text}")
            return ["--from", f"{folder}/rules"]
        files = "mp_rank_{rank:02}/model_optim_rng.pt"
        for path in ("legacy", "legacy/iter_0000003"):
            got = convert(os.path.join(here, "torch", path), "--drop", *rules(files))
            assert {name: t[:2] for name, t in got.items()} == {"model.up": ("F32", (6, 4)), "model.down": ("BF16", (4, 6)), "model.norm": ("F32", (4,))}
            assert all(data == made(name, len(data)) for name, (_, _, data) in got.items())
        step = os.path.join(here, "torch/legacy/iter_0000003")
        said = run("convert", step, f"{folder}/x", "--to", "whole", "--drop", *rules(files))
        assert "not copied: mp_rank_00/model_optim_rng.pt" not in said and os.listdir(f"{folder}/x") == ["model.safetensors"], said
        os.makedirs(f"{folder}/deep/a/run")
        for rank in range(2):
            shutil.copytree(f"{step}/mp_rank_0{rank}", f"{folder}/deep/a/run/mp_rank_0{rank}")
        said = run("convert", f"{folder}/deep", f"{folder}/xx", "--to", "whole", "--drop", *rules("a/run/" + files))
        assert run("verify", f"{folder}/x", f"{folder}/xx").startswith("same: "), said
        for wrong in ("/{rank}", "{rank}/", "../{rank}.pt", "a//{rank}.pt"):
            assert "DIRECTORY/NAME" in run("inspect", step, *rules(wrong), status=1), wrong
        assert "no file name matches" in run("inspect", step, *rules("mp_{rank}/model_optim_rng.pt"), status=1)


def gguf_file(path, tensors, align=32):
    """From the format's description: little-endian, sizes from the fastest dim on, data aligned."""
    types = {"F32": 0, "F16": 1, "Q8_0": 8, "I8": 24, "I16": 25, "I32": 26, "I64": 27, "F64": 28, "BF16": 30}
    text = lambda x: struct.pack("<Q", len(x)) + x
    pairs = [text(b"general.name") + struct.pack("<I", 8) + text(b"made"), text(b"general.alignment") + struct.pack("<II", 4, align),
             text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc")]
    infos, data = b"", b""
    for name, (dtype, shape, raw) in tensors.items():
        data += bytes(-len(data) % align)
        infos += text(name.encode()) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", types[dtype], len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + infos
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % align) + data)


def gguf():
    model = {"a": tensor("F32", 3, 5), "b": tensor("BF16", 2, 2, 3), "c": tensor("F16", 7), "d": tensor("I8", 3), "e": tensor("F64", 2),
             "f": tensor("I64", 1, 2), "g": tensor("I16", 3), "h": tensor("I32", 2, 1)}
    quantised = {"q": ("Q8_0", (2, 32), rng.randbytes(68))}
    with tempfile.TemporaryDirectory() as folder:
        for align in (32, 8, 256):
            gguf_file(f"{folder}/one.gguf", model, align)
            assert convert(f"{folder}/one.gguf") == model
        names = sorted(model)
        for i, part in enumerate((names[:3], names[3:4], names[4:])):
            gguf_file(f"{folder}/m-{i + 1:05}-of-00003.gguf", {name: model[name] for name in part})
        for i in range(3):  # the name of any file opens all of them
            assert convert(f"{folder}/m-{i + 1:05}-of-00003.gguf") == model
        os.remove(f"{folder}/m-00002-of-00003.gguf")
        assert "m-00002-of-00003.gguf: No such file" in run("inspect", f"{folder}/m-00001-of-00003.gguf", status=1)
        gguf_file(f"{folder}/q.gguf", {**quantised, **model})
        said = run("convert", f"{folder}/q.gguf", f"{folder}/x", "--to", "whole", status=1)
        assert '"q" is quantised (Q8_0[2, 32])' in said and "--drop" in said, said
        assert convert(f"{folder}/q.gguf", "--drop") == model


def zero():
    """Directories with the keys that DeepSpeed writes, by tools/golden/torch_zero.py, with bytes that follow from names."""
    def made(name, size):
        name = name.replace("head.weight", "layer.0.weight")  # one parameter, two names
        return bytes((37 * i + 11 * (i >> 8) + 13 * len(name)) & 255 for i in range(size))
    shapes = {"layer.0.weight": (7, 5), "layer.1.weight": (4, 3, 2), "scalar": (), "layer.0.bias": (7,), "norm.weight": (11,), "tiny": (1,),
              "head.weight": (7, 5)}
    want = {prefix + name: ("F32", shape) for prefix in ("", "exp_avg.", "exp_avg_sq.") for name, shape in shapes.items()}
    want["rotary.inv_freq"] = ("F32", (4,))
    for stage in (1, 2, 3):
        for path in (f"zero/stage{stage}", f"zero/stage{stage}/global_step7"):
            got = convert(os.path.join(here, path))
            assert {name: t[:2] for name, t in got.items()} == {**want, **({"embed.weight": ("F16", (2, 5))} if stage > 1 else {})}
            for name, (_, _, data) in got.items():
                assert data == made(name, len(data)), (stage, name)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(here, "zero/stage2"), f"{folder}/z")
        step = f"{folder}/z/global_step7"
        os.rename(f"{step}/zero_pp_rank_1_mp_rank_00_optim_states.pt", f"{folder}/kept")
        assert "zero_pp_rank_1_mp_rank_00_optim_states.pt is missing" in run("inspect", step, status=1)
        os.remove(f"{step}/zero_pp_rank_2_mp_rank_00_optim_states.pt")
        assert "do not make a whole tensor" in run("inspect", step, status=1)
        for part in (2, 1):
            shutil.copyfile(f"{folder}/kept", f"{step}/zero_pp_rank_0_mp_rank_0{part}_optim_states.pt")
            assert "mp_rank_01" in run("inspect", step, status=1)
            os.remove(f"{step}/zero_pp_rank_0_mp_rank_0{part}_optim_states.pt")
        shutil.copyfile(f"{folder}/kept", f"{step}/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
        assert "which are files of the same rank" in run("inspect", step, status=1)
        os.remove(f"{step}/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
        os.remove(f"{step}/mp_rank_00_model_states.pt")
        assert "mp_rank_00_model_states.pt" in run("inspect", f"{folder}/z", status=1)
        shutil.copytree(os.path.join(here, "zero/stage3/global_step7"), f"{folder}/three")
        os.remove(f"{folder}/three/zero_pp_rank_1_mp_rank_00_model_states.pt")  # it has a piece of the frozen parameter
        assert "zero_pp_rank_1_mp_rank_00_model_states.pt is missing" in run("inspect", f"{folder}/three", status=1)
    parts(made)


def parts(made):
    """A model that is also divided by tensor parallelism: names say which part, and rules join the parts."""
    got = convert(os.path.join(here, "zero/parts"), "--exclude", "*exp_avg*")
    weights = {name: t[1] for name, t in got.items() if name.endswith("layer.0.weight")}
    assert weights == {"mp_rank_00.layer.0.weight": (7, 5), "mp_rank_01.layer.0.weight": (6, 5)}, weights
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/join.rules", "w", encoding="utf-8") as file:
            file.write("layer.0.weight = cat(0, mp_rank_{00,01}.layer.0.weight)\nmp_rank_00.{n*} -> {n*}\ndrop mp_rank_01.*\n")
        run("convert", os.path.join(here, "zero/parts"), f"{folder}/x.safetensors", "--to", f"{folder}/join.rules", "--exclude", "*exp_avg*")
        tensors, _ = st.read(f"{folder}/x.safetensors")
        assert list(tensors["layer.0.weight"][1]) == [13, 5] and "layer.1.weight" in tensors and len(tensors) == 9, tensors.keys()
        assert tensors["layer.0.weight"][2] == made("layer.0.weight", 140) + made("layer.0.weight", 120)


for check in (dcp, torch_shards, rank_files, index, torch_save, megatron, gguf, zero):
    check()
    print(check.__name__)

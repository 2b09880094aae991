"""GGUF files are split and merged byte for byte: files made here with struct, from the format's description.

    check_gguf.py COMMAND
"""
import os
import random
import struct
import subprocess
import sys
import tempfile

command = sys.argv[1]
rng = random.Random(9)
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210),
         "IQ2_XXS": (16, 256, 66), "I32": (26, 1, 4), "BF16": (30, 1, 2), "TQ1_0": (34, 256, 54), "MXFP4": (39, 32, 17),
         "NVFP4": (40, 64, 36), "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18)}


def run(*words, status=0):
    r = subprocess.run([command, *words], capture_output=True, text=True)
    assert r.returncode == status, (words, r)
    return r.stdout + r.stderr


def text(x):
    return struct.pack("<Q", len(x)) + x


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


METADATA = [pair(b"general.architecture", 8, text(b"llama")), pair(b"general.file_type", 4, struct.pack("<I", 15)),
            pair(b"llama.rope.freq_base", 6, struct.pack("<f", 1e6)), pair(b"flag", 7, b"\1"), pair(b"wide", 10, struct.pack("<Q", 2**63)),
            pair(b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 300) + b"".join(text(rng.randbytes(i % 7)) for i in range(300))),
            pair(b"nested", 9, struct.pack("<IQIQ", 9, 1, 5, 2) + struct.pack("<ii", -1, 2)), pair(b"real", 12, struct.pack("<d", 0.5))]


def made(tensors, metadata, align=32, version=3):
    """Returns a file as llama.cpp writes it: every tensor is padded, including the last one."""
    infos = data = b""
    for name, (kind, shape, raw) in tensors.items():
        infos += text(name.encode()) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", TYPES[kind][0], len(data))
        data += raw + bytes(-len(raw) % align)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata)) + b"".join(metadata) + infos
    return head + bytes(-len(head) % align) + data


def tensor(kind, *shape):
    _, elements, size = TYPES[kind]
    count = 1
    for n in shape:
        count *= n
    return kind, shape, rng.randbytes(count // elements * size)


MODEL = {"token_embd.weight": tensor("Q4_K", 20, 512), "output_norm.weight": tensor("F32", 512), "odd": tensor("F16", 3, 5),
         "blk.0.attn_q.weight": tensor("Q8_0", 6, 64), "blk.0.attn_k.weight": tensor("Q4_0", 2, 3, 32), "ids": tensor("I32", 7),
         "blk.0.ffn_down.weight": tensor("Q6_K", 5, 256), "iq": tensor("IQ2_XXS", 1, 256), "tq": tensor("TQ1_0", 2, 256),
         "mx": tensor("MXFP4", 2, 2, 2, 32), "nv": tensor("NVFP4", 3, 128), "q1": tensor("Q1_0", 2, 128), "q2": tensor("Q2_0", 2, 64),
         "empty": tensor("BF16", 0, 4), "scalar": tensor("F32")}


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def split_keys(number, count, tensors):
    return [pair(b"split.no", 2, struct.pack("<H", number)), pair(b"split.count", 2, struct.pack("<H", count)),
            pair(b"split.tensors.count", 5, struct.pack("<i", tensors))]


def expected_split(groups, align, version):
    """Returns the files of a split model, one for each group of names."""
    files = []
    for i, names in enumerate(groups):
        metadata = list(METADATA) if i == 0 else []
        if align != 32:
            metadata.append(pair(b"general.alignment", 4, struct.pack("<I", align)))
        metadata += split_keys(i, len(groups), len(MODEL))
        files.append(made({name: MODEL[name] for name in names}, metadata, align, version))
    return files


def by_size(most, align):
    groups, used = [[]], 0
    for name, (_, _, raw) in MODEL.items():
        size = len(raw) + -len(raw) % align
        if used and used + size > most:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size
    return groups


def by_count(most):
    names = list(MODEL)
    return [names[i:i + most] for i in range(0, len(names), most)]


def check_split(folder, align, version, groups, *option):
    metadata = METADATA + ([pair(b"general.alignment", 4, struct.pack("<I", align))] if align != 32 else [])
    whole = made(MODEL, metadata, align, version)
    write(f"{folder}/m.gguf", whole)
    said = run("convert", f"{folder}/m.gguf", f"{folder}/parts", "--format", "gguf", "--verify", *option)
    assert f"{len(MODEL)} tensors, {len(groups)} files" in said and "verified: every element" in said, said
    names = [f"m-{i + 1:05}-of-{len(groups):05}.gguf" for i in range(len(groups))]
    assert sorted(os.listdir(f"{folder}/parts")) == names
    for name, want in zip(names, expected_split(groups, align, version)):
        assert read(f"{folder}/parts/{name}") == want, name
    for source in (f"{folder}/parts", f"{folder}/parts/{names[-1]}"):  # the directory, or any of the files
        assert run("verify", f"{folder}/m.gguf", source) == f"same: {len(MODEL)} tensors\n"
        run("convert", source, f"{folder}/merged.gguf", "--force")
        assert read(f"{folder}/merged.gguf") == whole
    run("convert", f"{folder}/parts", f"{folder}/again", "--format", "gguf", *option)
    assert all(read(f"{folder}/again/{name}") == read(f"{folder}/parts/{name}") for name in names)
    run("convert", f"{folder}/parts", f"{folder}/one", "--to", "whole", "--format", "gguf")  # no limit: one file
    assert os.listdir(f"{folder}/one") == ["m.gguf"] and read(f"{folder}/one/m.gguf") == whole


def splits():
    for align, version in ((32, 3), (128, 3), (32, 2)):
        for groups, *option in ((by_size(4000, align), "--max-shard-size", "4000"), (by_count(4), "--max-shard-tensors", "4"),
                                (by_count(1), "--max-shard-tensors", "1")):
            with tempfile.TemporaryDirectory() as folder:
                check_split(folder, align, version, groups, *option)


def merges_of_others():
    """llama.cpp leaves its split keys in merged files; files may state their own alignment; keys of later files are kept."""
    with tempfile.TemporaryDirectory() as folder:
        names, keys = list(MODEL), [pair(b"later", 4, bytes(4))]
        write(f"{folder}/m-00001-of-00002.gguf", made({n: MODEL[n] for n in names[:4]}, split_keys(0, 2, 15) + METADATA))
        later = [pair(b"general.alignment", 4, struct.pack("<I", 64))] + split_keys(1, 2, 15) + METADATA[:1] + keys
        write(f"{folder}/m-00002-of-00002.gguf", made({n: MODEL[n] for n in names[4:]}, later, 64))
        run("convert", f"{folder}/m-00001-of-00002.gguf", f"{folder}/m.gguf")
        assert read(f"{folder}/m.gguf") == made(MODEL, METADATA + keys)
        write(f"{folder}/merged.gguf", made(MODEL, METADATA + split_keys(0, 0, 15)))
        run("convert", f"{folder}/merged.gguf", f"{folder}/clean.gguf")
        assert read(f"{folder}/clean.gguf") == made(MODEL, METADATA)
        write(f"{folder}/m-00002-of-00002.gguf", made({n: MODEL[n] for n in names[5:]}, later, 64))  # one is missing
        said = run("inspect", f"{folder}/m-00001-of-00002.gguf", status=1)
        assert "split.tensors.count must be the number of tensors in all 2 files, 14, got 15" in said, said


def differences():
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/a.gguf", made(MODEL, METADATA))
        kind, shape, raw = MODEL["token_embd.weight"]
        write(f"{folder}/b.gguf", made({**MODEL, "token_embd.weight": (kind, shape, raw[:-1] + bytes([raw[-1] ^ 1]))}, METADATA))
        assert '"token_embd.weight" differs first at [19, 287]' in run("verify", f"{folder}/a.gguf", f"{folder}/b.gguf", status=1)
        write(f"{folder}/b.gguf", made({**MODEL, "q2": ("Q4_0", (2, 32), MODEL["q2"][2])}, METADATA))
        said = run("verify", f"{folder}/a.gguf", f"{folder}/b.gguf", status=1)
        assert f'"q2" is Q2_0[2, 64] in {folder}/a.gguf and Q4_0[2, 32] in {folder}/b.gguf' in said, said


def previews():
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/m.gguf", made(MODEL, METADATA))
        said = run("convert", f"{folder}/m.gguf", f"{folder}/x.gguf", "--dry-run").split("\n")
        assert any(line.split() == ["nv", "NVFP4[3,", "128]", "->", "NVFP4[3,", "128]"] for line in said), said
        assert f"{len(MODEL)} tensors, 1 file" in said[-2] and os.listdir(folder) == ["m.gguf"], said


def refusals():
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/m.gguf", made(MODEL, METADATA))
        at = f"{folder}/m.gguf"
        said = run("convert", at, f"{folder}/x.gguf", "--max-shard-size", "1M", status=1)
        assert "x.gguf: --max-shard-size cannot split a single file; give a directory as the target, and --format gguf" in said, said
        said = run("convert", at, f"{folder}/x", "--to", "whole", status=1)
        assert '"token_embd.weight" is quantised (Q4_K[20, 512])' in said and "--format gguf" in said and "--drop" in said, said
        assert "2 tensors" in run("convert", at, f"{folder}/x", "--to", "whole", "--include", "o*")
        said = run("convert", f"{folder}/x", f"{folder}/y.gguf", status=1)
        assert "GGUF files can be made only from GGUF files" in said and "Hugging Face directory" in said, said
        write(f"{folder}/rules", b"* [...]\n")
        assert "stay whole" in run("convert", at, f"{folder}/y.gguf", "--to", f"{folder}/rules", status=1)
        assert "got \"zip\"" in run("convert", at, f"{folder}/y", "--to", "whole", "--format", "zip", status=1)
        assert "ends in .gguf" in run("convert", at, f"{folder}/y.safetensors", "--format", "gguf", status=1)
        assert "safetensors, not .gguf" in run("convert", at, f"{folder}/y.gguf", "--to", "whole", "--drop", "--format", "safetensors", status=1)
        write(f"{folder}/other.gguf", made(MODEL, METADATA))
        assert 'more than one GGUF model ("m.gguf" and "other.gguf"); give one' in run("inspect", folder, status=1)
        TYPES["new"] = (99, 1, 1)
        write(at, made({"n": ("new", (4,), bytes(4)), **MODEL}, METADATA))
        assert "unknown GGUF type 99[4]" in run("inspect", at)
        assert "whose size is unknown" in run("convert", at, f"{folder}/y.gguf", status=1)
        write(at, made({"n": ("Q8_0", (2, 33), bytes(68))}, METADATA))
        assert "the elements of a row are not a multiple of the block size" in run("inspect", at, status=1)
        assert not os.path.exists(f"{folder}/y.gguf") and not os.path.exists(f"{folder}/y.gguf.reshard-partial")


for check in (splits, merges_of_others, differences, previews, refusals):
    check()
    print(check.__name__)

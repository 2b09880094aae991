"""GGUF: a small quantised model for pages to work on, as `gguf.py NAME FILES`: NAME-00001-of-0000N.gguf and so on."""
import random
import struct
import sys


def text(x):
    return struct.pack("<Q", len(x)) + x.encode()


def write(path, pairs, tensors):
    infos = data = b""
    for name, (kind, rows, columns, raw) in tensors.items():
        infos += text(name) + struct.pack("<IQQIQ", 2, columns, rows, kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + infos
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


def main(name, files):
    random.seed(2)
    files, tensors = int(files), {"token_embd.weight": (12, 64, 512, random.randbytes(64 * 2 * 144))}  # Q4_K
    for layer in range(8):
        tensors[f"blk.{layer}.attn_q.weight"] = (8, 512, 512, random.randbytes(512 * 16 * 34))  # Q8_0
        tensors[f"blk.{layer}.attn_norm.weight"] = (0, 1, 512, random.randbytes(2048))  # F32
    names = list(tensors)
    for i in range(files):
        pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")] if i == 0 else []
        pairs += [text("split.no") + struct.pack("<IH", 2, i), text("split.count") + struct.pack("<IH", 2, files),
                  text("split.tensors.count") + struct.pack("<Ii", 5, len(tensors))]
        part = {x: tensors[x] for x in names[i * len(names) // files:(i + 1) * len(names) // files]}
        write(f"{name}-{i + 1:05}-of-{files:05}.gguf", pairs, part)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""safetensors: a reader and a writer of the format, from its public description alone.

A file is 8 bytes (little-endian length of the JSON), the JSON, and the data.  A tensor here is (dtype, shape, bytes).
"""
import json
import struct

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64, "F16": 16, "BF16": 16,
        "F32": 32, "F64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "C64": 64, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def count(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def write(path, tensors, metadata=None, pad=0):
    """pad: blanks behind the JSON, so that data begins anywhere."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        assert len(data) * 8 == count(shape) * BITS[dtype], name
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode() + b" " * pad
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def read(path):
    """(tensors, metadata); every rule of the format is asserted."""
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    assert n <= 100_000_000 and 8 + n <= len(raw)
    assert raw[8:9] == b"{"
    header = json.loads(raw[8:8 + n], object_pairs_hook=lambda pairs: unique(pairs))
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values())
    tensors, at = {}, 0
    for name, e in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = e["data_offsets"]
        assert begin == at, f"{path}: {name}: hole or overlap at {at}"
        assert (end - begin) * 8 == count(e["shape"]) * BITS[e["dtype"]]
        if (end - begin) and BITS[e["dtype"]] >= 8:
            assert (8 + n + begin) % (BITS[e["dtype"]] // 8) == 0, f"{path}: {name}: not aligned"
        tensors[name] = (e["dtype"], tuple(e["shape"]), raw[8 + n + begin:8 + n + end])
        at = end
    assert 8 + n + at == len(raw), f"{path}: bytes behind the last tensor"
    return tensors, metadata


def unique(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), "a key stands twice"
    return dict(pairs)


def take(tensor, index):
    """The part of a whole tensor that has these indices along each dim (None: all), row-major."""
    dtype, shape, data = tensor
    size = BITS[dtype] // 8
    index = [list(range(n)) if i is None else list(i) for n, i in zip(shape, index)]
    strides = [count(shape[d + 1:]) for d in range(len(shape))]
    offsets = [0]
    for i, s in zip(index, strides):
        offsets = [o + k * s for o in offsets for k in i]
    out = b"".join(data[o * size:(o + 1) * size] for o in offsets)
    return dtype, tuple(len(i) for i in index), out

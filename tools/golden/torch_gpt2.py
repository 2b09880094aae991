#!/usr/bin/python3
"""Golden GPT-2: a small checkpoint with Hugging Face's names, and what PyTorch makes of it.

    torch_gpt2.py                      writes tests/nn/gpt2.safetensors and tests/nn/golden_gpt2.txt
    torch_gpt2.py CHECKPOINT           prints the logits of another checkpoint with these names

Needs Debian's python3-torch (1.13), nothing else: safetensors are read and written here.  The model is written out
below: Conv1D weights [in, out], fused c_attn, causal attention, gelu_new, a head tied to wte.  The file of answers has
the logits of the checkpoint, the losses of 30 steps of AdamW on it (no weight decay for vectors), and the logits
afterwards:

    logits VALUES
    losses VALUES
    trained VALUES
"""
import json
import math
import os
import struct
import sys

import torch
import torch.nn.functional as F

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, ROWS, STEPS, LR, DECAY = 24, 24, 12, 2, 6, 2, 30, 0.01, 0.1
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "nn")


def make():
    torch.manual_seed(3)
    w, state = WIDTH, {}

    def put(name, *shape, scale=0.3, shift=0.0):
        state[name] = torch.randn(*shape, dtype=torch.float64) * scale + shift

    put("wte.weight", VOCABULARY, w)
    put("wpe.weight", LENGTH, w)
    for i in range(LAYERS):
        for n in (1, 2):
            put(f"h.{i}.ln_{n}.weight", w, shift=1.0)
            put(f"h.{i}.ln_{n}.bias", w)
        state[f"h.{i}.attn.bias"] = torch.tril(torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.float64))
        sizes = (("attn.c_attn", w, 3 * w), ("attn.c_proj", w, w), ("mlp.c_fc", w, 4 * w), ("mlp.c_proj", 4 * w, w))
        for name, a, b in sizes:
            put(f"h.{i}.{name}.weight", a, b)
            put(f"h.{i}.{name}.bias", b)
    put("ln_f.weight", w, shift=1.0)
    put("ln_f.bias", w)
    return state


def write(path, state):
    header, data = {}, b""
    for name, t in state.items():
        raw = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F64", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    state = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        assert t["dtype"] == "F64"
        lo, hi = t["data_offsets"]
        flat = torch.frombuffer(bytearray(raw[8 + n + lo:8 + n + hi]), dtype=torch.float64)
        state[name] = flat.reshape(t["shape"]).clone()
    return state


def norm(s, name, x):
    return F.layer_norm(x, (WIDTH,), s[name + ".weight"], s[name + ".bias"], 1e-5)


def conv1d(s, name, x):
    return x @ s[name + ".weight"] + s[name + ".bias"]


def attention(s, i, x):
    fused = conv1d(s, f"h.{i}.attn.c_attn", x).split(WIDTH, 2)
    q, k, v = (t.reshape(ROWS, LENGTH, HEADS, -1).transpose(1, 2) for t in fused)
    scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
    seen = torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))
    y = torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ v
    return conv1d(s, f"h.{i}.attn.c_proj", y.transpose(1, 2).reshape(ROWS, LENGTH, WIDTH))


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logits(s, tokens):
    x = s["wte.weight"][tokens] + s["wpe.weight"]
    for i in range(LAYERS):
        x = x + attention(s, i, norm(s, f"h.{i}.ln_1", x))
        x = x + conv1d(s, f"h.{i}.mlp.c_proj", gelu_new(conv1d(s, f"h.{i}.mlp.c_fc", norm(s, f"h.{i}.ln_2", x))))
    return norm(s, "ln_f", x) @ s["wte.weight"].T


def batch(step):
    """Tokens and the tokens that follow: the test makes the same."""
    flat = [(7 * i * i + 5 * i + 3 * step) % VOCABULARY for i in range(ROWS * (LENGTH + 1))]
    t = torch.tensor(flat).reshape(ROWS, LENGTH + 1)
    return t[:, :-1], t[:, 1:]


def show(word, values):
    print(word, " ".join("%.17g" % x for x in values), file=OUT)


OUT = sys.stdout
if len(sys.argv) > 1:
    show("logits", logits(read(sys.argv[1]), batch(0)[0]).flatten().tolist())
    sys.exit(0)
write(os.path.join(FOLDER, "gpt2.safetensors"), make())
state = read(os.path.join(FOLDER, "gpt2.safetensors"))
parameters = {k: v.requires_grad_() for k, v in state.items() if not k.endswith(".attn.bias")}
with open(os.path.join(FOLDER, "golden_gpt2.txt"), "w") as OUT:
    show("logits", logits(state, batch(0)[0]).flatten().tolist())
    vectors = [p for p in parameters.values() if p.ndim < 2]
    matrices = [p for p in parameters.values() if p.ndim >= 2]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        tokens, after = batch(step)
        loss = F.cross_entropy(logits(state, tokens).reshape(-1, VOCABULARY), after.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    show("losses", losses)
    show("trained", logits(state, batch(0)[0]).flatten().tolist())

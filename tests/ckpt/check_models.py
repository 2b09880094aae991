#!/usr/bin/env python3
"""Models: the rule files of examples/rules cut, fuse and rename scaled-down models with real names correctly, and back.

    check_models.py COMMAND
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import safetensors as st

command = os.path.abspath(sys.argv[1])
RULES = os.path.join(here, "..", "..", "examples", "rules")
HEAD = 128
rng = random.Random(1)


def tensor(*shape):
    return "BF16", shape, rng.randbytes(2 * st.count(shape))


def model(heads, kv, hidden, inner, experts=0, biases=False):
    m = {"model.embed_tokens.weight": tensor(64, hidden), "lm_head.weight": tensor(64, hidden), "model.norm.weight": tensor(hidden)}
    for i in range(2):
        a, b = f"model.layers.{i}.self_attn.", f"model.layers.{i}."
        m |= {a + "q_proj.weight": tensor(heads * HEAD, hidden), a + "k_proj.weight": tensor(kv * HEAD, hidden),
              a + "v_proj.weight": tensor(kv * HEAD, hidden), a + "o_proj.weight": tensor(hidden, heads * HEAD),
              b + "input_layernorm.weight": tensor(hidden), b + "post_attention_layernorm.weight": tensor(hidden)}
        if biases:
            m |= {a + f"{x}_proj.bias": tensor((heads if x == "q" else kv) * HEAD) for x in "qkv"}
        if experts:
            m[b + "block_sparse_moe.gate.weight"] = tensor(experts, hidden)
            for e in range(experts):
                w = b + f"block_sparse_moe.experts.{e}."
                m |= {w + "w1.weight": tensor(inner, hidden), w + "w2.weight": tensor(hidden, inner), w + "w3.weight": tensor(inner, hidden)}
        else:
            m |= {b + "mlp.gate_proj.weight": tensor(inner, hidden), b + "mlp.up_proj.weight": tensor(inner, hidden),
                  b + "mlp.down_proj.weight": tensor(hidden, inner)}
    return m


def held(name, t, rank, ranks, sharers, experts):
    """Returns the part of a rank, derived from the tensor's name.  `sharers` ranks share a key/value head."""
    if ".experts." in name:
        return t if int(name.split(".experts.")[1].split(".")[0]) // (experts // ranks) == rank else None
    if "norm" in name or name.endswith("gate.weight"):
        return t
    if "k_proj" in name or "v_proj" in name:
        rank, ranks = rank // sharers, ranks // sharers
    dim = 1 if "o_proj" in name or "down_proj" in name else 0
    n = t[1][dim] // ranks
    assert n * ranks == t[1][dim]
    if any(x in name for x in ("q_proj", "k_proj", "v_proj", "o_proj")):
        assert n % HEAD == 0
    index = [None] * len(t[1])
    index[dim] = range(rank * n, (rank + 1) * n)
    return st.take(t, index)


def check(rules, ranks, whole, sharers=1, experts=0):
    st.write("whole.safetensors", whole, {"format": "pt"})
    path = rules.replace(".", "-")
    run = subprocess.run([command, "convert", "whole.safetensors", path, "--to", os.path.join(RULES, rules)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for r in range(ranks):
        got, _ = st.read(f"{path}/rank-{r:05}-of-{ranks:05}.safetensors")
        want = {n: h for n, h in ((n, held(n, t, r, ranks, sharers, experts)) for n, t in whole.items()) if h}
        assert got == want, (rules, r, [n for n in set(got) | set(want) if got.get(n) != want.get(n)])
    run = subprocess.run([command, "verify", "whole.safetensors", path], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    print(rules, "as meant")


# ---- maps: what each target must be, and the way back ----

def run(*words):
    done = subprocess.run([command, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def rows(t):
    """Returns a matrix or vector as a list of rows."""
    n = t[1][0]
    size = len(t[2]) // n
    return [t[2][i * size:(i + 1) * size] for i in range(n)]


def from_rows(like, list_of):
    return like[0], (len(list_of),) + like[1][1:], b"".join(list_of)


def join(*parts):
    return from_rows(parts[0], [r for p in parts for r in rows(p)])


def weave(groups, *parts):
    n = [p[1][0] // groups for p in parts]
    all_rows = [rows(p) for p in parts]
    return from_rows(parts[0], [r for g in range(groups) for p, k in zip(all_rows, n) for r in p[g * k:(g + 1) * k]])


def stacked(parts):
    return parts[0][0], (len(parts),) + parts[0][1], b"".join(p[2] for p in parts)


def turned(t):
    size = st.BITS[t[0]] // 8
    a, b = t[1]
    return t[0], (b, a), b"".join(t[2][(i * b + j) * size:(i * b + j + 1) * size] for j in range(b) for i in range(a))


def there_and_back(rules, whole, want, back=None):
    """Checks that the map makes these tensors for every cut, and that undoing it gives the source."""
    path = os.path.join(RULES, rules)
    name = f"{len(os.listdir())}-" + rules.replace(".", "-")
    st.write("model.safetensors", whole, {"format": "pt"})
    run("convert", "model.safetensors", name, "--to", path, "--verify")
    run("convert", name, name + ".safetensors", "--to", "whole")
    got, _ = st.read(name + ".safetensors")
    assert got == want, (rules, [n for n in set(got) | set(want) if got.get(n) != want.get(n)][:5])
    more = ["--to", os.path.join(RULES, back)] if back else ["--from", path, "--reverse"]
    run("convert", name, name + "-back.safetensors", *more, "--verify")
    got, _ = st.read(name + "-back.safetensors")
    assert got == whole, (rules, [n for n in set(got) | set(whole) if got.get(n) != whole.get(n)][:5])
    print(rules, "there and back")


def vllm(m, experts=0):
    out = {}
    for n, t in m.items():
        a = n.replace("q_proj", "qkv_proj")
        if "q_proj" in n:
            out[a] = join(t, m[n.replace("q_proj", "k_proj")], m[n.replace("q_proj", "v_proj")])
        elif "gate_proj" in n:
            out[n.replace("gate_proj", "gate_up_proj")] = join(t, m[n.replace("gate_proj", "up_proj")])
        elif ".experts.0.w1" in n:
            b = n.split("0.w1")[0]
            out[b + "w13_weight"] = stacked([join(m[f"{b}{e}.w1.weight"], m[f"{b}{e}.w3.weight"]) for e in range(experts)])
            out[b + "w2_weight"] = stacked([m[f"{b}{e}.w2.weight"] for e in range(experts)])
        elif not any(x in n for x in ("k_proj", "v_proj", "up_proj", ".experts.")):
            out[n] = t
    return out


def megatron(m, groups, experts=0):
    out = {"embedding.word_embeddings.weight": m["model.embed_tokens.weight"], "output_layer.weight": m["lm_head.weight"],
           "decoder.final_layernorm.weight": m["model.norm.weight"]}
    for i in range(2):
        a, b = f"model.layers.{i}.", f"decoder.layers.{i}."
        for x in ("weight", "bias"):
            if f"{a}self_attn.q_proj.{x}" in m:
                out[f"{b}self_attention.linear_qkv.{x}"] = weave(groups, *(m[f"{a}self_attn.{k}_proj.{x}"] for k in "qkv"))
        out[b + "self_attention.linear_qkv.layer_norm_weight"] = m[a + "input_layernorm.weight"]
        out[b + "self_attention.linear_proj.weight"] = m[a + "self_attn.o_proj.weight"]
        norm = m[a + "post_attention_layernorm.weight"]
        if not experts:
            out[b + "mlp.linear_fc1.layer_norm_weight"] = norm
            out[b + "mlp.linear_fc1.weight"] = join(m[a + "mlp.gate_proj.weight"], m[a + "mlp.up_proj.weight"])
            out[b + "mlp.linear_fc2.weight"] = m[a + "mlp.down_proj.weight"]
            continue
        out[b + "pre_mlp_layernorm.weight"] = norm
        out[b + "mlp.router.weight"] = m[a + "block_sparse_moe.gate.weight"]
        for e in range(experts):
            w, x = f"{a}block_sparse_moe.experts.{e}.", f"{b}mlp.experts.local_experts.{e}."
            out[x + "linear_fc1.weight"] = join(m[w + "w1.weight"], m[w + "w3.weight"])
            out[x + "linear_fc2.weight"] = m[w + "w2.weight"]
    return out


def gpt2(layers=1):
    m = {"wte.weight": tensor(32, 768), "wpe.weight": tensor(16, 768), "ln_f.weight": tensor(768), "ln_f.bias": tensor(768)}
    for i in range(layers):
        h = f"h.{i}."
        for name, shape in {"ln_1": (768,), "ln_2": (768,), "attn.c_attn": (768, 2304), "attn.c_proj": (768, 768), "mlp.c_fc": (768, 96),
                            "mlp.c_proj": (96, 768)}.items():
            m[f"{h}{name}.weight"], m[f"{h}{name}.bias"] = tensor(*shape), tensor(shape[-1])
    return m


def gpt2_vllm(m):
    return {"transformer." + n: turned(t) if "c_" in n and n.endswith("weight") else t for n, t in m.items()}


def gpt2_megatron(m):
    def woven(t):
        parts = rows(t)
        return weave(12, *(from_rows(t, parts[k * 768:(k + 1) * 768]) for k in range(3)))
    out = {"embedding.word_embeddings.weight": m["wte.weight"], "embedding.position_embeddings.weight": m["wpe.weight"]}
    for x in ("weight", "bias"):
        out[f"decoder.final_layernorm.{x}"] = m[f"ln_f.{x}"]
        a, b = "h.0.", "decoder.layers.0."
        flip = turned if x == "weight" else (lambda t: t)
        out[f"{b}self_attention.linear_qkv.{x}"] = woven(flip(m[f"{a}attn.c_attn.{x}"]))
        out[f"{b}self_attention.linear_proj.{x}"] = flip(m[f"{a}attn.c_proj.{x}"])
        out[f"{b}self_attention.linear_qkv.layer_norm_{x}"] = m[f"{a}ln_1.{x}"]
        out[f"{b}mlp.linear_fc1.layer_norm_{x}"] = m[f"{a}ln_2.{x}"]
        out[f"{b}mlp.linear_fc1.{x}"] = flip(m[f"{a}mlp.c_fc.{x}"])
        out[f"{b}mlp.linear_fc2.{x}"] = flip(m[f"{a}mlp.c_proj.{x}"])
    return out


def stacked_layers(m):
    """Stacks the layers as in Megatron's torch_dist: one tensor for all layers."""
    out = {n: t for n, t in m.items() if ".layers." not in n}
    for n in m:
        if ".layers.0." in n:
            out[n.replace(".0.", ".")] = stacked([m[n], m[n.replace(".0.", ".1.")]])
    return out


def maps():
    llama = model(32, 8, 16, 24)
    there_and_back("megatron-dist-to-hf-llama-3-8b.rules", stacked_layers(megatron(llama, 8)), llama)
    there_and_back("hf-llama-to-vllm.rules", llama, vllm(llama))
    there_and_back("hf-llama-3-8b-to-megatron.rules", llama, megatron(llama, 8))
    qwen = model(28, 4, 16, 24, biases=True)
    there_and_back("hf-llama-to-vllm.rules", qwen, vllm(qwen))
    there_and_back("hf-qwen2-7b-to-megatron.rules", qwen, megatron(qwen, 4))
    mixtral = model(32, 8, 8, 14336, experts=2)
    there_and_back("hf-mixtral-to-vllm.rules", mixtral, vllm(mixtral, 2))
    there_and_back("hf-mixtral-to-megatron.rules", mixtral, megatron(mixtral, 8, 2))
    small = gpt2()
    there_and_back("hf-gpt2-to-vllm.rules", small, gpt2_vllm(small))
    there_and_back("hf-gpt2-to-megatron.rules", small, gpt2_megatron(small), back="megatron-to-hf-gpt2.rules")


# ---- FP8 with scales ----

def f8(byte):
    """f8 of 4 bits of exponent and 3 of mantissa."""
    sign, e, f = -1 if byte & 128 else 1, byte >> 3 & 15, byte & 7
    return sign * (f / 8 * 2 ** -6 if e == 0 else (1 + f / 8) * 2 ** (e - 7))


def bf16(x):
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    return struct.pack("<H", (word + 0x7fff + (word >> 16 & 1)) >> 16)


def quantised(rows_of, columns):
    data = bytes(b for b in rng.randbytes(2 * rows_of * columns) if b & 127 != 127)[:rows_of * columns]
    grid = -(-rows_of // 128), -(-columns // 128)
    scales = [struct.pack("<f", rng.randint(1, 1000) / 256) for _ in range(grid[0] * grid[1])]
    return ("F8_E4M3", (rows_of, columns), data), ("F32", grid, b"".join(scales))


def dequantised(w, s):
    n, m = w[1]
    scale = struct.unpack(f"<{s[1][0] * s[1][1]}f", s[2])
    out = b"".join(bf16(struct.unpack("<f", struct.pack("<f", f8(w[2][i * m + j]) * scale[i // 128 * s[1][1] + j // 128]))[0])
                   for i in range(n) for j in range(m))
    return "BF16", w[1], out


def deepseek():
    m = {"model.embed_tokens.weight": tensor(64, 16), "lm_head.weight": tensor(64, 16), "model.norm.weight": tensor(16)}
    a, b = "model.layers.0.self_attn.", "model.layers.0.mlp."
    shapes = {a + "q_a_proj": (200, 144), a + "q_b_proj": (1024, 40), a + "kv_a_proj_with_mqa": (64, 64), a + "kv_b_proj": (1024, 64),
              a + "o_proj": (40, 1024), b + "experts.0.gate_proj": (1024, 20), b + "experts.0.up_proj": (1024, 20),
              b + "experts.0.down_proj": (20, 1024)}
    for name, shape in shapes.items():
        m[name + ".weight"], m[name + ".weight_scale_inv"] = quantised(*shape)
    m[b + "gate.weight"], m[b + "gate.e_score_correction_bias"] = tensor(4, 16), tensor(4)
    st.write("deepseek.safetensors", m)
    run("convert", "deepseek.safetensors", "deepseek-cut", "--to", os.path.join(RULES, "deepseek-fp8.rules"), "--verify")
    for r in (0, 7):
        got, _ = st.read(f"deepseek-cut/rank-{r:05}-of-00008.safetensors")
        assert got[a + "q_b_proj.weight"] == st.take(m[a + "q_b_proj.weight"], [range(128 * r, 128 * r + 128), None])
        assert got[a + "q_b_proj.weight_scale_inv"] == st.take(m[a + "q_b_proj.weight_scale_inv"], [[r], None])
        assert got[a + "o_proj.weight_scale_inv"] == st.take(m[a + "o_proj.weight_scale_inv"], [None, [r]])
        assert got[a + "q_a_proj.weight_scale_inv"] == m[a + "q_a_proj.weight_scale_inv"]
    run("convert", "deepseek-cut", "deepseek-whole.safetensors", "--from", os.path.join(RULES, "deepseek-fp8.rules"), "--reverse")
    assert st.read("deepseek-whole.safetensors")[0] == m
    path = os.path.join(RULES, "deepseek-fp8-to-bf16.rules")
    run("convert", "deepseek-cut", "deepseek-bf16.safetensors", "--to", path, "--verify")
    got, _ = st.read("deepseek-bf16.safetensors")
    want = {n: dequantised(t, m[n + "_scale_inv"]) if n + "_scale_inv" in m else t for n, t in m.items() if "scale_inv" not in n}
    assert got == want, [n for n in set(got) | set(want) if got.get(n) != want.get(n)]
    done = subprocess.run([command, "convert", "deepseek-bf16.safetensors", "no", "--from", path, "--reverse"], capture_output=True, text=True)
    assert done.returncode == 1 and "dequantise cannot restore" in done.stderr, done.stderr
    print("deepseek cut and dequantised")


# ---- rules that are built in ----

def built_in():
    """--to tp=2 finds rules by names, and the size of heads in config.json."""
    for want, whole, config in (("hf-llama", model(8, 4, 32, 48), None), ("hf-qwen", model(8, 4, 32, 48, biases=True), {"head_dim": 64}),
                                ("hf-mixtral-tp", model(8, 4, 32, 12, experts=3), None),
                                ("hf-gpt2", gpt2(), {"n_embd": 768, "n_head": 12})):
        folder = f"built-{want}"
        os.mkdir(folder)
        st.write(folder + "/model.safetensors", whole)
        if config:
            with open(folder + "/config.json", "w") as f:
                json.dump(config, f)
        done = subprocess.run([command, "convert", folder, folder + "-2", "--to", "tp=2", "--verify"], capture_output=True, text=True)
        assert done.returncode == 0 and f"built-in rules {want}" in done.stderr, done.stderr
        got, _ = st.read(folder + "-2/rank-00001-of-00002.safetensors")
        q = "model.layers.0.self_attn.q_proj.weight"
        if q in whole:
            assert got[q] == st.take(whole[q], [range(512, 1024), None])
        assert run("verify", folder, folder + "-2").startswith("same")
    done = subprocess.run([command, "convert", "built-hf-qwen", "no", "--to", "tp=16"], capture_output=True, text=True)
    assert done.returncode == 1 and "into unequal parts" in done.stderr, done.stderr
    st.write("other.safetensors", {"a": tensor(2, 2)})
    done = subprocess.run([command, "convert", "other.safetensors", "no", "--to", "tp=2"], capture_output=True, text=True)
    assert done.returncode == 1 and "match none of the built-in rules" in done.stderr, done.stderr
    print("built-in rules as meant")


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        check("hf-llama.rules", 4, model(8, 4, 32, 48))
        check("hf-llama-kv.rules", 16, model(16, 8, 16, 32), sharers=2)
        check("hf-qwen.rules", 2, model(14, 2, 28, 38, biases=True))
        check("hf-mixtral.rules", 4, model(8, 4, 32, 12, experts=8), experts=8)
        maps()
        deepseek()
        built_in()
        os.chdir("/")


main()

#!/usr/bin/env python3
"""Models: the rule files of examples/rules cut scaled-down models with the names of Llama 3, Qwen 2 and Mixtral as meant.

    check_models.py COMMAND
"""
import os
import random
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
    """What a rank holds, by what the name means.  `sharers` ranks share a key/value head."""
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


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        check("llama-3-8b.rules", 4, model(8, 4, 32, 48))
        check("llama-3-8b-kv.rules", 16, model(16, 8, 16, 32), sharers=2)
        check("qwen2.rules", 2, model(14, 2, 28, 38, biases=True))
        check("mixtral-8x7b.rules", 4, model(8, 4, 32, 12, experts=8), experts=8)
        os.chdir("/")


main()

"""Workflows: small models for checkpoint-workflows.md, as `workflows.py FOLDER`: llama/, fine-tuned/ and
deepseek/ with Hugging Face's names."""
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ckpt"))
sys.dont_write_bytecode = True
import safetensors  # noqa: E402  the tests' own writer


def made(dtype, *shape):
    return dtype, list(shape), random.randbytes(safetensors.count(shape) * safetensors.BITS[dtype] // 8)


def write(folder, tensors, config):
    """Two files and an index, as save_pretrained writes them."""
    os.makedirs(folder)
    names, where = list(tensors), {}
    for i, part in enumerate((names[:len(names) // 2], names[len(names) // 2:])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        safetensors.write(os.path.join(folder, file), {name: tensors[name] for name in part}, {"format": "pt"})
        where.update((name, file) for name in part)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def llama():
    """4 heads and 4 key/value heads of 128."""
    tensors = {"model.embed_tokens.weight": made("BF16", 64, 256)}
    for i in range(2):
        at = f"model.layers.{i}."
        for name in ("q", "k", "v"):
            tensors[at + f"self_attn.{name}_proj.weight"] = made("BF16", 512, 256)
        tensors[at + "self_attn.o_proj.weight"] = made("BF16", 256, 512)
        for name in ("gate", "up"):
            tensors[at + f"mlp.{name}_proj.weight"] = made("BF16", 384, 256)
        tensors[at + "mlp.down_proj.weight"] = made("BF16", 256, 384)
        for name in ("input", "post_attention"):
            tensors[at + f"{name}_layernorm.weight"] = made("BF16", 256)
    tensors["model.norm.weight"] = made("BF16", 256)
    tensors["lm_head.weight"] = made("BF16", 64, 256)
    return tensors


def deepseek():
    """One layer with two experts: FP8 weights with a scale for each block of 128x128."""
    tensors = {"model.embed_tokens.weight": made("BF16", 64, 256)}
    experts = [(f"mlp.experts.{i}.{name}_proj", *shape) for i in range(2)
               for name, shape in (("gate", (1024, 256)), ("up", (1024, 256)), ("down", (256, 1024)))]
    for name, rows, columns in [("self_attn.q_a_proj", 128, 256), ("self_attn.q_b_proj", 1024, 128),
                                ("self_attn.kv_a_proj_with_mqa", 192, 256), ("self_attn.kv_b_proj", 1024, 128),
                                ("self_attn.o_proj", 256, 1024)] + experts:
        weight = bytes(random.randrange(0x40) for _ in range(rows * columns))
        scales = [-(-rows // 128), -(-columns // 128)]
        values = [random.uniform(0.001, 0.01) for _ in range(scales[0] * scales[1])]
        tensors[f"model.layers.0.{name}.weight"] = ("F8_E4M3", [rows, columns], weight)
        tensors[f"model.layers.0.{name}.weight_scale_inv"] = ("F32", scales, struct.pack(f"<{len(values)}f", *values))
    for name in ("input_layernorm", "post_attention_layernorm", "self_attn.q_a_layernorm", "self_attn.kv_a_layernorm"):
        tensors[f"model.layers.0.{name}.weight"] = made("BF16", 128)
    tensors["model.layers.0.mlp.gate.weight"] = made("BF16", 2, 256)
    tensors["model.layers.0.mlp.gate.e_score_correction_bias"] = made("F32", 2)
    tensors["model.norm.weight"] = made("BF16", 256)
    tensors["lm_head.weight"] = made("BF16", 64, 256)
    return tensors


def main(folder):
    random.seed(4)
    config = {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 128}
    tensors = llama()
    write(os.path.join(folder, "llama"), tensors, config)
    dtype, shape, raw = tensors["model.norm.weight"]
    tensors["model.norm.weight"] = dtype, shape, raw[:6] + bytes([raw[6] ^ 1]) + raw[7:]
    write(os.path.join(folder, "fine-tuned"), tensors, config)
    write(os.path.join(folder, "deepseek"), deepseek(), {})


if __name__ == "__main__":
    main(*sys.argv[1:])

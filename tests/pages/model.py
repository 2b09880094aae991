"""Model: a small checkpoint for pages to work on, as `model.py FOLDER`: a Hugging Face directory of 14 tensors."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ckpt"))
sys.dont_write_bytecode = True
import safetensors  # noqa: E402  the tests' own writer


def main(folder):
    random.seed(1)
    shapes = {"embed_tokens.weight": (32, 512), "norm.weight": (512,)}
    for layer in range(2):
        for name, shape in (("q_proj", (512, 512)), ("k_proj", (512, 512)), ("o_proj", (512, 512)),
                            ("up_proj", (1024, 512)), ("down_proj", (512, 1024)), ("norm", (512,))):
            shapes[f"layers.{layer}.{name}.weight"] = shape
    tensors = {}
    for name, shape in shapes.items():
        tensors[name] = ("BF16", list(shape), random.randbytes(2 * safetensors.count(shape)))
    os.makedirs(folder)
    safetensors.write(os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})


if __name__ == "__main__":
    main(*sys.argv[1:])

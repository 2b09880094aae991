"""GPT-2 read by PyTorch: what tests/nn/test_gpt2_files.c has trained and saved under Hugging Face's names gives the same
logits in PyTorch, whose model and whose safetensors reader are those of tools/golden/torch_gpt2.py.

    check_gpt2_torch.py TEST_PROGRAM
"""
import os
import subprocess
import sys
import tempfile

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(root, "tests"))
import skips

program = os.path.abspath(sys.argv[1])


def find_python():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and not subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
            return python
    return None


def numbers(line, word):
    words = line.split()
    assert words[0] == word, words[0]
    return [float(x) for x in words[1:]]


python = find_python()
if not python:
    skips.skip("torch", "no python3 here has PyTorch")
    sys.exit(skips.exit_status(0))
with open(os.path.join(root, "tests", "nn", "golden_gpt2.txt"), encoding="utf-8") as file:
    want = numbers(file.read().splitlines()[2], "trained")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program], cwd=root, env={**os.environ, "RESHARD_KEEP": folder}, check=True)
    saved = os.path.join(folder, "trained", "model.safetensors")
    tool = os.path.join(root, "tools", "golden", "torch_gpt2.py")
    said = subprocess.run([python, tool, saved], capture_output=True, text=True, check=True).stdout
got = numbers(said, "logits")
assert len(got) == len(want), (len(got), len(want))
worst = max(abs(a - b) / (1 + abs(b)) for a, b in zip(got, want))
print(f"{len(got)} logits, largest difference {worst:.3g}")
assert worst <= 1e-11, worst

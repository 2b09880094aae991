#!/usr/bin/python3
"""Block: a training step of a transformer block in PyTorch and in libreshard-nn, alternating.

    block.py build/bench/nn/bench_block [ROUNDS]

The model is that of bench_block.c, with bmm and softmax.  Prints both, the ratio of the least times, and which BLAS each uses.
"""
import os
import re
import subprocess
import sys
import time

import torch
from torch import nn

WIDTH, HEADS, LENGTH, BATCH, STEPS = 256, 8, 256, 8, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def heads(self, x):
        return x.view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2).reshape(BATCH * HEADS, LENGTH, WIDTH // HEADS)

    def attend(self, x):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        score = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / (WIDTH // HEADS) ** 0.5, -1)
        y = torch.bmm(score, v).view(BATCH, HEADS, LENGTH, WIDTH // HEADS).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        return self.out(y)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def torch_least(model, optimizer, x):
    least = 1e9
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        (model(x) ** 2).mean().backward()
        optimizer.step()
        least = min(least, time.perf_counter() - start)
    return 1e3 * least


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(os.cpu_count())
    model = Block()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(BATCH, LENGTH, WIDTH)
    theirs, ours = [], []
    torch_least(model, optimizer, x)
    for _ in range(rounds):
        theirs.append(torch_least(model, optimizer, x))
        text = subprocess.run([program, str(STEPS)], check=True, capture_output=True, text=True).stdout
        ours.append(float(re.search(r"least ([0-9.]+)", text).group(1)))
    blas = re.findall(r"BLAS_INFO=(\w+)", torch.__config__.show()) or ["?"]
    where = subprocess.run(["readlink", "-f", "/usr/lib/x86_64-linux-gnu/libblas.so.3"], capture_output=True, text=True).stdout.strip()
    print(f"transformer block, one training step: reshard {min(ours):.2f} ms, PyTorch {torch.__version__} {min(theirs):.2f} ms, "
          f"ratio {min(ours) / min(theirs):.2f} ({torch.get_num_threads()} threads; PyTorch's BLAS: {blas[0]}; libblas.so.3 is {where})")


main()

"""A small GPT in PyTorch, trained on several processes with input_reshard.

All ranks train the same model on the same text; what forward saves for backward is kept as one chunk on each rank.
The losses are the same to the bit with and without it.

    PYTHONPATH=build/python python3 -m torch.distributed.run --redirects 1 --tee 1 \\
        --nproc_per_node 4 examples/python/train_gpt.py
    PYTHONPATH=build/python python3 examples/python/train_gpt.py --ranks 4      # starts the processes itself
"""
import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

import reshard
import reshard.torch

TEXT = "the quick brown fox jumps over the lazy dog. " * 40
LETTERS = sorted(set(TEXT))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(w, dim=2))
        scores = q @ k.transpose(2, 3) * (w // self.heads) ** -0.5
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = F.softmax(scores.masked_fill(future, float("-inf")), dim=3)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, width=64, heads=4, layers=2, context=32):
        super().__init__()
        self.token, self.place = nn.Embedding(len(LETTERS), width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(LETTERS))

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def train(comm, steps, cut):
    """Returns (losses, seconds per step, bytes of tensors that were cut, bytes of them that this rank kept)."""
    torch.set_num_threads(1)
    torch.manual_seed(20)  # the same on every rank
    ids = torch.tensor([LETTERS.index(c) for c in TEXT])
    model = GPT()
    saved = reshard.torch.input_reshard(model, comm, dim=0) if cut else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses, begin = [], time.perf_counter()
    for _ in range(steps):
        starts = torch.randint(len(ids) - 33, (8,))
        batch = torch.stack([ids[s:s + 33] for s in starts])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = (time.perf_counter() - begin) / steps
    return losses, seconds, saved.bytes if cut else 0, saved.bytes_kept if cut else 0


def rank_main(comm, steps):
    plain, seconds, _, _ = train(comm, steps, cut=False)
    cut, cut_seconds, whole, kept = train(comm, steps, cut=True)
    assert cut == plain, "losses differ"
    assert cut[-1] < cut[0], "nothing was learned"
    assert comm.size == 1 or kept <= whole / comm.size * 1.08, (kept, whole)
    if comm.rank == 0:
        share = kept / whole if whole else 1.0
        print(f"{comm.size} ranks, {steps} steps: loss {cut[0]:.4f} to {cut[-1]:.4f}, the same bits with and without "
              f"input_reshard")
        print(f"tensors that can be cut: {share:.3f} of {whole} bytes kept; {1000 * seconds:.1f} ms a step without, "
              f"{1000 * cut_seconds:.1f} ms with")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=0, help="start so many processes; 0: join those of a launcher")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if options.ranks:
        reshard.run(options.ranks, rank_main, options.steps, processes=True)
    else:
        with reshard.join() as joined:
            rank_main(joined, options.steps)

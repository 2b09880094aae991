"""Directories as DeepSpeed's ZeRO writes them, for tests/ckpt/zero: python3 tools/golden/torch_zero.py tests/ckpt/zero

DeepSpeed is not there: torch.save writes dicts with the keys that its own zero_to_fp32.py reads.  stage1 has bf16 names and a
last rank without padding, stage2 two groups with padding, frozen and shared parameters and buffers, stage3 pieces of every
parameter, frozen ones included.  parts is stage2 of a model that tensor parallelism divides into two.  Bytes follow from names as in torch_dcp.py; moments follow from "exp_avg.NAME".
"""
import collections
import os
import shutil
import sys

from torch_dcp import whole

import torch

RANKS = 3
GROUPS = [{"layer.0.weight": (7, 5), "layer.1.weight": (4, 3, 2), "scalar": ()}, {"layer.0.bias": (7,), "norm.weight": (11,), "tiny": (1,)}]


def shapes(groups):
    return [collections.OrderedDict((name, torch.Size(shape)) for name, shape in group.items()) for group in groups]


def flat(prefix, group, pad):
    """All parameters of a group one after the other, padded."""
    joined = torch.cat([whole(prefix + name, torch.float32, *shape).reshape(-1) for name, shape in group.items()])
    return torch.cat([joined, torch.full((-joined.numel() % pad,), 7.0)])


def partitions(prefix, lean):
    """Of each rank its pieces of all groups."""
    out = [[] for _ in range(RANKS)]
    for group in GROUPS:
        joined = flat(prefix, group, 2 * RANKS)
        piece = joined.numel() // RANKS
        count = sum(torch.Size(shape).numel() for shape in group.values())
        for rank in range(RANKS):
            part = joined[rank * piece:(rank + 1) * piece].clone()
            out[rank].append(part[:max(0, count - rank * piece)].clone() if lean else part)
    return out


def pieces(prefix):
    """Stage 3: of each rank its pieces of all parameters, in one flat tensor for each group."""
    out = [[] for _ in range(RANKS)]
    for group in GROUPS:
        for rank in range(RANKS):
            parts = []
            for name, shape in group.items():
                values = whole(prefix + name, torch.float32, *shape).reshape(-1)
                size = -(-values.numel() // RANKS)
                padded = torch.cat([values, torch.full((size * RANKS - values.numel(),), 7.0)])
                parts.append(padded[rank * size:(rank + 1) * size])
            out[rank].append(torch.cat(parts))
    return out


def optimizer(stage, rank, weights, first, second):
    state = {g: {"step": torch.tensor(3.0), "exp_avg": first[rank][g], "exp_avg_sq": second[rank][g]} for g in range(len(GROUPS))}
    base = {"state": state, "param_groups": [{"lr": 0.1, "params": [g]} for g in range(len(GROUPS))]}
    if stage == 3:
        all_states = {"zero_stage": 3, "partition_count": RANKS, "optimizer_state_dict": base, "fp32_flat_groups": weights[rank]}
    else:
        all_states = {"zero_stage": stage, "partition_count": [RANKS] * len(GROUPS), "base_optimizer_state": base,
                      "single_partition_of_fp32_groups": weights[rank], "loss_scaler": object}
    return {"optimizer_state_dict": all_states, "ds_config": {}, "ds_version": "0.15"}


def model(stage, rank):
    module = {name: torch.zeros(shape, dtype=torch.bfloat16) for group in GROUPS for name, shape in group.items()}
    module["rotary.inv_freq"] = whole("rotary.inv_freq", torch.float32, 4)
    states = {"module": module, "buffer_names": ["rotary.inv_freq"], "param_shapes": shapes(GROUPS), "shared_params": {"head.weight": "layer.0.weight"},
              "frozen_param_shapes": None, "frozen_param_fragments": None, "ds_version": "0.15", "lr_scheduler": None}
    embed = whole("embed.weight", torch.float16, 2, 5)
    if stage > 1:
        states["frozen_param_shapes"] = {"embed.weight": embed.shape}
        states["frozen_param_fragments"] = {"embed.weight": embed}
    if stage == 3:
        size = -(-embed.numel() // RANKS)
        padded = torch.cat([embed.reshape(-1), torch.full((size * RANKS - embed.numel(),), 7.0, dtype=embed.dtype)])
        states["frozen_param_fragments"] = {"embed.weight": padded[rank * size:(rank + 1) * size].clone()}
    return states


def write(folder, stage, part=0):
    os.makedirs(folder, exist_ok=True)
    make = pieces if stage == 3 else lambda prefix: partitions(prefix, lean=stage == 1)
    weights, first, second = make(""), make("exp_avg."), make("exp_avg_sq.")
    for rank in range(RANKS):
        name = f"{'bf16_' if stage == 1 else ''}zero_pp_rank_{rank}_mp_rank_{part:02}_optim_states.pt"
        torch.save(optimizer(stage, rank, weights, first, second), f"{folder}/{name}")
        if stage == 3:
            torch.save(model(stage, rank), f"{folder}/zero_pp_rank_{rank}_mp_rank_{part:02}_model_states.pt")
    if stage < 3:
        torch.save(model(stage, 0), f"{folder}/mp_rank_{part:02}_model_states.pt")


def main():
    folder = os.path.abspath(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for stage in (1, 2, 3):
        write(f"{folder}/stage{stage}/global_step7", stage)
        with open(f"{folder}/stage{stage}/latest", "w") as file:
            file.write("global_step7")
    write(f"{folder}/parts", 2, 0)
    GROUPS[0]["layer.0.weight"] = (6, 5)
    write(f"{folder}/parts", 2, 1)


if __name__ == "__main__":
    main()

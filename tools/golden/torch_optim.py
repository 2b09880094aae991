#!/usr/bin/python3
"""Golden optimizers: parameters after steps of PyTorch's optimizers with groups, for tests/nn/test_param_groups.c.

    torch_optim.py > tests/nn/golden_optim.txt

Needs Debian's python3-torch (1.13).  A model has parameters a [3, 2] and b [4]; element i of parameter k (0 is a) is
((7919 * i + 104729 * (k + 1)) % 2003) / 1000 - 1, and its gradient at step s the same with 10 + 2 * s + k for k.  Group
0 has a and the settings of the optimizer, group 1 has b with its own learning rate and weight decay.  After every step
all learning rates are halved.

    case KIND                sgd, nesterov, adam or adamw
    a VALUES                 after all steps
    b VALUES
"""
import torch

STEPS, LR, DECAY, LR_B, DECAY_B = 4, 0.02, 0.1, 0.006, 0.07


def numbers(k, shape):
    count = 1
    for n in shape:
        count *= n
    flat = [((7919 * i + 104729 * (k + 1)) % 2003) / 1000 - 1 for i in range(count)]
    return torch.tensor(flat, dtype=torch.float64).reshape(shape)


def make(kind, groups):
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=LR, momentum=0.9, dampening=0.2, weight_decay=DECAY)
    if kind == "nesterov":
        return torch.optim.SGD(groups, lr=LR, momentum=0.9, nesterov=True, weight_decay=DECAY)
    return (torch.optim.Adam if kind == "adam" else torch.optim.AdamW)(groups, lr=LR, weight_decay=DECAY)


for kind in ("sgd", "nesterov", "adam", "adamw"):
    parameters = [numbers(0, (3, 2)).requires_grad_(), numbers(1, (4,)).requires_grad_()]
    other = {"params": [parameters[1]], "lr": LR_B, "weight_decay": DECAY_B}
    optimizer = make(kind, [{"params": [parameters[0]]}, other])
    for step in range(STEPS):
        for k, p in enumerate(parameters):
            p.grad = numbers(10 + 2 * step + k, p.shape)
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    print("case", kind)
    for name, p in zip("ab", parameters):
        print(name, " ".join("%.17g" % x for x in p.detach().flatten().tolist()))

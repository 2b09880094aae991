#!/usr/bin/env python3
"""Golden data: writes the results of PyTorch 1.13 to files for tests/golden.

    /usr/bin/python3 tools/golden/torch_golden.py [FOLDER [FILE ...]]     FOLDER: tests/golden; FILE: chunks, devices, ...; all of them

Needs Debian 12's python3-torch (1.13.0a0) under Debian's own python3; backend gloo over the loopback device, up to four processes.  Takes about three minutes.
Running it again gives the same bytes: one case a line, keys sorted, nothing about time or machine.  torch_terms.py says how things are written.

Cases that PyTorch may abort or hang on have a world of their own and a few seconds; "error" is then ABORT or HANG.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from torch_world import run_world, torch  # noqa: E402; before anything of torch.distributed._shard
import torch_cases  # noqa: E402
import torch_pure  # noqa: E402
from torch_ranked import answer  # noqa: E402

SECONDS = 8.0  # time limit of an isolated case, after which it counts as hung


def shared(ranks):
    """Moves results that all answering ranks have in common out of the per-rank lists."""
    out = {}
    for key in ("meta", "spec"):
        said = [rank[key] for rank in ranks if key in rank]
        if said and all(one == said[0] for one in said):
            out[key] = said[0]
            for rank in ranks:
                rank.pop(key, None)
    return {**out, "ranks": ranks}


def together(cases):
    """Starts one world per size, which runs all cases of that size."""
    for world in sorted({case["world"] for case in cases}):
        mine = [case for case in cases if case["world"] == world]
        for case, ranks in zip(mine, run_world(world, answer, mine)):
            case["answer"] = shared(ranks)
    return cases


def apart(cases):
    """Starts a world for each case.  If a rank aborts, only that is recorded, because the fate of the others depends on timing."""
    for case in cases:
        ranks = run_world(case["world"], answer, [case], SECONDS)[0]
        aborted = any(rank.get("error") == "ABORT" for rank in ranks)
        case["answer"] = {"error": "ABORT"} if aborted else shared(ranks)
    return cases


FILES = {"chunks": torch_pure.chunk_cases, "devices": torch_pure.device_cases, "specs": torch_pure.spec_cases,
         "shard": lambda: together(torch_cases.shard_cases()), "reshard": lambda: together(torch_cases.reshard_cases()),
         "init": lambda: together(torch_cases.init_cases()), "collectives": lambda: together(torch_cases.collective_cases()),
         "state": lambda: together(torch_cases.state_cases()), "errors": lambda: apart(torch_cases.error_cases())}


def write(folder, name):
    cases = FILES[name]()
    lines = [json.dumps(case, sort_keys=True, separators=(",", ":")) for case in cases]
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        file.write(f'{{"torch":"{torch.__version__}","cases":[\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{name}: {len(cases)} cases")


def main(folder="tests/golden", *names):
    if not torch.__version__.startswith("1.13"):
        print(f"torch_golden: this is PyTorch {torch.__version__}; the data are those of 1.13", file=sys.stderr)
        return 1
    for name in names or FILES:
        write(folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

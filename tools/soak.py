#!/usr/bin/env python3
"""Soak: runs the random tests of every engine with new seeds until the time is up.

    soak.py BUILD MINUTES [REGEX]       REGEX: only the tests whose names match

Every run of a test has its own seed, which is printed.  The first failure stops the script, which prints the output of the
test and the command to repeat it.  JOBS tests (default: one per core) run at the same time; when the time is up, tests that
are running are completed.
"""
import concurrent.futures
import json
import os
import random
import re
import shlex
import subprocess
import sys
import threading
import time

failed = threading.Event()


def random_tests(build, pattern):
    shown = subprocess.run(["ctest", "--test-dir", build, "-L", "^random$", "--show-only=json-v1"], check=True,
                           capture_output=True, text=True).stdout
    names = [t["name"] for t in json.loads(shown)["tests"]]
    return [n for n in names if re.search(pattern, n)]


def run(build, name, end):
    """Runs one test with a new seed; True: it passed, or it was not started because of the time or a failure."""
    if failed.is_set() or time.monotonic() > end:
        return True
    seed = random.SystemRandom().randrange(1 << 48)
    began = time.monotonic()
    words = ["ctest", "--test-dir", build, "-R", f"^{re.escape(name)}$", "--output-on-failure", "--timeout", "3600"]
    done = subprocess.run(words, env=dict(os.environ, RESHARD_SEED=str(seed)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    passed = done.returncode == 0
    again = f"RESHARD_SEED={seed} " + " ".join(map(shlex.quote, words[:-2]))
    if passed:
        print(f"{time.monotonic() - began:6.1f} s  RESHARD_SEED={seed:<15}  {name}", flush=True)
    elif not failed.is_set():
        failed.set()
        print(f"{done.stdout}\nFAILED: {name}; to repeat it:\n    {again}", flush=True)
    return passed


def main():
    build, minutes = sys.argv[1], float(sys.argv[2])
    tests = random_tests(build, sys.argv[3] if len(sys.argv) > 3 else "")
    if not tests:
        sys.exit(f"soak: no random tests in {build}; build with -DRESHARD_TESTS=ON")
    began = time.monotonic()
    end, runs = began + 60 * minutes, 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
        while not failed.is_set() and time.monotonic() < end:
            random.shuffle(tests)
            list(pool.map(lambda name: run(build, name, end), tests))
            runs += 1
    print(f"soak: {(time.monotonic() - began) / 60:.1f} minutes, {len(tests)} tests, " +
          ("1 test failed" if failed.is_set() else f"no failure in {runs} round{'s' * (runs != 1)}; the last may be incomplete"))
    return failed.is_set()


sys.exit(main())

#!/usr/bin/env python3
"""Soak: runs the random tests of every engine with new seeds until the time is up.

    soak.py BUILD MINUTES [REGEX]       REGEX: only the tests whose names match

Every test has its own seed, which is printed.  The first failure ends it, with the test's output and the line that runs
the same cases again.  JOBS (the number of cores) tests run at once; those that are under way when the time is up come to
their end.
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
    """One test with a new seed; True: it passed, or there was no time or no reason to start it."""
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
        print(f"{done.stdout}\nFAILED: {name}; to see it again:\n    {again}", flush=True)
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
          ("a failure" if failed.is_set() else f"no failure in {runs} round{'s' * (runs != 1)}, of which the last may be cut short"))
    return failed.is_set()


sys.exit(main())

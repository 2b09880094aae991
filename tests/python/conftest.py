"""A run that has skipped a test and failed none exits with 77, which ctest reports as skipped; pytest itself exits with 5
if it has skipped a whole file, and with 0 otherwise.  The cause is "python" for RESHARD_MAY_SKIP (tests/skips.py)."""
import os
import signal
import sys

import pytest

tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, tests)
import skips  # noqa: E402
sys.path.remove(tests)  # where PyTorch is missing, "import torch" would find the folder tests/torch

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts this in the background ignores it for all

reasons = []


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        reasons.append(report.longrepr[2])


def pytest_collectreport(report):
    if report.skipped:
        reasons.append(report.longrepr[2])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and reasons:
        for why in dict.fromkeys(reasons):
            skips.skip("python", why.removeprefix("Skipped: "))
        session.exitstatus = skips.exit_status(0)

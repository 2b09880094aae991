"""Comms on communicators of mpi4py."""
import os
import shutil
import subprocess
import sys

import pytest

import reshard

if os.environ.get("RESHARD_REQUIRE_MPI4PY"):
    import mpi4py
else:
    mpi4py = pytest.importorskip("mpi4py")

LAUNCHER = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "RESHARD_TIMEOUT": "60"}

PROGRAM = """
from mpi4py import MPI
import numpy as np, reshard
with reshard.Comm(MPI.COMM_WORLD) as comm:
    x = reshard.Sharded(comm, "f64[6/x, 4] on x=2", np.full((3, 4), comm.rank, float))
    y = x.reshard("f64[6, 4/x] on x=2")
    assert comm.engine == "mpi" and x.digest() == y.digest()
    whole = y.gather()
    if whole is not None: print(whole.numpy()[:, 0].tolist())
"""


def run(text, n=2):
    return subprocess.run([LAUNCHER, "-n", str(n), sys.executable, "-c", text], env=ENVIRONMENT, capture_output=True,
                          text=True, timeout=120)


@pytest.mark.skipif(LAUNCHER is None, reason="there is no mpirun")
def test_a_comm_on_a_communicator_of_mpi4py():
    found = run(PROGRAM)
    assert found.stdout.strip() == "[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]", found


def test_what_is_no_communicator_is_refused():
    with pytest.raises(TypeError, match="mpi4py communicator"):
        reshard.Comm(3)


FAKE = """
import sys, types
class Comm:
    def py2f(self): return 0
mpi = types.ModuleType("mpi4py.MPI")
mpi.Comm = Comm
sys.modules["mpi4py.MPI"] = mpi
import reshard
try:
    reshard.Comm(Comm())
except RuntimeError as error:
    print(error)
"""


def test_a_process_without_a_running_mpi_gets_an_error():
    found = subprocess.run([sys.executable, "-c", FAKE], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert "MPI is not running" in found.stdout, found

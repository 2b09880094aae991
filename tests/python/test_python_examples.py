"""The programs of examples/python run and return 0."""
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "RESHARD_TIMEOUT": "100"}
MPIRUN = shutil.which("mpirun.openmpi") or shutil.which("mpirun")


def run(*command):
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def needs(module, required):
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing and not os.environ.get(required), reason=f"{module} is not installed")


def test_first_move():
    assert "verified: True" in run(sys.executable, "examples/python/first_move.py")


def test_checkpoint_surgery():
    assert "fused model verified" in run(sys.executable, "examples/python/checkpoint_surgery.py")


@needs("mpi4py", "RESHARD_REQUIRE_MPI4PY")
def test_mpi_rows_to_columns():
    assert "the same 1000 x 700" in run(MPIRUN, "-n", "3", sys.executable, "examples/python/mpi_rows_to_columns.py")


@needs("torch", "RESHARD_REQUIRE_TORCH")
def test_train_gpt():
    found = run(sys.executable, "examples/python/train_gpt.py", "--ranks", "4", "--steps", "4")
    assert "4 ranks" in found and "the same bits with and without input_reshard" in found


@needs("torch", "RESHARD_REQUIRE_TORCH")
def test_train_gpt_under_the_launcher_of_pytorch(tmp_path):
    # PyTorch 1.13 on Python 3.11 cannot start processes without redirecting something.
    found = run(sys.executable, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--log_dir", str(tmp_path),
                "--nproc_per_node", "2", "--master_port", "0", "examples/python/train_gpt.py", "--steps", "2")
    assert "2 ranks" in found and "the same bits with and without input_reshard" in found

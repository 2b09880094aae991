"""The wheel: built from this build folder, installed into an empty venv outside of the tree, tried and uninstalled."""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import reshard

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("RESHARD_BUILD", "")


def run(*command, folder, **more):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=folder, env={**environment, **more}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not os.path.exists(os.path.join(BUILD, "cmake_install.cmake")):
        pytest.skip("RESHARD_BUILD is not a build folder")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "VERSION", "README.md", "LICENSE", "python"):
        source = os.path.join(ROOT, name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, folder / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "out"), folder=folder,
        RESHARD_BUILD_FOLDER=BUILD)
    found = list((folder / "out").iterdir())
    assert len(found) == 1 and re.fullmatch(r"reshard-[\d.]+-cp311-abi3-linux_\w+\.whl", found[0].name), found
    return found[0]


def test_the_wheel_has_all_that_it_needs(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    version = reshard.__version__.rsplit(".", 1)[0]
    for name in ("__init__.py", "__init__.pyi", "_reshard.pyi", "_reshard.abi3.so", "py.typed", "torch.py", "bin/reshard",
                 f"lib/libreshard.so.{version}"):
        assert "reshard/" + name in names, sorted(names)
    assert any(name.startswith("reshard/lib/libjansson") for name in names)


def test_it_works_in_an_empty_venv_and_leaves_nothing(wheel, tmp_path):
    venv = tmp_path / "venv"
    pip_of_system = importlib.util.find_spec("pip") is not None  # it takes seconds to install another
    run(sys.executable, "-m", "venv", "--system-site-packages", *["--without-pip"] * pip_of_system, str(venv), folder=tmp_path)
    python = str(venv / "bin" / "python3")
    before = {str(p) for p in venv.rglob("*") if "__pycache__" not in str(p)}
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile", str(wheel), folder=tmp_path)
    where = run(python, "-c", "import reshard; print(reshard.__file__)", folder=tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert where.startswith(str(venv))
    for command in ([python, "-m", "reshard"], [str(venv / "bin" / "reshard")]):
        assert run(*command, "--version", folder=tmp_path).strip() == f"reshard {reshard.__version__}"
    for name in ("test_python_plan.py", "layout_model.py", "test_python_pairs.py"):
        shutil.copy(os.path.join(ROOT, "tests", "python", name), tmp_path)
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_python_plan.py", "test_python_pairs.py",
        folder=tmp_path, RESHARD_CASES="50", PYTHONDONTWRITEBYTECODE="1")
    run(python, "-m", "pip", "uninstall", "-y", "reshard", folder=tmp_path)
    after = {str(p) for p in venv.rglob("*") if "__pycache__" not in str(p)}
    assert after == before, sorted(after - before)


def declared_names():
    """What Python.h declares under the limited API."""
    text = "#define PY_SSIZE_T_CLEAN\n#define Py_LIMITED_API 0x030B0000\n#include <Python.h>\n"
    include = sysconfig.get_path("include")
    compiler = os.environ.get("CC", "cc")
    seen = subprocess.run([compiler, "-E", "-P", "-I", include, "-x", "c", "-"], input=text, capture_output=True, text=True)
    assert seen.returncode == 0, seen.stderr
    return set(re.findall(r"\b_?Py\w+", seen.stdout))


def test_the_module_uses_the_limited_api_only():
    module = sys.modules["reshard._reshard"].__file__
    seen = subprocess.run(["nm", "-D", "--undefined-only", module], capture_output=True, text=True)
    used = set(re.findall(r"\b_?Py\w+", seen.stdout))
    assert len(used) > 50 and not used - declared_names(), sorted(used - declared_names())
    assert module.endswith("_reshard.abi3.so")
    exported = subprocess.run(["nm", "-D", "--defined-only", module], capture_output=True, text=True).stdout.split()
    assert [name for name in exported if name.startswith(("Py", "py_", "rsh"))] == ["PyInit__reshard"]


WITHOUT_NUMPY = """
import array, sys
sys.modules["numpy"] = None
import reshard
parts = [array.array("f", range(4 * rank, 4 * rank + 4)) for rank in range(2)]
whole = reshard.move("f32[8/x] on x=2", "f32[8]", parts)[0].tolist()
ranks = reshard.run(2, lambda comm: reshard.Sharded(comm, "f32[8/x] on x=2", parts[comm.rank]).digest())
print(whole == list(range(8)) and ranks[0] == ranks[1] == reshard.digest("f32[8]", [array.array("f", range(8))]))
"""


def pythons():
    """Every python3 of 3.11 or later on PATH: the module is the same file for all of them."""
    found = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, "python3")
        if not os.access(path, os.X_OK):
            continue
        asked = subprocess.run([path, "-c", "import sys; print(sys.executable, sys.version_info >= (3, 11))"],
                               capture_output=True, text=True)
        executable, _, new = asked.stdout.strip().rpartition(" ")
        if new == "True":
            found[os.path.realpath(executable)] = None
    return list(found)


@pytest.mark.parametrize("python", pythons())
def test_every_python_can_use_the_same_file_without_numpy(python):
    package = os.path.dirname(os.path.dirname(reshard.__file__))
    done = subprocess.run([python, "-c", WITHOUT_NUMPY], env={**os.environ, "PYTHONPATH": package}, capture_output=True,
                          text=True, timeout=60)
    assert done.stdout.strip() == "True", done

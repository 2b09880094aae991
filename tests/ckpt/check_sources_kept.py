#!/usr/bin/env python3
"""Sources kept: convert never removes or overwrites files that another conversion did not make.

    check_sources_kept.py COMMAND
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors as st

command = os.path.abspath(sys.argv[1])
TWO = {"a": ("F32", (2,), b"abcdefgh"), "b": ("F32", (1,), b"ijkl")}


def tree(path):
    """Returns everything below the path, without following links."""
    if os.path.islink(path):
        return "-> " + os.readlink(path)
    if os.path.isfile(path):
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    return {name: tree(os.path.join(path, name)) for name in sorted(os.listdir(path))}


def refused(want, *words):
    """Checks that the command fails with these words and changes no file."""
    before = tree(".")
    r = subprocess.run([command, "convert", *words], capture_output=True, text=True)
    assert r.returncode == 1 and want in r.stderr, (want, r.returncode, r.stderr)
    assert tree(".") == before, (words, "files changed")
    return r.stderr


def source_is_the_working_directory():
    os.mkdir("m.reshard-partial")
    st.write("m.reshard-partial/model.safetensors", TWO)
    for more in ([], ["--force"], ["--resume"], ["--resume", "--force"]):
        words = ["m.reshard-partial", "m", "--to", "whole", "--include", "a", *more]
        error = refused("different path", *words)
        assert "--force" not in error, error
        refused("different path", "m.reshard-partial/model.safetensors", "m", "--to", "whole", *more)
    os.symlink("m.reshard-partial", "link")
    refused("different path", "link", "m", "--to", "whole", "--force")
    os.symlink(".", "here")
    refused("different path", "m.reshard-partial", "here/m", "--to", "whole", "--force")
    os.remove("link")
    os.remove("here")
    # the same two levels deeper, like `data` of an earlier run
    os.mkdir("m.reshard-partial/data")
    os.rename("m.reshard-partial/model.safetensors", "m.reshard-partial/data/model.safetensors")
    refused("different path", "m.reshard-partial/data", "m", "--to", "whole", "--force")
    shutil.rmtree("m.reshard-partial")


def source_files_lie_in_the_target():
    """Files of a download cache are links from snapshots/REVISION to blobs: blobs as a target would replace them."""
    os.makedirs("cache/blobs")
    os.makedirs("cache/snapshots/1")
    st.write("cache/blobs/x", TWO)
    os.symlink("../../blobs/x", "cache/snapshots/1/model.safetensors")
    refused("different path", "cache/snapshots/1", "cache/blobs", "--to", "whole", "--force")
    shutil.rmtree("cache")


def working_directory_is_a_link():
    st.write("s.safetensors", TWO)
    os.makedirs("other/data/deep")
    with open("other/data/deep/precious", "w") as f:
        f.write("precious")
    with open("other/journal", "w") as f:
        f.write("a diary")
    os.symlink("other", "m.reshard-partial")
    for more in ([], ["--force"], ["--resume"]):
        refused("symbolic link", "s.safetensors", "m", "--to", "whole", *more)
    os.remove("m.reshard-partial")
    # and one that is a plain file
    with open("m.reshard-partial", "w") as f:
        f.write("a file")
    refused("not a directory", "s.safetensors", "m", "--to", "whole", "--force")
    os.remove("m.reshard-partial")
    shutil.rmtree("other")


def working_directory_of_somebody_else():
    """A directory of that name that no conversion made is not cleared."""
    os.mkdir("m.reshard-partial")
    with open("m.reshard-partial/thesis.tex", "w") as f:
        f.write("thesis")
    for more in ([], ["--force"], ["--resume"]):
        refused("thesis.tex", "s.safetensors", "m", "--to", "whole", *more)
    os.rename("m.reshard-partial/thesis.tex", "m.reshard-partial/journal")
    for more in (["--force"], ["--resume"]):
        refused("is not from reshard", "s.safetensors", "m", "--to", "whole", *more)
    os.remove("m.reshard-partial/journal")
    os.mkdir("m.reshard-partial/data")
    st.write("m.reshard-partial/data/model.safetensors", TWO)
    refused("no journal", "s.safetensors", "m", "--to", "whole", "--force")
    shutil.rmtree("m.reshard-partial")
    # an empty directory: a run that was killed at once leaves one
    os.mkdir("m.reshard-partial")
    r = subprocess.run([command, "convert", "s.safetensors", "m", "--to", "whole", "--force"], capture_output=True, text=True)
    assert r.returncode == 0 and sorted(os.listdir(".")) == ["m", "s.safetensors"], r.stderr
    shutil.rmtree("m")


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        source_is_the_working_directory()
        source_files_lie_in_the_target()
        working_directory_is_a_link()
        working_directory_of_somebody_else()
        os.chdir("/")
    print("every source was kept")


main()

#!/usr/bin/env python3
"""Mutants: makes one-line changes to the library that the tests must detect.

mutants.py [--table FILE] [--keep FOLDER] [NAME...]

The table defaults to tools/mutants.txt; with NAMEs only these mutants are tested.  Each mutant is made in a copy of the
tree, and the tests that its line of the table names are run; only their programs are built.  First, these tests must pass
without any change.  The script fails if the tests do not detect a mutant, if it does not compile, or if it does not change
exactly one line.  A test that exceeds its time limit counts as a detection and is reported as such.  --keep keeps the copy
and the build directory for the next run; otherwise they are removed.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETTINGS = ["-DCMAKE_BUILD_TYPE=Release", "-DRESHARD_TESTS=ON", "-DRESHARD_EXAMPLES=OFF", "-DRESHARD_BENCH=OFF"]
TIMEOUT = "120"  # seconds for one test; a mutant may make ranks wait forever


def left_out(folder, names):
    """Returns the names that are not copied: .git and build directories."""
    return [n for n in names if folder == ROOT and (n.startswith("build") or n == ".git")]


def read_table(path):
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f if line.strip() and not line.startswith("#")]
    return [tuple(field.strip() for field in line.split("|", 3)) for line in lines]


class Tree:
    """A copy of the tree and its build directory."""

    def __init__(self, folder):
        self.copy, self.build = os.path.join(folder, "tree"), os.path.join(folder, "build")
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(ROOT, self.copy, ignore=left_out, symlinks=True)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        self.run("cmake", "-S", self.copy, "-B", self.build, *generator, *SETTINGS)
        with open(os.path.join(self.build, "CTestTestfile.cmake"), encoding="utf-8") as f:
            lines = re.findall(r"^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$", f.read(), re.M)
        self.tests = {name: re.findall(r'"([^"]*)"', command) for name, command in lines}

    def run(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log = done.stdout
        return done.returncode == 0

    def named(self, pattern):
        return [name for name in self.tests if re.search(pattern, name)]

    def targets(self, names):
        """The programs in the tests' commands; a program's file is named as its target, but for the command's."""
        inside = [arg for name in names for arg in self.tests[name] if arg.startswith(self.build + os.sep)]
        programs = {os.path.basename(arg) for arg in inside if not arg.endswith((".c", ".h", ".py", ".sh"))}
        return sorted("reshard-command" if p == "reshard" else p for p in programs)

    def builds(self, names):
        return self.run("cmake", "--build", self.build, "-j", os.environ.get("JOBS", str(os.cpu_count())), "--target",
                        *self.targets(names))

    def passes(self, names):
        exactly = "|".join("^" + re.escape(name).replace(r"\ ", " ") + "$" for name in names)
        return self.run("ctest", "--test-dir", self.build, "-R", exactly, "--timeout", TIMEOUT, "--stop-on-failure",
                        "--no-tests=error")

    def who_failed(self):
        """Returns the name of the test that failed, from the last list of ctest: "  12 - layout: cut (Failed)"."""
        found = re.search(r"^\s*\d+ - (.*) \((.*)\)$", self.log, re.M)
        if not found:
            return "a test"
        return found[1] + (", which exceeded its time limit" if found[2] == "Timeout" else "")


def break_file(path, expression):
    """Returns the old text and the number of lines that changed."""
    with open(path, encoding="utf-8") as f:
        before = f.read()
    after = subprocess.run(["sed", "-E", expression], input=before, capture_output=True, text=True, check=True).stdout
    with open(path, "w", encoding="utf-8") as f:
        f.write(after)
    pairs = list(zip(before.split("\n"), after.split("\n")))
    same_length = before.count("\n") == after.count("\n")
    return before, sum(a != b for a, b in pairs) if same_length else -1


def verdict(tree, path, pattern, expression):
    """Returns whether the mutant was detected, and a message."""
    names = tree.named(pattern)
    if not names or not os.path.exists(path):
        return False, "NO SUCH FILE" if names else "NO SUCH TESTS"
    before, changed = break_file(path, expression)
    try:
        if changed != 1:
            return False, f"CHANGES {changed} LINES, expected 1"
        if not tree.builds(names):
            return False, "DOES NOT COMPILE"
        if tree.passes(names):
            return False, "SURVIVED"
        return True, "detected by " + tree.who_failed()
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(before)


def is_sound(tree, table):
    """Do the tests of all mutants pass on the unchanged tree?"""
    names = sorted({name for _, _, pattern, _ in table for name in tree.named(pattern)})
    if tree.builds(names) and tree.passes(names):
        return True
    print("\n".join(tree.log.splitlines()[-30:]))
    print("mutants: the tests fail on the unchanged tree")
    return False


def run_all(table, folder):
    tree = Tree(folder)
    if not is_sound(tree, table):
        return 1
    caught = 0
    for name, file, pattern, expression in table:
        begin = time.monotonic()
        noticed, said = verdict(tree, os.path.join(tree.copy, file), pattern, expression)
        caught += noticed
        print(f"{name:<44} {file:<28} {time.monotonic() - begin:4.0f} s  {said}", flush=True)
    print(f"mutants: {len(table)} mutants, {caught} detected")
    return 0 if caught == len(table) else 1


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--table", default=os.path.join(ROOT, "tools", "mutants.txt"))
    options.add_argument("--keep", metavar="FOLDER")
    options.add_argument("names", nargs="*")
    args = options.parse_args()
    os.environ.setdefault("RESHARD_SEED", "1")
    table = [line for line in read_table(args.table) if not args.names or line[0] in args.names]
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        return run_all(table, args.keep)
    with tempfile.TemporaryDirectory() as folder:
        return run_all(table, folder)


if __name__ == "__main__":
    sys.exit(main())

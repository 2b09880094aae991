#!/usr/bin/env python3
"""Page: runs what a page of the documentation shows.

    page.py PAGE ROOT BUILD

These parts are run, in a new folder, in the order of the page:

- fenced blocks of C.  A block with a main() is a program.  One that follows <!-- path --> is a region of that file,
  which is compiled elsewhere: the file must contain it.  Other blocks are parts of tests/pages/page_PAGE.c, which has an
  #include "block_N.c" for each of them, in the page's count from 1.
- fenced blocks of layouts (```layout): each line must be one; and texts in tables that look like layouts (`f32[8/x] on x=2`).
- commands, in indented blocks and in blocks of ```sh or ```console.  A line that begins with "$ " is a command, and
  the lines after it are its expected output, on stdout or stderr; times and a line of "..." match anything.  Without "$ " a line is a command if it
  begins with one of COMMANDS.  A backslash continues a line.
- tests/pages/page_PAGE.sh, if there is one, is read first: it makes the files that the commands need.  A command that cannot
  run here is listed in it with the reason, as "# elsewhere: COMMAND: who runs it".
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

COMMANDS = ("reshard", "make", "mpirun", "mpicc", "cc", "cmake", "torchrun", "srun", "printf", "./")
FENCE = re.compile(r"(?:^<!-- (?P<file>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
TABLE = re.compile(r"^\|.*\|$", re.M)
IN_TABLE = re.compile(r"`((?:[a-z]+\d+\w*|bool)\[[^`_.]*\][^`.]* (?:on|boxes) [^`.]*)`")
TIME = re.compile(r"\b\d+(\.\d+)? (ns|us|ms|s)\b")
SECONDS = 120


class Page:
    def __init__(self, path, root, build):
        self.root, self.build = os.path.abspath(root), os.path.abspath(build)
        self.name = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(self.root, path), encoding="utf-8") as f:
            self.text = f.read()
        self.folder, self.faults, self.ran = None, [], 0

    def helper(self, end):
        path = os.path.join(self.root, "tests", "pages", "page_" + self.name + end)
        return path if os.path.exists(path) else None

    # ---- C ----

    def compile(self, source):
        """Compiles a file of C and runs the program."""
        with open(source, encoding="utf-8") as f:
            text = f.read()
        program = os.path.join(self.folder, "program")
        libraries = ["-lreshard-nn"] if "reshard/nn" in text else []
        line = [os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
                "-I", os.path.join(self.root, "include"), "-I", os.path.join(self.root, "tests", "pages"), "-I", self.folder, source, "-o", program,
                "-L", self.build, "-Wl,-rpath," + self.build, *libraries, "-lreshard", "-lm", "-pthread"]
        for what in (line, [program]):
            got = subprocess.run(what, cwd=self.folder, text=True, capture_output=True, timeout=SECONDS)
            if got.returncode:
                self.faults.append(f"{os.path.basename(source)}: {' '.join(what[:1])} failed\n{got.stdout}{got.stderr}")
                return
        self.ran += 1

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def region(self, path, text):
        with open(os.path.join(self.root, path), encoding="utf-8") as f:
            if text not in f.read():
                self.faults.append(f"a block of C is not what stands in {path}")
        self.ran += 1

    def blocks(self):
        number, parts = 0, []
        for found in FENCE.finditer(self.text):
            if found["kind"] != "c":
                continue
            number += 1
            path = self.write(f"block_{number}.c", found["text"])
            if found["file"]:
                self.region(found["file"], found["text"])
            elif "main(" in found["text"]:
                self.compile(path)
            else:
                parts.append(number)
        if parts:
            self.assemble(parts)

    def assemble(self, parts):
        around = self.helper(".c")
        if not around:
            self.faults.append(f"it has parts of programs, and there is no tests/pages/page_{self.name}.c around them")
            return
        with open(around, encoding="utf-8") as f:
            text = f.read()
        missing = [n for n in parts if f'#include "block_{n}.c"' not in text]
        if missing:
            self.faults.append(f"tests/pages/page_{self.name}.c does not include block(s) {missing}")
        self.compile(around)

    # ---- commands ----

    def environment(self):
        path = os.pathsep.join([self.build, self.launchers(), os.environ["PATH"]])
        # as root, with more ranks than cores
        mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        return {**os.environ, **mpi, "PATH": path, "ROOT": self.root, "BUILD": self.build, "LC_ALL": "C.UTF-8"}

    def launchers(self):
        """A folder with the mpirun of the MPI that the library was built for, where there are several."""
        folder, mpirun = os.path.join(self.folder, ".bin"), shutil.which("mpirun.openmpi")
        if mpirun and not os.path.exists(folder):
            os.mkdir(folder)
            os.symlink(mpirun, os.path.join(folder, "mpirun"))
        return folder

    def shell(self, command):
        before = f". {shlex.quote(self.helper('.sh'))}\n" if self.helper(".sh") else ""
        return subprocess.run(["bash", "-c", before + command], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, env=self.environment())

    def elsewhere(self):
        if not self.helper(".sh"):
            return []
        with open(self.helper(".sh"), encoding="utf-8") as f:
            return [line.split(": ")[1].strip() for line in f if line.startswith("# elsewhere: ")]

    def run(self, command, answer):
        if any(command.startswith(other) for other in self.elsewhere()):
            return
        if re.search(r"\breshard bench\b", command) and not answer:
            command = re.sub(r"\breshard bench\b", "reshard bench --repeat 2", command)  # it still checks every element
        got = self.shell(re.sub(r"\b(FROM|TO)\b", r'"$\1"', command) if "FROM TO" in command else command)
        self.ran += 1
        said = got.stdout + got.stderr
        if answer and not any(matches(answer, text.rstrip("\n").split("\n")) for text in (got.stdout, got.stderr)):
            self.faults.append(f"$ {command}\nanswers\n{said}\nthe page says\n" + "\n".join(answer))
        if not answer and got.returncode:
            self.faults.append(f"$ {command}\nfails with {got.returncode}\n{said}")

    def commands(self):
        for lines in shell_blocks(self.text):
            for command, answer in calls(lines):
                self.run(command, answer)

    def layouts(self):
        for found in FENCE.finditer(self.text):
            for line in found["text"].splitlines() if found["kind"] == "layout" else ():
                self.layout(line, "")
        for row in TABLE.findall(self.text):
            for cell in IN_TABLE.findall(row):
                self.layout(cell.replace("\\|", "|"), row)

    def layout(self, text, row):
        """Checks that the text is a layout, or that its error message is the one in the row of the table."""
        quoted = shlex.quote(text)
        sentence = re.search(r"`(layout:\d+:\d+: .*?)`", row)
        refused = ["reshard: FROM: " + sentence[1], "..."] if sentence else []
        self.run(f"reshard explain {quoted} {quoted} --json" + ("" if refused else " > /dev/null"), refused)


def matches(wanted, got):
    """Do lines match?  "..." matches any number of lines, and any time matches any other."""
    if not wanted:
        return not got
    if wanted[0].strip() == "...":
        return any(matches(wanted[1:], got[n:]) for n in range(len(got) + 1))
    same = got and squeeze(wanted[0]) == squeeze(got[0])
    return bool(same) and matches(wanted[1:], got[1:])


def squeeze(line):
    return " ".join(TIME.sub("(time)", line).split())


def shell_blocks(text):
    """Indented blocks outside of fences, and fences of sh and console, as lists of lines, in order."""
    found = [(m.start(), m["text"].splitlines()) for m in FENCE.finditer(text) if m["kind"] in ("sh", "console")]
    rest = FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)
    for m in re.finditer(r"(?:\A|(?<=\n\n))((?:    .*\n(?:\n(?=    ))?)+)", rest):
        found.append((m.start(), [line[4:] for line in m.group().splitlines()]))
    return [lines for _, lines in sorted(found, key=lambda pair: pair[0])]


def calls(lines):
    """Pairs of a command and the lines of its answer."""
    pairs, answers = [], False
    lines = list(lines)
    while lines:
        line = lines.pop(0)
        while line.endswith("\\") and lines:
            line = line[:-1] + lines.pop(0).strip()
        if line.startswith("$ "):
            pairs.append((line[2:], []))
            answers = True
        elif not answers and line.startswith(tuple(c if c == "./" else c + " " for c in COMMANDS)) or line in COMMANDS:
            pairs.append((line, []))
        elif answers and pairs:
            pairs[-1][1].append(line)
    for _, answer in pairs:
        while answer and not answer[-1].strip():
            answer.pop()
    return pairs


def main(path, root, build):
    page = Page(path, root, build)
    with tempfile.TemporaryDirectory(prefix="page.") as page.folder:
        page.blocks()
        page.layouts()
        page.commands()
    for fault in page.faults:
        print(f"{path}: {fault}\n")
    print(f"{path}: {page.ran} blocks and commands ran, {len(page.faults)} failed")
    return 1 if page.faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

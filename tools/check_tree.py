#!/usr/bin/env python3
"""Tree: checks rules that the files of the repository must follow.

    check_tree.py names | types | strays | tags | options | version | walk | paths | breaks [ROOT]

names    source files have unique names, so that a file can be found by its name (except impl.h and <room>.h)
types    no two rooms define types of the same name, and no internal type differs from a public type only in its prefix
strays   there are no unfinished notes, and no paths that exist on one machine only
tags     the comment, section or header of every public function says that it is pure, local or collective
options  every public struct of options begins with struct_size, and its _INIT macro sets it
version  VERSION, <reshard/version.h> and CHANGELOG.md agree
walk     each function in the tables of "The walk" and "From a module to the walk" in ARCHITECTURE.md is defined in the
         file that the table names
paths    files that pages and public headers name by their path exist
breaks   each line of tools/mutants.txt changes one line of its file
"""
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from c_text import bare, files, finish, read

NAMED_BY_PLACE = {"impl.h", "README.md", "CMakeLists.txt"}
SOURCES = (".c", ".h", ".py", ".sh", ".md", ".cmake")
TYPE = re.compile(r"^(?:\}|typedef\b[^;{}()]*?)\s*\*?(rshi?_\w+)\s*;", re.M)
STRAY = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|\.\./sha" r"red|/wo" r"rk/|/ho" r"me/")


def names(root):
    seen = {}
    for path in files(root, ends=SOURCES):
        folder, name = os.path.split(path)
        room_header = name.endswith(".h") and (folder.startswith("include/reshard") or os.path.basename(folder) + ".h" == name)
        if name not in NAMED_BY_PLACE and not room_header:
            seen.setdefault(name, []).append(path)
    return [f"{name}: " + ", ".join(paths) for name, paths in sorted(seen.items()) if len(paths) > 1]


def types(root):
    """Compares internal types (rshi_*) of all rooms with each other and with public types (rsh_*)."""
    defined = {}
    for path in files(root, "src", "include", ends=(".c", ".h")):
        room = "include" if path.startswith("include") else path.split(os.sep)[1]
        for name in TYPE.findall(bare(read(root, path))):
            defined.setdefault(name, set()).add(room)
    for name, rooms in sorted(defined.items()):
        if name.startswith("rshi_") and len(rooms) > 1:
            yield f"{name} is defined in several rooms: " + " and ".join(sorted(rooms))
        public = name.replace("rshi_", "rsh_", 1)
        if public != name and public in defined:
            yield f"{name} ({', '.join(sorted(defined[name]))}) is named like the public type {public}; rename it"


def strays(root):
    for path in files(root):
        for line, text in enumerate(read(root, path).splitlines(), 1):
            found = STRAY.search(text)
            if found:
                yield f"{path}:{line}: {found.group()}"


def tags(root):
    """A comment applies to all functions up to the next comment; a section begins with /* ---- name ---- */."""
    for path in files(root, "include", ends=".h"):
        text = re.sub(r"(?m)^ *#.*(\\\n.*)*$", "", read(root, path))
        for_all, section, comment = "", "", ""
        for found in re.finditer(r"(?m)^ */\*.*?\*/|RSH_API[^;]*;", text, re.S):
            what = " ".join(re.sub(r"\n \*", "\n", found.group()).split())
            if what.startswith("RSH_API"):
                said = re.search(r"\b(Pure|Local|Collective)\b", comment) or re.search(r"(?i)\b(pure|local|collective)\b", section)
                if not said and not re.search(r"(Everything here is|Every function here is|All functions are) (pure|local)", for_all):
                    yield f"{path}: {re.search(r'(rsh_[a-z0-9_]+)[(]', what).group(1)} is not documented as pure, local or collective"
                continue
            for_all = for_all or what
            comment = what
            section = what if what.startswith("/* ----") else section


def options(root):
    """Structs of options have names that end in _opts; other structs may also begin with struct_size."""
    for path in files(root, "include", ends=".h"):
        text = re.sub(r"\\\n", " ", read(root, path))
        for name, body in re.findall(r"typedef struct (rsh_\w+) \{(.*?)\} \1;", text, re.S):
            if not name.endswith("_opts") and "struct_size;" not in body:
                continue
            if not re.match(r"\s*size_t struct_size;", body):
                yield f"{path}: {name} does not begin with struct_size"
            if not re.search(rf"#define {name.upper()}_INIT\s+\{{\s*sizeof\({name}\)", text):
                yield f"{path}: {name.upper()}_INIT does not begin with sizeof({name})"


def version(root):
    said = read(root, "VERSION").strip()
    header = read(root, "include/reshard/version.h")
    macros = ".".join(re.search(rf"RSH_VERSION_{part}\s+(\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
    newest = re.search(r"^## (\S+)", read(root, "CHANGELOG.md"), re.M)
    if macros != said:
        yield f"VERSION has {said}, but include/reshard/version.h has {macros}"
    if not newest or newest.group(1) != said:
        yield f"VERSION has {said}, but the first section of CHANGELOG.md is {newest and newest.group(1)}"


def defines(text, name):
    """Does a C source define this function?"""
    return re.search(rf"^\w[^;{{}}()]*\b{name}\([^;{{}}]*\)\s*\{{", bare(text), re.M)


def walk(root):
    """Rows are | number | `function` | file in src/ | ..."""
    sections = re.findall(r"^## ([^\n]*\bwalk)\n(.*?)(?=^## |\Z)", read(root, "ARCHITECTURE.md"), re.M | re.S)
    if not sections:
        yield "ARCHITECTURE.md: the section ## The walk is missing"
    for title, text in sections:
        rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\S+) \|", text, re.M)
        if not rows:
            yield f"ARCHITECTURE.md: no table follows ## {title}"
        for place, (number, name, path) in enumerate(rows, 1):
            if int(number) != place:
                yield f"ARCHITECTURE.md: step {number} of the walk is row {place} of the table"
            path = os.path.join("src", path)
            if not os.path.exists(os.path.join(root, path)):
                yield f"ARCHITECTURE.md: step {number} of the walk: there is no {path}"
            elif not defines(read(root, path), name):
                yield f"ARCHITECTURE.md: step {number} of the walk: {path} does not define {name}"


def paths(root):
    """A path begins with a directory of the tree and ends in a file name extension; patterns (src/nn/op_*.c) must match."""
    path = re.compile(r"(?<![\w/.-])(?:\.\./)?((?:src|include|tests|tools|examples|docs|bench|cli|cmake|python)/[\w./*-]*"
                      r"\.(?:c|h|py|sh|md|cmake|js|css|txt|rules))\b")
    for page in files(root, ends=(".md",)) + files(root, "include", ends=(".h",)):
        for name in sorted(set(path.findall(read(root, page)))):
            if not glob.glob(os.path.join(root, name)):
                yield f"{page}: there is no {name}"


def breaks(root):
    """Lines are name | file | tests | expression of sed -E."""
    for line in read(root, "tools/mutants.txt").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, path, _, expression = (field.strip() for field in line.split("|", 3))
        broken = subprocess.run(["sed", "-E", expression, os.path.join(root, path)], capture_output=True, text=True)
        if broken.returncode:
            yield f"{name}: {broken.stderr.strip()}"
            continue
        pairs = zip(read(root, path).split("\n"), broken.stdout.split("\n"))
        changed = sum(before != after for before, after in pairs)
        if changed != 1:
            yield f"{name}: changes {changed} lines of {path}"


CHECKS = {"names": names, "types": types, "strays": strays, "tags": tags, "options": options, "version": version, "walk": walk,
          "paths": paths, "breaks": breaks}


def main(which="", root="."):
    if which not in CHECKS:
        print(__doc__, file=sys.stderr)
        return 2
    return finish(list(CHECKS[which](root)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""C text: removes comments and strings from C sources, keeping line numbers; lists the files of the tree."""
import os
import re

SKIPPED = re.compile(r"^(\.git|\.cache|__pycache__|out|build.*)$")
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def bare(text, keep_strings=False):
    """Replaces comments with blanks, and strings with "" unless keep_strings; keeps newlines."""

    def blank(match):
        token = match.group()
        if token[0] in "\"'":
            return token if keep_strings else token[0] * 2
        return " " + "\n" * token.count("\n")

    return _TOKEN.sub(blank, text)


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def files(root, *tops, ends=("",)):
    """Paths relative to root, sorted, of the files below `tops` (all of the tree if none is given)."""
    found = []
    for top in tops or (".",):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if not SKIPPED.match(f)]
            found += [os.path.normpath(os.path.join(os.path.relpath(folder, root), n)) for n in names
                      if n.endswith(ends) and n != ".git"]  # which is a file in a linked work tree
    return sorted(found)


def finish(problems):
    """Prints the problems and returns the exit status of a check."""
    for problem in problems:
        print(problem)
    return 1 if problems else 0

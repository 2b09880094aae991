#!/usr/bin/env python3
"""Length: reports functions over 80 lines and files over 500; fails for files over 700 lines, for
headers over 100 columns and for sources over 120.

    check_length.py [ROOT]
"""
import re
import sys

sys.dont_write_bytecode = True
from c_text import bare, files, finish, read

LONG_FUNCTION, LONG_FILE, TOO_LONG_FILE = 80, 500, 700
WIDTH = {".h": 100, ".c": 120}
TOPS = ("src", "include", "cli", "python", "examples", "bench", "tests", "tools")
NAME = re.compile(r"(\w+)\s*\([^;{}]*\)[^;{}()=]*$")


def functions(text):
    """Yields (name, first line, number of lines) of every function."""
    depth, line, head, open_line, name = 0, 1, "", 0, None
    for c in re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m.group().count("\n"), bare(text), flags=re.M):
        if c == "{":
            if depth == 0:
                match = NAME.search(head)
                name, open_line = match and match.group(1), line
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                if name:
                    yield name, open_line, line - open_line + 1
                head = ""
        elif depth == 0:
            head = "" if c == ";" else head + c
        line += c == "\n"


def too_wide(name, text):
    """Yields a message for every line of a header or source that is too wide."""
    limit = WIDTH.get(name[-2:])
    for number, line in enumerate(text.split("\n") if limit else (), 1):
        if len(line) > limit:
            yield f"{name}:{number}: {len(line)} columns; the limit is {limit}"


def main(root="."):
    too_long, count, lines_of_functions = [], 0, []
    for name in files(root, *TOPS, ends=(".c", ".h", ".py", ".sh")):
        text = read(root, name)
        lines = text.count("\n")
        count += 1
        if lines > TOO_LONG_FILE:
            too_long.append(f"{name}: {lines} lines; the limit is {TOO_LONG_FILE}")
        elif lines > LONG_FILE:
            print(f"note: {name}: {lines} lines")
        too_long.extend(too_wide(name, text))
        if name.endswith((".c", ".h")):
            for function, first, length in functions(text):
                lines_of_functions.append(length)
                if length > LONG_FUNCTION:
                    print(f"note: {name}:{first}: {function} has {length} lines")
    lines_of_functions.sort()
    if lines_of_functions:
        median, p90 = (lines_of_functions[len(lines_of_functions) * k // 10] for k in (5, 9))
        print(f"{count} files, {len(lines_of_functions)} functions: median {median} lines, 90 % within {p90}, longest {lines_of_functions[-1]}")
    return finish(too_long)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

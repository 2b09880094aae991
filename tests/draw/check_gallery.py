#!/usr/bin/env python3
"""Gallery: the pictures in docs/gallery are what the commands of docs/gallery.md draw.

    check_gallery.py COMMAND [--update]

--update redraws those that differ.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "docs", "gallery")


def read(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(command, *options):
    page = read(os.path.join(ROOT, "docs", "gallery.md"))
    commands = re.findall(r"^    reshard (explain --svg (\S+) .*)$", page, re.M)
    shown = re.findall(r"^!\[[^]]*\]\(gallery/(\S+)\)$", page, re.M)
    faults = []
    if [name for _, name in commands] != shown or not shown:
        faults.append(f"gallery.md draws {[name for _, name in commands]} and shows {shown}")
    if sorted(os.listdir(FOLDER)) != sorted(shown):
        faults.append(f"docs/gallery has {sorted(os.listdir(FOLDER))}, gallery.md shows {sorted(shown)}")
    with tempfile.TemporaryDirectory() as folder:
        for words, name in commands:
            subprocess.run([os.path.realpath(command), *shlex.split(words)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            new = read(os.path.join(folder, name))
            if new == read(os.path.join(FOLDER, name)):
                continue
            if "--update" in options:
                with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
                    file.write(new)
                print(f"drawn anew: {name}")
            else:
                faults.append(f"docs/gallery/{name} is not what its command draws")
    print("\n".join(faults) or f"{len(commands)} pictures")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

#!/usr/bin/env python3
"""Layers: checks that files include only what src/LAYERS allows, and that memory is allocated only where it may be.

    check_layers.py [ROOT]

- src/LAYERS is in order: a room lists only rooms above it.  Every directory of src/ is in it.
- src/<room>/ includes "room/room.h" of the rooms that it lists, and its own files; never impl.h of another room.
- The same applies to <reshard/room.h>, in src/ and in public headers; src/ never includes <reshard.h>.
- Only src/mpi/comm_mpi.c includes <mpi.h>, and that file includes public headers only.
- In src/, only base/alloc.c allocates and frees memory, and only arena/arena.c maps shared memory.
- cli, python, examples and bench include public headers and files of their own directory (bench_<room>.c may also include
  <room>/<room>.h of the room that it measures); tests/oracle includes no headers of the library.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from c_text import bare, files, finish, read

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
MEMORY = re.compile(
    r"(?<![\w.>])(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|memalign|valloc|mmap|munmap|mremap|"
    r"strdup|strndup|asprintf|vasprintf)\s*\("
)
DOORS = {"src/base/alloc.c": None, "src/base/account.c": ("calloc", "free"), "src/base/small.c": ("aligned_alloc", "calloc", "free"), "src/arena/arena.c": ("mmap", "munmap"), "src/mpi/comm_mpi.c": ("malloc", "free"), "src/scalapack/agree.c": ("calloc", "free"), "src/scalapack/grid_layout.c": ("malloc", "calloc", "free"), "src/scalapack/scalapack_run.c": ("malloc", "free"), "src/nn/nn_memory.c": None}  # allowed calls by file; None: all
OUTSIDE = {"mpi", "scalapack", "nn"}  # rooms that are not in the core library
ON_THE_FLOOR = {"version", "status", "alloc", "sink", "progress", "dtype", "message"}  # public headers of base
UMBRELLA = "(torch.h)"  # <reshard/torch.h>, which includes headers of several rooms
ROOM_OF = {"torch": UMBRELLA, "pool": "wait", "mpi_world": "mpi", "nn/ops": "nn", "nn/module": "nn", "nn/state": "nn", "nn/random": "nn", "nn/layers": "nn", "nn/optim": "nn", "nn/shard": "nn", "nn/recompute": "nn", "nn/parallel": "nn", "nn/checkpoint": "nn", "torch/spec": "spec", "torch/group": "group", "torch/tensor": "torch", "torch/functional": "grad"}  # public headers that are not named after their room
PUBLIC_ONLY = ("cli", "python", "examples", "bench")


def read_layers(root):
    """Returns the set of allowed rooms of each room, in the order of the file, and the problems of the file."""
    allow, problems = {}, []
    for line in read(root, "src/LAYERS").splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        room, _, seen = line.partition(":")
        room, seen = room.strip(), seen.split()
        problems += [f"src/LAYERS: {room} lists {s}, which must be on a line above it" for s in seen if s not in allow]
        if room in allow:
            problems.append(f"src/LAYERS: {room} is listed twice")
        allow[room] = set(seen)
    return allow, problems


def includes(text):
    """Yields (line number, '"' or '<', path) for every include."""
    text = bare(text, keep_strings=True)
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        yield line, match.group(1), match.group(2)


def wrong_public(room, path, allow):
    """Returns why `room` must not include <path>; None: it may."""
    if not path.startswith("reshard/"):
        return "rooms must include the headers that they need, not <reshard.h>" if path == "reshard.h" and room != UMBRELLA else None
    header = path[len("reshard/") : -len(".h")]
    target = ROOM_OF.get(header, header)
    if target in ON_THE_FLOOR or target == room or target in allow.get(room, ()):
        return None
    return f"{room} may not include headers of {target}; see src/LAYERS"


def wrong_internal(room, path, allow):
    """Returns why a file of `room` must not include "path"; None: it may."""
    head, slash, rest = path.partition("/")
    if not slash:
        return "the path must begin with a directory of src/"
    if head == room:
        return None
    if head not in allow.get(room, ()):
        return f"{room} may not include headers of {head}; see src/LAYERS"
    return None if rest == head + ".h" else f"other rooms may include only {head}/{head}.h of {head}"


def check_room_file(root, name, allow):
    text, room = read(root, name), name.split("/")[1]
    for line, quote, path in includes(text):
        if path == "mpi.h" and room != "mpi":
            yield f"{name}:{line}: only src/mpi/comm_mpi.c may include <mpi.h>"
        if room in OUTSIDE and quote == '"' and not path.startswith(room + "/"):
            yield f"{name}:{line}: {path}: {room} is a separate library and may include only public headers and its own files"
        wrong = (wrong_internal if quote == '"' else wrong_public)(room, path, allow)
        if wrong:
            yield f"{name}:{line}: {path}: {wrong}"
    doors = DOORS.get(name, ())
    for line, text in enumerate(bare(text).splitlines(), 1):
        for call in MEMORY.findall(text):
            if doors is None or call in doors:
                continue
            yield f"{name}:{line}: {call}: memory must be allocated with the functions of src/base/alloc.c"


def check_public_file(root, name, allow):
    header = name[len("include/reshard/") : -len(".h")]
    room = ROOM_OF.get(header, header)
    for line, quote, path in includes(read(root, name)):
        if quote == '"':
            yield f"{name}:{line}: {path}: public headers must use #include <...>"
        elif room in allow and wrong_public(room, path, allow):
            yield f"{name}:{line}: {path}: {wrong_public(room, path, allow)}"
        elif room in ON_THE_FLOOR and path.startswith("reshard/") and path[8:-2] not in ON_THE_FLOOR:
            yield f"{name}:{line}: {path}: {room} belongs to base, which may include no other room"


def check_user_file(root, name, public):
    folder = os.path.dirname(name)
    measured = os.path.basename(name)[len("bench_") : -len(".c")] if folder == "bench" else ""
    for line, quote, path in includes(read(root, name)):
        if quote == '"' and measured and path == f"{measured}/{measured}.h":
            continue
        if quote == '"' and not os.path.exists(os.path.join(root, folder, path)):
            yield f"{name}:{line}: {path}: {folder} may include only its own files and public headers"
        if quote == '"' and ".." in path.split("/"):
            yield f"{name}:{line}: {path}: {folder} may not include files of other directories"
        if not public and path.startswith("reshard"):
            yield f"{name}:{line}: {path}: {folder} may not include headers of the library"


def main(root="."):
    allow, problems = read_layers(root)
    for name in files(root, "src", ends=(".c", ".h")):
        room = name.split("/")[1]
        if room not in allow:
            problems.append(f"{name}: {room} is not in src/LAYERS")
        else:
            problems += check_room_file(root, name, allow)
    for name in files(root, "include", ends=(".h",)):
        problems += check_public_file(root, name, allow)
    for name in files(root, *PUBLIC_ONLY, ends=(".c", ".h")):
        problems += check_user_file(root, name, public=True)
    for name in files(root, "tests/oracle", ends=(".c", ".h")):
        problems += check_user_file(root, name, public=False)
    return finish(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
